//! [`Failure`]: the reason for which a function of preview 1 failed.

use crate::errno::{self, Errno};
use crate::stream::Failed;
use pirn_runtime::{HostError, Trap};

/// The reason for which a function failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The function returns an error number.
    Errno(Errno),
    /// The call of the guest ends.
    Host(HostError),
    /// A source of the embedder has no bytes yet. The guest waits, and repeats the function.
    Later,
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Failed> for Failure {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Errno(errno) => Self::Errno(errno),
            Failed::Wait => Self::Errno(Errno::AGAIN),
            Failed::Later => Self::Later,
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<Trap> for Failure {
    fn from(trap: Trap) -> Self {
        Self::Host(trap.into())
    }
}

/// The result of a function.
pub(crate) type Done<R = ()> = Result<R, Failure>;

/// The error number that a function returns: 0 for success.
///
/// # Errors
///
/// The error that ends the call.
#[inline]
pub(crate) fn number(done: Done) -> Result<i32, HostError> {
    match done {
        Ok(()) => Ok(0),
        Err(Failure::Errno(errno)) => Ok(errno::number(errno)),
        Err(Failure::Later) => Ok(errno::number(Errno::AGAIN)),
        Err(Failure::Host(error)) => Err(error),
    }
}
