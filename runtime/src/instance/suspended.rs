//! [`Suspended`]: a call that can be resumed.

use crate::error::{Operation, State, StateError};

/// A suspended call, which can be resumed.
#[derive(Debug)]
pub(crate) struct Suspended {
    /// The function that was called, see `Func::identity`.
    pub(super) func: (usize, i32),
    /// Why the call was suspended.
    pub(super) state: State,
}

impl Suspended {
    /// The error of an operation that the suspended call does not allow.
    #[cold]
    pub(crate) fn refuses(&self, operation: Operation) -> StateError {
        StateError::new(operation, self.state)
    }
}
