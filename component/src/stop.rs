//! [`Stop`]: how conversions of values learn that their call has ended.

use crate::error::AbiError;
use pirn_runtime::{HostError, StopFlag};
use std::time::Instant;

/// Bytes that the host converts or copies between two looks for a stop.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// What can stop a conversion of values.
pub(crate) enum Stop<'a> {
    /// The host converts values of its own.
    Never,
    /// The guest, which waits for a host function, can be stopped.
    Guest(StopFlag<'a>),
    /// The call that has returned has a deadline.
    At(Instant),
    /// Stops at the look with this number, and counts the looks before it.
    #[cfg(test)]
    AtLook(std::cell::Cell<usize>),
}

/// Whether a host function was ended by a stop. Its guest does not continue, so the host function
/// may give any answer. Then the call fails with the reason of the stop.
pub(crate) fn is_stop(error: &HostError) -> bool {
    matches!(error.downcast_ref(), Some(AbiError::Stopped))
}

impl Stop<'_> {
    /// Looks for a stop.
    ///
    /// # Errors
    ///
    /// [`AbiError::Stopped`].
    pub(crate) fn look(&self) -> Result<(), AbiError> {
        let is_stopped = match self {
            Self::Never => false,
            Self::Guest(flag) => flag.is_stopped(),
            Self::At(end) => Instant::now() >= *end,
            #[cfg(test)]
            Self::AtLook(left) => {
                let more = left.get().checked_sub(1);
                left.set(more.unwrap_or(0));
                more.is_none()
            }
        };
        match is_stopped {
            true => Err(AbiError::Stopped),
            false => Ok(()),
        }
    }
}
