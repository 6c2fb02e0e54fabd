//! How the imports of a module are resolved to items of a [`Linker`].

use super::items::{Item, Linker};
use crate::call::HostState;
use crate::error::LinkError;
use crate::memory::SharedMemory;
use crate::module::Module;
use crate::region::Region;
use crate::store::host_func::Hosts;
use crate::store::imports::{GlobalImport, Imports, interface_memory};
use crate::store::preparation::Preparation;
use crate::value::{Cell, ForeignRef, InstanceId};
use core::fmt::Display;
use pirn_format::metadata::{Import, Metadata};
use pirn_format::text;
use pirn_format::types::{AddrType, ExternType, GlobalType, MemoryType};

/// The module name of the imports that `pirn-component` provides to the code of a component.
const COMPONENT: &str = "component";

impl<T, Q, A> Preparation<HostState<T, Q, A>> {
    /// Prepares a module whose imports the linker provides.
    pub(crate) fn new(
        module: &Module,
        region: &Region,
        linker: &Linker<T, Q, A>,
    ) -> Result<Self, LinkError> {
        let (imports, hosts) = Imports::resolve(module.metadata(), linker)?;
        let limiter = linker.limiter.clone();
        Self::linked(module, region, imports, hosts, limiter)
    }
}

/// The resolved imports, together with the host functions among them.
pub(crate) type Resolved<S> = (Imports, Hosts<S>);

impl Imports {
    /// Resolves all imports of a module against a linker.
    ///
    /// # Errors
    ///
    /// As [`host`](Self::host).
    pub(crate) fn resolve<T, Q, A>(
        metadata: &Metadata,
        linker: &Linker<T, Q, A>,
    ) -> Result<Resolved<HostState<T, Q, A>>, LinkError> {
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
    /// and the interface memory is a 64-bit memory; [`LinkError::Foreign`] if a global is a
    /// reference of an instance.
    pub(crate) fn host<T, Q, A>(
        &mut self,
        metadata: &Metadata,
        import: &Import,
        linker: &Linker<T, Q, A>,
        hosts: &mut Hosts<HostState<T, Q, A>>,
    ) -> Result<(), LinkError> {
        let item = linker
            .get(&import.module, &import.name)
            .ok_or_else(|| missing(metadata, import))?;
        // Few interfaces are narrow, and the memory is looked up among all exports.
        if linker.is_narrow(&import.module)
            && let Some(memory) = metadata.memories.get(interface_memory(metadata) as usize)
            && memory.address != AddrType::I32
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
                let cell = Cell::from_value(*value, InstanceId(0)).map_err(|ForeignRef| {
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
/// [`LinkError::Mismatch`] if the memory has another type.
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

/// Module and name of an import, for a message of one line: the module chose both.
pub(crate) fn full_name(import: &Import) -> String {
    let name = format!("{}.{}", import.module, import.name);
    text::plain(&name).to_string()
}

/// The error for an import that no item provides.
pub(crate) fn missing(metadata: &Metadata, import: &Import) -> LinkError {
    let wanted = full_name(import);
    if metadata.component.is_some() && import.module == COMPONENT {
        return LinkError::Component { import: wanted };
    }
    LinkError::Missing {
        import: wanted,
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
