//! [`Component`]: a compiled component.

use crate::error::LinkError;
use pirn_format::component::{self as format, DefinedType, Layout, Layouts, ValueType};
use pirn_runtime::Module;
use std::sync::Arc;

/// A compiled component. A clone is a handle to the same component.
#[derive(Debug, Clone)]
pub struct Component {
    module: Module,
    info: Arc<Info>,
}

/// The types, imports and exports of a component.
#[derive(Debug)]
pub struct Info {
    pub(crate) component: format::Component,
    layouts: Layouts,
    /// Whether the core module has at most one memory. All options then mean memory 0.
    one_memory: bool,
    /// For each entry of the canonical options, the core module's export that is its memory.
    memories: Vec<Option<String>>,
}

impl Component {
    /// The component that a module was compiled from.
    ///
    /// # Errors
    ///
    /// [`LinkError::NoComponent`] if the module was compiled from a core module.
    pub fn new(module: &Module) -> Result<Self, LinkError> {
        let component = module.component().ok_or(LinkError::NoComponent)?.clone();
        let layouts = Layouts::of(&component.types)?;
        let options = component.options.iter();
        let memories = options.map(|options| options.memory.map(format::memory_name));
        let info = Info {
            memories: memories.collect(),
            component,
            layouts,
            one_memory: module.memories() <= 1,
        };
        Ok(Self {
            module: module.clone(),
            info: Arc::new(info),
        })
    }

    /// The module that was made of all core modules of the component.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The names and types of the imported functions.
    pub fn imports(&self) -> impl Iterator<Item = (String, &format::FuncType)> {
        let component = &self.info.component;
        let imports = component.imports.iter();
        imports.map(|import| (import.path.join("#"), &component.funcs[import.ty as usize]))
    }

    /// The names and types of the exported functions.
    pub fn exports(&self) -> impl Iterator<Item = (String, &format::FuncType)> {
        let component = &self.info.component;
        let exports = component.exports.iter();
        exports.map(|export| (export.path.join("#"), &component.funcs[export.ty as usize]))
    }

    /// A type as the interface language writes it.
    #[must_use]
    pub fn describe(&self, ty: &format::FuncType) -> String {
        self.info.component.describe_func(ty)
    }

    /// The type with an index, as [`ValueType::Defined`] names it.
    #[must_use]
    pub fn defined_type(&self, index: u32) -> Option<&DefinedType> {
        self.info.component.types.get(index as usize)
    }

    pub(crate) fn info(&self) -> &Arc<Info> {
        &self.info
    }
}

impl Info {
    /// The size, alignment and flattened form of a type.
    #[inline]
    pub(crate) fn layout(&self, ty: ValueType) -> &Layout {
        // All types of an opened component were checked.
        self.layouts.value(ty).expect("the type was checked")
    }

    /// Number of core values that a value is flattened to. 1 for a type with more than 16 core
    /// values.
    pub(crate) fn words(&self, ty: ValueType) -> usize {
        self.layout(ty).flat.map_or(1, |flat| flat.len())
    }

    /// The names of an imported resource type; `None` if the component defines the type.
    pub(crate) fn imported_resource(&self, resource: u32) -> Option<&[String]> {
        let imported = &self.component.imported_resources;
        imported.get(resource as usize).map(Vec::as_slice)
    }

    /// The core module's export that is the memory of a lowered or lifted function. `None` for
    /// memory 0.
    pub(crate) fn memory_export(&self, options: u32) -> Option<&str> {
        let memory = self.memories[options as usize].as_deref();
        memory.filter(|_| !self.one_memory)
    }

    pub(crate) fn defined(&self, index: u32) -> &DefinedType {
        &self.component.types[index as usize]
    }

    /// The table of handles with the number `table`.
    pub(crate) fn table(&self, table: u32) -> format::HandleTable {
        self.component.tables[table as usize].expect("the table was checked")
    }

    /// Whether the component defines a resource type.
    pub(crate) fn defines(&self, resource: u32) -> bool {
        self.defined_resource(resource).is_some()
    }

    /// The index of a resource type among the types that the component defines; `None` for an
    /// imported type.
    pub(crate) fn defined_resource(&self, resource: u32) -> Option<u32> {
        resource.checked_sub(self.component.imported_resources.len() as u32)
    }
}
