//! Reads a component: its core instances in order, and its description.

use super::Translated;
use super::glue::{Glue, Guard, Kind};
use super::join::{self, unsupported, unsupported_named};
use super::numbering::renumber;
use super::part::{Export as JoinedExport, Given, Item, Part, Space, fault};
use super::shape::NAME_BYTES;
use super::size::{self, Repeats};
use crate::budget::Budget;
use crate::error::CompileError;
use pirn_format::component as format;
use pirn_format::component::{
    Adapter, CanonicalOptions, Component, DefinedType, HandleTable, Import, Layouts, Path,
    Resource, ValueType,
};
use pirn_format::text::one_line;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use wasmtime_environ::component::{
    self as environ, CoreDef, ExportItem, GlobalInitializer, InstantiateModule, InterfaceType,
    Trampoline, TypeDef, TypeFuncIndex, TypeResourceTable, TypeResourceTableIndex, TypeTupleIndex,
};
use wasmtime_environ::wasmparser::{Validator, WasmFeatures};
use wasmtime_environ::{EntityIndex, ModuleTranslation, PrimaryMap, ScopeVec, Tunables};

/// The accepted features of components, for the validators of the compiler and of the reader. The
/// compiler validates core modules again, so all their features are accepted here.
macro_rules! features {
    ($features:ty) => {
        <$features>::all()
            .difference(<$features>::CM_ASYNC)
            .difference(<$features>::CM_ASYNC_STACKFUL)
            .difference(<$features>::CM_CANON_NAMES)
            .difference(<$features>::CM_ERROR_CONTEXT)
            .difference(<$features>::CM_FIXED_LENGTH_LISTS)
            .difference(<$features>::CM_GC)
            .difference(<$features>::CM_IMPLEMENTS)
            .difference(<$features>::CM_MAP)
            .difference(<$features>::CM_MORE_ASYNC_BUILTINS)
            .difference(<$features>::CM_NESTED_NAMES)
            .difference(<$features>::CM_THREADING)
            .difference(<$features>::CM_VALUES)
            .difference(<$features>::CM64)
    };
}

/// The features of the reader `wasmtime-environ`.
const FEATURES: WasmFeatures = features!(WasmFeatures);

/// The features of the compiler's own validator, whose version has some more.
const OWN_FEATURES: wasmparser::WasmFeatures = features!(wasmparser::WasmFeatures)
    .difference(wasmparser::WasmFeatures::CM_ACCESSORS)
    .difference(wasmparser::WasmFeatures::CM_FORWARD);

type Modules<'a> = PrimaryMap<environ::StaticModuleIndex, ModuleTranslation<'a>>;

pub(super) fn translate(wasm: &[u8], budget: &Budget) -> Result<Translated, CompileError> {
    size::check(wasm, 0, budget)?;
    validate(wasm)?;
    let tunables = Tunables {
        // No adapter needs the state of asynchronous tasks.
        concurrency_support: false,
        ..Tunables::default_u64()
    };
    let mut validator = Validator::new_with_features(FEATURES);
    let mut types = environ::ComponentTypesBuilder::new(&validator);
    let adapters = ScopeVec::new();
    let translator = environ::Translator::new(&tunables, &mut validator, &mut types, &adapters);
    // An assertion of the library's validator fails for some valid components that import the same
    // type twice.
    let translated = catch_unwind(AssertUnwindSafe(|| translator.translate(wasm)));
    let (translation, modules) = translated
        .map_err(|_| unsupported("a component for which the validator panics"))?
        .map_err(|error| invalid(&error))?;
    let tables = types.num_resource_tables() as u32;
    let (types, _) = types.finish(&translation.component);
    let mut reader = Reader {
        translation: &translation,
        modules: &modules,
        types: Types::new(&types, tables, budget),
        parts: vec![],
        repeats: Repeats::default(),
        exports: vec![],
        exported: HashSet::new(),
        component: Component::default(),
    };
    reader.read()?;
    let Reader {
        parts,
        mut exports,
        mut component,
        ..
    } = reader;
    renumber(&mut component, &mut exports);
    finish(&parts, &exports, component)
}

