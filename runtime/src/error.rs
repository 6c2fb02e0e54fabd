//! The errors of linking, instantiating and calling. Every message is one line.

mod host;
mod invalid;
mod snapshot;
mod value;

use crate::stop::Bounds;
use crate::trap::{Exception, Interruption, Trap};
use core::fmt;
pub use host::{HostError, HostPanic};
pub use invalid::InvalidCall;
pub use snapshot::SnapshotError;
use std::io;
use std::time::Duration;
use thiserror::Error;
pub use value::{SetGlobalError, TableError, ValueError};

/// Why a module cannot be linked or prepared for a region, or why it lacks an exported function.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The linker already has an item with this name.
    #[error("{import} is defined twice; define each name once")]
    Duplicate {
        /// Module and name.
        import: String,
    },
    /// The host offers a reference that belongs to one instance.
    #[error("{import} is a reference that belongs to one instance; offer null, or a host function")]
    Foreign {
        /// Module and name.
        import: String,
    },
    /// The host offers a function whose type uses a type that a module defines.
    #[error(
        "host function {import} has a value of type {ty}, which a module defines; use an abstract \
         type, such as funcref or (ref func)"
    )]
    HostFunc {
        /// Module and name.
        import: String,
        /// The type.
        ty: String,
    },
    /// Nothing provides this import of the module.
    #[error("import {import} ({wanted}) is not defined; define it in the linker")]
    Missing {
        /// Module and name.
        import: String,
        /// The type that the module imports.
        wanted: String,
    },
    /// The module was compiled from a component, and a linker of core modules should link it.
    #[error(
        "import {import} is of a component, this linker is for core modules; link the component by \
         the crate `pirn-component`, or by `pirn_region_prepare_component` in C"
    )]
    Component {
        /// Module and name.
        import: String,
    },
    /// A preparation was given a memory that its module does not import.
    #[error("module imports no memory {import}; name one that it imports")]
    NoImport {
        /// Module and name.
        import: String,
    },
    /// The item with this name does not have the type that the module imports.
    #[error("import {import} is {found}, the module wants {wanted}; {remedy}")]
    Mismatch {
        /// Module and name.
        import: String,
        /// The type of the item.
        found: String,
        /// The type that the module imports.
        wanted: String,
        /// The remedy for the embedder.
        remedy: &'static str,
    },
    /// The module has a 64-bit memory, and imports from an interface that supports only 32-bit
    /// addresses.
    #[error(
        "import {import} is of an interface with 32-bit addresses, the module's memory is \
         {memory}; compile the guest with a 32-bit memory"
    )]
    Addresses {
        /// Module and name.
        import: String,
        /// The type of the module's memory.
        memory: String,
    },
    /// The module needs more than a slot of the region has.
    #[error("module needs {needed} {what}, slots hold {limit}; raise `{setting}`")]
    Limit {
        /// The unit and the resource that is too small, as in "pages of memory".
        what: &'static str,
        /// How much the module needs.
        needed: u64,
        /// How much a slot holds.
        limit: u64,
        /// The setting of the region's builder.
        setting: &'static str,
    },
    /// The module has no export of this name and kind.
    #[error("module has no exported {kind} {name:?}; it exports {found}")]
    NoExport {
        /// The kind of export that was asked for.
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// The exports that the module has.
        found: String,
    },
    /// The exported function has another type.
    #[error(
        "function {name:?} has type {found}, the caller wants {wanted}; ask for the type that \
         it has"
    )]
    FuncType {
        /// Name of the export.
        name: String,
        /// The type of the function.
        found: String,
        /// The type asked for.
        wanted: String,
    },
}

