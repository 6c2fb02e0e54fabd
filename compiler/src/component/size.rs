//! Limits the cost of a component by its size.
//!
//! A few bytes of a component may cost seconds and gigabytes. Examples are a component that is
//! instantiated many times, nested types, adapters for large types, and instances that export each
//! other. [`check`] draws these costs from the [`Budget`], which follows the bytes of the file,
//! before anything validates or reads the component.

use super::join::{unsupported, unsupported_named};
use super::shape::{Component, Exports, Module, Scope, Shape, UNKNOWN, names};
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

/// Units for each node of a lowered function's type, for an adapter that the library may make. The
/// adapter's code is charged again when it is compiled.
const ADAPTER_UNITS: u64 = 8;

/// Units for each item that is given, aliased or exported, and for each item in such an instance.
/// The library copies these items.
const COPIED_UNITS: u64 = 16;

/// Units for each component or core module that another component captures, directly or indirectly.
/// The library copies the captures with that component, 60 bytes each.
const CAPTURED_UNITS: u64 = 4;

/// Bytes of the path of an imported function that are compared in a unit.
const COMPARED_BYTES: u64 = 64;

/// Levels of imported instances around an item that cost as much to copy as the item.
const COPIED_LEVELS: u64 = 8;

/// Units for a function that is lifted or lowered, or that drops, makes or reads a resource.
const FUNCTION_UNITS: u64 = 8;

/// Units for a resource type. Each instance has its own resource type, of 170 bytes while a
/// component is read.
const RESOURCE_UNITS: u64 = 16;

/// Units for an instance of a component or core module. Defining a component or core module costs
/// as much in each instance of the enclosing component.
const INSTANCE_UNITS: u64 = 4;

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
    };
    let mut bytes = 0;
    for payload in Parser::new(offset).parse_all(wasm) {
        match payload? {
            Payload::ModuleSection {
                unchecked_range, ..
            } => bytes = unchecked_range.end - unchecked_range.start,
            Payload::Version { encoding, .. } => match encoding {
                Encoding::Module => pass.module = Some(Module { nodes: 1, bytes }),
                Encoding::Component => pass.scopes.push(Scope::default()),
            },
            Payload::End(_) => pass.end()?,
            payload => match &mut pass.module {
                Some(module) => module.nodes += items(payload)?,
                None => pass.section(payload)?,
            },
        }
    }
    Ok(())
}

/// The nodes of the imports or exports in a section of a core module.
fn items(payload: Payload<'_>) -> Result<u64, CompileError> {
    Ok(match payload {
        Payload::ImportSection(section) => {
            let mut nodes = 0;
            for import in section.into_imports() {
                let import = import?;
                nodes += 1 + names([import.module, import.name]);
            }
            nodes
        }
        Payload::ExportSection(section) => {
            let mut nodes = 0;
            for export in section {
                nodes += 1 + names([export?.name]);
            }
            nodes
        }
        _ => 0,
    })
}

struct Pass<'a, 'b> {
    budget: &'b Budget,
    /// The components that are open, and the types within them, innermost last.
    scopes: Vec<Scope<'a>>,
    /// The core module that is open.
    module: Option<Module>,
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

    /// Ends a core module or a component.
    fn end(&mut self) -> Result<(), CompileError> {
        if let Some(module) = self.module.take() {
            self.scope().push(Kind::Module, Shape::Module(module));
            return self.charge(0, INSTANCE_UNITS);
        }
        let scope = self.scope();
        let nodes = scope.import_nodes.saturating_add(scope.exports.nodes());
        self.charge(nodes, 0)?;
        let closed = self.scopes.pop().unwrap_or_default();
        if self.scopes.is_empty() {
            return self.end_outermost(&closed);
        }
        let shape = Shape::Component(Rc::new(Component {
            import_nodes: closed.import_nodes,
            exports: Rc::new(closed.exports),
            captured: closed.captured,
            instances: closed.instances,
            functions: closed.functions,
            work: closed.work,
        }));
        let defined = INSTANCE_UNITS.saturating_add(captured(&shape));
        self.scope().push(Kind::Component, shape);
        self.charge(0, defined)
    }

