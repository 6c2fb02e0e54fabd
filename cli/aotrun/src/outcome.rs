//! [`Outcome`]: the result of a run, its message and its exit code.

use pirn_cli::text::one_line;
use pirn_runtime::{CallError, Exception, InstantiateError, Trap, TrapCode};
use pirn_wasi::Exit;
use std::process::ExitCode;

/// The result of a run.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The guest ended normally, with this exit code.
    Exited(u32),
    /// The guest trapped.
    Trapped(Trap),
    /// The guest broke a rule of the component model. The text names the rule.
    #[cfg(feature = "components")]
    Broke(String),
    /// The guest threw an exception, and no code of the guest caught it.
    Threw(Exception),
    /// The guest ran past its deadline.
    Late(CallError),
    /// The guest used up its fuel.
    OutOfFuel(Trap),
    /// The guest did not run, or a host function failed.
    Failed(anyhow::Error),
}

/// Exit code after a trap or an uncaught exception: 128 + SIGABRT, as a shell reports an aborted
/// process.
const TRAPPED: u8 = 134;

/// Exit code after a deadline or when the fuel is used up, as of timeout(1).
const LATE: u8 = 124;

impl Outcome {
    /// Prints the outcome's message, if any, to stderr and returns the exit code.
    pub(crate) fn tell(self) -> ExitCode {
        match self {
            // The exit code of a process has eight bits.
            Self::Exited(code) => ExitCode::from(code as u8),
            Self::Trapped(trap) => {
                eprintln!("aotrun: {}", trap.report());
                ExitCode::from(TRAPPED)
            }
            #[cfg(feature = "components")]
            Self::Broke(rule) => {
                eprintln!("aotrun: trap: {}", one_line(rule));
                ExitCode::from(TRAPPED)
            }
            Self::Threw(exception) => {
                eprintln!("aotrun: {}", exception.report());
                ExitCode::from(TRAPPED)
            }
            Self::Late(error) => {
                eprintln!("aotrun: {}; raise --deadline", one_line(error));
                ExitCode::from(LATE)
            }
            Self::OutOfFuel(trap) => {
                eprintln!("aotrun: {trap}; raise --fuel");
                ExitCode::from(LATE)
            }
            Self::Failed(error) => {
                eprintln!("aotrun: {}", one_line(format_args!("{error:#}")));
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
