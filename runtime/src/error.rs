//! The errors of linking, instantiating and calling. Every message is one line.

use crate::host::{HostError, HostPanic};
use crate::stop::Bounds;
use crate::trap::{Exception, Stop, Trap};
use core::fmt;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Why a module cannot be linked to what the host offers, or prepared for a region.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The linker has this name already.
    #[error("{import} is defined twice; define each name once")]
    Duplicate {
        /// Module and name.
        import: String,
    },
    /// The host offers a function reference that belongs to one instance.
    #[error("{import} is a function reference of one instance; offer null, or a host function")]
    Foreign {
        /// Module and name.
        import: String,
    },
    /// The host offers a function of a type that names a function type of a module.
    #[error(
        "{import} has a value of type {ty}, which only modules know; use funcref, or (ref func)"
    )]
    HostFunc {
        /// Module and name.
        import: String,
        /// The type.
        ty: String,
    },
    /// The module imports what nobody offers.
    #[error("import {import} ({wanted}) is not defined; define it in the linker")]
    Missing {
        /// Module and name.
        import: String,
        /// What it must be.
        wanted: String,
    },
    /// A preparation is given a memory that its module does not import.
    #[error("the module imports no memory {import}; name one that it imports")]
    NoImport {
        /// Module and name.
        import: String,
    },
    /// The module imports a name as something other than it is.
    #[error("import {import} is {found}, the module wants {wanted}; {remedy}")]
    Mismatch {
        /// Module and name.
        import: String,
        /// What is offered.
        found: String,
        /// What it must be.
        wanted: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The module has a 64-bit memory, and imports from an interface that knows none.
    #[error(
        "import {import} is of an interface with addresses of 32 bits, the module's memory is {memory}; compile it with \
         a memory of 32-bit addresses"
    )]
    Addresses {
        /// Module and name.
        import: String,
        /// The type of the module's memory.
        memory: String,
    },
    /// The module needs more than the region's slots hold.
    #[error("module needs {needed} {unit} of {what}, slots hold {limit}; raise `{setting}`")]
    Limit {
        /// What there is too little of.
        what: &'static str,
        /// How much the module needs.
        needed: u64,
        /// How much a slot holds.
        limit: u64,
        /// What is counted.
        unit: &'static str,
        /// The builder's setting.
        setting: &'static str,
    },
    /// The module has no export of this name and kind.
    #[error("module has no exported {kind} {name:?}; it exports {found}")]
    NoExport {
        /// What was asked for.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What it exports.
        found: String,
    },
    /// The exported function has another type.
    #[error("function {name:?} has type {found}, the caller wants {wanted}")]
    FuncType {
        /// Name of the export.
        name: String,
        /// Its type.
        found: String,
        /// The type asked for.
        wanted: String,
    },
}

/// Why there is no instance.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstantiateError {
    /// All slots are taken.
    #[error("all {slots} slots of the region are taken; drop an instance, wait, or raise `slots`")]
    Full {
        /// Number of slots.
        slots: u32,
    },
    /// All slots stayed taken for as long as the caller would wait.
    #[error("all {slots} slots of the region stayed taken for {waited:?}; raise `slots`")]
    Timeout {
        /// Number of slots.
        slots: u32,
        /// How long the caller would wait.
        waited: Duration,
    },
    /// Every slot of the region is lost: the kernel failed in the middle of a mapping, or refused a
    /// change of access rights and then to undo it. No slot will be free again.
    #[error(
        "the system refused to restore the memory of all {slots} slots of the region; make another region"
    )]
    Lost {
        /// Number of slots.
        slots: u32,
    },
    /// A segment did not fit, or the start function did not return.
    #[error("the module's start failed: {0}")]
    Start(#[from] CallError),
    /// The system refused memory, or a mapping.
    #[error(
        "the system gives no memory for a slot, of which {kib} KiB can be written to: {error}; raise \
         `ulimit -d` or `vm.max_map_count`, or lower what the region's slots hold"
    )]
    System {
        /// KiB of stack, tables, instance data, and the module's initial memory.
        kib: u64,
        /// What mprotect(2) or mmap(2) gave.
        error: io::Error,
    },
    /// The system refused what the thread needs.
    #[error("the system gives no alternate signal stack: {0}")]
    Thread(io::Error),
}