    /// Draws the costs that depend on all imports and exports of the outermost component.
    fn end_outermost(&self, closed: &Scope<'_>) -> Result<(), CompileError> {
        // The compiled file has the path of each function that the component exports.
        self.budget.draw(closed.exports.path_bytes)?;
        // A copy of an imported item contains the path of the item. The paths of functions are also
        // compared.
        let levels = closed.import_depth.saturating_sub(1) / COPIED_LEVELS;
        let compared = closed.import_path_bytes_max / COMPARED_BYTES;
        self.budget.draw(closed.work.saturating_mul(levels))?;
        self.budget.draw(closed.functions.saturating_mul(compared))
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
                    self.charge(1, if is_resource { RESOURCE_UNITS } else { 1 })?;
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
                    scope.push_core_type(Shape::Leaf(1));
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
                scope.push_core_type(Shape::Module(Module { nodes, bytes: 0 }));
            }
        }
    }

    fn core_instance(&mut self, instance: &Instance<'_>) -> Result<(), CompileError> {
        match instance {
            Instance::Instantiate { module_index, args } => {
                let module = self.scope().get(Kind::Module, *module_index);
                let nodes =
                    module.nodes() + args.len() as u64 + names(args.iter().map(|arg| arg.name));
                let bytes = match module {
                    Shape::Module(module) => module.bytes,
                    _ => 0,
                };
                // The joined module has the bytes of each instance.
                self.charge(nodes, INSTANCE_UNITS + nodes + bytes)?;
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
                let [given, copied] = self.sizes(args);
                let compared = component
                    .nodes()
                    .saturating_add(given)
                    .saturating_add(names);
                let copied = copied.saturating_add(captured(&component));
                let Shape::Component(component) = component else {
                    return self.charge(compared, compared);
                };
                // The library keeps a list of all instances around each function.
                let functions = component.functions;
                let read = copied
                    .saturating_add(INSTANCE_UNITS)
                    .saturating_add(functions);
                self.charge(compared, read.saturating_add(component.work))?;
                let scope = self.scope();
                scope.functions = scope.functions.saturating_add(functions);
                self.count(component.instances.saturating_add(1))?;
                Shape::Instance(Rc::clone(&component.exports))
            }
            ComponentInstance::FromExports(all) => {
                let items = all.iter().map(|export| (export.kind, export.index));
                let [_, copied] = self.sizes(items);
                let mut exports = Exports::default();
                for export in all {
                    let shape = self.scope().get(export.kind, export.index);
                    add(&mut exports, export.name.name, shape)?;
                }
                let shape = Shape::Instance(Rc::new(exports));
                self.charge(shape.nodes(), copied.saturating_add(shape.nodes()))?;
                shape
            }
        };
        self.scope().push(Kind::Instance, shape);
        Ok(())
    }

    /// The nodes of some items together, and the units to copy them.
    fn sizes(&mut self, items: impl Iterator<Item = (Kind, u32)>) -> [u64; 2] {
        let scope = self.scope();
        items.fold([1; 2], |[nodes, units], (kind, index)| {
            let shape = scope.get(kind, index);
            [
                nodes.saturating_add(shape.nodes()),
                units.saturating_add(copied(&shape)),
            ]
        })
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
                self.charge(shape.nodes(), copied(&shape))?;
                self.scope().push(kind, shape);
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
        scope.functions = scope.functions.saturating_add(1);
        match *function {
            CanonicalFunction::Lift { type_index, .. } => {
                let ty = self.scope().get(Kind::Type, type_index);
                self.charge(ty.nodes(), ty.nodes().saturating_add(FUNCTION_UNITS))?;
                self.scope().push(Kind::Func, ty);
                Ok(())
            }
            CanonicalFunction::Lower { func_index, .. } => {
                let nodes = self.scope().get(Kind::Func, func_index).nodes();
                let adapter = nodes.saturating_mul(ADAPTER_UNITS);
                self.charge(nodes, adapter.saturating_add(FUNCTION_UNITS))
            }
            _ => self.charge(1, FUNCTION_UNITS),
        }
    }

    fn import(&mut self, name: &str, ty: ComponentTypeRef) -> Result<(), CompileError> {
        let is_outermost = self.scopes.len() <= 1;
        let scope = self.scope();
        let shape = scope.of_type(ty);
        let nodes = shape.nodes().saturating_add(names([name]));
        scope.import_nodes = scope.import_nodes.saturating_add(nodes);
        self.charge(nodes, nodes)?;
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
        let read = nodes.saturating_add(copied(&shape));
        self.charge(nodes.saturating_add(stated), read)?;
        let scope = self.scope();
        add(&mut scope.exports, name, shape.clone())?;
        scope.push(kind, shape);
        Ok(())
    }

    /// The size of a type, after drawing the cost of validating the type.
    fn declared(&mut self, ty: &ComponentType<'a>) -> Result<Shape<'a>, CompileError> {
        let scope = self.scope();
        let nodes = match ty {
            ComponentType::Defined(ty) => scope.defined(ty),
            ComponentType::Func(ty) => scope.func(ty),
            ComponentType::Resource { .. } => 1,
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
                closed.import_nodes.saturating_add(closed.exports.nodes())
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
        Ok(Shape::Leaf(nodes))
    }

    fn declare(&mut self, ty: &ComponentType<'a>) -> Result<(), CompileError> {
        let shape = self.declared(ty)?;
        self.scope().push(Kind::Type, shape);
        self.charge(1, 0)
    }

    fn declare_export(&mut self, name: &'a str, ty: ComponentTypeRef) -> Result<(), CompileError> {
        let shape = self.scope().of_type(ty);
        self.export(name, ty.kind(), shape, 0)
    }
}

/// Units to copy an item.
fn copied(shape: &Shape<'_>) -> u64 {
    let items = shape.items().saturating_mul(COPIED_UNITS);
    items.saturating_add(captured(shape))
}

/// Units to copy the components and core modules of an item, with their captures.
fn captured(shape: &Shape<'_>) -> u64 {
    shape.captured().saturating_mul(CAPTURED_UNITS)
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