/// Checks that a component is valid, including functions of core modules that are never
/// instantiated.
///
/// The library that reads components validates, too, but its older validator panics for some
/// invalid components.
fn validate(wasm: &[u8]) -> Result<(), CompileError> {
    let mut validator = wasmparser::Validator::new_with_features(OWN_FEATURES);
    let valid = validator.validate_all(wasm);
    valid
        .map(drop)
        .map_err(|error| refused(error.message(), error.offset() as usize))
}

/// The error for a component that the validator refuses.
fn refused(message: &str, offset: usize) -> CompileError {
    CompileError::Invalid {
        message: one_line(message).replace("not enabled", "not supported"),
        offset,
    }
}

/// The message of the library that reads components, which has no type for invalid input.
fn invalid(error: &wasmtime_environ::error::Error) -> CompileError {
    let parser: Option<&wasmtime_environ::wasmparser::BinaryReaderError> = error.downcast_ref();
    match parser {
        // The compiler's own validator has accepted the component.
        Some(error) => CompileError::Component(format!(
            "the reader of components, which knows older rules, refuses this: {} (at offset {:#x})",
            one_line(error.message()),
            error.offset()
        )),
        None => {
            let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
            let text = one_line(chain.join(": "));
            match text.contains("reexport of an imported function") {
                true => unsupported("an export that is only an import"),
                false => CompileError::Component(text),
            }
        }
    }
}

/// Joins the parts, and keeps those adapters that the joined module imports.
fn finish(
    parts: &[Part<'_>],
    exports: &[JoinedExport],
    mut component: Component,
) -> Result<Translated, CompileError> {
    let mut all: Vec<Adapter> = std::mem::take(&mut component.adapters);
    all.extend([Adapter::Allocated, Adapter::CannotLeave]);
    let layouts = Layouts::of(&component.types).map_err(|error| fault(&error.to_string()))?;
    let named: Named<'_> = exports
        .iter()
        .map(|export| (export.name.as_str(), export.given))
        .collect();
    let guards = guards(&component, &named);
    let glue = glue(&component, &layouts, &all, &named, &guards);
    let name = |adapter: u32| adapter_name(&component, all[adapter as usize], adapter);
    let joined = join::join(
        &join::Parts {
            parts,
            instances: component.instances,
            exports,
            glue: &glue,
            guards: &guards,
            cannot_leave: all.len() as u32 - 1,
        },
        name,
    )?;
    component.adapters = joined.adapters.iter().map(|at| all[*at as usize]).collect();
    Ok(Translated {
        core: joined.wasm,
        component,
    })
}

/// The exported items by name.
type Named<'a> = HashMap<&'a str, Given>;

/// The guards of all `realloc` and `post-return` functions.
fn guards(component: &Component, exports: &Named<'_>) -> Vec<Guard> {
    let mut guards: Vec<Guard> = vec![];
    let mut known = HashSet::new();
    for options in &component.options {
        let realloc = options.realloc.map(format::realloc_name);
        let post_return = options.post_return.map(format::post_return_name);
        for export in realloc.into_iter().chain(post_return) {
            if let Some(callee) = exports.get(export.as_str()).copied()
                && known.insert(export.clone())
            {
                guards.push(Guard {
                    export,
                    callee,
                    instance: options.instance,
                });
            }
        }
    }
    guards
}

/// The glue functions between the guest and the adapters. `all` ends with the adapters
/// [`Adapter::Allocated`] and [`Adapter::CannotLeave`].
fn glue(
    component: &Component,
    layouts: &Layouts,
    all: &[Adapter],
    exports: &Named<'_>,
    guards: &[Guard],
) -> Vec<Glue> {
    let allocated = all.len() as u32 - 2;
    let named = |name: String| exports.get(name.as_str()).copied();
    let guards: HashMap<&str, usize> = guards
        .iter()
        .enumerate()
        .map(|(at, guard)| (guard.export.as_str(), at))
        .collect();
    let of = |adapter: Adapter| {
        let of_table = |table: u32| component.tables[table as usize];
        Some(match adapter {
            Adapter::Lower { ty, options, .. } => {
                let options = component.options[options as usize];
                let result = component.funcs[ty as usize].result;
                let allocates = |ty| layouts.value(ty).is_ok_and(|layout| layout.allocates);
                let allocates = result.is_some_and(allocates);
                let realloc = options.realloc.filter(|_| allocates);
                let realloc = realloc
                    .and_then(|number| guards.get(format::realloc_name(number).as_str()).copied());
                let kind = match realloc {
                    Some(realloc) => Kind::Allocate { realloc, allocated },
                    None => Kind::Check,
                };
                (options.instance, kind)
            }
            Adapter::ResourceDrop(table) => {
                let table = of_table(table)?;
                let imported = component.imported_resources.len() as u32;
                let defined = table.resource.checked_sub(imported);
                let destructor = defined.and_then(|at| named(format::destructor_name(at)));
                let kind = match destructor {
                    Some(destructor) => Kind::Drop { destructor },
                    None => Kind::Check,
                };
                (table.instance, kind)
            }
            Adapter::ResourceNew(table) => (of_table(table)?.instance, Kind::Check),
            _ => return None,
        })
    };
    let all = (0..).zip(all);
    all.filter_map(|(adapter, kind)| {
        let (instance, kind) = of(*kind)?;
        Some(Glue {
            adapter,
            instance,
            kind,
        })
    })
    .collect()
}

/// The names under which the joined module imports an adapter. Only messages and listings show
/// these names: the position identifies an adapter.
fn adapter_name(component: &Component, adapter: Adapter, number: u32) -> [String; 2] {
    match adapter {
        Adapter::Lower { import, .. } => {
            let path = component.imports[import as usize].path.join("#");
            ["component".to_owned(), format!("{number} {path}")]
        }
        other => {
            let what = format!("{other:?}");
            let what = what.split([' ', '(', '{']).next().unwrap_or_default();
            ["component".to_owned(), format!("{number} {what}")]
        }
    }
}

/// The parts of the component that have been read.
struct Reader<'a> {
    translation: &'a environ::ComponentTranslation,
    modules: &'a Modules<'a>,
    types: Types<'a>,
    /// The instances of core modules, in the order of instantiation.
    parts: Vec<Part<'a>>,
    repeats: Repeats,
    exports: Vec<JoinedExport>,
    /// The names of `exports`.
    exported: HashSet<String>,
    component: Component,
}

