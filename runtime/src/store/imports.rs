//! [`Imports`]: the resolved imports of a module, apart from host functions.

use crate::memory::SharedImports;
use crate::value::Cell;
use pirn_format::metadata::{ExportItem, Metadata};

/// The resolved imports of a module, by kind and in order.
#[derive(Debug)]
pub(crate) struct Imports {
    /// Functions of other instances; `None` for a function of the host.
    pub(crate) funcs: Vec<Option<LinkedFunc>>,
    /// Globals.
    pub(crate) globals: Vec<GlobalImport>,
    /// Addresses of the table descriptors of the owners.
    pub(crate) tables: Vec<u64>,
    /// Addresses of the memory descriptors of the owners.
    pub(crate) memories: Vec<u64>,
    /// The memories that are shared memories of the host.
    pub(crate) shared: SharedImports,
    /// Identities of the tags.
    pub(crate) tags: Vec<u64>,
}

/// Index of the memory that the pointers of interfaces refer to: the export `memory`, or else
/// memory 0.
pub(crate) fn interface_memory(metadata: &Metadata) -> u32 {
    match metadata.export("memory") {
        Some(ExportItem::Memory(index)) => index,
        _ => 0,
    }
}

/// A function of another instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkedFunc {
    /// Address of the function's code.
    pub(crate) code: u64,
    /// First argument of the code.
    pub(crate) vmctx: u64,
    /// The id of the function's type, which may be a subtype of the imported type.
    pub(crate) type_id: u32,
}

/// An imported global.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GlobalImport {
    /// The value of an immutable global.
    Value(Cell),
    /// The address of the owner's cell of a mutable global.
    At(u64),
}

impl Imports {
    /// The imports of a module before any import is resolved.
    pub(crate) fn new() -> Self {
        Self {
            funcs: vec![],
            globals: vec![],
            tables: vec![],
            memories: vec![],
            shared: SharedImports::default(),
            tags: vec![],
        }
    }
}
