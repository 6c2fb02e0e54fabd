//! The values of a guest's interrupt flag.
//!
//! The flag is one byte. Guest code never reads it. The switch reads the flag last before it enters
//! or resumes a guest. The signal handler reads the flag when a signal interrupts a guest. Long
//! builtins read the flag between two chunks of work, and so do the routines that copy and fill.
//! `crate::stop` writes the flag. The package `runtime/loom` includes this file, too.

/// The guest may run. Any other value means that the flag is set.
pub(crate) const GO: u8 = 1;

/// Bit of the flag: the guest's time slice is over.
pub(crate) const SLICE: u8 = 1 << 4;

/// The guest's time slice is over, and there is no other reason to stop.
pub(crate) const SLICE_IS_OVER: u8 = GO | SLICE;

/// Whether a flag is set for another reason than the end of a time slice.
pub(crate) fn is_stopped(value: u8) -> bool {
    value & !SLICE != GO
}
