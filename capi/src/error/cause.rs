//! [`Cause`]: the error of the runtime in an error of the library.

use super::pirn_error_t;
use core::fmt;
use pirn_runtime::{CallError, Frame, Trap};
use std::error::Error;

/// The reason of an error.
pub(crate) enum Cause {
    /// Only a text.
    Text(String),
    /// A trap that has not reached a guest: a memory access of the host, or pirn_error_trap.
    Trap(Trap),
    /// The error of a call.
    Call(CallError),
}

impl Cause {
    /// The frames of the guest, innermost first.
    pub(crate) fn frames(&self) -> &[Frame] {
        match self {
            Self::Text(_) => &[],
            Self::Trap(trap) => trap.backtrace(),
            Self::Call(error) => match error {
                CallError::Trap(trap) => trap.backtrace(),
                CallError::Exception(exception) => exception.backtrace(),
                CallError::Panic(panic) => panic.backtrace(),
                CallError::Killed(stop)
                | CallError::Deadline(stop)
                | CallError::CpuBudget(stop) => stop.backtrace(),
                _ => &[],
            },
        }
    }

    /// The error and its backtrace, a line each.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Trap(trap) | Self::Call(CallError::Trap(trap)) => trap.report(),
            Self::Call(CallError::Exception(exception)) => exception.report(),
            other => {
                let mut report = other.to_string();
                for (depth, frame) in self.frames().iter().enumerate() {
                    report.push_str(&format!("\n  {depth:>2}: {frame}"));
                }
                report
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Trap(trap) => trap.fmt(f),
            Self::Call(error) => error.fmt(f),
        }
    }
}

/// An error of the embedder's host function, on its way through the runtime.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) Box<pirn_error_t>);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.cause.fmt(f)
    }
}

impl Error for Failure {}

/// A handle that can only be deleted.
#[derive(Debug)]
pub(crate) struct Poisoned(pub(crate) &'static str);

impl fmt::Display for Poisoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "an earlier function left the {0} half changed; delete the {0}",
            self.0
        )
    }
}