/// Why a call has no results.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The guest trapped.
    #[error(transparent)]
    Trap(#[from] Trap),
    /// The guest threw an exception that nothing in it caught.
    #[error("{0}")]
    Exception(Exception),
    /// A host function ended the call.
    #[error("{0}")]
    Host(HostError),
    /// A host function panicked. The instance can be called again, if its data can bear it.
    #[error("{0}")]
    Panic(HostPanic),
    /// A [`KillSwitch`](crate::KillSwitch) ended the guest. No call of the instance is made any more.
    #[error("guest was killed{0}")]
    Killed(Stop),
    /// The call's deadline passed. The instance can be called again; what the guest changed stays, half
    /// done as it may be.
    #[error("guest ran past its deadline{0}")]
    Deadline(Stop),
    /// The call used up its processor time. The instance can be called again, as after a deadline.
    #[error("guest used up its processor time{0}")]
    CpuBudget(Stop),
    /// The instance, or the call, is not in the state for it.
    #[error(transparent)]
    State(#[from] StateError),
    /// The call was not made.
    #[error("{0}")]
    Invalid(String),
    /// The system refused what the call needs.
    #[error("the system gives no alternate signal stack, or no timer: {0}")]
    System(io::Error),
}

impl CallError {
    /// The same of a call that these limits were given to, of which little was left.
    pub(crate) fn limited_to(mut self, limits: Bounds) -> Self {
        match &mut self {
            Self::Deadline(stop) => stop.set_limit(limits.wall_ns),
            Self::CpuBudget(stop) => stop.set_limit(limits.cpu_ns),
            _ => {}
        }
        self
    }
}

/// An operation that the state of an instance, or of a call, does not allow. It changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{operation} of {state}; {}", self.remedy())]
pub struct StateError {
    operation: Operation,
    state: State,
}

/// What was to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A call, or the start of one.
    Call,
    /// [`Instance::resume`](crate::Instance::resume).
    Resume,
    /// [`Instance::resume_with`](crate::Instance::resume_with).
    ResumeWith,
    /// A poll of a [`CallAsync`](crate::CallAsync).
    Poll,
    /// A function of [`Linker::func_ask`](crate::Linker::func_ask), called by the guest.
    Ask,
    /// A function of [`Linker::func_async`](crate::Linker::func_async), called by the guest.
    Await,
    /// A call with a slice of time.
    Slice,
    /// [`Instance::set_fuel`](crate::Instance::set_fuel).
    SetFuel,
}

/// What does not allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No call is suspended.
    Idle,
    /// The call was preempted.
    Preempted,
    /// The call waits for an answer.
    Asked,
    /// The call was suspended by another function than the one given.
    Another,
    /// The call has ended.
    Ended,
    /// The call is one that is made until it returns.
    Called,
    /// The call is made step by step.
    Stepped,
    /// The call is made by a future.
    Awaited,
    /// The call was made by a future that was forgotten.
    Forgotten,
}

impl StateError {
    pub(crate) fn new(operation: Operation, state: State) -> Self {
        Self { operation, state }
    }

    /// What was to be done.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// What does not allow it.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    fn remedy(&self) -> &'static str {
        match (self.operation, self.state) {
            (Operation::Ask, _) => "make the call by `start`",
            (Operation::Await, _) => "make the call by `call_async`",
            (Operation::Slice, _) => "make the call by `start` or `call_async`",
            (Operation::Poll, _) => "make another call",
            (_, State::Idle | State::Ended) => "start a call first",
            (_, State::Forgotten) => "cancel it",
            (Operation::Call | Operation::SetFuel, _) => "resume it, or cancel it",
            (_, State::Another) => "give the function that was started",
            (_, State::Preempted) => "resume it without an answer",
            _ => "resume it with an answer",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Resume => "resume",
            Self::ResumeWith => "answer",
            Self::Poll => "poll",
            Self::Ask => "question in the midst",
            Self::Await => "async host function in the midst",
            Self::Slice => "preemption",
            Self::SetFuel => "change of fuel",
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "an instance that is not suspended",
            Self::Preempted => "an instance that was preempted",
            Self::Asked => "an instance that waits for an answer",
            Self::Another => "an instance that is suspended in another function",
            Self::Ended => "a call that has ended",
            Self::Called => "a call that is made until it returns",
            Self::Stepped => "a call that is made step by step",
            Self::Awaited => "a call that is made by a future",
            Self::Forgotten => "an instance whose async call was forgotten",
        })
    }
}

/// Why no fuel was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FuelError {
    /// A call of the instance is suspended.
    #[error(transparent)]
    State(#[from] StateError),
    /// The module's code does not count what it executes.
    #[error("module does not count fuel; compile it with `aotc --fuel`")]
    NotCounted,
    /// The group has no such instance.
    #[error(
        "group has {count} instances, instance {found} of another group is asked for; use the id that \
         this group gave"
    )]
    NoMember {
        /// What was asked for.
        found: usize,
        /// Number of the group's instances.
        count: usize,
    },
}

/// Why an instance was not added to a group.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// It cannot be linked.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// It could not be started.
    #[error(transparent)]
    Instantiate(#[from] InstantiateError),
}

// Not its source: the line says it, and who prints all sources would say it twice.
impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