impl<'a> Reader<'a> {
    fn read(&mut self) -> Result<(), CompileError> {
        let translation = self.translation;
        let component = &translation.component;
        self.component.instances = component.num_runtime_component_instances;
        for (_, (name, import)) in &component.import_types {
            self.check_import(&mut vec![name], &import.ty)?;
        }
        for (_, import) in &component.imported_resources {
            let path = self.import_path(*import)?;
            self.component.imported_resources.push(path);
        }
        for initializer in &component.initializers {
            self.initializer(initializer)?;
        }
        for (_, options) in &component.options {
            let options = canonical(options)?;
            self.component.options.push(options);
        }
        for (_, trampoline) in &translation.trampolines {
            let adapter = self.adapter(trampoline)?;
            self.component.adapters.push(adapter);
        }
        for (path, index) in self.exported_items() {
            self.export(path, index)?;
        }
        for instance in 0..component.num_runtime_component_instances {
            self.give(format::flags_name(instance), Given::Flags(instance));
        }
        self.component.tables = self.types.tables();
        self.component.types = std::mem::take(&mut self.types.defined);
        self.component.funcs = std::mem::take(&mut self.types.funcs);
        Ok(())
    }

    /// Exports an item from the joined module, once.
    fn give(&mut self, name: String, given: Given) {
        if self.exported.insert(name.clone()) {
            self.exports.push(JoinedExport { name, given });
        }
    }

