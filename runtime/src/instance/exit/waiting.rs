//! Guests that wait for other guests: `memory.atomic.wait32` and `memory.atomic.wait64`.
//!
//! In a plain call, the thread blocks together with its guest. A stop of the guest wakes the
//! thread. In a step, the thread blocks until the time slice ends, and blocks again in the next
//! slice. In a call by a future, the runtime leaves the guest, as for an async host function.
//!
//! # Safety
//!
//! This file owns one fact. Before a guest that was left during a wait continues, the wait has been
//! answered or dropped.
#![allow(unsafe_code)]

use super::{Call, End};
use crate::instance::builtin;
use crate::instance::member::Member;
use crate::memory::wait::{Blocked, Expected, NOT_EQUAL, Patience, Waiting, block};
use crate::stop::Watched;
use crate::value::Cell;
use pirn_format::exit::{Builtin, TrapCode};

impl<T> Call<'_, T> {
    /// Waits, if the memory holds the value that the guest expects. `at` is the guest's member.
    ///
    /// # Errors
    ///
    /// The trap of the instruction, or the request to leave the guest.
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
            // The interrupt flag is set, so the switch does not resume the guest.
            Blocked::Stopped => Ok(()),
            Blocked::SliceIsOver => {
                let cells = cells.as_mut_ptr();
                self.members[at].waiting = Some(Box::new(Waiting { wait, cells }));
                Err(End::Waits)
            }
        }
    }
}

/// The state of a guest that was left during a wait.
pub(super) enum Next {
    /// The guest has its answer and may be resumed.
    GoesOn,
    /// The guest still waits.
    Waits,
    /// The guest was stopped.
    Stopped,
}

/// Continues the wait of a guest that was left during it, if there is one.
pub(super) fn wait_on<T>(member: &mut Member<T>, watched: &Watched) -> Next {
    let Some(waiting) = member.waiting.take() else {
        return Next::GoesOn;
    };
    let blocked =
        watched.in_host(|| block(&waiting.wait, Some(watched), Patience::UntilSliceIsOver));
    match blocked {
        Blocked::Answered(answer) => {
            // SAFETY: the member is borrowed, and its guest has not been resumed.
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
