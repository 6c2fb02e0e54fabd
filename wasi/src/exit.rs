//! [`Exit`]: how `proc_exit` ends a guest.

use pirn_runtime::CallError;
use thiserror::Error;

/// The guest has called `proc_exit`: no fault, but the end of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("guest exited with code {code}")]
pub struct Exit {
    /// The code that it gave.
    pub code: u32,
}

impl Exit {
    /// The exit that ended a call, if it was one.
    #[must_use]
    pub fn of(error: &CallError) -> Option<Self> {
        match error {
            CallError::Host(error) => error.downcast_ref().copied(),
            _ => None,
        }
    }
}