    /// Refuses imported modules and components, and instances that export modules or components.
    /// `path` ends with the name of the import.
    fn check_import<'n>(
        &'n self,
        path: &mut Vec<&'n str>,
        ty: &TypeDef,
    ) -> Result<(), CompileError> {
        let what = match ty {
            // `size::check` has refused most of these imports.
            TypeDef::Module(_) => "an imported core module",
            TypeDef::Component(_) => "an imported component",
            TypeDef::ComponentInstance(index) => {
                for (inner, export) in &self.types.types[*index].exports {
                    path.push(inner);
                    self.check_import(path, &export.ty)?;
                    path.pop();
                }
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(unsupported_named(what, &path.join("#")))
    }

    fn import_path(&self, import: environ::RuntimeImportIndex) -> Result<Path, CompileError> {
        let component = &self.translation.component;
        let (root, names) = &component.imports[import];
        let root = &component.import_types[*root].0;
        draw_names(self.types.budget, [root].into_iter().chain(names))?;
        let mut path = vec![root.clone()];
        path.extend(names.iter().cloned());
        Ok(path)
    }

    fn initializer(&mut self, initializer: &'a GlobalInitializer) -> Result<(), CompileError> {
        match initializer {
            GlobalInitializer::InstantiateModule(InstantiateModule::Static(module, args), _) => {
                let given: Vec<Given> = args
                    .iter()
                    .map(|arg| self.given(arg))
                    .collect::<Result<_, _>>()?;
                let wasm = self.modules[*module].wasm;
                self.repeats.count(module.as_u32(), wasm.len())?;
                let part = Part::read(wasm, &given)?;
                self.parts.push(part);
            }
            GlobalInitializer::InstantiateModule(InstantiateModule::Import(..), _) => {
                return Err(unsupported("an imported core module"));
            }
            GlobalInitializer::LowerImport { import, .. } => {
                let path = self.import_path(*import)?;
                // The adapter knows the type.
                self.component.imports.push(Import { path, ty: 0 });
            }
            GlobalInitializer::ExtractMemory(extract) => {
                let given = self.item(extract.export.instance, &extract.export.item)?;
                self.give(format::memory_name(extract.index.as_u32()), given);
            }
            GlobalInitializer::ExtractRealloc(extract) => {
                let given = self.given(&extract.def)?;
                self.give(format::realloc_name(extract.index.as_u32()), given);
            }
            GlobalInitializer::ExtractPostReturn(extract) => {
                let given = self.given(&extract.def)?;
                self.give(format::post_return_name(extract.index.as_u32()), given);
            }
            GlobalInitializer::Resource(resource) => {
                let number = self.component.resources.len() as u32;
                if let Some(destructor) = &resource.dtor {
                    let given = self.given(destructor)?;
                    self.give(format::destructor_name(number), given);
                }
                self.component.resources.push(Resource {
                    instance: resource.instance.as_u32(),
                    has_destructor: resource.dtor.is_some(),
                });
            }
            GlobalInitializer::ExtractCallback(_) | GlobalInitializer::ExtractTable(_) => {
                return Err(unsupported("an asynchronous function"));
            }
        }
        Ok(())
    }

    /// The item or adapter that a core definition refers to.
    fn given(&self, def: &CoreDef) -> Result<Given, CompileError> {
        match def {
            CoreDef::Export(export) => self.item(export.instance, &export.item),
            CoreDef::InstanceFlags(instance) => Ok(Given::Flags(instance.as_u32())),
            CoreDef::Trampoline(index) => Ok(Given::Adapter(index.as_u32())),
            CoreDef::UnsafeIntrinsic(_) => Err(unsupported("an intrinsic of another engine")),
            CoreDef::TaskMayBlock => Err(unsupported("an asynchronous function")),
        }
    }

    fn item<I: Copy + Into<EntityIndex>>(
        &self,
        instance: environ::RuntimeInstanceIndex,
        item: &ExportItem<I>,
    ) -> Result<Given, CompileError> {
        let ExportItem::Index(index) = item else {
            return Err(unsupported("an imported core module"));
        };
        let (space, index) = match (*index).into() {
            EntityIndex::Function(index) => (Space::Func, index.as_u32()),
            EntityIndex::Table(index) => (Space::Table, index.as_u32()),
            EntityIndex::Memory(index) => (Space::Memory, index.as_u32()),
            EntityIndex::Global(index) => (Space::Global, index.as_u32()),
            EntityIndex::Tag(index) => (Space::Tag, index.as_u32()),
        };
        let part = instance.as_u32() as usize;
        Ok(Given::Item(Item { part, space, index }))
    }

    fn adapter(&mut self, trampoline: &Trampoline) -> Result<Adapter, CompileError> {
        let table = |ty: &TypeResourceTableIndex| ty.as_u32();
        Ok(match trampoline {
            Trampoline::LowerImport {
                index,
                lower_ty,
                options,
            } => {
                let ty = self.types.func(*lower_ty)?;
                let import = index.as_u32();
                self.component.imports[import as usize].ty = ty;
                Adapter::Lower {
                    import,
                    ty,
                    options: options.as_u32(),
                }
            }
            Trampoline::ResourceNew { ty, .. } => Adapter::ResourceNew(table(ty)),
            Trampoline::ResourceRep { ty, .. } => Adapter::ResourceRep(table(ty)),
            Trampoline::ResourceDrop { ty, .. } => Adapter::ResourceDrop(table(ty)),
            Trampoline::ResourceTransferOwn => Adapter::TransferOwn,
            Trampoline::ResourceTransferBorrow => Adapter::TransferBorrow,
            Trampoline::EnterSyncCall => Adapter::EnterCall,
            Trampoline::ExitSyncCall => Adapter::ExitCall,
            Trampoline::Trap => Adapter::Trap,
            Trampoline::Transcoder {
                op,
                from,
                from64: false,
                to,
                to64: false,
            } => Adapter::Transcode {
                op: transcode(*op),
                from: from.as_u32(),
                to: to.as_u32(),
            },
            other => return Err(unsupported(&other.symbol_name())),
        })
    }

    /// The items that the component exports, directly or in instances, in the order of the names.
    fn exported_items(&self) -> Vec<(Vec<String>, environ::ExportIndex)> {
        let component = &self.translation.component;
        let named = component.exports.raw_iter();
        let mut waiting: Vec<_> = named
            .map(|(name, (index, _))| (vec![name.to_string()], *index))
            .collect();
        let mut items = vec![];
        while let Some((path, index)) = waiting.pop() {
            let environ::Export::Instance { exports, .. } = &component.export_items[index] else {
                items.push((path, index));
                continue;
            };
            waiting.extend(exports.raw_iter().map(|(name, (index, _))| {
                let mut path = path.clone();
                path.push(name.to_string());
                (path, *index)
            }));
        }
        items.sort_by(|(one, _), (other, _)| one.cmp(other));
        items
    }

    fn export(
        &mut self,
        path: Vec<String>,
        index: environ::ExportIndex,
    ) -> Result<(), CompileError> {
        match &self.translation.component.export_items[index] {
            environ::Export::LiftedFunction { ty, func, options } => {
                let core = path.join("#");
                let given = self.given(func)?;
                self.give(core.clone(), given);
                let ty = self.types.func(*ty)?;
                self.component.exports.push(format::Export {
                    path,
                    ty,
                    options: options.as_u32(),
                    core,
                });
            }
            environ::Export::Type(_) | environ::Export::Instance { .. } => {}
            environ::Export::ModuleStatic { .. } | environ::Export::ModuleImport { .. } => {
                let name = path.join("#");
                return Err(unsupported_named("an exported core module", &name));
            }
        }
        Ok(())
    }
}

/// Draws a unit for each byte of names that are copied to the compiled file. The file has a name up
/// to four times.
fn draw_names<'n>(
    budget: &Budget,
    names: impl IntoIterator<Item = &'n String>,
) -> Result<(), CompileError> {
    let bytes = names.into_iter().map(|name| name.len() + NAME_BYTES);
    budget.draw(bytes.sum::<usize>() as u64)
}

