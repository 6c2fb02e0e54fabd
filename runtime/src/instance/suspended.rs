//! [`Step`]: the progress of a call, and [`Suspended`]: a call that can be resumed.

use crate::error::{CallState, Operation, StateError};

/// The progress of a call after one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a suspended call continues only if it is resumed"]
pub enum Step<R, Q = core::convert::Infallible> {
    /// The call has returned these results.
    Returned(R),
    /// The guest called a function of [`Linker::func_ask`](crate::Linker::func_ask) and waits for
    /// the answer. Give the answer by [`Instance::resume_with`](crate::Instance::resume_with).
    Asked(Q),
    /// The time slice of the call has ended. Continue by
    /// [`Instance::resume`](crate::Instance::resume).
    Preempted,
}

/// A suspended call, which can be resumed.
#[derive(Debug)]
pub(crate) struct Suspended {
    /// The function that was called, see `TypedFunc::identity`.
    pub(super) func: (usize, i32),
    /// The index of the called member, on whose stack the call is suspended. A single instance has
    /// index 0. Not `usize`: with 8 bytes more, each instance would be 8 bytes larger.
    pub(super) root: u32,
    /// Why the call was suspended.
    pub(super) state: CallState,
}

impl Suspended {
    /// Checks that no call is suspended.
    ///
    /// # Errors
    ///
    /// The error of an operation that the suspended call does not allow.
    #[inline]
    pub(super) fn none(call: Option<&Self>, operation: Operation) -> Result<(), StateError> {
        match call {
            None => Ok(()),
            Some(call) => Err(call.refuses(operation)),
        }
    }

    /// The error of an operation that the suspended call does not allow.
    #[cold]
    fn refuses(&self, operation: Operation) -> StateError {
        StateError::new(operation, self.state)
    }
}
