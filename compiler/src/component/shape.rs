//! [`Scope`]: the index spaces of a component or of a type, with the size of each item.
//!
//! The size of an item is the number of nodes of its type, unfolded to a tree: a type that is named
//! twice counts twice. The validator and the library that reads components walk over such trees, so
//! a few bytes of nested types may take seconds.

use std::collections::HashMap;
use std::rc::Rc;
use wasmparser::{
    ComponentDefinedType, ComponentExternalKind, ComponentFuncType, ComponentTypeRef,
    ComponentValType, TypeBounds,
};

/// Bytes that a name takes besides its letters.
pub(super) const NAME_BYTES: usize = 16;

/// Bytes of names that count as one node. Each copy of a type repeats the names in the type.
pub(super) const NODE_BYTES: u64 = 8;

/// The size of a type or of an item.
#[derive(Clone)]
pub(super) enum Shape<'a> {
    /// An item without exports, with its number of nodes.
    Leaf(u64),
    Module(Module),
    Instance(Rc<Exports<'a>>),
    Component(Rc<Component<'a>>),
}

/// A core module, or a core module type.
#[derive(Clone, Copy)]
pub(super) struct Module {
    /// Imports and exports, with their names.
    pub(super) nodes: u64,
    /// Bytes of the core module; 0 for a type.
    pub(super) bytes: u64,
}

/// The exports of an instance or of a component.
#[derive(Default)]
pub(super) struct Exports<'a> {
    /// Nodes of the items' types, without the names of the items.
    nodes: u64,
    /// Items, including items in instances.
    within: u64,
    /// Components and core modules in the items, plus their captures.
    captured: u64,
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
        if let Shape::Instance(exports) = &shape {
            // `path_bytes` counts the names of the items in the instance.
            nodes = exports.nodes.saturating_add(1);
            longest = longest.saturating_add(exports.path_bytes_max);
            self.path_bytes = self.path_bytes.saturating_add(exports.path_bytes);
        }
        self.nodes = self.nodes.saturating_add(nodes);
        self.within = self.within.saturating_add(items);
        self.captured = self.captured.saturating_add(shape.captured());
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

    /// Levels of instances and components: 1 if the items have none.
    pub(super) fn depth(&self) -> u64 {
        self.depth + 1
    }
}

/// A component.
pub(super) struct Component<'a> {
    /// Nodes of the imports.
    pub(super) import_nodes: u64,
    pub(super) exports: Rc<Exports<'a>>,
    /// Components and core modules that the component captures from outside, plus their captures.
    pub(super) captured: u64,
    /// Instances of components and core modules in one instance of the component.
    pub(super) instances: u64,
    /// Functions that are lifted or lowered in one instance of the component.
    pub(super) functions: u64,
    /// Units of work of one instance of the component.
    pub(super) work: u64,
}

impl<'a> Shape<'a> {
    pub(super) fn nodes(&self) -> u64 {
        match self {
            Self::Leaf(nodes) => *nodes,
            Self::Module(module) => module.nodes,
            Self::Instance(exports) => exports.nodes(),
            Self::Component(component) => component
                .import_nodes
                .saturating_add(component.exports.nodes()),
        }
        .max(1)
    }

    /// Number of items: the item itself and, for an instance, the items in it.
    pub(super) fn items(&self) -> u64 {
        match self {
            Self::Instance(exports) => exports.within.saturating_add(1),
            _ => 1,
        }
    }

    /// Components and core modules that a copy of the item contains. The library copies the
    /// captures of a component with the component.
    pub(super) fn captured(&self) -> u64 {
        match self {
            Self::Leaf(_) => 0,
            Self::Module(_) => 1,
            Self::Instance(exports) => exports.captured,
            Self::Component(component) => component.captured.saturating_add(1),
        }
    }

    /// Levels of instances and components.
    pub(super) fn depth(&self) -> u64 {
        match self {
            Self::Leaf(_) | Self::Module(_) => 0,
            Self::Instance(exports) => exports.depth(),
            Self::Component(component) => component.exports.depth(),
        }
    }