/// The options of a function. Refuses asynchronous options.
fn canonical(options: &environ::CanonicalOptions) -> Result<CanonicalOptions, CompileError> {
    if options.async_ || options.callback.is_some() {
        return Err(unsupported("an asynchronous function"));
    }
    let environ::CanonicalOptionsDataModel::LinearMemory(memory) = options.data_model else {
        return Err(unsupported("the canonical option gc"));
    };
    Ok(CanonicalOptions {
        instance: options.instance.as_u32(),
        encoding: match options.string_encoding {
            environ::StringEncoding::Utf8 => format::StringEncoding::Utf8,
            environ::StringEncoding::Utf16 => format::StringEncoding::Utf16,
            environ::StringEncoding::CompactUtf16 => format::StringEncoding::Latin1OrUtf16,
        },
        memory: memory
            .memory
            .map(wasmtime_environ::component::RuntimeMemoryIndex::as_u32),
        realloc: memory
            .realloc
            .map(wasmtime_environ::component::RuntimeReallocIndex::as_u32),
        post_return: options
            .post_return
            .map(wasmtime_environ::component::RuntimePostReturnIndex::as_u32),
    })
}

fn transcode(op: environ::Transcode) -> format::Transcode {
    use environ::{FixedEncoding, Transcode};
    match op {
        Transcode::Copy(FixedEncoding::Utf8) => format::Transcode::CopyUtf8,
        Transcode::Copy(FixedEncoding::Utf16) => format::Transcode::CopyUtf16,
        Transcode::Copy(FixedEncoding::Latin1) => format::Transcode::CopyLatin1,
        Transcode::Latin1ToUtf16 => format::Transcode::Latin1ToUtf16,
        Transcode::Latin1ToUtf8 => format::Transcode::Latin1ToUtf8,
        Transcode::Utf16ToCompactProbablyUtf16 => format::Transcode::Utf16ToCompactProbablyUtf16,
        Transcode::Utf16ToCompactUtf16 => format::Transcode::Utf16ToCompactUtf16,
        Transcode::Utf16ToLatin1 => format::Transcode::Utf16ToLatin1,
        Transcode::Utf16ToUtf8 => format::Transcode::Utf16ToUtf8,
        Transcode::Utf8ToCompactUtf16 => format::Transcode::Utf8ToCompactUtf16,
        Transcode::Utf8ToLatin1 => format::Transcode::Utf8ToLatin1,
        Transcode::Utf8ToUtf16 => format::Transcode::Utf8ToUtf16,
    }
}

