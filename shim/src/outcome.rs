//! [`Outcome`]: the end of a command, with its message and the exit code of its container.

use pirn_component::CallError as ComponentError;
use pirn_format::text;
use pirn_runtime::{CallError, InstantiateError, Trap};
use pirn_wasi::Exit;

/// The end of a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The command exited with this code.
    Exited(u32),
    /// The command trapped, or did not catch an exception. Contains the message.
    Trapped(String),
    /// The command exceeded its deadline. Contains the message.
    Late(String),
    /// A stop signal of the container ended the command.
    Killed,
    /// The command did not start, or a host function failed.
    Failed(anyhow::Error),
}

/// Exit code after a trap or an uncaught exception: 128 + SIGABRT, as for an aborted process.
const TRAPPED: i32 = 134;

/// Exit code after a deadline: the code of timeout(1).
const LATE: i32 = 124;

/// Exit code if the guest could not start: the code of Docker.
const NOT_RUN: i32 = 125;

impl Outcome {
    /// Prints the message, if the outcome has one, and returns the exit code.
    pub(crate) fn tell(self) -> i32 {
        match self {
            // The exit code of a process has eight bits.
            Self::Exited(code) => i32::from(code as u8),
            Self::Trapped(report) => {
                eprintln!("pirn: {report}");
                TRAPPED
            }
            Self::Late(error) => {
                eprintln!("pirn: {}", text::one_line(error));
                LATE
            }
            Self::Killed => 128 + nix::sys::signal::Signal::SIGTERM as i32,
            Self::Failed(error) => {
                eprintln!("pirn: {}", one_line(&error));
                NOT_RUN
            }
        }
    }
}

/// The message of an error with all its causes, on one line.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    text::one_line(format_args!("{error:#}"))
}

/// The error of a guest that cannot be linked.
pub(crate) fn unlinked(error: &anyhow::Error) -> anyhow::Error {
    let memory_max = "the limit of the policy or of io.pirn.memory-max";
    pirn_server::refusal(error, memory_max).context("cannot link the guest")
}

impl From<anyhow::Error> for Outcome {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Trap> for Outcome {
    fn from(trap: Trap) -> Self {
        Self::Trapped(trap.report().to_string())
    }
}

impl From<CallError> for Outcome {
    fn from(error: CallError) -> Self {
        if let Some(exit) = Exit::of(&error) {
            return Self::Exited(exit.code);
        }
        match error {
            CallError::Trap(trap) => trap.into(),
            CallError::Exception(exception) => Self::Trapped(exception.report().to_string()),
            CallError::Killed(_) => Self::Killed,
            error @ CallError::Deadline(_) => Self::Late(error.to_string()),
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

impl From<ComponentError> for Outcome {
    fn from(error: ComponentError) -> Self {
        match error {
            ComponentError::Core(error) => error.into(),
            ComponentError::Abi(error) => Self::Trapped(format!("trap: {error}")),
            error => Self::Failed(error.into()),
        }
    }
}
