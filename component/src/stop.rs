//! [`Stop`]: tells a conversion of values that its call was stopped.

use crate::error::{AbiError, AbiResult};
use pirn_runtime::{HostError, StopFlag};
use std::time::Instant;

/// Bytes that the host converts or copies between two looks for a stop.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// The event that can stop a conversion of values.
pub(crate) enum Stop<'a> {
    /// Nothing stops the conversion: the host converts its own values.
    Never,
    /// A stop of the guest that waits for a host function.
    Guest(StopFlag<'a>),
    /// The deadline of a call that has returned a result.
    At(Instant),
    /// For tests: this number of looks find no stop, the next look finds one.
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
    pub(crate) fn work(&mut self, bytes: usize) -> AbiResult {
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

/// Whether a stop ended a host function. The guest does not continue, so the host function may give
/// any answer. The call fails with the reason of the stop.
pub(crate) fn is_stop(error: &HostError) -> bool {
    matches!(error.downcast_ref(), Some(AbiError::Stopped))
}

/// The answer to a guest that may have been stopped while this crate converted values. A stopped
/// guest does not continue, and does not see the answer. Its call fails with the reason of the
/// stop.
///
/// Do not pass errors of the embedder's function: such an error may stem from a stop of another
/// guest.
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
    pub(crate) fn look(&self) -> AbiResult {
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