/// The types of a component. Each type is converted once.
struct Types<'a> {
    budget: &'a Budget,
    types: &'a environ::ComponentTypes,
    defined: Vec<DefinedType>,
    funcs: Vec<format::FuncType>,
    known: HashMap<InterfaceType, ValueType>,
    known_funcs: HashMap<TypeFuncIndex, u32>,
    /// Number of tables of handles.
    tables: u32,
}

impl<'a> Types<'a> {
    fn new(types: &'a environ::ComponentTypes, tables: u32, budget: &'a Budget) -> Self {
        Self {
            budget,
            types,
            defined: vec![],
            funcs: vec![],
            known: HashMap::new(),
            known_funcs: HashMap::new(),
            tables,
        }
    }

    fn func(&mut self, index: TypeFuncIndex) -> Result<u32, CompileError> {
        if let Some(known) = self.known_funcs.get(&index) {
            return Ok(*known);
        }
        let func = &self.types[index];
        if func.async_ {
            return Err(unsupported("an asynchronous function"));
        }
        let params = self.tuple(func.params)?;
        let mut results = self.tuple(func.results)?;
        if results.len() > 1 {
            return Err(unsupported("a function with several results"));
        }
        draw_names(self.budget, &func.param_names)?;
        let names = func.param_names.iter().cloned();
        let ty = format::FuncType {
            params: names.zip(params).collect(),
            result: results.pop(),
        };
        let at = self.funcs.len() as u32;
        self.funcs.push(ty);
        self.known_funcs.insert(index, at);
        Ok(at)
    }

    fn tuple(&mut self, index: TypeTupleIndex) -> Result<Vec<ValueType>, CompileError> {
        let types = &self.types[index].types;
        types.iter().map(|ty| self.value(*ty)).collect()
    }

