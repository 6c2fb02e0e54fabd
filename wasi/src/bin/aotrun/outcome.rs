//! [`Outcome`]: what became of a run, and what is said about it.

use pirn_runtime::{CallError, Exception, InstantiateError, Trap, TrapCode};
use pirn_wasi::Exit;
use std::process::ExitCode;

/// What became of a run.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The guest came to its end, with this exit code.
    Exited(u32),
    /// The guest trapped.
    Trapped(Trap),
    /// The guest threw what nothing caught.
    Threw(Exception),
    /// The guest ran past its deadline.
    Late(CallError),
    /// The guest used up its fuel.
    OutOfFuel(Trap),
    /// It did not run, or a host function failed.
    Failed(anyhow::Error),
}

/// The exit code after a trap or an exception: that of a process which was aborted, as a shell shows it.
const TRAPPED: u8 = 134;

/// The exit code after a deadline, as that of timeout(1), and when all fuel is used.
const LATE: u8 = 124;

impl Outcome {
    /// Says on stderr what there is to say, and gives the exit code.
    pub(crate) fn tell(self) -> ExitCode {
        match self {
            // A process has eight bits.
            Self::Exited(code) => ExitCode::from(code as u8),
            Self::Trapped(trap) => {
                eprintln!("aotrun: {}", trap.report());
                ExitCode::from(TRAPPED)
            }
            Self::Threw(exception) => {
                eprintln!("aotrun: {}", exception.report());
                ExitCode::from(TRAPPED)
            }
            Self::Late(error) => {
                eprintln!("aotrun: {error}; raise --deadline");
                ExitCode::from(LATE)
            }
            Self::OutOfFuel(trap) => {
                eprintln!("aotrun: {trap}; raise --fuel");
                ExitCode::from(LATE)
            }
            Self::Failed(error) => {
                eprintln!("aotrun: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

impl From<anyhow::Error> for Outcome {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        if let Some(exit) = Exit::of(&error) {
            return Self::Exited(exit.code);
        }
        match error {
            CallError::Trap(trap) if trap.code() == TrapCode::OutOfFuel => Self::OutOfFuel(trap),
            CallError::Trap(trap) => Self::Trapped(trap),
            CallError::Exception(exception) => Self::Threw(exception),
            error @ CallError::Deadline(_) => Self::Late(error),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<InstantiateError> for Outcome {
    fn from(error: InstantiateError) -> Self {
        match error {
            InstantiateError::Start(error) => error.into(),
            error => Self::Failed(error.into()),
        }
    }
}
