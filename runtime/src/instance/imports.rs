//! [`Imports`]: what a module's imports were resolved to.

use crate::error::LinkError;
use crate::host::func::HostEntry;
use crate::host::linker::{Item, Linker};
use crate::value::{Cell, ForeignRef, Stamp};
use core::fmt::Display;
use pirn_format::layout::FuncImport;
use pirn_format::metadata::{Import, Metadata};
use pirn_format::types::{ExternType, GlobalType};

/// What a module's imports were resolved to, kind by kind, in order.
#[derive(Debug)]
pub(crate) struct Imports {
    /// Functions of other instances; `None` for the host's.
    pub(crate) funcs: Vec<Option<FuncImport>>,
    /// Globals.
    pub(crate) globals: Vec<GlobalImport>,
    /// Addresses of the owners' table descriptors.
    pub(crate) tables: Vec<u64>,
    /// Addresses of the owners' memory descriptors.
    pub(crate) memories: Vec<u64>,
}

/// An imported global.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GlobalImport {
    /// Immutable: its value.
    Value(Cell),
    /// Mutable: the address of the owner's cell.
    At(u64),
}

/// The host functions of a module by function import index; `None` where another instance's function
/// was imported.
pub(crate) type Hosts<T> = Box<[Option<HostEntry<T>>]>;

impl Imports {
    /// Imports of nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            funcs: vec![],
            globals: vec![],
            tables: vec![],
            memories: vec![],
        }
    }

    /// Resolves all imports of a module against a linker.
    ///
    /// # Errors
    ///
    /// [`LinkError::Missing`] and [`LinkError::Mismatch`].
    pub(crate) fn resolve<T>(
        metadata: &Metadata,
        linker: &Linker<T>,
    ) -> Result<(Self, Hosts<T>), LinkError> {
        let (mut imports, mut hosts) = (Self::new(), vec![]);
        for import in &metadata.imports {
            let item = linker
                .get(&import.module, &import.name)
                .ok_or_else(|| missing(metadata, import))?;
            imports.host(metadata, import, item, &mut hosts)?;
        }
        Ok((imports, hosts.into_boxed_slice()))
    }

    /// Resolves one import to what a linker offers.
    ///
    /// # Errors
    ///
    /// [`LinkError::Mismatch`].
    pub(crate) fn host<T>(
        &mut self,
        metadata: &Metadata,
        import: &Import,
        item: &Item<T>,
        hosts: &mut Vec<Option<HostEntry<T>>>,
    ) -> Result<(), LinkError> {
        match (&import.ty, item) {
            (ExternType::Func(ty), Item::Func(func)) if metadata.types[*ty as usize] == func.ty => {
                self.funcs.push(None);
                hosts.push(Some(func.entry.clone()));
            }
            (
                ExternType::Global(GlobalType {
                    content,
                    mutable: false,
                }),
                Item::Global(value),
            ) if *content == value.ty() => {
                let cell = Cell::from_value(*value, Stamp(0)).map_err(|ForeignRef| {
                    LinkError::Foreign {
                        import: full_name(import),
                    }
                })?;
                self.globals.push(GlobalImport::Value(cell));
            }
            (_, Item::Func(func)) => {
                let found = format!("a function {}", func.ty);
                let remedy = "define the function with that type";
                return Err(mismatch(metadata, import, found, remedy));
            }
            (_, Item::Global(value)) => {
                let found = format!("a global {}", value.ty());
                let remedy = "a linker offers functions and immutable globals; see `Group`";
                return Err(mismatch(metadata, import, found, remedy));
            }
        }
        Ok(())
    }
}

/// What an import must be, in words.
pub(crate) fn describe(metadata: &Metadata, ty: &ExternType) -> String {
    match ty {
        ExternType::Func(ty) => format!("a function {}", metadata.types[*ty as usize]),
        ExternType::Table(ty) => format!("a table {ty}"),
        ExternType::Memory(ty) => format!("a memory of {ty}"),
        ExternType::Global(ty) => format!("a global {ty}"),
    }
}

/// Module and name of an import.
pub(crate) fn full_name(import: &Import) -> String {
    format!("{}.{}", import.module, import.name)
}

/// Nobody offers an import.
pub(crate) fn missing(metadata: &Metadata, import: &Import) -> LinkError {
    LinkError::Missing {
        import: full_name(import),
        wanted: describe(metadata, &import.ty),
    }
}

/// What is offered is something else.
pub(crate) fn mismatch(
    metadata: &Metadata,
    import: &Import,
    found: impl Display,
    remedy: &'static str,
) -> LinkError {
    LinkError::Mismatch {
        import: full_name(import),
        found: found.to_string(),
        wanted: describe(metadata, &import.ty),
        remedy,
    }
}
