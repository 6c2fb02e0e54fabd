//! The errors of components. Every message is one line.

use pirn_format::component::cut;
use pirn_runtime::HostError;
use thiserror::Error;

/// The result of a step of the canonical ABI.
pub(crate) type AbiResult<T = ()> = Result<T, AbiError>;

/// A rule of the canonical ABI that the guest broke. The call ends with this error, and the
/// instance cannot be called again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AbiError {
    /// A value that exceeds the guest's memory.
    #[error("{what} of {bytes} bytes at {address:#x} exceeds the memory of {memory_bytes} bytes")]
    OutOfBounds {
        /// The kind of value.
        what: &'static str,
        /// The size of the value in bytes.
        bytes: u64,
        /// The address of the value.
        address: u32,
        /// The size of the memory.
        memory_bytes: usize,
    },
    /// An address that is not a multiple of the alignment.
    #[error("{what} at {address:#x} is not aligned to {align} bytes")]
    Unaligned {
        /// The kind of value.
        what: &'static str,
        /// The address of the value.
        address: u32,
        /// The required alignment.
        align: u32,
    },
    /// A string that is not valid in its encoding.
    #[error("a string is not valid {encoding}")]
    String {
        /// The encoding.
        encoding: &'static str,
    },
    /// A number that is no Unicode scalar value.
    #[error("{0:#x} is no Unicode scalar value")]
    Char(u32),
    /// A discriminant without a case.
    #[error("discriminant {found} of a type with {cases} cases")]
    Discriminant {
        /// The discriminant.
        found: u32,
        /// Number of cases.
        cases: usize,
    },
    /// A handle that the component instance does not have.
    #[error("the component instance has no handle {0}")]
    NoHandle(u32),
    /// A handle to a resource of another type.
    #[error("handle {0} refers to a resource of another type")]
    HandleType(u32),
    /// A borrowed handle where an owned handle is needed.
    #[error("handle {0} is borrowed, and an owned one is needed")]
    NotOwned(u32),
    /// A resource that the host gave twice.
    #[error("the host gives resource {0} and does not own it any more")]
    NotOwnedByHost(u32),
    /// An owned handle that is lent to a running call.
    #[error("handle {0} is lent to a call that has not returned")]
    Lent(u32),
    /// Borrowed handles that a call had not dropped when it returned.
    #[error("a call returned without dropping {0} borrowed handles")]
    BorrowsLeft(u32),
    /// More handles, or more lent handles, than a component may have.
    #[error("more than {0} handles in a component; drop some")]
    Handles(u32),
    /// A call of an import in the guest's allocator or in its `post-return` function. These may not
    /// leave the component instance.
    #[error("an import is called while the component instance may not be left")]
    CannotLeave,
    /// The host refuses to keep more memory for the guest.
    #[error(
        "guest needs {asked} more bytes of the host, which keeps {held} of at most {limit} for it; \
         raise `host_bytes_max`"
    )]
    HostBytes {
        /// Bytes that the host keeps for the guest.
        held: usize,
        /// Bytes that the guest needs in addition.
        asked: usize,
        /// Most bytes that the host keeps for the guest.
        limit: usize,
    },
    /// The guest was stopped, or its time was over, while the host read or wrote its values.
    #[error("the call was stopped while the host read or wrote its values")]
    Stopped,
    /// A rule that the code between two component instances checks. The message names the rule.
    #[error("a call between component instances broke a rule: {0}")]
    Between(&'static str),
}

/// A value of the host that does not have the type of the parameter or result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place} is {found}, its type is {wanted}; give a value of that type")]
pub struct ValueError {
    /// The parameter or result.
    pub place: String,
    /// The kind of value.
    pub found: String,
    /// The type.
    pub wanted: String,
}

/// Why a value cannot be lowered.
#[derive(Debug)]
pub enum RequestError {
    /// The value breaks a rule of the canonical ABI.
    Abi(AbiError),
    /// The value does not have the type of the parameter or result.
    Value(ValueError),
}

