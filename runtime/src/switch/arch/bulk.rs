//! The routines that copy and fill memory 0 for a guest, on the guest's stack.
//!
//! Generated code calls them, see [`pirn_format::exit`]. The routines check the bounds themselves,
//! so their arguments may be any numbers. They return early, with the rest that is left to do,
//!
//! * if the range is not in the memory, or has at most [`SHORT`] bytes;
//! * if the guest's interrupt flag is set;
//! * if an access raises SIGBUS, because the kernel has no page yet: then the runtime fills many
//!   pages at once, or reports that memory is exhausted.
//!
//! A kill or a deadline whose signal interrupts a routine makes the guest leave there: what is
//! written stays. The end of a time slice does not, because the guest would have to be resumed
//! there. The routine reads the interrupt flag after each iteration, and at last in
//! [`routines::last_check`]. If the flag is set, the routine returns what is left. If a signal
//! interrupts the last check, the signal handler restarts the check. The caller exits for what is
//! left, also for nothing, and the guest is suspended there. Code that the compiler has not made
//! need not exit. Such code keeps its thread until a signal interrupts the code itself.
//!
//! An iteration of a copy loads all its bytes before it stores any, and the last iteration stores
//! bytes that were loaded first of all. So the ranges may overlap. A copy ascends unless its
//! destination begins inside its source. When an access raises SIGBUS, no store of its iteration
//! has overwritten what the rest needs: an iteration whose own destination and source overlap, and
//! whose stores reach another page, first stores its first and its last byte as they are.
//! Otherwise, a wide store that spans two pages may write to one of them although the other raises
//! a fault (Intel SDM, volume 3, 10.1.1; Arm ARM, "Synchronous Data Abort exceptions"). These two
//! bytes are stored atomically, because another thread may write to a shared memory. A fill may
//! store a byte twice.
//!
//! On x86_64, a long copy or fill first aligns the start of its destination, and a copy that
//! descends aligns the end. It stores one vector, or single bytes where the ranges of an iteration
//! would overlap. Stores across lines of the cache cost up to half as much again (bench `bulk`).
//!
//! After a wrong prediction, a routine accesses only the reservation above the memory's base, or
//! the lowest pages if there is no memory. It accesses nothing below the base, where the context
//! lies. If the range exceeds the bounds, conditional moves replace the addresses and the length.
//! Where a position descends, a conditional move keeps it from becoming negative.
//!
//! # Safety
//!
//! Owns these facts. The routines write only to bytes of the memory. At each access, the registers
//! from which the results are computed after SIGBUS are valid. A routine uses no stack, and changes
//! no register that the C convention preserves.
#![allow(unsafe_code)]

#[cfg_attr(target_arch = "aarch64", path = "bulk/aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "bulk/x86_64.rs")]
mod routines;

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};
use pirn_format::exit::SHORT_BULK_BYTES;

pub(crate) use routines::{copy_routine, fill_routine};

/// Up to this number of bytes, generated code copies and fills by itself.
const SHORT: i64 = SHORT_BULK_BYTES as i64;

/// What a routine returns: all is done, or the rest.
#[repr(C)]
struct Rest {
    /// Distance in bytes from the start of the range to the start of the rest; `u64::MAX` if all is
    /// done.
    skip: u64,
    /// Bytes of the rest.
    bytes: u64,
}

/// A routine with accesses, and the code that returns the rest after SIGBUS.
type Routine = (*const (), *const ());

/// Start and end of the accesses of a routine, which are its last part; both are 0 before
/// [`measure`].
struct Accesses(AtomicUsize, AtomicUsize);

static ACCESSES: [Accesses; routines::COUNT] =
    [const { Accesses(AtomicUsize::new(0), AtomicUsize::new(0)) }; routines::COUNT];

/// Finds the accesses of the routines. Until then, [`fail`] finds none.
pub(crate) fn measure() {
    for (accesses, (routine, _)) in ACCESSES.iter().zip(routines::all()) {
        let Range { start, end } = super::part(routine, routines::MARK);
        accesses.0.store(start, Ordering::Relaxed);
        accesses.1.store(end, Ordering::Relaxed);
    }
}

/// Instructions of the last check of the interrupt flag.
pub(super) fn checking() -> Range<usize> {
    super::part(routines::last_check as *const (), super::WHOLE)
}

/// Whether an instruction belongs to a routine, or to code that ends a routine.
pub(super) fn contains(pc: usize) -> bool {
    let is_in = |(Accesses(_, end), (routine, _)): (&Accesses, Routine)| {
        (routine as usize..end.load(Ordering::Relaxed)).contains(&pc)
    };
    let ends = |code| super::part(code, super::WHOLE).contains(&pc);
    ACCESSES.iter().zip(routines::all()).any(is_in)
        || routines::ENDS.into_iter().any(ends)
        || checking().contains(&pc)
}

/// If a SIGBUS interrupted an access of one of the routines, makes the routine return the rest.
/// Returns whether it did.
pub(crate) fn fail(context: &mut libc::ucontext_t) -> bool {
    let at = super::interrupted(context).pc;
    let is_in = |(Accesses(start, end), _): &(&Accesses, Routine)| {
        (start.load(Ordering::Relaxed)..end.load(Ordering::Relaxed)).contains(&at)
    };
    let found = ACCESSES.iter().zip(routines::all()).find(is_in);
    if let Some((_, (_, failed))) = found {
        super::continue_at(context, failed as usize);
    }
    found.is_some()
}

#[cfg(test)]
mod tests;
