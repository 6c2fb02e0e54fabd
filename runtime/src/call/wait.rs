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

use super::end::End;
use crate::error::{CallState, Operation, StateError};
use crate::memory::populate;
use crate::memory::wait::{Blocked, Blocking, Expected, NOT_EQUAL, Wait, Waiting, block};
use crate::stop::Watched;
use crate::store::descriptors::atomic_place;
use crate::store::member::Member;
use crate::value::Cell;
use pirn_format::exit::{Builtin, TrapCode};

/// Wakes up to `count` waiters at an address of memory `index`, and returns the number of woken
/// waiters.
///
/// # Errors
///
/// The trap of the instruction.
pub(super) fn notify<T>(
    member: &Member<T>,
    index: u32,
    address: u64,
    count: u32,
) -> Result<u32, TrapCode> {
    atomic_place(member, index, address, 4)?;
    // No other guest can wait in a memory of the slot, so no guest is woken.
    let shared = member.shared(index);
    Ok(shared.map_or(0, |memory| memory.wake(address, count)))
}

/// Begins to wait at an address of memory `index`, if the memory holds the expected value at that
/// address. Otherwise returns `None`.
///
/// # Errors
///
/// The trap of the instruction.
fn begin_wait<T>(
    member: &Member<T>,
    index: u32,
    address: u64,
    expected: Expected,
    timeout_ns: i64,
) -> Result<Option<Wait>, TrapCode> {
    let place = atomic_place(member, index, address, expected.bytes())?;
    if !member.inner.module.metadata().memories[index as usize].shared {
        return Err(TrapCode::ExpectedSharedMemory);
    }
    let shared = member.shared(index);
    // SAFETY: `atomic_place` checked that the place lies in the memory. The place is aligned,
    // because the memory's base is page-aligned.
    unsafe {
        if shared.is_none() {
            // The memory is a memory of the slot, whose page may be missing.
            populate::readable(place, expected.bytes() as usize)?;
        }
        Ok(Wait::begin(shared, address, place, expected, timeout_ns))
    }
}

/// Waits, if the memory holds the value that the guest expects. `at` is the guest's member.
/// `is_nested` says that the guest runs in a nested call, in which it cannot be suspended.
///
/// # Errors
///
/// The trap of the instruction, the request to leave the guest, or [`CallState::Nested`].
pub(super) fn wait<T>(
    members: &mut [Member<T>],
    at: usize,
    watched: Option<&Watched>,
    builtin: Builtin,
    cells: &mut [Cell],
    is_nested: bool,
) -> Result<(), End> {
    let [index, address, expected, timeout] = cells else {
        return Err(End::Trap(TrapCode::Unreachable));
    };
    let expected = match builtin {
        Builtin::MemoryWait32 => Expected::Bits32(expected.u32()),
        _ => Expected::Bits64(expected.u64()),
    };
    let (index, address, timeout) = (index.u32(), address.u64(), timeout.u64().cast_signed());
    let member = &members[at];
    let wait = begin_wait(member, index, address, expected, timeout);
    let Some(wait) = wait.map_err(End::Trap)? else {
        cells[0] = Cell::from_u64(NOT_EQUAL.into());
        return Ok(());
    };
    let blocking = members[at].blocking;
    let blocked = match blocking {
        Blocking::Leaves if is_nested => {
            let refused = StateError::new(Operation::Wait, CallState::Nested);
            return Err(End::Invalid(refused.into()));
        }
        Blocking::Leaves => Blocked::SliceIsOver,
        blocking => block(&wait, watched, blocking),
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
            members[at].waiting = Some(Box::new(Waiting { wait, cells }));
            Err(End::Waits)
        }
    }
}

/// The state of a guest that was left during a wait.
pub(super) enum Next {
    /// The guest has its answer and may be resumed.
    Continues,
    /// The guest still waits.
    Waits,
    /// The guest was stopped.
    Stopped,
}

/// Continues the wait of a guest that was left during a wait, if there is such a guest.
pub(super) fn wait_on<T>(members: &mut [Member<T>], watched: &Watched) -> Next {
    let mut waits = members
        .iter_mut()
        .filter_map(|member| member.waiting.take().map(|waiting| (member, waiting)));
    let Some((member, waiting)) = waits.next() else {
        return Next::Continues;
    };
    let blocked =
        watched.in_host(|| block(&waiting.wait, Some(watched), Blocking::UntilSliceIsOver));
    match blocked {
        Blocked::Answered(answer) => {
            // SAFETY: the member is borrowed, and its guest has not been resumed.
            unsafe { waiting.give(answer) };
            Next::Continues
        }
        Blocked::Stopped => Next::Stopped,
        Blocked::SliceIsOver => {
            member.waiting = Some(waiting);
            Next::Waits
        }
    }
}