    fn has_module(&self) -> bool {
        match self {
            Self::Leaf(_) | Self::Component(_) => false,
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
        while let Self::Instance(exports) = shape
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
            _ => UNKNOWN,
        }
    }
}

/// The size of an item that does not exist. The validator refuses the component later.
pub(super) const UNKNOWN: Shape<'static> = Shape::Leaf(1);

/// The index spaces of a component, of a component type or of an instance type.
#[derive(Default)]
pub(super) struct Scope<'a> {
    core_types: Vec<Shape<'a>>,
    /// The index spaces by [`ComponentExternalKind`].
    spaces: [Vec<Shape<'a>>; 6],
    pub(super) import_nodes: u64,
    /// Levels of the deepest import.
    pub(super) import_depth: u64,
    /// Bytes of the longest path of an import.
    pub(super) import_path_bytes_max: u64,
    pub(super) exports: Exports<'a>,
    pub(super) captured: u64,
    pub(super) instances: u64,
    pub(super) functions: u64,
    pub(super) work: u64,
}

impl<'a> Scope<'a> {
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
        let of = |index| self.get(ComponentExternalKind::Type, index);
        match ty {
            ComponentTypeRef::Module(index) => self.core_type(index),
            ComponentTypeRef::Value(ty) => Shape::Leaf(self.value(ty)),
            ComponentTypeRef::Type(TypeBounds::SubResource) => Shape::Leaf(1),
            ComponentTypeRef::Func(index)
            | ComponentTypeRef::Type(TypeBounds::Eq(index))
            | ComponentTypeRef::Instance(index)
            | ComponentTypeRef::Component(index) => of(index),
        }
    }

    /// The nodes of a type of values.
    fn value(&self, ty: ComponentValType) -> u64 {
        match ty {
            ComponentValType::Primitive(_) => 1,
            ComponentValType::Type(index) => self.get(ComponentExternalKind::Type, index).nodes(),
        }
    }

    fn values(&self, types: impl IntoIterator<Item = ComponentValType>) -> u64 {
        let nodes = types.into_iter().map(|ty| self.value(ty));
        nodes.fold(1, u64::saturating_add)
    }

    fn named(&self, values: &[(&str, ComponentValType)]) -> u64 {
        let names = names(values.iter().map(|(name, _)| *name));
        self.values(values.iter().map(|(_, ty)| *ty))
            .saturating_add(names)
    }

    /// The nodes of a function type.
    pub(super) fn func(&self, ty: &ComponentFuncType<'_>) -> u64 {
        let result = ty.result.map_or(0, |ty| self.value(ty));
        self.named(&ty.params).saturating_add(result)
    }

    /// The nodes of a defined type.
    pub(super) fn defined(&self, ty: &ComponentDefinedType<'_>) -> u64 {
        match ty {
            ComponentDefinedType::Primitive(_)
            | ComponentDefinedType::Own(_)
            | ComponentDefinedType::Borrow(_) => 1,
            ComponentDefinedType::Record(fields) => self.named(fields),
            ComponentDefinedType::Variant(cases) => {
                // A case without a value is a node, too.
                let values = self.values(cases.iter().filter_map(|case| case.ty));
                let names = names(cases.iter().map(|case| case.name));
                values.saturating_add(names + cases.len() as u64)
            }
            ComponentDefinedType::Tuple(types) => self.values(types.iter().copied()),
            ComponentDefinedType::Flags(names) | ComponentDefinedType::Enum(names) => {
                1 + names.len() as u64 + self::names(names.iter().copied())
            }
            ComponentDefinedType::List(ty)
            | ComponentDefinedType::FixedLengthList(ty, _)
            | ComponentDefinedType::Option(ty) => self.values([*ty]),
            ComponentDefinedType::Map(key, value) => self.values([*key, *value]),
            ComponentDefinedType::Result { ok, err } => self.values(ok.iter().chain(err).copied()),
            ComponentDefinedType::Future(ty) | ComponentDefinedType::Stream(ty) => self.values(*ty),
        }
    }
}

/// The nodes of some names.
pub(super) fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> u64 {
    let nodes = names.into_iter().map(|name| name.len() as u64 / NODE_BYTES);
    nodes.sum()
}
