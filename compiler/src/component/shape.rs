//! [`Scope`]: the index spaces of a component or of a type, with the size of each item.
//!
//! The size of an item is the number of nodes of its type, unfolded to a tree: a type that is named
//! twice counts twice. The validator and the library that reads components walk over such trees, so
//! a few bytes of nested types may take seconds. Some types are copied with each item that has
//! them, so their nodes count apart: types that contain resources, core modules and components.

use super::price::{CORE_ITEM, STRING_NODES};
use std::collections::HashMap;
use std::rc::Rc;
use wasmparser::{
    ComponentDefinedType, ComponentExternalKind, ComponentFuncType, ComponentTypeRef,
    ComponentValType, PrimitiveValType, TypeBounds,
};

/// Bytes that a name takes besides its letters.
pub(super) const NAME_BYTES: usize = 16;

/// Bytes of names that count as one node. Each copy of a type repeats the names in the type.
pub(super) const NODE_BYTES: u64 = 8;

/// The size of a type or of an item.
#[derive(Clone)]
pub(super) enum Shape<'a> {
    /// An item without exports.
    Leaf(Leaf),
    Module(Module),
    Instance(Rc<Exports<'a>>),
    Component(Rc<Component<'a>>),
    /// An item that the host gives to the outermost component. [`Shape::host`] makes it, so the
    /// inner shape is none of these.
    Host(Rc<Shape<'a>>),
}

/// The size of an item without exports.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) nodes: u64,
    /// Nodes of types that are copied with the item.
    pub(super) copied: u64,
    /// Resource types that the item is or exports.
    pub(super) resources: u64,
}

impl Leaf {
    /// An item without a resource.
    pub(super) const fn of(nodes: u64) -> Self {
        Self {
            nodes,
            copied: 0,
            resources: 0,
        }
    }

    /// A handle of a resource.
    pub(super) const HANDLE: Self = Self {
        nodes: 1,
        copied: 1,
        resources: 0,
    };

    /// A resource type.
    pub(super) const RESOURCE: Self = Self {
        resources: 1,
        ..Self::HANDLE
    };

    /// A type with `own` nodes besides the nodes of its `parts`. A type that contains a resource is
    /// copied as a whole.
    fn with(own: u64, parts: impl IntoIterator<Item = Self>) -> Self {
        let (mut whole, mut count) = (Self::of(own), 0u64);
        for part in parts {
            whole.nodes = whole.nodes.saturating_add(part.nodes);
            whole.copied = whole.copied.saturating_add(part.copied);
            count += 1;
        }
        if whole.copied > 0 {
            whole.copied = whole.copied.saturating_add(own).saturating_add(count);
        }
        whole
    }
}

/// A core module, or a core module type.
#[derive(Clone, Copy, Default)]
pub(super) struct Module {
    /// Imports and exports, with their names.
    pub(super) nodes: u64,
    /// Bytes of the core module; 0 for a type.
    pub(super) bytes: u64,
    /// Items that each instance has; 0 for a type.
    pub(super) items: u64,
}

impl Module {
    /// Units of an instance for what it has again of the module. 0 for a type: they are drawn where
    /// the module is given.
    pub(super) fn again(&self) -> u64 {
        self.bytes
            .saturating_add(self.items.saturating_mul(CORE_ITEM))
    }
}

/// The exports of an instance or of a component.
#[derive(Default)]
pub(super) struct Exports<'a> {
    /// Nodes of the items' types, without the names of the items.
    nodes: u64,
    /// Nodes of types that are copied with the items.
    copied: u64,
    /// Resource types in the items.
    pub(super) resources: u64,
    /// Items, including items in instances.
    within: u64,
    /// Components and core modules in the items, plus their captures.
    captured: u64,
    /// The most units that an instance of a core module in the items takes for its module.
    again: u64,
    /// Levels of instances and components in the items.
    depth: u64,
    /// Bytes of the paths of all items.
    pub(super) path_bytes: u64,
    /// Bytes of the longest path.
    pub(super) path_bytes_max: u64,
    /// An item that is or contains a core module.
    module: Option<&'a str>,
    items: HashMap<&'a str, Shape<'a>>,
}

