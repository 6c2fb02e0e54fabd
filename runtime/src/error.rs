//! The errors of linking, instantiating and calling. Every message is one line.

use crate::host::{HostError, HostPanic};
use crate::trap::{Stop, Trap};
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
    /// The module imports what nobody offers.
    #[error("import {import} ({wanted}) is not defined; define it in the linker")]
    Missing {
        /// Module and name.
        import: String,
        /// What it must be.
        wanted: String,
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
    /// The call was not made.
    #[error("{0}")]
    Invalid(String),
    /// The system refused what the call needs.
    #[error("the system gives no alternate signal stack: {0}")]
    System(io::Error),
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
