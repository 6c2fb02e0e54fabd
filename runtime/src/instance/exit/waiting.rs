//! Guests that wait for others: `memory.atomic.wait32` and `wait64`.
//!
//! In a call the thread waits with its guest, and whoever stops the guest wakes it. In a step it does so until the slice of
//! time is over, and waits on in the next. In a call by a future the guest is left, as for an async host function.
//!
//! # Safety
//!
//! Owns the fact that what a guest waits for that was left is dropped or answered before the guest goes on.
#![allow(unsafe_code)]

use super::{Call, End};
use crate::instance::builtin;
use crate::instance::member::Member;
use crate::shared::wait::{Blocked, Expected, NOT_EQUAL, Patience, Waiting, block};
use crate::stop::Watched;
use crate::value::Cell;
use pirn_format::exit::{Builtin, TrapCode};

impl<T> Call<'_, T> {
    /// Waits, if there is what member `at` expects.
    ///
    /// # Errors
    ///
    /// The trap of the instruction, or that the guest is to be left.
    pub(super) fn wait(
        &mut self,
        at: usize,
        builtin: Builtin,
        cells: &mut [Cell],
    ) -> Result<(), End> {
        let [index, address, expected, timeout] = cells else {
            return Err(End::Trap(TrapCode::Unreachable));
        };
        let expected = match builtin {
            Builtin::MemoryWait32 => Expected::Bits32(expected.u32()),
            _ => Expected::Bits64(expected.u64()),
        };
        let (index, address, timeout) = (index.u32(), address.u64(), timeout.u64().cast_signed());
        let member = &self.members[at];
        let wait = builtin::begin_wait(member, index, address, expected, timeout);
        let Some(wait) = wait.map_err(End::Trap)? else {
            cells[0] = Cell::from_u64(NOT_EQUAL.into());
            return Ok(());
        };
        let patience = self.members[at].patience;
        let blocked = match patience {
            Patience::Leaves => Blocked::SliceIsOver,
            patience => block(&wait, self.watched, patience),
        };
        match blocked {
            Blocked::Answered(answer) => {
                cells[0] = Cell::from_u64(answer.into());
                Ok(())
            }
            // The gate is closed: it is not gone on with.
            Blocked::Stopped => Ok(()),
            Blocked::SliceIsOver => {
                let cells = cells.as_mut_ptr();
                self.members[at].waiting = Some(Box::new(Waiting { wait, cells }));
                Err(End::Waits)
            }
        }
    }
}

/// How a guest that was left while it waits may go on.
pub(super) enum Next {
    /// It has its answer.
    GoesOn,
    /// It waits on.
    Waits,
    /// It was stopped.
    Stopped,
}

/// Waits on with a guest that was left so.
pub(super) fn wait_on<T>(member: &mut Member<T>, watched: &Watched) -> Next {
    let Some(waiting) = member.waiting.take() else {
        return Next::GoesOn;
    };
    let blocked =
        watched.in_host(|| block(&waiting.wait, Some(watched), Patience::UntilSliceIsOver));
    match blocked {
        Blocked::Answered(answer) => {
            // SAFETY: the member is borrowed, and its guest has not gone on.
            unsafe { waiting.give(answer) };
            Next::GoesOn
        }
        Blocked::Stopped => Next::Stopped,
        Blocked::SliceIsOver => {
            member.waiting = Some(waiting);
            Next::Waits
        }
    }
}
