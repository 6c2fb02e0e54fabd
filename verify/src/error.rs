//! [`VerifyError`]: why a module is refused.

use core::fmt;
use pirn_format::error::FormatError;
use pirn_format::traps::CodeKind;

/// A property that the verifier proves of each function. A refusal names the unproven property.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Property {
    /// Every reachable byte decodes to an instruction of the verifier's list.
    Instructions,
    /// Every access lies in the guest's memories, tables and globals, in context fields that code
    /// may use, or in the function's constants or frame.
    Accesses,
    /// Every jump and call goes to an instruction of the same function, to the entry of a function,
    /// or to a checked reference.
    Targets,
    /// The stack is touched page by page, and each function returns to its caller with the stack
    /// and the registers that the caller relies on.
    Stack,
    /// Every value that crosses a call, a global or a table has the type that the metadata says.
    Types,
}

impl Property {
    /// All properties.
    pub const ALL: [Self; 5] = [
        Self::Instructions,
        Self::Accesses,
        Self::Targets,
        Self::Stack,
        Self::Types,
    ];

    /// The property's name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Accesses => "accesses",
            Self::Targets => "targets",
            Self::Stack => "stack",
            Self::Types => "types",
        }
    }
}

/// Why a module is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyError {
    /// The file is damaged, or no module of this version.
    Format(FormatError),
    /// The ELF file is not of the shape that the compiler writes, so the dynamic loader may do more
    /// than map the file.
    Container(String),
    /// A property of a function could not be proven.
    Refused(Refusal),
}

/// A property that could not be proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The property.
    pub property: Property,
    /// The kind of code, and its index.
    pub code: CodeKind,
    /// Text offset of the instruction.
    pub offset: u32,
    /// What the verifier found, and what it would accept.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(error) => error.fmt(f),
            Self::Container(what) => {
                write!(
                    f,
                    "the loader may run other code than was proven: {what}; compile it again"
                )
            }
            Self::Refused(refusal) => refusal.fmt(f),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            property,
            code,
            offset,
            message,
        } = self;
        let name = property.name();
        let (code, index) = match code {
            CodeKind::Func(index) => ("function", index),
            CodeKind::Import(index) => ("trampoline of imports of type", index),
            CodeKind::Entry(index) => ("entry trampoline of type", index),
            CodeKind::Builtin(index) => ("trampoline of builtin", index),
            CodeKind::Trap(index) => ("stub of trap", index),
        };
        write!(
            f,
            "{name}: {code} {index}, text offset {offset:#x}: {message}"
        )
    }
}

impl core::error::Error for VerifyError {}

impl From<FormatError> for VerifyError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

/// A refusal without the code and the text offset, which the walk over the function adds.
#[derive(Debug)]
pub(crate) struct Unproven {
    pub(crate) property: Property,
    pub(crate) message: String,
}

/// The result of a step of the proof. The box keeps results small, because they are moved often.
pub(crate) type Proof<T> = Result<T, Box<Unproven>>;

/// A refusal of a property.
#[cold]
pub(crate) fn refuse<T>(property: Property, message: impl Into<String>) -> Proof<T> {
    Err(Box::new(Unproven {
        property,
        message: message.into(),
    }))
}
