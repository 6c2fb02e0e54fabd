//! Limits the cost of a component by its size.
//!
//! A few bytes of a component may cost seconds and gigabytes. Examples are a component that is
//! instantiated many times, nested types, adapters for large types, and instances that export each
//! other. [`check`] draws these costs, time and memory, from the [`Budget`], which follows the
//! bytes of the file, before anything validates or reads the component. `price.rs` has the prices.

use super::items;
use super::join::{unsupported, unsupported_named};
use super::price;
use super::shape::{Component, Exports, Leaf, Module, Scope, Shape, UNKNOWN, names};
use crate::budget::Budget;
use crate::error::CompileError;
use crate::limits::{DEPTH, INSTANCES, REPEATED_BYTES};
use std::collections::HashSet;
use std::rc::Rc;
use wasmparser::{
    CanonicalFunction, ComponentAlias, ComponentExternalKind as Kind, ComponentInstance,
    ComponentOuterAliasKind as Outer, ComponentType, ComponentTypeDeclaration as Declaration,
    ComponentTypeRef, CoreType, Encoding, Instance, InstanceTypeDeclaration, ModuleTypeDeclaration,
    Parser, Payload,
};

/// Draws the cost of validating and reading a component from the budget, before either is done.
/// Also checks the number of instances.
///
/// Refuses components that are imported or exported by an instance, because their size is not
/// known, and core modules that the outermost component imports. `wasm` begins at the byte `offset`
/// of the file.
///
/// # Errors
///
/// [`CompileError::Work`] or [`CompileError::Limit`]; [`CompileError::Component`] for a component
/// of unknown size or an imported core module; [`CompileError::Invalid`] for bytes that cannot be
/// parsed.
pub(super) fn check(wasm: &[u8], offset: u64, budget: &Budget) -> Result<(), CompileError> {
    let mut pass = Pass {
        budget,
        scopes: vec![],
        module: None,
        snapshots: 0,
        named_types: 0,
        levels: 0,
    };
    let mut bytes = 0;
    for payload in Parser::new(offset).parse_all(wasm) {
        match payload? {
            Payload::ModuleSection {
                unchecked_range, ..
            } => bytes = unchecked_range.end - unchecked_range.start,
            Payload::Version { encoding, .. } => match encoding {
                Encoding::Module => {
                    pass.module = Some(Module {
                        nodes: 1,
                        bytes,
                        items: 0,
                    });
                }
                Encoding::Component => pass.scopes.push(Scope::default()),
            },
            Payload::CodeSectionStart { .. } => pass.snapshot()?,
            Payload::End(_) => {
                pass.snapshot()?;
                pass.end()?;
            }
            payload => match &mut pass.module {
                Some(module) => items::count(module, payload)?,
                None => pass.section(payload)?,
            },
        }
    }
    Ok(())
}

struct Pass<'a, 'b> {
    budget: &'b Budget,
    /// The components that are open, and the types within them, innermost last.
    scopes: Vec<Scope<'a>>,
    /// The core module that is open.
    module: Option<Module>,
    /// Snapshots of the validator's types so far.
    snapshots: u64,
    /// Types that an import or export has named so far.
    named_types: u64,
    /// The most levels of component instances in an instance of a component so far.
    levels: u64,
}

