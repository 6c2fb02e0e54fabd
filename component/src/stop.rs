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

/// Converted bytes since the last look for a stop.
pub(crate) struct Progress<'a> {
    unlooked: usize,
    pub(crate) stop: Stop<'a>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(stop: Stop<'a>) -> Self {
        Self { unlooked: 0, stop }
    }

    /// Counts converted bytes, and looks for a stop after each piece.
    #[inline]
    pub(crate) fn work(&mut self, bytes: usize) -> Result<(), AbiError> {
        self.unlooked = self.unlooked.saturating_add(bytes);
        match self.unlooked < PIECE_BYTES {
            true => Ok(()),
            false => {
                self.unlooked = 0;
                self.stop.look()
            }
        }
    }
}

/// Whether a host function was ended by a stop. Its guest does not continue, so the host function
/// may give any answer. Then the call fails with the reason of the stop.
pub(crate) fn is_stop(error: &HostError) -> bool {
    matches!(error.downcast_ref(), Some(AbiError::Stopped))
}

/// The answer to a guest that may have been stopped while this crate converted values. Such a guest
/// does not continue, and does not see the answer. Its call fails with the reason of the stop.
///
/// The errors of the embedder's function do not get here: they may be of another guest.
pub(crate) fn unless_stopped<R: Default>(answer: Result<R, HostError>) -> Result<R, HostError> {
    match answer {
        Err(error) if is_stop(&error) => Ok(R::default()),
        answer => answer,
    }
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