/// Why an instance could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstantiateError {
    /// All slots are in use.
    #[error("all {slots} slots of the region are taken; drop an instance, wait, or raise `slots`")]
    Full {
        /// Number of slots.
        slots: u32,
    },
    /// All slots stayed in use for as long as the caller was willing to wait.
    #[error("all {slots} slots of the region stayed taken for {waited:?}; raise `slots`")]
    Timeout {
        /// Number of slots.
        slots: u32,
        /// How long the caller waited at most.
        waited: Duration,
    },
    /// Every slot of the region is lost. The kernel failed during a mapping, or refused to change
    /// access rights and then refused to restore them. No slot becomes free again.
    #[error(
        "the system refused to restore the memory of all {slots} slots of the region; make another region"
    )]
    Lost {
        /// Number of slots.
        slots: u32,
    },
    /// A segment did not fit, or the start function or the function of
    /// [`Prepared::call_first`](crate::Prepared::call_first) did not return.
    #[error("the module's start failed: {0}")]
    Start(#[from] CallError),
    /// The system refused memory, or a mapping.
    #[error(
        "the system gives no memory for a slot with {kib} KiB of writable memory: {error}; raise \
         `ulimit -d` or `vm.max_map_count`, or lower the sizes of the region's slots"
    )]
    System {
        /// KiB of stack, tables, instance data, and the module's initial memory.
        kib: u64,
        /// The error of mprotect(2) or mmap(2).
        error: io::Error,
    },
    /// The system refused a resource that the thread needs.
    #[error("the system gives no alternate signal stack: {0}; free memory")]
    Thread(io::Error),
}

/// Why a call has no results.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The guest trapped.
    #[error(transparent)]
    Trap(#[from] Trap),
    /// The guest threw an exception that no handler of the guest caught.
    #[error("{0}")]
    Exception(Exception),
    /// A host function ended the call.
    #[error("{0}")]
    Host(HostError),
    /// A host function panicked. The instance can be called again, if its data is still consistent.
    #[error("{0}")]
    Panic(HostPanic),
    /// A [`KillSwitch`](crate::KillSwitch) ended the guest. All later calls of the instance fail,
    /// too.
    #[error("guest was killed{0}")]
    Killed(Interruption),
    /// The call's deadline passed. The instance can be called again. The guest's changes stay, even
    /// if they are incomplete.
    #[error("guest ran past its deadline{0}")]
    Deadline(Interruption),
    /// The call used up its processor time. The instance can be called again, as after a deadline.
    #[error("guest used up its processor time{0}")]
    CpuBudget(Interruption),
    /// The state of the instance, or of the call, does not allow the operation.
    #[error(transparent)]
    State(#[from] StateError),
    /// The call is invalid: for example a wrong function, parameter or instance.
    // Boxed to keep `CallError` small: every result of a call has room for a `CallError`.
    #[error(transparent)]
    Invalid(Box<InvalidCall>),
    /// A host function looked up a function that its guest does not export, or whose type differs.
    #[error(transparent)]
    Lookup(Box<LinkError>),
    /// The system refused a resource that the call needs.
    #[error(
        "the system gives no alternate signal stack, or no timer: {0}; free memory, or raise \
         `ulimit -i`"
    )]
    System(io::Error),
}

/// Every result of a call has room for a `CallError`, which takes at most three words.
const _: () = assert!(size_of::<CallError>() <= 3 * size_of::<usize>());

impl CallError {
    /// Replaces the remaining limit in the error by the original limit of the call.
    pub(crate) fn limited_to(mut self, limits: Bounds) -> Self {
        match &mut self {
            Self::Deadline(stop) => stop.set_limit(limits.wall_ns),
            Self::CpuBudget(stop) => stop.set_limit(limits.cpu_ns),
            _ => {}
        }
        self
    }
}

/// An operation that the state of an instance, or of a call, does not allow. A refused operation
/// changes nothing, except that a refused [`Instance::snapshot`](crate::Instance::snapshot) ends
/// the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{operation} of {state}; {}", self.remedy())]
pub struct StateError {
    operation: Operation,
    state: CallState,
}

/// The operation that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A call, or the start of a call in steps.
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
    /// A call with a time slice.
    Slice,
    /// [`Instance::set_fuel`](crate::Instance::set_fuel).
    SetFuel,
    /// [`Instance::set_global`](crate::Instance::set_global).
    SetGlobal,
    /// A look-up of a table to change it, by [`Instance::table_mut`](crate::Instance::table_mut).
    ChangeTable,
    /// [`Instance::snapshot`](crate::Instance::snapshot).
    Snapshot,
    /// A nested call by a method of [`Caller`](crate::Caller), or a look-up for a nested call.
    Nest,
    /// `memory.atomic.wait32` or `memory.atomic.wait64` of the guest, in a nested call.
    Wait,
    /// [`Group::instantiate`](crate::Group::instantiate).
    Instantiate,
}

