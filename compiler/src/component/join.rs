//! Joins the core modules of a component into one core module.
//!
//! The index spaces of the parts are laid one after the other, in the order of instantiation. An
//! import of a part becomes a use of the item that is given for the import. Only functions that
//! adapters implement remain imports of the joined module.
//!
//! All segments of a core module are written before any start function runs. So the segments of a
//! part become passive if an earlier part has a start function. A start function of the joined
//! module writes such segments between the start functions of the parts.

use super::glue::{Called, Glue, Guard, Guarded, Kind};
use super::part::{Export, Given, Item, Part, Space, fault};
use super::shims::Shims;
use crate::error::CompileError;
use std::collections::{BTreeMap, HashMap};
use wasm_encoder::reencode::{Error as ReencodeError, Reencode};
use wasm_encoder::{
    BlockType, CodeSection, DataCountSection, DataSection, ElementSection, Elements, EntityType,
    ExportKind, ExportSection, Function, FunctionSection, GlobalSection, GlobalType, ImportSection,
    Instruction, MemorySection, Module, NameMap, NameSection, StartSection, TableSection,
    TagSection, TypeSection, ValType,
};
use wasmparser::{DataKind, ElementItems, ElementKind};

/// The joined module, and the adapters that it imports, in order.
pub(super) struct Joined {
    pub(super) wasm: Vec<u8>,
    pub(super) adapters: Vec<u32>,
}

/// The input of [`join`].
pub(super) struct Parts<'a> {
    /// The instances of core modules, in order.
    pub(super) parts: &'a [Part<'a>],
    /// Number of component instances, each of which has a flag.
    pub(super) instances: u32,
    pub(super) exports: &'a [Export],
    /// The functions between guests and adapters.
    pub(super) glue: &'a [Glue],
    /// The guards: functions that wrap `realloc` or `post-return`.
    pub(super) guards: &'a [Guard],
    /// The adapter that ends a guest for leaving a component instance that may not be left. The
    /// adapter has no parameters and results.
    pub(super) cannot_leave: u32,
}

/// Joins the parts.
pub(super) fn join(
    all: &Parts<'_>,
    adapter_name: impl Fn(u32) -> [String; 2],
) -> Result<Joined, CompileError> {
    let shims = Shims::find(all.parts, all.exports);
    let places = Places::new(all, &shims)?;
    let mut joined = Joiner {
        parts: all.parts,
        places: &places,
        exports: all.exports,
    };
    let wasm = joined.encode(all.instances, adapter_name)?;
    let imports = places.imports.iter();
    Ok(Joined {
        wasm,
        adapters: imports.map(|import| import.adapter).collect(),
    })
}

/// An adapter that the joined module imports.
struct Import {
    adapter: u32,
    ty: ImportType,
}

/// The type of an imported adapter.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ImportType {
    /// A type of a part, by the indices of the part and of the type.
    Declared(usize, u32),
    /// The parameters of such a function type, and an `i64` as the result.
    Word(usize, u32),
    /// Takes an address, and returns the next request for memory.
    Allocated,
    /// No parameters and no results.
    Nothing,
}

/// Where the items of the parts are in the joined module.
struct Places<'a> {
    parts: &'a [Part<'a>],
    shims: &'a Shims,
    /// The adapters that the module imports, in ascending order.
    imports: Vec<Import>,
    /// The functions between guests and adapters, which follow the imports, each with the part and
    /// the type index that declare the adapter.
    glue: Vec<(Glue, (usize, u32))>,
    /// The number of the function in `glue` that calls an adapter.
    glue_of: HashMap<u32, u32>,
    /// The guards, which follow the glue.
    guards: &'a [Guard],
    cannot_leave: u32,
    /// Whether a part defines a tag, so that guests can throw exceptions.
    throws: bool,
    /// For each part and index space, the first item that the part defines.
    first: Vec<[u32; Space::ALL.len()]>,
    /// For each part, its first type, element segment and data segment.
    types: Vec<u32>,
    elements: Vec<u32>,
    data: Vec<u32>,
    /// Number of items in each index space.
    len: [u32; Space::ALL.len()],
    type_count: u32,
    data_count: u32,
}