impl<'a> Exports<'a> {
    pub(super) fn add(&mut self, name: &'a str, shape: Shape<'a>) {
        let items = shape.items();
        let name_bytes = (name.len() + NAME_BYTES) as u64;
        let names = items.saturating_mul(name_bytes);
        let (mut nodes, mut longest) = (shape.nodes(), name_bytes);
        if let Shape::Instance(exports) = shape.inner() {
            // `path_bytes` counts the names of the items in the instance.
            nodes = exports.nodes.saturating_add(1);
            longest = longest.saturating_add(exports.path_bytes_max);
            self.path_bytes = self.path_bytes.saturating_add(exports.path_bytes);
        }
        self.nodes = self.nodes.saturating_add(nodes);
        self.copied = self.copied.saturating_add(shape.copied());
        self.resources = self.resources.saturating_add(shape.resources());
        self.within = self.within.saturating_add(items);
        self.captured = self.captured.saturating_add(shape.captured());
        self.again = self.again.max(shape.again());
        self.depth = self.depth.max(shape.depth());
        self.path_bytes = self.path_bytes.saturating_add(names);
        self.path_bytes_max = self.path_bytes_max.max(longest);
        if shape.has_module() {
            self.module = Some(name);
        }
        self.items.insert(name, shape);
    }

    /// Nodes of the items' types and of their names. An item counts again in each enclosing
    /// instance, because the walks over types keep the item's path.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.saturating_add(self.path_bytes / NODE_BYTES)
    }

    /// Nodes of types that are copied with the instance. If there are any, the list of all items is
    /// copied, too.
    pub(super) fn copied(&self) -> u64 {
        match self.copied {
            0 => 0,
            copied => copied
                .saturating_add(self.within)
                .saturating_add(self.path_bytes / NODE_BYTES),
        }
    }

    /// Levels of instances and components: 1 if the items have none.
    pub(super) fn depth(&self) -> u64 {
        self.depth + 1
    }
}

/// A component.
pub(super) struct Component<'a> {
    /// The imports together.
    pub(super) imports: Leaf,
    pub(super) exports: Rc<Exports<'a>>,
    /// Components and core modules that the component captures from outside, plus their captures.
    pub(super) captured: u64,
    /// Instances of components and core modules in one instance of the component.
    pub(super) instances: u64,
    /// Functions that are lifted or lowered in one instance of the component, and copies of them.
    pub(super) functions: u64,
    /// The adapters in one instance of the component.
    pub(super) adapters: Adapters,
    /// Instances of core modules that the component imports.
    pub(super) given_modules: u64,
    /// Levels of component instances in one instance of the component.
    pub(super) levels: u64,
    /// Units of work of one instance of the component.
    pub(super) work: u64,
}

/// What determines the number of adapters and of their core modules.
#[derive(Clone, Copy, Default)]
pub(super) struct Adapters {
    /// Functions that are lowered, and that the host does not give.
    pub(super) lowered: u64,
    /// Instances of core modules. A new module of adapters begins at most at each.
    pub(super) core_instances: u64,
}

impl Adapters {
    pub(super) fn add(&mut self, other: Self) {
        self.lowered = self.lowered.saturating_add(other.lowered);
        self.core_instances = self.core_instances.saturating_add(other.core_instances);
    }
}

impl<'a> Shape<'a> {
    /// The item, as one that the host gives.
    pub(super) fn host(self) -> Self {
        match self {
            Self::Host(_) => self,
            item => Self::Host(Rc::new(item)),
        }
    }

    /// The item itself, whether the host gives it or not.
    pub(super) fn inner(&self) -> &Self {
        match self {
            Self::Host(item) => item,
            item => item,
        }
    }

    pub(super) fn nodes(&self) -> u64 {
        match self.inner() {
            Self::Leaf(leaf) => leaf.nodes,
            Self::Module(module) => module.nodes,
            Self::Instance(exports) => exports.nodes(),
            Self::Component(component) => component
                .imports
                .nodes
                .saturating_add(component.exports.nodes()),
            Self::Host(_) => 0,
        }
        .max(1)
    }

    /// Nodes of types that are copied with the item.
    pub(super) fn copied(&self) -> u64 {
        match self.inner() {
            Self::Leaf(leaf) => leaf.copied,
            Self::Instance(exports) => exports.copied(),
            Self::Module(_) | Self::Component(_) => self.nodes(),
            Self::Host(_) => 0,
        }
    }