impl<'a> Pass<'a, '_> {
    fn scope(&mut self) -> &mut Scope<'a> {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// Draws the cost `once` of validating an item, and the cost `each` of reading the item for
    /// each instance of the enclosing component.
    fn charge(&mut self, once: u64, each: u64) -> Result<(), CompileError> {
        let is_root = self.scopes.len() <= 1;
        let scope = self.scope();
        scope.work = scope.work.saturating_add(each);
        let now = if is_root { each } else { 0 };
        self.budget.draw(once.saturating_add(now))
    }

    /// Draws the cost of a snapshot of the validator's types.
    fn snapshot(&mut self) -> Result<(), CompileError> {
        let snapshot = self.snapshot_units(self.snapshots);
        self.snapshots += 1;
        self.budget.draw(snapshot)
    }

    /// Units of a snapshot after `snapshots` others.
    fn snapshot_units(&self, snapshots: u64) -> u64 {
        let named = self.named_types.saturating_mul(price::NAMED_TYPE);
        named.saturating_add(snapshots.saturating_mul(price::SNAPSHOT))
    }

    /// Ends a core module or a component.
    fn end(&mut self) -> Result<(), CompileError> {
        if let Some(module) = self.module.take() {
            self.scope().push(Kind::Module, Shape::Module(module));
            return self.charge(0, price::DEFINED);
        }
        let scope = self.scope();
        let nodes = scope.import_nodes.saturating_add(scope.exports.nodes());
        self.charge(nodes, 0)?;
        let closed = self.scopes.pop().unwrap_or_default();
        if self.scopes.is_empty() {
            return self.end_outermost(&closed);
        }
        let shape = Shape::Component(Rc::new(Component {
            imports: closed.imports(),
            exports: Rc::new(closed.exports),
            captured: closed.captured,
            instances: closed.instances,
            functions: closed.functions,
            adapters: closed.adapters,
            given_modules: closed.given_modules,
            levels: closed.levels,
            work: closed.work,
        }));
        let defined = price::DEFINED.saturating_add(captured(&shape));
        self.scope().push(Kind::Component, shape);
        self.charge(0, defined)
    }

    /// Draws the costs that depend on all imports and exports of the outermost component.
    fn end_outermost(&self, closed: &Scope<'_>) -> Result<(), CompileError> {
        // The compiled file has the path of each function that the component exports.
        self.budget.draw(closed.exports.path_bytes)?;
        // A copy of an imported item contains the path of the item. The paths of functions are also
        // compared.
        let levels = closed.import_depth.saturating_sub(1) / price::COPIED_LEVELS;
        let compared = closed.import_path_bytes_max / price::COMPARED_BYTES;
        self.budget.draw(closed.work.saturating_mul(levels))?;
        self.budget
            .draw(closed.functions.saturating_mul(compared))?;
        // The library validates each module of adapters, after all others.
        let adapters = closed.adapters;
        let modules = adapters.lowered.min(adapters.core_instances);
        let snapshots = self.snapshots.saturating_add(modules);
        let module = self.snapshot_units(snapshots).saturating_mul(2);
        let module = module.saturating_add(price::ADAPTER_MODULE);
        self.budget.draw(modules.saturating_mul(module))
    }

    /// Reads a section of a component.
    fn section(&mut self, payload: Payload<'a>) -> Result<(), CompileError> {
        match payload {
            Payload::CoreTypeSection(section) => {
                for ty in section {
                    let ty = ty?;
                    self.core_type(&ty);
                }
            }
            Payload::InstanceSection(section) => {
                for instance in section {
                    let instance = instance?;
                    self.core_instance(&instance)?;
                }
            }
            Payload::ComponentInstanceSection(section) => {
                for instance in section {
                    let instance = instance?;
                    self.instance(&instance)?;
                }
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    let alias = alias?;
                    self.alias(&alias)?;
                }
            }
            Payload::ComponentTypeSection(section) => {
                for ty in section {
                    let ty = ty?;
                    let shape = self.declared(&ty)?;
                    self.scope().push(Kind::Type, shape);
                    let is_resource = matches!(ty, ComponentType::Resource { .. });
                    let each = match is_resource {
                        true => price::RESOURCE,
                        false => 1,
                    };
                    self.charge(1, each)?;
                    self.scope().resources += u64::from(is_resource);
                }
            }
            Payload::ComponentCanonicalSection(section) => {
                for function in section {
                    let function = function?;
                    self.canonical(&function)?;
                }
            }
            Payload::ComponentImportSection(section) => {
                for import in section {
                    let import = import?;
                    let name = import.name.name;
                    if let ComponentTypeRef::Component(_) = import.ty {
                        return Err(unsupported_named("an imported component", name));
                    }
                    self.import(name, import.ty)?;
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export?;
                    let shape = self.scope().get(export.kind, export.index);
                    let stated = export.ty.map_or(0, |ty| self.scope().of_type(ty).nodes());
                    self.named_types += u64::from(export.ty.is_some());
                    self.export(export.name.name, export.kind, shape, stated)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn core_type(&mut self, ty: &CoreType<'_>) {
        let scope = self.scope();
        match ty {
            CoreType::Rec(group) => {
                for _ in group.types() {
                    scope.push_core_type(UNKNOWN);
                }
            }
            CoreType::Module(declarations) => {
                let nodes = declarations.iter().map(|declaration| match declaration {
                    ModuleTypeDeclaration::Import(import) => {
                        1 + names([import.module, import.name])
                    }
                    ModuleTypeDeclaration::Export { name, .. } => 1 + names([*name]),
                    _ => 1,
                });
                let nodes = nodes.sum();
                let module = Module {
                    nodes,
                    ..Module::default()
                };
                scope.push_core_type(Shape::Module(module));
            }
        }
    }

    fn core_instance(&mut self, instance: &Instance<'_>) -> Result<(), CompileError> {
        match instance {
            Instance::Instantiate { module_index, args } => {
                let module = self.scope().get(Kind::Module, *module_index);
                let nodes =
                    module.nodes() + args.len() as u64 + names(args.iter().map(|arg| arg.name));
                // The joined module has the bytes and the items of each instance.
                let again = module.again();
                let each = nodes
                    .saturating_add(price::CORE_INSTANCE)
                    .saturating_add(again);
                self.charge(nodes, each)?;
                let scope = self.scope();
                scope.adapters.core_instances += 1;
                scope.given_modules += u64::from(again == 0);
                self.count(1)
            }
            Instance::FromExports(exports) => {
                let names = names(exports.iter().map(|export| export.name));
                let nodes = exports.len() as u64 + names;
                self.charge(nodes, nodes)
            }
        }
    }

    fn instance(&mut self, instance: &ComponentInstance<'a>) -> Result<(), CompileError> {
        let shape = match instance {
            ComponentInstance::Instantiate {
                component_index,
                args,
            } => {
                let component = self.scope().get(Kind::Component, *component_index);
                let names = names(args.iter().map(|arg| arg.name));
                let args = args.iter().map(|arg| (arg.kind, arg.index));
                let given = self.sizes(args);
                let compared = component
                    .nodes()
                    .saturating_add(given.nodes)
                    .saturating_add(names);
                let copied = given.copied.saturating_add(captured(&component));
                let Shape::Component(component) = component else {
                    return self.charge(compared, compared);
                };
                let types = component.imports.copied;
                let types = types.saturating_add(component.exports.copied());
                let compared = compared.saturating_add(types.saturating_mul(price::COPIED_NODE));
                let modules = given.again.saturating_mul(component.given_modules);
                // The library copies what it knows of resources for each instance.
                let within = component.instances.saturating_add(1);
                let known = self.scope().resources.saturating_mul(within);
                let known = known.saturating_mul(price::KNOWN_RESOURCE);
                // It keeps a list of all instances around each function.
                let functions = component.functions;
                let read = copied
                    .saturating_add(modules)
                    .saturating_add(known)
                    .saturating_add(price::INSTANCE)
                    .saturating_add(functions);
                self.charge(compared, read.saturating_add(component.work))?;
                self.levels = self.levels.max(component.levels + 1);
                let scope = self.scope();
                scope.levels = scope.levels.max(component.levels + 1);
                scope.copy(functions.saturating_add(given.items));
                scope.adapters.add(component.adapters);
                scope.given_modules = scope.given_modules.saturating_add(component.given_modules);
                scope.resources = scope.resources.saturating_add(component.exports.resources);
                self.count(within)?;
                Shape::Instance(Rc::clone(&component.exports))
            }
            ComponentInstance::FromExports(all) => {
                let items = all.iter().map(|export| (export.kind, export.index));
                let copied = self.sizes(items).copied;
                let mut exports = Exports::default();
                for export in all {
                    let shape = self.scope().get(export.kind, export.index);
                    add(&mut exports, export.name.name, shape)?;
                }
                let shape = Shape::Instance(Rc::new(exports));
                let each = copied
                    .saturating_add(shape.nodes())
                    .saturating_add(price::EXPORTS);
                self.charge(shape.nodes(), each)?;
                self.scope().copy(shape.items());
                shape
            }
        };
        self.scope().push(Kind::Instance, shape);
        Ok(())
    }

    /// The sizes of some items together.
    fn sizes(&mut self, items: impl Iterator<Item = (Kind, u32)>) -> Sizes {
        let mut sizes = Sizes {
            nodes: 1,
            copied: 1,
            ..Sizes::default()
        };
        for (kind, index) in items {
            let shape = self.scope().get(kind, index);
            sizes.nodes = sizes.nodes.saturating_add(shape.nodes());
            sizes.items = sizes.items.saturating_add(shape.items());
            sizes.copied = sizes.copied.saturating_add(self.copied(&shape));
            sizes.again = sizes.again.max(shape.again());
        }
        sizes
    }

    /// Units to copy an item.
    fn copied(&self, shape: &Shape<'_>) -> u64 {
        let each = price::COPIED + self.levels / price::LEVELS_PER_UNIT;
        let items = shape.items().saturating_mul(each);
        items
            .saturating_add(captured(shape))
            .saturating_add(copied_types(shape))
    }

    /// Counts instances of the component that is open.
    fn count(&mut self, instances: u64) -> Result<(), CompileError> {
        let scope = self.scope();
        scope.instances = scope.instances.saturating_add(instances);
        INSTANCES.check(scope.instances)
    }

    fn alias(&mut self, alias: &ComponentAlias<'a>) -> Result<(), CompileError> {
        match *alias {
            ComponentAlias::InstanceExport {
                kind: Kind::Component,
                ..
            } => Err(unsupported("a component that an instance exports")),
            ComponentAlias::InstanceExport {
                kind,
                instance_index,
                name,
            } => {
                let instance = self.scope().get(Kind::Instance, instance_index);
                let shape = instance.export(name);
                self.charge(shape.nodes(), self.copied(&shape))?;
                let scope = self.scope();
                scope.copy(shape.items());
                scope.push(kind, shape);
                Ok(())
            }
            ComponentAlias::CoreInstanceExport { .. } => self.charge(1, 1),
            ComponentAlias::Outer { kind, count, index } => {
                let outer = self.scopes.iter().rev().nth(count as usize);
                let kind = match kind {
                    Outer::CoreModule => Kind::Module,
                    Outer::Type => Kind::Type,
                    Outer::Component => Kind::Component,
                    Outer::CoreType => {
                        let ty = outer.map_or(UNKNOWN, |outer| outer.core_type(index));
                        self.scope().push_core_type(ty);
                        return self.charge(1, 1);
                    }
                };
                let shape = outer.map_or(UNKNOWN, |outer| outer.get(kind, index));
                if kind == Kind::Type {
                    self.charge(shape.nodes(), 1)?;
                } else {
                    self.capture(&shape, count as usize)?;
                }
                self.scope().push(kind, shape);
                Ok(())
            }
        }
    }

    /// Charges an alias of a component or core module that is defined `count` components further
    /// out. Each component on the way captures the item.
    fn capture(&mut self, shape: &Shape<'_>, count: usize) -> Result<(), CompileError> {
        let count = count.min(self.scopes.len());
        let once = shape.nodes().saturating_add(count as u64);
        self.charge(once, captured(shape).saturating_add(1))?;
        for scope in self.scopes.iter_mut().rev().take(count) {
            scope.captured = scope.captured.saturating_add(shape.captured());
        }
        Ok(())
    }

    fn canonical(&mut self, function: &CanonicalFunction) -> Result<(), CompileError> {
        let scope = self.scope();
        scope.copy(1);
        let each = match *function {
            CanonicalFunction::Lift { type_index, .. } => {
                let ty = scope.get(Kind::Type, type_index);
                let func = ty.inner().clone();
                scope.push(Kind::Func, func.clone());
                return self.function(&func, price::FUNCTION);
            }
            CanonicalFunction::Lower { func_index, .. } => {
                let func = scope.get(Kind::Func, func_index);
                let each = match func {
                    Shape::Host(_) => price::FUNCTION,
                    _ => {
                        // An adapter has the instances around both of its functions.
                        scope.copy(1);
                        scope.adapters.lowered += 1;
                        let nodes = func.nodes().saturating_mul(price::ADAPTER_NODE);
                        nodes.saturating_add(price::ADAPTER)
                    }
                };
                return self.function(&func, each);
            }
            _ => price::FUNCTION,
        };
        self.charge(1, each)
    }

    /// Draws the cost of reading a function of a type, and of `each` for each instance.
    fn function(&mut self, ty: &Shape<'_>, each: u64) -> Result<(), CompileError> {
        let nodes = ty.nodes();
        let each = each.saturating_add(nodes).saturating_add(copied_types(ty));
        self.charge(nodes, each)
    }

    fn import(&mut self, name: &str, ty: ComponentTypeRef) -> Result<(), CompileError> {
        let is_outermost = self.scopes.len() <= 1;
        let scope = self.scope();
        let shape = scope.of_type(ty);
        let nodes = shape.nodes().saturating_add(names([name]));
        scope.import_nodes = scope.import_nodes.saturating_add(nodes);
        scope.import_copied = scope.import_copied.saturating_add(shape.copied());
        scope.resources = scope.resources.saturating_add(shape.resources());
        self.named_types += u64::from(ty.kind() == Kind::Type);
        self.charge(nodes.saturating_add(copied_types(&shape)), nodes)?;
        if is_outermost {
            if let Some(path) = shape.module_path(name) {
                return Err(unsupported_named("an imported core module", &path));
            }
            let mut paths = Exports::default();
            paths.add(name, shape.clone());
            // The library keeps the path of each function that is lowered.
            self.budget.draw(paths.path_bytes)?;
            let scope = self.scope();
            scope.import_depth = scope.import_depth.max(shape.depth());
            scope.import_path_bytes_max = scope.import_path_bytes_max.max(paths.path_bytes_max);
            scope.push(ty.kind(), shape.host());
            return Ok(());
        }
        self.scope().push(ty.kind(), shape);
        Ok(())
    }

    /// An export. The type that the component states for the export has `stated` nodes.
    fn export(
        &mut self,
        name: &'a str,
        kind: Kind,
        shape: Shape<'a>,
        stated: u64,
    ) -> Result<(), CompileError> {
        let nodes = shape.nodes().saturating_add(names([name]));
        let read = nodes.saturating_add(self.copied(&shape));
        self.charge(nodes.saturating_add(stated), read)?;
        self.named_types += u64::from(kind == Kind::Type);
        let scope = self.scope();
        add(&mut scope.exports, name, shape.clone())?;
        scope.push(kind, shape);
        Ok(())
    }

    /// The size of a type, after drawing the cost of validating the type.
    fn declared(&mut self, ty: &ComponentType<'a>) -> Result<Shape<'a>, CompileError> {
        let scope = self.scope();
        let leaf = match ty {
            ComponentType::Defined(ty) => scope.defined(ty),
            ComponentType::Func(ty) => scope.func(ty),
            ComponentType::Resource { .. } => Leaf::RESOURCE,
            ComponentType::Component(declarations) => {
                self.scopes.push(Scope::default());
                for declaration in declarations {
                    match declaration {
                        Declaration::CoreType(ty) => self.core_type(ty),
                        Declaration::Type(ty) => self.declare(ty)?,
                        Declaration::Alias(alias) => self.alias(alias)?,
                        Declaration::Export { name, ty } => self.declare_export(name.name, *ty)?,
                        Declaration::Import(import) => self.import(import.name.name, import.ty)?,
                    }
                }
                let closed = self.scopes.pop().unwrap_or_default();
                let imports = closed.imports();
                let nodes = imports.nodes.saturating_add(closed.exports.nodes());
                Leaf {
                    nodes,
                    copied: nodes,
                    resources: closed.resources.saturating_add(closed.exports.resources),
                }
            }
            ComponentType::Instance(declarations) => {
                self.scopes.push(Scope::default());
                for declaration in declarations {
                    match declaration {
                        InstanceTypeDeclaration::CoreType(ty) => self.core_type(ty),
                        InstanceTypeDeclaration::Type(ty) => self.declare(ty)?,
                        InstanceTypeDeclaration::Alias(alias) => self.alias(alias)?,
                        InstanceTypeDeclaration::Export { name, ty } => {
                            self.declare_export(name.name, *ty)?;
                        }
                    }
                }
                let closed = self.scopes.pop().unwrap_or_default();
                self.budget.draw(closed.exports.nodes())?;
                return Ok(Shape::Instance(Rc::new(closed.exports)));
            }
        };
        Ok(Shape::Leaf(leaf))
    }

    fn declare(&mut self, ty: &ComponentType<'a>) -> Result<(), CompileError> {
        let shape = self.declared(ty)?;
        self.scope().push(Kind::Type, shape);
        self.charge(1, 0)
    }

    fn declare_export(&mut self, name: &'a str, ty: ComponentTypeRef) -> Result<(), CompileError> {
        let shape = self.scope().of_type(ty);
        // Each export of an instance of a type has resources of its own.
        self.budget.draw(copied_types(&shape))?;
        self.export(name, ty.kind(), shape, 0)
    }
}

/// The sizes of some items together.
#[derive(Default)]
struct Sizes {
    /// Nodes of their types.
    nodes: u64,
    /// The items, with the items in instances.
    items: u64,
    /// Units to copy them.
    copied: u64,
    /// The most units that an instance of a core module among them takes for its module.
    again: u64,
}

/// Units to copy the types of an item.
fn copied_types(shape: &Shape<'_>) -> u64 {
    shape.copied().saturating_mul(price::COPIED_NODE)
}

/// Units to copy the components and core modules of an item, with their captures.
fn captured(shape: &Shape<'_>) -> u64 {
    shape.captured().saturating_mul(price::CAPTURED)
}

/// Adds an item to exports, unless the item has too many levels.
fn add<'a>(exports: &mut Exports<'a>, name: &'a str, shape: Shape<'a>) -> Result<(), CompileError> {
    exports.add(name, shape);
    DEPTH.check(exports.depth())
}

/// Counts the bytes of core modules that are instantiated more than once.
#[derive(Default)]
pub(super) struct Repeats {
    known: HashSet<u32>,
    bytes: u64,
}

impl Repeats {
    /// Counts an instance of a core module of this size.
    pub(super) fn count(&mut self, module: u32, bytes: usize) -> Result<(), CompileError> {
        if !self.known.insert(module) {
            self.bytes += bytes as u64;
        }
        REPEATED_BYTES.check(self.bytes)
    }
}
