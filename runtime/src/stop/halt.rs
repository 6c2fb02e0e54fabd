//! [`look`]: long work for a guest checks the interrupt flag between two chunks of work.

use super::watched::Watched;
use crate::switch::interrupt_flag::{GO, SLICE_IS_OVER};
use pirn_format::exit::TrapCode;

/// Why work for a guest stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The call was stopped.
    Stopped,
    /// Only the time slice of the call has ended.
    SliceIsOver,
    /// The guest must trap.
    Trap(TrapCode),
}

impl From<TrapCode> for Halt {
    fn from(code: TrapCode) -> Self {
        Self::Trap(code)
    }
}

/// Checks the interrupt flag of a call. [`Halt::SliceIsOver`] only occurs in a call with time
/// slices.
///
/// # Errors
///
/// Why the work must stop.
#[inline]
pub(crate) fn look(watched: Option<&Watched>) -> Result<(), Halt> {
    match watched.map_or(GO, Watched::flag) {
        GO => Ok(()),
        SLICE_IS_OVER => Err(Halt::SliceIsOver),
        _ => Err(Halt::Stopped),
    }
}