    /// Resource types that the item is or exports.
    pub(super) fn resources(&self) -> u64 {
        match self.inner() {
            Self::Leaf(leaf) => leaf.resources,
            Self::Instance(exports) => exports.resources,
            Self::Module(_) | Self::Component(_) | Self::Host(_) => 0,
        }
    }

    /// The size of the item as a part of a type of values.
    fn leaf(&self) -> Leaf {
        Leaf {
            nodes: self.nodes(),
            copied: self.copied(),
            resources: 0,
        }
    }

    /// Number of items: the item itself and, for an instance, the items in it.
    pub(super) fn items(&self) -> u64 {
        match self.inner() {
            Self::Instance(exports) => exports.within.saturating_add(1),
            _ => 1,
        }
    }

    /// Components and core modules that a copy of the item contains. The library copies the
    /// captures of a component with the component.
    pub(super) fn captured(&self) -> u64 {
        match self.inner() {
            Self::Leaf(_) | Self::Host(_) => 0,
            Self::Module(_) => 1,
            Self::Instance(exports) => exports.captured,
            Self::Component(component) => component.captured.saturating_add(1),
        }
    }

    /// The most units that an instance of a core module in this item takes for its module.
    pub(super) fn again(&self) -> u64 {
        match self.inner() {
            Self::Module(module) => module.again(),
            Self::Instance(exports) => exports.again,
            Self::Leaf(_) | Self::Component(_) | Self::Host(_) => 0,
        }
    }

    /// Levels of instances and components.
    pub(super) fn depth(&self) -> u64 {
        match self.inner() {
            Self::Leaf(_) | Self::Module(_) | Self::Host(_) => 0,
            Self::Instance(exports) => exports.depth(),
            Self::Component(component) => component.exports.depth(),
        }
    }

    fn has_module(&self) -> bool {
        match self.inner() {
            Self::Leaf(_) | Self::Component(_) | Self::Host(_) => false,
            Self::Module(_) => true,
            Self::Instance(exports) => exports.module.is_some(),
        }
    }

    /// The path of a core module in this import, if there is one.
    pub(super) fn module_path(&self, name: &str) -> Option<String> {
        if !self.has_module() {
            return None;
        }
        let mut path = name.to_owned();
        let mut shape = self;
        while let Self::Instance(exports) = shape.inner()
            && let Some(inner) = exports.module
            && let Some(item) = exports.items.get(inner)
        {
            path.push('#');
            path.push_str(inner);
            shape = item;
        }
        Some(path)
    }

    /// The export of an instance with this name.
    pub(super) fn export(&self, name: &str) -> Self {
        match self {
            Self::Instance(exports) => exports.items.get(name).cloned().unwrap_or(UNKNOWN),
            Self::Host(instance) => instance.export(name).host(),
            _ => UNKNOWN,
        }
    }
}

/// The size of an item that does not exist. The validator refuses the component later.
pub(super) const UNKNOWN: Shape<'static> = Shape::Leaf(Leaf::of(1));

/// The index spaces of a component, of a component type or of an instance type.
#[derive(Default)]
pub(super) struct Scope<'a> {
    core_types: Vec<Shape<'a>>,
    /// The index spaces by [`ComponentExternalKind`].
    spaces: [Vec<Shape<'a>>; 6],
    /// Nodes of the imports.
    pub(super) import_nodes: u64,
    /// Nodes of types in the imports that are copied.
    pub(super) import_copied: u64,
    /// Levels of the deepest import.
    pub(super) import_depth: u64,
    /// Bytes of the longest path of an import.
    pub(super) import_path_bytes_max: u64,
    pub(super) exports: Exports<'a>,
    pub(super) captured: u64,
    pub(super) instances: u64,
    pub(super) functions: u64,
    pub(super) adapters: Adapters,
    pub(super) given_modules: u64,
    pub(super) levels: u64,
    /// Resource types that are defined, imported, or exported by instances so far.
    pub(super) resources: u64,
    pub(super) work: u64,
}

impl<'a> Scope<'a> {
    /// The size of the imports.
    pub(super) fn imports(&self) -> Leaf {
        Leaf {
            nodes: self.import_nodes,
            copied: self.import_copied,
            resources: 0,
        }
    }