impl From<AbiError> for RequestError {
    fn from(error: AbiError) -> Self {
        Self::Abi(error)
    }
}

impl From<RequestError> for HostError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Abi(error) => error.into(),
            RequestError::Value(error) => error.into(),
        }
    }
}

impl RequestError {
    /// Most bytes of a text of the host or of a component in a message.
    pub(crate) const SHOWN_MAX: usize = 100;

    /// The error with the name of the parameter, or of the function that returned the value.
    pub(crate) fn at(mut self, place: &str) -> Self {
        if let Self::Value(error) = &mut self {
            error.place = cut(place.to_owned(), Self::SHOWN_MAX);
        }
        self
    }
}

/// The reason why a component cannot be prepared.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The module was not compiled from a component.
    #[error("the module is no component; compile a component with `aotc`")]
    NoComponent,
    /// A function is defined twice.
    #[error("{0} is already defined; remove one definition")]
    Duplicate(String),
    /// The host lacks an imported function.
    #[error("the component imports {path}, which the linker does not have; define it")]
    MissingFunc {
        /// The names of the function.
        path: String,
    },
    /// The host lacks an imported resource type.
    #[error(
        "the component imports the resource type {path}, which the linker does not have; define it"
    )]
    MissingResource {
        /// The names of the type.
        path: String,
    },
    /// The component exports no such function.
    #[error("the component exports no function {wanted:?}, only {found}; name one of them")]
    NoExport {
        /// The name.
        wanted: String,
        /// The functions that the component exports.
        found: String,
    },
    /// A function has other types than wanted.
    #[error("function {name:?} is {found}, not {wanted}; ask for its types")]
    FuncType {
        /// The function.
        name: String,
        /// The type of the function.
        found: String,
        /// The Rust types.
        wanted: String,
    },
    /// The core module cannot be prepared.
    #[error(transparent)]
    Core(#[from] pirn_runtime::LinkError),
    /// The description of the component is damaged.
    #[error(transparent)]
    Format(#[from] pirn_format::FormatError),
}

/// The reason why a call ended without a result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CallError {
    /// The guest trapped, was stopped, or a host function failed.
    #[error(transparent)]
    Core(pirn_runtime::CallError),
    /// The guest broke a rule of the canonical ABI.
    #[error(transparent)]
    Abi(AbiError),
    /// A parameter has another type than the function.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The function takes another number of parameters.
    #[error("{func} takes {wanted} parameters, not {found}")]
    Parameters {
        /// The function.
        func: String,
        /// Number of parameters of the function.
        wanted: usize,
        /// Number of given values.
        found: usize,
    },
    /// The function was looked up for another preparation.
    #[error("the function was looked up in another preparation; look it up in this one")]
    OtherPreparation,
    /// An earlier call of the instance failed.
    #[error("an earlier call of the instance has failed; make a new instance")]
    Failed,
}

impl From<AbiError> for CallError {
    fn from(error: AbiError) -> Self {
        Self::Abi(error)
    }
}

impl From<RequestError> for CallError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Abi(error) => Self::Abi(error),
            RequestError::Value(error) => Self::Value(error),
        }
    }
}

impl From<pirn_runtime::CallError> for CallError {
    fn from(error: pirn_runtime::CallError) -> Self {
        // An adapter reports a broken rule as an error of a host function.
        if let pirn_runtime::CallError::Host(host) = &error
            && let Some(abi) = host.downcast_ref::<AbiError>()
        {
            return Self::Abi(abi.clone());
        }
        Self::Core(error)
    }
}

/// The error of the runtime, if the call ended with one.
impl<'e> From<&'e CallError> for Option<&'e pirn_runtime::CallError> {
    fn from(error: &'e CallError) -> Self {
        match error {
            CallError::Core(error) => Some(error),
            _ => None,
        }
    }
}

/// Converts an error of this crate to the error that an adapter returns.
pub(crate) fn of_host(error: impl Into<HostError>) -> HostError {
    error.into()
}