/// The state that does not allow the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallState {
    /// No call is suspended.
    Idle,
    /// The call was preempted.
    Preempted,
    /// The call waits for an answer.
    Asked,
    /// A call of another function is suspended.
    Another,
    /// The call has ended.
    Ended,
    /// The call runs until it returns.
    Called,
    /// The call is made step by step.
    Stepped,
    /// The call is made by a future.
    Awaited,
    /// The call was made by a future that was leaked (`mem::forget`).
    Forgotten,
    /// The call is nested: a host function makes it.
    Nested,
    /// The guest does not wait, on this thread, for the host function that has the
    /// [`Caller`](crate::Caller).
    NotWaiting,
}

impl StateError {
    pub(crate) fn new(operation: Operation, state: CallState) -> Self {
        Self { operation, state }
    }

    /// The operation that was refused.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The state that does not allow the operation.
    #[must_use]
    pub fn state(&self) -> CallState {
        self.state
    }

    fn remedy(&self) -> &'static str {
        match (self.operation, self.state) {
            (_, CallState::Nested) => "let the host function return first",
            (Operation::Snapshot, _) => "take it of an instance without a suspended call",
            (Operation::Nest, _) => {
                "make it in a function of `Linker::func`, on the thread that runs the function"
            }
            (Operation::Ask, _) => "make the call by `start`",
            (Operation::Await, _) => "make the call by `call_async`",
            (Operation::Slice, _) => "make the call by `start` or `call_async`",
            (Operation::Poll, _) => "make another call",
            (_, CallState::Idle | CallState::Ended) => "start a call first",
            (_, CallState::Forgotten) => "cancel it",
            (
                Operation::Call
                | Operation::SetFuel
                | Operation::SetGlobal
                | Operation::ChangeTable
                | Operation::Instantiate,
                _,
            ) => "resume it, or cancel it",
            (_, CallState::Another) => "give the function that was started",
            (_, CallState::Preempted) => "resume it without an answer",
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
            Self::Ask => "question in the middle",
            Self::Await => "async host function in the middle",
            Self::Slice => "preemption",
            Self::SetFuel => "change of fuel",
            Self::SetGlobal => "change of a global",
            Self::ChangeTable => "change of a table",
            Self::Snapshot => "snapshot",
            Self::Nest => "nested call",
            Self::Wait => "wait on a memory in the middle",
            Self::Instantiate => "instantiation in a group",
        })
    }
}

impl fmt::Display for CallState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "an instance that is not suspended",
            Self::Preempted => "an instance that was preempted",
            Self::Asked => "an instance that waits for an answer",
            Self::Another => "an instance that is suspended in another function",
            Self::Ended => "a call that has ended",
            Self::Called => "a call that runs until it returns",
            Self::Stepped => "a call that is made step by step",
            Self::Awaited => "a call that is made by a future",
            Self::Forgotten => "an instance whose async call was forgotten",
            Self::Nested => "a call that a host function makes",
            Self::NotWaiting => "a guest that does not wait for the host function",
        })
    }
}

/// The id of a member comes from another group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "group has {count} members, member {found} of another group is asked for; use the id that \
     this group gave"
)]
pub struct NoMember {
    /// Index of the member in its own group.
    pub found: usize,
    /// Number of this group's members.
    pub count: usize,
}

/// Why the fuel was not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FuelError {
    /// A call of the instance is suspended.
    #[error(transparent)]
    State(#[from] StateError),
    /// The module's code does not count fuel.
    #[error("module does not count fuel; compile it with `aotc --fuel`")]
    NotCounted,
}

/// Why an instance was not added to a group.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The instance cannot be linked.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The instance could not be made or started.
    #[error(transparent)]
    Instantiate(#[from] InstantiateError),
    /// A call of the group is suspended.
    #[error(transparent)]
    State(#[from] StateError),
}

impl From<InvalidCall> for CallError {
    #[cold]
    fn from(error: InvalidCall) -> Self {
        Self::Invalid(Box::new(error))
    }
}

impl From<NoMember> for CallError {
    #[cold]
    fn from(error: NoMember) -> Self {
        InvalidCall::from(error).into()
    }
}

// Not `#[from]`: the message already contains the source, and printing all sources would repeat it.
impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}
