//! [`pirn_error_t`]: the reason for which a function failed.

mod cause;
mod frames;
mod traps;

pub(crate) use cause::{Cause, Failure, Poisoned};
use core::any::Any;
use core::fmt;
pub use frames::*;
use pirn_component::{AbiError, CallError as ComponentError};
use pirn_format::text;
use pirn_runtime::{
    CallError, FuelError, GroupError, HostError, InstantiateError, KillError, LinkError, NoMember,
    OpenError, RegionError, SetGlobalError, SharedMemoryError, SnapshotError, TableError, Trap,
    TrapCode,
};
use pirn_wasi::Exit;
use std::ffi::CString;
use std::sync::OnceLock;
pub use traps::*;

/// The kind of an error: one of PIRN_ERROR_ARGUMENT to PIRN_ERROR_ABI. PIRN_OK is no error.
pub type pirn_error_kind_t = u32;

/// No error: the kind of NULL.
pub const PIRN_OK: pirn_error_kind_t = 0;
/// An argument is invalid: a null pointer, a text that is not UTF-8, a wrong kind or number of
/// values, a function of another module.
pub const PIRN_ERROR_ARGUMENT: pirn_error_kind_t = 1;
/// A file is no module that this library can open.
pub const PIRN_ERROR_OPEN: pirn_error_kind_t = 2;
/// A name is missing or defined twice, or a type or a limit does not match.
pub const PIRN_ERROR_LINK: pirn_error_kind_t = 3;
/// A setting of a region is out of range, or the system refuses the region.
pub const PIRN_ERROR_REGION: pirn_error_kind_t = 4;
/// All slots of the region are taken.
pub const PIRN_ERROR_FULL: pirn_error_kind_t = 5;
/// The guest trapped: see pirn_error_trap_code.
pub const PIRN_ERROR_TRAP: pirn_error_kind_t = 6;
/// The guest threw an exception, and no code of the guest caught it.
pub const PIRN_ERROR_EXCEPTION: pirn_error_kind_t = 7;
/// The guest called `proc_exit` or `exit` of WASI: see pirn_error_exit_code. An exit is no fault.
pub const PIRN_ERROR_EXIT: pirn_error_kind_t = 8;
/// A host function returned an error of pirn_error_new, or WASI failed.
pub const PIRN_ERROR_HOST: pirn_error_kind_t = 9;
/// A part of the library failed by a panic, which is a defect of the library. The handle that the
/// function changes can only be deleted.
pub const PIRN_ERROR_PANIC: pirn_error_kind_t = 10;
/// A kill switch ended the guest.
pub const PIRN_ERROR_KILLED: pirn_error_kind_t = 11;
/// The deadline of the call passed.
pub const PIRN_ERROR_DEADLINE: pirn_error_kind_t = 12;
/// The call used up its processor time.
pub const PIRN_ERROR_CPU_BUDGET: pirn_error_kind_t = 13;
/// The state of the instance does not allow the operation: a call is suspended, no call is
/// suspended, or the group of the instance was deleted.
pub const PIRN_ERROR_STATE: pirn_error_kind_t = 14;
/// Another function uses the handle at this moment: a function on another thread, or the call in
/// which this host function runs.
pub const PIRN_ERROR_BUSY: pirn_error_kind_t = 15;
/// The state of an instance cannot be stored in a snapshot.
pub const PIRN_ERROR_SNAPSHOT: pirn_error_kind_t = 16;
/// The system refused memory, a mapping, a file or another resource.
pub const PIRN_ERROR_SYSTEM: pirn_error_kind_t = 17;
/// A function that panicked changed the handle, or an earlier error spent the handle. The handle
/// can only be deleted.
pub const PIRN_ERROR_POISONED: pirn_error_kind_t = 18;
/// A component broke a rule of the canonical ABI, such as a string outside of its memory.
pub const PIRN_ERROR_ABI: pirn_error_kind_t = 19;

/// The reason for which a function failed. Immutable; any threads may read an error at the same
/// time. The texts and frames of an error are valid until the error is deleted.
pub struct pirn_error_t {
    kind: pirn_error_kind_t,
    pub(crate) cause: Cause,
    /// The number that the embedder gave to pirn_error_new.
    user: u64,
    message: OnceLock<CString>,
    report: OnceLock<CString>,
    frames: OnceLock<Vec<frames::FrameTexts>>,
}

/// A result of the library's own functions.
pub(crate) type Fallible<T> = Result<T, Box<pirn_error_t>>;

impl pirn_error_t {
    #[cold]
    pub(crate) fn new(kind: pirn_error_kind_t, cause: Cause) -> Box<Self> {
        Box::new(Self {
            kind,
            cause,
            user: 0,
            message: OnceLock::new(),
            report: OnceLock::new(),
            frames: OnceLock::new(),
        })
    }

    #[cold]
    pub(crate) fn text(kind: pirn_error_kind_t, text: impl Into<String>) -> Box<Self> {
        Self::new(kind, Cause::Text(text.into()))
    }

    /// An error of the embedder's, with a number of the embedder's.
    pub(crate) fn of_embedder(text: &str, user: u64) -> Box<Self> {
        let mut error = Self::text(PIRN_ERROR_HOST, text);
        error.user = user;
        error
    }

    /// The error with which a host function ends the guest's call.
    #[expect(
        clippy::boxed_local,
        reason = "errors are boxed, and this one stays so"
    )]
    pub(crate) fn into_host_error(self: Box<Self>) -> HostError {
        match *self {
            // The runtime adds the backtrace.
            Self {
                cause: Cause::Trap(trap),
                ..
            } => trap.into(),
            // The runtime recognises the error of a nested call.
            Self {
                cause: Cause::Call(error),
                ..
            } => error.into(),
            other => Failure(Box::new(other)).into(),
        }
    }
}