impl<'a> Places<'a> {
    fn new(all: &Parts<'a>, shims: &'a Shims) -> Result<Self, CompileError> {
        let parts = all.parts;
        let mut places = Self {
            parts,
            shims,
            imports: vec![],
            glue: vec![],
            glue_of: HashMap::new(),
            guards: all.guards,
            cannot_leave: all.cannot_leave,
            throws: parts.iter().any(|part| part.defined(Space::Tag) > 0),
            first: vec![],
            types: vec![],
            elements: vec![],
            data: vec![],
            len: [0; Space::ALL.len()],
            type_count: 0,
            data_count: 0,
        };
        places.find_adapters(all)?;
        let first = places.imports.len() + places.glue.len() + places.guards.len();
        places.len[Space::Func as usize] = first as u32;
        places.len[Space::Global as usize] = all.instances;
        let mut elements = 0;
        for (at, part) in parts.iter().enumerate() {
            let omitted = shims.omitted.contains(&at);
            places.first.push(places.len);
            for space in Space::ALL {
                let defined = if omitted { 0 } else { part.defined(space) };
                places.len[space as usize] += defined;
            }
            places.types.push(places.type_count);
            places.elements.push(elements);
            places.data.push(places.data_count);
            if !omitted {
                places.type_count += part.type_count;
                elements += part.segments()[0];
                places.data_count += part.segments()[1];
            }
        }
        Ok(places)
    }

    /// Lists the adapters that parts import, and the glue functions.
    fn find_adapters(&mut self, all: &Parts<'_>) -> Result<(), CompileError> {
        let mut found = BTreeMap::new();
        for (at, part) in self.parts.iter().enumerate() {
            if self.shims.omitted.contains(&at) {
                continue;
            }
            for (given, ty) in part.given(Space::Func) {
                if let Given::Adapter(adapter) = self.followed(*given) {
                    found.entry(adapter).or_insert((at, *ty));
                }
            }
        }
        for export in all.exports {
            if let Given::Adapter(adapter) = self.followed(export.given)
                && !found.contains_key(&adapter)
            {
                return Err(unsupported("an export that is only an import"));
            }
        }
        let mut imports = BTreeMap::new();
        let glue: HashMap<u32, &Glue> = all.glue.iter().map(|glue| (glue.adapter, glue)).collect();
        for (adapter, (part, ty)) in found {
            let glue = glue.get(&adapter).copied();
            let word = glue.is_some_and(Glue::returns_word);
            let imported = match word {
                true => ImportType::Word(part, ty),
                false => ImportType::Declared(part, ty),
            };
            imports.insert(adapter, imported);
            if let Some(glue) = glue {
                imports.insert(all.cannot_leave, ImportType::Nothing);
                if let Kind::Allocate { allocated, .. } = glue.kind {
                    imports.insert(allocated, ImportType::Allocated);
                }
                self.glue_of.insert(adapter, self.glue.len() as u32);
                self.glue.push((*glue, (part, ty)));
            }
        }
        let imports = imports.into_iter();
        self.imports = imports
            .map(|(adapter, ty)| Import { adapter, ty })
            .collect();
        Ok(())
    }

    /// Index of a guard: a function that wraps `realloc` or `post-return`.
    fn guard(&self, number: usize) -> u32 {
        (self.imports.len() + self.glue.len() + number) as u32
    }

    /// The index of an adapter that is imported.
    fn import(&self, adapter: u32) -> Result<u32, CompileError> {
        let at = self
            .imports
            .binary_search_by_key(&adapter, |import| import.adapter);
        at.map(|at| at as u32)
            .map_err(|_| fault("an unknown adapter"))
    }

    /// The item or adapter that a chain of imports and shims leads to.
    fn followed(&self, mut given: Given) -> Given {
        while let Given::Item(item) = given {
            match self.shims.behind(self.parts, item) {
                Some(behind) => given = behind,
                None => break,
            }
        }
        given
    }

    /// The index of an item in the joined module.
    fn index(&self, given: Given) -> Result<u32, CompileError> {
        match self.followed(given) {
            Given::Item(item) => {
                let imported = self.parts[item.part].given(item.space).len() as u32;
                Ok(self.first[item.part][item.space as usize] + item.index - imported)
            }
            Given::Adapter(adapter) => match self.glue_of.get(&adapter) {
                Some(at) => Ok(self.imports.len() as u32 + at),
                None => self.import(adapter),
            },
            Given::Flags(instance) => Ok(instance),
        }
    }
}

/// The error for a component of a kind that is not supported.
pub(super) fn unsupported(what: &str) -> CompileError {
    CompileError::Component(format!("{what} is not supported"))
}

/// The error for an unsupported import or export, with as much of its name as fits into a line.
pub(super) fn unsupported_named(what: &str, name: &str) -> CompileError {
    const SHOWN_MAX: usize = 100;
    let shown: String = name.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < name.len() { "..." } else { "" };
    CompileError::Component(format!("{what} is not supported: {shown:?}{more}"))
}

