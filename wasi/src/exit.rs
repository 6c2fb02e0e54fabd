//! [`Exit`]: the error with which a guest ends its own call.

use pirn_runtime::CallError;
use thiserror::Error;

/// The guest called `proc_exit`, or `wasi:cli/exit`. The exit ends the guest's call, but is no
/// fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("guest exited with code {code}")]
pub struct Exit {
    /// The exit code that the guest passed. 0 means success.
    pub code: u32,
}

impl Exit {
    /// The exit that ended a call, of a core module or of a component; `None` if something else
    /// ended it.
    #[must_use]
    pub fn of<'e>(error: impl Into<Option<&'e CallError>>) -> Option<Self> {
        match error.into()? {
            CallError::Host(error) => error.downcast_ref().copied(),
            _ => None,
        }
    }
}