    fn value(&mut self, ty: InterfaceType) -> Result<ValueType, CompileError> {
        if let Some(known) = self.known.get(&ty) {
            return Ok(*known);
        }
        let types = self.types;
        let defined = match ty {
            InterfaceType::Bool => return Ok(ValueType::Bool),
            InterfaceType::S8 => return Ok(ValueType::S8),
            InterfaceType::U8 => return Ok(ValueType::U8),
            InterfaceType::S16 => return Ok(ValueType::S16),
            InterfaceType::U16 => return Ok(ValueType::U16),
            InterfaceType::S32 => return Ok(ValueType::S32),
            InterfaceType::U32 => return Ok(ValueType::U32),
            InterfaceType::S64 => return Ok(ValueType::S64),
            InterfaceType::U64 => return Ok(ValueType::U64),
            InterfaceType::Float32 => return Ok(ValueType::F32),
            InterfaceType::Float64 => return Ok(ValueType::F64),
            InterfaceType::Char => return Ok(ValueType::Char),
            InterfaceType::String => return Ok(ValueType::String),
            InterfaceType::Own(table) => return Ok(ValueType::Own(table.as_u32())),
            InterfaceType::Borrow(table) => return Ok(ValueType::Borrow(table.as_u32())),
            InterfaceType::Record(index) => {
                let fields = types[index].fields.iter();
                draw_names(self.budget, fields.clone().map(|field| &field.name))?;
                let fields = fields.map(|field| Ok((field.name.clone(), self.value(field.ty)?)));
                DefinedType::Record(fields.collect::<Result<_, CompileError>>()?)
            }
            InterfaceType::Variant(index) => {
                let cases = types[index].cases.iter();
                draw_names(self.budget, cases.clone().map(|(name, _)| name))?;
                let cases = cases.map(|(name, ty)| Ok((name.clone(), self.optional(*ty)?)));
                DefinedType::Variant(cases.collect::<Result<_, CompileError>>()?)
            }
            InterfaceType::List(index) => DefinedType::List(self.value(types[index].element)?),
            InterfaceType::Tuple(index) => DefinedType::Tuple(self.tuple(index)?),
            InterfaceType::Flags(index) => {
                draw_names(self.budget, types[index].names.iter())?;
                DefinedType::Flags(types[index].names.iter().cloned().collect())
            }
            InterfaceType::Enum(index) => {
                draw_names(self.budget, types[index].names.iter())?;
                DefinedType::Enum(types[index].names.iter().cloned().collect())
            }
            InterfaceType::Option(index) => DefinedType::Option(self.value(types[index].ty)?),
            InterfaceType::Result(index) => {
                let (ok, error) = (types[index].ok, types[index].err);
                DefinedType::Result(self.optional(ok)?, self.optional(error)?)
            }
            InterfaceType::Future(_) => return Err(unsupported("a future")),
            InterfaceType::Stream(_) => return Err(unsupported("a stream")),
            InterfaceType::ErrorContext(_) => return Err(unsupported("an error context")),
            InterfaceType::Map(_) => return Err(unsupported("a map")),
            InterfaceType::FixedLengthList(_) => {
                return Err(unsupported("a list of fixed length"));
            }
        };
        let at = self.defined.len() as u32;
        self.defined.push(defined);
        self.known.insert(ty, ValueType::Defined(at));
        Ok(ValueType::Defined(at))
    }

    fn optional(&mut self, ty: Option<InterfaceType>) -> Result<Option<ValueType>, CompileError> {
        ty.map(|ty| self.value(ty)).transpose()
    }

    /// All tables of handles. Tables that only component types name are unused: `None`.
    fn tables(&self) -> Vec<Option<HandleTable>> {
        let tables = (0..self.tables).map(TypeResourceTableIndex::from_u32);
        tables
            .map(|table| match self.types[table] {
                TypeResourceTable::Concrete { ty, instance } => Some(HandleTable {
                    resource: ty.as_u32(),
                    instance: instance.as_u32(),
                }),
                TypeResourceTable::Abstract(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use pirn_format::component::broken_rule;
    use wasmtime_environ::Trap;

    /// The format identifies the rules by the numbers of `wasmtime-environ`, which makes the code.
    #[test]
    fn each_rule_has_its_number() {
        let rules = [
            (Trap::MemoryOutOfBounds, "bounds of a memory"),
            (Trap::CannotEnterComponent, "entered"),
            (Trap::CannotLeaveComponent, "left"),
            (Trap::CannotBlockSyncTask, "waits"),
            (Trap::InvalidChar, "Unicode"),
            (Trap::StringOutOfBounds, "string"),
            (Trap::ListOutOfBounds, "list"),
            (Trap::InvalidDiscriminant, "discriminant"),
            (Trap::UnalignedPointer, "unaligned"),
            (Trap::UncaughtException, "exception"),
        ];
        for (trap, words) in rules {
            let found = broken_rule(trap as u32);
            assert!(found.contains(words), "{trap:?}: {found}");
        }
    }
}