/// Encodes the joined module.
struct Joiner<'a> {
    parts: &'a [Part<'a>],
    places: &'a Places<'a>,
    exports: &'a [Export],
}

impl Joiner<'_> {
    /// The parts that are joined: all except omitted shims and their fillers.
    fn parts(&self) -> impl Iterator<Item = (Indices<'_>, &Part<'_>)> {
        let parts = self.parts.iter().enumerate();
        let kept = parts.filter(|(at, _)| !self.places.shims.omitted.contains(at));
        kept.map(|(part, read)| {
            let places = self.places;
            (Indices { places, part }, read)
        })
    }

    fn encode(
        &mut self,
        instances: u32,
        adapter_name: impl Fn(u32) -> [String; 2],
    ) -> Result<Vec<u8>, CompileError> {
        let mut module = Module::new();
        let (mut types, mut imports) = (TypeSection::new(), ImportSection::new());
        let (mut funcs, mut tables) = (FunctionSection::new(), TableSection::new());
        let (mut memories, mut tags) = (MemorySection::new(), TagSection::new());
        let (mut globals, mut code) = (GlobalSection::new(), CodeSection::new());
        for (mut indices, part) in self.parts() {
            if let Some(section) = part.types.clone() {
                indices.parse_type_section(&mut types, section)?;
            }
        }
        let mut own_types = OwnTypes {
            first: self.places.type_count,
            known: HashMap::new(),
        };
        for import in &self.places.imports {
            let [interface, name] = adapter_name(import.adapter);
            let ty = own_types.index(self, &mut types, import.ty)?;
            imports.import(&interface, &name, EntityType::Function(ty));
        }
        for (glue, (part, ty)) in &self.places.glue {
            funcs.function(self.places.types[*part] + ty);
            code.function(&self.glue_body(glue, *part, *ty)?);
        }
        for guard in self.places.guards {
            let Given::Item(item) = self.places.followed(guard.callee) else {
                return Err(unsupported("an allocator that is an import"));
            };
            let ty = self.parts[item.part].type_of(item.index);
            let ty = ty.ok_or_else(|| fault("an unknown function"))?;
            funcs.function(self.places.types[item.part] + ty);
            let [params, results] = self.func_type(item.part, ty)?;
            let called = Guarded {
                callee: self.places.index(guard.callee)?,
                throws: self.places.throws,
            };
            let result = results.first().copied();
            let result = result.map_or(BlockType::Empty, BlockType::Result);
            code.function(&guard.body(params.len() as u32, result, &called));
        }
        let flags = GlobalType {
            val_type: ValType::I32,
            mutable: true,
            shared: false,
        };
        for _ in 0..instances {
            globals.global(flags, &wasm_encoder::ConstExpr::i32_const(1));
        }
        for (mut indices, part) in self.parts() {
            for ty in &part.funcs {
                funcs.function(indices.type_index(*ty)?);
            }
            if let Some(section) = part.tables.clone() {
                indices.parse_table_section(&mut tables, section)?;
            }
            if let Some(section) = part.memories.clone() {
                indices.parse_memory_section(&mut memories, section)?;
            }
            if let Some(section) = part.tags.clone() {
                indices.parse_tag_section(&mut tags, section)?;
            }
            if let Some(section) = part.globals.clone() {
                indices.parse_global_section(&mut globals, section)?;
            }
            for body in &part.bodies {
                indices.parse_function_body(&mut code, body.clone())?;
            }
        }
        let (elements, data, start) = self.segments()?;
        if let Some(start) = &start {
            funcs.function(own_types.index(self, &mut types, ImportType::Nothing)?);
            code.function(start);
        }
        module.section(&types).section(&imports).section(&funcs);
        module.section(&tables).section(&memories).section(&tags);
        module.section(&globals).section(&self.exports()?);
        if start.is_some() {
            let function_index = self.places.len[Space::Func as usize];
            module.section(&StartSection { function_index });
        }
        module.section(&elements);
        let count = self.places.data_count;
        module.section(&DataCountSection { count });
        module.section(&code).section(&data).section(&self.names()?);
        Ok(module.finish())
    }

    /// The code of a function between a guest and an adapter.
    fn glue_body(&self, glue: &Glue, part: usize, ty: u32) -> Result<Function, CompileError> {
        let guest = match glue.kind {
            Kind::Check => 0,
            Kind::Allocate { realloc, .. } => self.places.guard(realloc),
            Kind::Drop { destructor } => self.places.index(destructor)?,
        };
        let allocated = match glue.kind {
            Kind::Allocate { allocated, .. } => self.places.import(allocated)?,
            Kind::Check | Kind::Drop { .. } => 0,
        };
        let called = Called {
            adapter: self.places.import(glue.adapter)?,
            cannot_leave: self.places.import(self.places.cannot_leave)?,
            guest,
            allocated,
            flag: glue.instance,
            throws: self.places.throws,
        };
        let [params, _] = self.func_type(part, ty)?;
        Ok(glue.body(params.len() as u32, &called))
    }

    /// The parameters and results of a function type of a part.
    fn func_type(&self, part: usize, ty: u32) -> Result<[Vec<ValType>; 2], CompileError> {
        let ty = self.parts[part].ty(ty);
        let ty = ty.ok_or_else(|| fault("an unknown type"))?;
        let wasmparser::CompositeInnerType::Func(ty) = ty.composite_type.inner else {
            return Err(fault("a type of no function"));
        };
        let places = self.places;
        let mut indices = Indices { places, part };
        let mut values = |types: &[wasmparser::ValType]| {
            let types = types.iter().map(|ty| indices.val_type(*ty));
            types.collect::<Result<Vec<_>, _>>()
        };
        Ok([values(ty.params())?, values(ty.results())?])
    }

    fn exports(&self) -> Result<ExportSection, CompileError> {
        let mut section = ExportSection::new();
        let guards = self.places.guards.iter().enumerate();
        let guards: HashMap<&str, usize> = guards
            .map(|(at, guard)| (guard.export.as_str(), at))
            .collect();
        for export in self.exports {
            let kind = match self.places.followed(export.given) {
                Given::Adapter(_) => ExportKind::Func,
                Given::Flags(_) => ExportKind::Global,
                Given::Item(item) => match item.space {
                    Space::Func => ExportKind::Func,
                    Space::Table => ExportKind::Table,
                    Space::Memory => ExportKind::Memory,
                    Space::Global => ExportKind::Global,
                    Space::Tag => ExportKind::Tag,
                },
            };
            let index = match guards.get(export.name.as_str()) {
                Some(guard) => self.places.guard(*guard),
                None => self.places.index(export.given)?,
            };
            section.export(&export.name, kind, index);
        }
        Ok(section)
    }

    /// All segments, and the start function if there is one.
    fn segments(&self) -> Result<(ElementSection, DataSection, Option<Function>), CompileError> {
        let (mut elements, mut data) = (ElementSection::new(), DataSection::new());
        let mut start: Option<Function> = None;
        for (mut indices, part) in self.parts() {
            let sections = (part.elements.clone(), part.data.clone());
            let first = [&self.places.elements, &self.places.data].map(|all| all[indices.part]);
            for (at, segment) in (first[0]..).zip(sections.0.into_iter().flatten()) {
                let segment = segment?;
                match &mut start {
                    Some(start) => indices.late_elements(&mut elements, start, at, segment)?,
                    None => indices.parse_element(&mut elements, segment)?,
                }
            }
            for (at, segment) in (first[1]..).zip(sections.1.into_iter().flatten()) {
                let segment = segment?;
                match &mut start {
                    Some(start) => indices.late_data(&mut data, start, at, segment)?,
                    None => indices.parse_data(&mut data, segment)?,
                }
            }
            if let Some(own) = part.start {
                let start = start.get_or_insert_with(|| Function::new([]));
                start.instruction(&Instruction::Call(indices.function_index(own)?));
            }
        }
        if let Some(start) = &mut start {
            start.instruction(&Instruction::End);
        }
        Ok((elements, data, start))
    }

    /// The names of all functions, for backtraces.
    fn names(&self) -> Result<NameSection, CompileError> {
        let mut all = BTreeMap::new();
        for (mut indices, part) in self.parts() {
            let imported = part.given(Space::Func).len() as u32;
            for (func, name) in &part.names {
                if (imported..imported + part.defined(Space::Func)).contains(func) {
                    all.insert(indices.function_index(*func)?, *name);
                }
            }
        }
        let mut map = NameMap::new();
        for (func, name) in all {
            map.append(func, name);
        }
        let mut names = NameSection::new();
        names.functions(&map);
        Ok(names)
    }
}

