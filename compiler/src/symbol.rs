//! [`Symbol`]: the names of functions in a module before linking.

use cranelift_codegen::ir::UserExternalName;
use pirn_format::exit::{Builtin, TrapCode};
use pirn_format::metadata::Metadata;
use pirn_format::text;
use pirn_format::traps::CodeKind;

/// The target of a direct call or address in generated code. Every function and dispatch table of
/// the text has a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Symbol {
    /// The body of a defined function, by function index.
    Func(u32),
    /// The trampoline to the host of imported functions of a type, by type index.
    Import(u32),
    /// The trampoline of a builtin.
    Builtin(Builtin),
    /// The stub that exits with a trap: `stub(vmctx)`, never returns.
    Trap(TrapCode),
    /// The trampoline by which the host calls functions of a type, by type index.
    Entry(u32),
    /// The stub that exits with the trap for an entry of a dispatch table without the expected
    /// type: `stub(vmctx, found)`, never returns.
    Mistyped,
    /// The dispatch table of a known table, by table index. The table is data, not code.
    Table(u32),
}

const FUNC: u32 = 0;
const BUILTIN: u32 = 1;
const TRAP: u32 = 2;
const ENTRY: u32 = 3;
const MISTYPED: u32 = 4;
const TABLE: u32 = 5;
const IMPORT: u32 = 6;

impl Symbol {
    /// The name in Cranelift's form.
    pub(crate) fn name(self) -> UserExternalName {
        let (namespace, index) = match self {
            Self::Func(index) => (FUNC, index),
            Self::Import(ty) => (IMPORT, ty),
            Self::Builtin(builtin) => (BUILTIN, builtin as u32),
            Self::Trap(code) => (TRAP, code as u32),
            Self::Entry(ty) => (ENTRY, ty),
            Self::Mistyped => (MISTYPED, 0),
            Self::Table(index) => (TABLE, index),
        };
        UserExternalName { namespace, index }
    }

    /// The symbol of a name that [`Symbol::name`] returned.
    pub(crate) fn from_name(name: &UserExternalName) -> Option<Self> {
        Some(match name.namespace {
            FUNC => Self::Func(name.index),
            BUILTIN => Self::Builtin(Builtin::from_number(name.index)?),
            TRAP => Self::Trap(TrapCode::from_number(name.index)?),
            ENTRY => Self::Entry(name.index),
            MISTYPED => Self::Mistyped,
            TABLE => Self::Table(name.index),
            IMPORT => Self::Import(name.index),
            _ => return None,
        })
    }

    /// The symbol's kind in the code table.
    pub(crate) fn kind(self) -> CodeKind {
        match self {
            Self::Import(ty) => CodeKind::Import(ty),
            Self::Func(index) => CodeKind::Func(index),
            Self::Builtin(builtin) => CodeKind::Builtin(builtin as u32),
            Self::Trap(code) => CodeKind::Trap(code as u32),
            Self::Entry(ty) => CodeKind::Entry(ty),
            Self::Mistyped => CodeKind::Trap(TrapCode::IndirectCallTypeMismatch as u32),
            Self::Table(_) => unreachable!("a dispatch table is not code"),
        }
    }

    /// Describes the function in messages and listings.
    pub(crate) fn describe(self, metadata: &Metadata) -> String {
        match self {
            Self::Func(index) => match metadata.func_name(index) {
                Some(name) => format!("{index} ({})", text::plain(name)),
                None => index.to_string(),
            },
            Self::Import(ty) => format!("trampoline of imports of type {ty}"),
            Self::Entry(ty) => format!("trampoline of type {ty}"),
            Self::Builtin(builtin) => format!("trampoline of {}", builtin.name()),
            Self::Trap(code) => format!("stub of trap \"{code}\""),
            Self::Mistyped => "stub of traps in calls by a table".to_owned(),
            Self::Table(index) => format!("table {index}"),
        }
    }
}
