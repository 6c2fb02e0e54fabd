//! [`Imports`]: the resolved imports of a module.
//!
//! # Safety
//!
//! This file owns one fact. [`Hosts`] has an entry for each imported function. The entry points to
//! a function that [`Hosts`] keeps alive.
#![allow(unsafe_code)]

use super::{exit, usage};
use crate::error::LinkError;
use crate::host::Store;
use crate::host::func::HostFunc;
use crate::host::linker::{Item, Linker};
use crate::memory::{SharedImports, SharedMemory};
use crate::switch::HostEntry;
use crate::value::{Cell, ForeignRef, Stamp};
use core::fmt::Display;
use pirn_format::metadata::{ExportItem, Import, Metadata};
use pirn_format::types::{AddrType, ExternType, GlobalType, MemoryType};
use std::sync::{Arc, OnceLock};

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

/// The host functions that a module imports.
#[derive(Debug)]
pub(crate) struct Hosts<T> {
    /// Entries by the index of the imported function. An entry reports an error if the function
    /// comes from another instance.
    entries: Vec<HostEntry>,
    /// The functions that the entries point to.
    funcs: Vec<Arc<HostFunc<T>>>,
    /// Entries that count each call and point to `entries`. They exist once an instance is
    /// measured.
    counting: OnceLock<Box<[HostEntry]>>,
}

// SAFETY: each entry points to a function in `funcs`, or contains no pointer but that to code.
unsafe impl<T> Send for Hosts<T> {}
// SAFETY: each entry points to a function in `funcs`, or contains no pointer but that to code.
unsafe impl<T> Sync for Hosts<T> {}

impl<T> Hosts<T> {
    /// The host functions of a module of which no import is resolved yet.
    pub(crate) fn new() -> Self {
        Self {
            entries: vec![],
            funcs: vec![],
            counting: OnceLock::new(),
        }
    }

    /// Adds a function of the host as the next import.
    fn push(&mut self, func: &Arc<HostFunc<T>>) {
        self.entries.push(func.entry());
        self.funcs.push(Arc::clone(func));
    }

    /// Adds a function of another instance as the next import.
    pub(crate) fn skip(&mut self) {
        self.entries.push(exit::not_of_the_host::<T>());
    }

    /// Entries that count each call. They are valid as long as `self`. All imports must have been
    /// added.
    pub(crate) fn counting_entries(&self) -> *const HostEntry {
        let counting = self.counting.get_or_init(|| {
            let entries = self.entries.iter();
            entries.map(usage::counting).collect()
        });
        counting.as_ptr()
    }

    /// The entries. They are valid as long as `self`.
    pub(crate) fn entries(&self) -> *const HostEntry {
        self.entries.as_ptr()
    }
}

/// The resolved imports, together with the host functions among them.
pub(crate) type Resolved<S> = (Imports, Hosts<S>);

impl Imports {
    /// The imports of a module of which no import is resolved yet.
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

    /// Resolves all imports of a module against a linker.
    ///
    /// # Errors
    ///
    /// As [`host`](Self::host).
    pub(crate) fn resolve<T, Q, A>(
        metadata: &Metadata,
        linker: &Linker<T, Q, A>,
    ) -> Result<Resolved<Store<T, Q, A>>, LinkError> {
        let (mut imports, mut hosts) = (Self::new(), Hosts::new());
        for import in &metadata.imports {
            imports.host(metadata, import, linker, &mut hosts)?;
        }
        Ok((imports, hosts))
    }