/// Types that no part has.
struct OwnTypes {
    /// The index of the first such type.
    first: u32,
    known: HashMap<ImportType, u32>,
}

impl OwnTypes {
    /// The index of a type. Adds it to the section if it is new.
    fn index(
        &mut self,
        joiner: &Joiner<'_>,
        section: &mut TypeSection,
        ty: ImportType,
    ) -> Result<u32, CompileError> {
        if let ImportType::Declared(part, ty) = ty {
            return Ok(joiner.places.types[part] + ty);
        }
        if let Some(known) = self.known.get(&ty) {
            return Ok(*known);
        }
        match ty {
            ImportType::Word(part, ty) => {
                let [params, _] = joiner.func_type(part, ty)?;
                section.ty().function(params, [ValType::I64]);
            }
            ImportType::Allocated => section.ty().function([ValType::I32], [ValType::I64]),
            ImportType::Nothing | ImportType::Declared(..) => section.ty().function([], []),
        }
        let index = self.first + self.known.len() as u32;
        self.known.insert(ty, index);
        Ok(index)
    }
}

/// The indices of one part, in the joined module.
struct Indices<'a> {
    places: &'a Places<'a>,
    part: usize,
}

type Encoded<T> = Result<T, ReencodeError<CompileError>>;

impl Indices<'_> {
    fn item(&self, space: Space, index: u32) -> Encoded<u32> {
        let given = Given::Item(Item {
            part: self.part,
            space,
            index,
        });
        self.places.index(given).map_err(ReencodeError::UserError)
    }

    /// An element segment that the start function writes.
    fn late_elements(
        &mut self,
        elements: &mut ElementSection,
        start: &mut Function,
        at: u32,
        segment: wasmparser::Element<'_>,
    ) -> Result<(), CompileError> {
        let ElementKind::Active {
            table_index,
            offset_expr,
        } = segment.kind
        else {
            return Ok(self.parse_element(elements, segment)?);
        };
        let count = match &segment.items {
            ElementItems::Functions(funcs) => funcs.count(),
            ElementItems::Expressions(_, expressions) => expressions.count(),
        };
        let items: Elements<'_> = self.element_items(segment.items)?;
        elements.passive(items);
        self.offset(start, &offset_expr)?;
        start.instruction(&Instruction::I32Const(0));
        start.instruction(&Instruction::I32Const(count.cast_signed()));
        start.instruction(&Instruction::TableInit {
            elem_index: at,
            table: self.table_index(table_index.unwrap_or(0))?,
        });
        start.instruction(&Instruction::ElemDrop(at));
        Ok(())
    }

    /// A data segment that the start function writes.
    fn late_data(
        &mut self,
        data: &mut DataSection,
        start: &mut Function,
        at: u32,
        segment: wasmparser::Data<'_>,
    ) -> Result<(), CompileError> {
        let DataKind::Active {
            memory_index,
            offset_expr,
        } = segment.kind
        else {
            return Ok(self.parse_data(data, segment)?);
        };
        data.passive(segment.data.iter().copied());
        self.offset(start, &offset_expr)?;
        start.instruction(&Instruction::I32Const(0));
        let bytes = segment.data.len() as u32;
        start.instruction(&Instruction::I32Const(bytes.cast_signed()));
        start.instruction(&Instruction::MemoryInit {
            mem: self.memory_index(memory_index)?,
            data_index: at,
        });
        start.instruction(&Instruction::DataDrop(at));
        Ok(())
    }

    /// Evaluates the offset of a segment.
    fn offset(
        &mut self,
        start: &mut Function,
        offset: &wasmparser::ConstExpr<'_>,
    ) -> Result<(), CompileError> {
        let mut operators = offset.get_operators_reader();
        loop {
            match self.instruction(operators.read()?)? {
                Instruction::End => return Ok(()),
                instruction => start.instruction(&instruction),
            };
        }
    }
}