impl fmt::Debug for pirn_error_t {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pirn_error_t({}: {})", self.kind, self.cause)
    }
}

/// The error of an invalid argument.
#[cold]
pub(crate) fn argument(text: impl Into<String>) -> Box<pirn_error_t> {
    pirn_error_t::text(PIRN_ERROR_ARGUMENT, text)
}

/// The error of a panic.
#[cold]
pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Box<pirn_error_t> {
    let text = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "without a message".to_owned(),
    };
    // The drop of an unknown payload may panic again.
    if payload.is::<&str>() || payload.is::<String>() {
        drop(payload);
    } else {
        core::mem::forget(payload);
    }
    let text = text::plain(&text);
    pirn_error_t::text(
        PIRN_ERROR_PANIC,
        format!("the library panicked: {text}; report this, and delete the handle"),
    )
}

impl From<CallError> for Box<pirn_error_t> {
    #[cold]
    fn from(error: CallError) -> Self {
        if Exit::of(&error).is_some() {
            return pirn_error_t::new(PIRN_ERROR_EXIT, Cause::Call(error));
        }
        let kind = match &error {
            CallError::Trap(_) => PIRN_ERROR_TRAP,
            CallError::Exception(_) => PIRN_ERROR_EXCEPTION,
            CallError::Panic(_) => PIRN_ERROR_PANIC,
            CallError::Killed(_) => PIRN_ERROR_KILLED,
            CallError::Deadline(_) => PIRN_ERROR_DEADLINE,
            CallError::CpuBudget(_) => PIRN_ERROR_CPU_BUDGET,
            CallError::State(_) => PIRN_ERROR_STATE,
            CallError::Invalid(_) => PIRN_ERROR_ARGUMENT,
            CallError::Lookup(_) => PIRN_ERROR_LINK,
            CallError::System(_) => PIRN_ERROR_SYSTEM,
            CallError::Host(error) if error.downcast_ref::<AbiError>().is_some() => PIRN_ERROR_ABI,
            _ => PIRN_ERROR_HOST,
        };
        match error {
            CallError::Host(error) => match error.downcast::<Failure>() {
                // The error that the embedder's host function returned.
                Ok(Failure(error)) => error,
                Err(error) => pirn_error_t::new(kind, Cause::Call(CallError::Host(error))),
            },
            other => pirn_error_t::new(kind, Cause::Call(other)),
        }
    }
}

/// The error of an access to a guest's memory.
impl From<Trap> for Box<pirn_error_t> {
    #[cold]
    fn from(trap: Trap) -> Self {
        pirn_error_t::new(PIRN_ERROR_TRAP, Cause::Trap(trap))
    }
}

/// Errors that become texts of one kind, or of another kind for some variants. An error within one
/// of the listed variants keeps its own kind.
macro_rules! by_text {
    ($($error:ty $([$($inner:path),*])? => $kind:expr $(, $variant:pat => $other:expr)*;)*) => {$(
        impl From<$error> for Box<pirn_error_t> {
            #[cold]
            fn from(error: $error) -> Self {
                let kind = match error {
                    $($($inner(error) => return error.into(),)*)?
                    $($variant => $other,)*
                    _ => $kind,
                };
                pirn_error_t::text(kind, error.to_string())
            }
        }
    )*};
}

by_text! {
    ComponentError [ComponentError::Core] => PIRN_ERROR_ARGUMENT,
        ComponentError::Abi(_) => PIRN_ERROR_ABI,
        ComponentError::Failed => PIRN_ERROR_STATE;
    InstantiateError [InstantiateError::Start] => PIRN_ERROR_SYSTEM,
        InstantiateError::Full { .. } | InstantiateError::Timeout { .. } => PIRN_ERROR_FULL;
    GroupError [GroupError::Link, GroupError::Instantiate] => PIRN_ERROR_ARGUMENT,
        GroupError::State(_) => PIRN_ERROR_STATE;
    OpenError => PIRN_ERROR_OPEN;
    LinkError => PIRN_ERROR_LINK;
    pirn_component::LinkError => PIRN_ERROR_LINK;
    RegionError => PIRN_ERROR_REGION;
    SnapshotError => PIRN_ERROR_SNAPSHOT;
    KillError => PIRN_ERROR_STATE;
    Poisoned => PIRN_ERROR_POISONED;
    std::io::Error => PIRN_ERROR_SYSTEM;
    NoMember => PIRN_ERROR_ARGUMENT;
    FuelError => PIRN_ERROR_ARGUMENT,
        FuelError::State(_) => PIRN_ERROR_STATE;
    SetGlobalError => PIRN_ERROR_ARGUMENT,
        SetGlobalError::State(_) => PIRN_ERROR_STATE,
        SetGlobalError::NoExport { .. } => PIRN_ERROR_LINK;
    TableError => PIRN_ERROR_ARGUMENT,
        TableError::State(_) => PIRN_ERROR_STATE,
        TableError::NoExport { .. } => PIRN_ERROR_LINK;
    SharedMemoryError => PIRN_ERROR_ARGUMENT,
        SharedMemoryError::System(_) => PIRN_ERROR_SYSTEM;
}

/// The trap code whose number is `code`.
pub(crate) fn trap_code(code: u32) -> Option<TrapCode> {
    TrapCode::ALL
        .into_iter()
        .find(|found| *found as u32 == code)
}

/// The error of fuel that a module does not count.
#[cold]
pub(crate) fn not_counted() -> Box<pirn_error_t> {
    FuelError::NotCounted.into()
}