    /// Counts functions, or copies of functions.
    pub(super) fn copy(&mut self, functions: u64) {
        self.functions = self.functions.saturating_add(functions);
    }

    pub(super) fn push(&mut self, kind: ComponentExternalKind, shape: Shape<'a>) {
        self.spaces[kind as usize].push(shape);
    }

    pub(super) fn get(&self, kind: ComponentExternalKind, index: u32) -> Shape<'a> {
        let found = self.spaces[kind as usize].get(index as usize);
        found.cloned().unwrap_or(UNKNOWN)
    }

    pub(super) fn push_core_type(&mut self, shape: Shape<'a>) {
        self.core_types.push(shape);
    }

    pub(super) fn core_type(&self, index: u32) -> Shape<'a> {
        let found = self.core_types.get(index as usize);
        found.cloned().unwrap_or(UNKNOWN)
    }

    /// The size of an item of this type.
    pub(super) fn of_type(&self, ty: ComponentTypeRef) -> Shape<'a> {
        // The host gives a type, and not the items of this type.
        let of = |index| self.get(ComponentExternalKind::Type, index).inner().clone();
        match ty {
            ComponentTypeRef::Module(index) => self.core_type(index),
            ComponentTypeRef::Value(ty) => Shape::Leaf(self.value(ty)),
            ComponentTypeRef::Type(TypeBounds::SubResource) => Shape::Leaf(Leaf::RESOURCE),
            ComponentTypeRef::Func(index)
            | ComponentTypeRef::Type(TypeBounds::Eq(index))
            | ComponentTypeRef::Instance(index)
            | ComponentTypeRef::Component(index) => of(index),
        }
    }

    /// The size of a type of values.
    fn value(&self, ty: ComponentValType) -> Leaf {
        match ty {
            ComponentValType::Primitive(PrimitiveValType::String) => Leaf::of(STRING_NODES),
            ComponentValType::Primitive(_) => Leaf::of(1),
            ComponentValType::Type(index) => self.get(ComponentExternalKind::Type, index).leaf(),
        }
    }

    /// The size of a type with these types in it, and with `own` nodes of its own.
    fn values(&self, own: u64, types: impl IntoIterator<Item = ComponentValType>) -> Leaf {
        Leaf::with(own, types.into_iter().map(|ty| self.value(ty)))
    }

    /// The size of a function type.
    pub(super) fn func(&self, ty: &ComponentFuncType<'_>) -> Leaf {
        let own = 1 + names(ty.params.iter().map(|(name, _)| *name));
        let params = ty.params.iter().map(|(_, ty)| *ty);
        self.values(own, params.chain(ty.result))
    }

    /// The size of a defined type.
    pub(super) fn defined(&self, ty: &ComponentDefinedType<'_>) -> Leaf {
        match ty {
            ComponentDefinedType::Primitive(ty) => self.value(ComponentValType::Primitive(*ty)),
            ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => Leaf::HANDLE,
            ComponentDefinedType::Record(fields) => {
                let own = 1 + names(fields.iter().map(|(name, _)| *name));
                self.values(own, fields.iter().map(|(_, ty)| *ty))
            }
            ComponentDefinedType::Variant(cases) => {
                // A case without a value is a node, too.
                let names = names(cases.iter().map(|case| case.name));
                let own = 1 + names + cases.len() as u64;
                self.values(own, cases.iter().filter_map(|case| case.ty))
            }
            ComponentDefinedType::Tuple(types) => self.values(1, types.iter().copied()),
            ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => {
                Leaf::of(1 + names.len() as u64 + self::names(names.iter().copied()))
            }
            ComponentDefinedType::List(ty)
            | ComponentDefinedType::FixedLengthList(ty, _)
            | ComponentDefinedType::Option(ty) => self.values(1, [*ty]),
            ComponentDefinedType::Map(key, value) => self.values(1, [*key, *value]),
            ComponentDefinedType::Result { ok, err } => {
                self.values(1, ok.iter().chain(err).copied())
            }
            ComponentDefinedType::Future(ty) | ComponentDefinedType::Stream(ty) => {
                self.values(1, *ty)
            }
        }
    }
}

/// The nodes of some names.
pub(super) fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> u64 {
    let nodes = names.into_iter().map(|name| name.len() as u64 / NODE_BYTES);
    nodes.sum()
}
