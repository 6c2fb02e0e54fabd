//! [`Exit`]: the error with which `proc_exit` ends a call.

use pirn_runtime::CallError;
use thiserror::Error;

/// The guest called `proc_exit`. The exit ends the guest's call, but is no fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("guest exited with code {code}")]
pub struct Exit {
    /// The exit code that the guest passed.
    pub code: u32,
}

impl Exit {
    /// The exit that ended a call; `None` if something else ended it.
    #[must_use]
    pub fn of(error: &CallError) -> Option<Self> {
        match error {
            CallError::Host(error) => error.downcast_ref().copied(),
            _ => None,
        }
    }
}