    /// Resolves one import to an item of the linker.
    ///
    /// # Errors
    ///
    /// [`LinkError::Missing`] if the linker has no such item; [`LinkError::Mismatch`] if the item
    /// has another type; [`LinkError::Addresses`] if the host module only supports 32-bit memories
    /// and the interface memory is another; [`LinkError::Foreign`] if a global is a reference of an
    /// instance.
    pub(crate) fn host<T, Q, A>(
        &mut self,
        metadata: &Metadata,
        import: &Import,
        linker: &Linker<T, Q, A>,
        hosts: &mut Hosts<Store<T, Q, A>>,
    ) -> Result<(), LinkError> {
        let item = linker
            .get(&import.module, &import.name)
            .ok_or_else(|| missing(metadata, import))?;
        let memory = metadata.memories.get(interface_memory(metadata) as usize);
        if let Some(memory) = memory
            && memory.address != AddrType::I32
            && linker.is_narrow(&import.module)
        {
            return Err(LinkError::Addresses {
                import: full_name(import),
                memory: memory.to_string(),
            });
        }
        match (&import.ty, item) {
            (ExternType::Func(ty), Item::Func(func)) if *metadata.func_type(*ty) == func.ty => {
                self.funcs.push(None);
                hosts.push(func);
            }
            (
                ExternType::Global(GlobalType {
                    content,
                    mutable: false,
                }),
                Item::Global(value),
            ) if value.fits(*content) => {
                let cell = Cell::from_value(*value, Stamp(0)).map_err(|ForeignRef| {
                    LinkError::Foreign {
                        import: full_name(import),
                    }
                })?;
                self.globals.push(GlobalImport::Value(cell));
            }
            (_, Item::Memory(memory)) => {
                check_memory(metadata, import, memory)?;
                self.memories.push(memory.desc() as u64);
                self.shared.push(Some(memory));
            }
            (_, Item::Func(func)) => {
                let found = format!("a function {}", func.ty);
                let remedy = "define the function with that type";
                return Err(mismatch(metadata, import, found, remedy));
            }
            (_, Item::Global(value)) => {
                let found = format!("a global {}", value.ty());
                let remedy =
                    "a linker offers functions, immutable globals and shared memories; see `Group`";
                return Err(mismatch(metadata, import, found, remedy));
            }
        }
        Ok(())
    }
}

/// Checks that a shared memory has the type of an import.
///
/// # Errors
///
/// [`LinkError::Mismatch`] if it does not.
pub(crate) fn check_memory(
    metadata: &Metadata,
    import: &Import,
    memory: &SharedMemory,
) -> Result<(), LinkError> {
    let (ty, bytes) = (memory.ty(), memory.bytes());
    match &import.ty {
        ExternType::Memory(wanted) if memory_matches(&ty, bytes, wanted) => Ok(()),
        _ => {
            let found = describe(metadata, &ExternType::Memory(memory_now(ty, bytes)));
            let remedy = "make the memory with that type";
            Err(mismatch(metadata, import, found, remedy))
        }
    }
}

/// Import matching of memories (spec 4.5.1): all properties must be equal, except for the limits.
pub(crate) fn memory_matches(found: &MemoryType, bytes: u64, wanted: &MemoryType) -> bool {
    let kind = |ty: &MemoryType| (ty.address, ty.page, ty.shared);
    let now = bytes / found.page.bytes();
    kind(found) == kind(wanted) && limits_fit(now, found.max, wanted.min, wanted.max)
}

/// The type of a memory with its current size as the minimum.
pub(crate) fn memory_now(ty: MemoryType, bytes: u64) -> MemoryType {
    let min = bytes / ty.page.bytes();
    MemoryType { min, ..ty }
}

/// Import matching of limits (spec 4.5.1): the current size is at least the minimum, and the
/// maximum is not larger.
pub(crate) fn limits_fit(now: u64, found_max: Option<u64>, min: u64, max: Option<u64>) -> bool {
    let max_fits = max.is_none_or(|max| found_max.is_some_and(|found| found <= max));
    now >= min && max_fits
}

/// Describes a type in words.
pub(crate) fn describe(metadata: &Metadata, ty: &ExternType) -> String {
    match ty {
        ExternType::Func(ty) => format!("a function {}", metadata.func_type(*ty)),
        ExternType::Table(ty) => format!("a table {ty}"),
        ExternType::Memory(ty) => format!("a memory of {ty}"),
        ExternType::Global(ty) => format!("a global {ty}"),
        ExternType::Tag(ty) => format!("a tag {}", metadata.func_type(*ty)),
    }
}

/// Module and name of an import.
pub(crate) fn full_name(import: &Import) -> String {
    format!("{}.{}", import.module, import.name)
}

/// The error for an import that nothing provides.
pub(crate) fn missing(metadata: &Metadata, import: &Import) -> LinkError {
    LinkError::Missing {
        import: full_name(import),
        wanted: describe(metadata, &import.ty),
    }
}

/// The error for an import whose item has another type.
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
