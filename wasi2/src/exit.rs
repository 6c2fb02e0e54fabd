//! [`Exit`]: the error with which `wasi:cli/exit` ends a call.

use pirn_component::CallError;
use thiserror::Error;

/// The guest called `exit`. The exit ends the guest's call, but is no failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("guest exited with code {code}")]
pub struct Exit {
    /// The exit code: 0 for success.
    pub code: u8,
}

impl Exit {
    /// The exit that ended a call; `None` if something else ended it.
    #[must_use]
    pub fn of(error: &CallError) -> Option<Self> {
        match error {
            CallError::Core(pirn_runtime::CallError::Host(error)) => error.downcast_ref().copied(),
            _ => None,
        }
    }
}