impl Reencode for Indices<'_> {
    type Error = CompileError;

    fn data_index(&mut self, data: u32) -> Encoded<u32> {
        Ok(self.places.data[self.part] + data)
    }

    fn element_index(&mut self, element: u32) -> Encoded<u32> {
        Ok(self.places.elements[self.part] + element)
    }

    fn function_index(&mut self, func: u32) -> Encoded<u32> {
        self.item(Space::Func, func)
    }

    fn global_index(&mut self, global: u32) -> Encoded<u32> {
        self.item(Space::Global, global)
    }

    fn memory_index(&mut self, memory: u32) -> Encoded<u32> {
        self.item(Space::Memory, memory)
    }

    fn table_index(&mut self, table: u32) -> Encoded<u32> {
        self.item(Space::Table, table)
    }

    fn tag_index(&mut self, tag: u32) -> Encoded<u32> {
        self.item(Space::Tag, tag)
    }

    fn type_index(&mut self, ty: u32) -> Encoded<u32> {
        Ok(self.places.types[self.part] + ty)
    }
}

impl From<ReencodeError<CompileError>> for CompileError {
    fn from(error: ReencodeError<CompileError>) -> Self {
        match error {
            ReencodeError::ParseError(error) => error.into(),
            ReencodeError::UserError(error) => error,
            other => fault(&other.to_string()),
        }
    }
}
