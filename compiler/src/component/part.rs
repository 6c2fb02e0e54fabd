//! [`Part`]: an instance of a core module of a component, with the data that joining needs.

use crate::error::CompileError;
use core::cell::OnceCell;
use wasmparser::{
    CompositeInnerType, DataSectionReader, ElementKind, ElementSectionReader, FunctionBody,
    GlobalSectionReader, MemorySectionReader, Name, NameSectionReader, Parser, Payload, SubType,
    TableSectionReader, TagSectionReader, TypeRef, TypeSectionReader,
};

/// An index space of a core module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Func,
    Table,
    Memory,
    Global,
    Tag,
}

impl Space {
    pub(super) const ALL: [Self; 5] = [
        Self::Func,
        Self::Table,
        Self::Memory,
        Self::Global,
        Self::Tag,
    ];

    fn of(ty: &TypeRef) -> Self {
        match ty {
            TypeRef::Func(_) | TypeRef::FuncExact(_) => Self::Func,
            TypeRef::Table(_) => Self::Table,
            TypeRef::Memory(_) => Self::Memory,
            TypeRef::Global(_) => Self::Global,
            TypeRef::Tag(_) => Self::Tag,
        }
    }
}

/// The item or adapter that is given for an import of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Given {
    /// An item of an earlier part, by its index in that part's index space.
    Item(Item),
    /// The adapter with this number.
    Adapter(u32),
    /// The flags of this component instance.
    Flags(u32),
}

/// An item of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) part: usize,
    pub(super) space: Space,
    pub(super) index: u32,
}

/// An export of the joined module.
pub(super) struct Export {
    pub(super) name: String,
    pub(super) given: Given,
}

/// An instance of a core module.
#[derive(Default)]
pub(super) struct Part<'a> {
    /// For each index space, the given items of the imports, each with the type of the import.
    pub(super) given: [Vec<(Given, TypeRefOf)>; Space::ALL.len()],
    pub(super) types: Option<TypeSectionReader<'a>>,
    pub(super) type_count: u32,
    /// The decoded `types`, filled at the first use.
    each_type: OnceCell<Vec<SubType>>,
    /// The type index of each function that the part defines.
    pub(super) funcs: Vec<u32>,
    pub(super) tables: Option<TableSectionReader<'a>>,
    pub(super) memories: Option<MemorySectionReader<'a>>,
    pub(super) globals: Option<GlobalSectionReader<'a>>,
    pub(super) tags: Option<TagSectionReader<'a>>,
    pub(super) elements: Option<ElementSectionReader<'a>>,
    pub(super) data: Option<DataSectionReader<'a>>,
    pub(super) start: Option<u32>,
    pub(super) bodies: Vec<FunctionBody<'a>>,
    /// Names of functions.
    pub(super) names: Vec<(u32, &'a str)>,
}

/// The type index of an imported function; 0 for anything else.
pub(super) type TypeRefOf = u32;

impl<'a> Part<'a> {
    /// Reads a core module, whose imports are given in order.
    pub(super) fn read(wasm: &'a [u8], given: &[Given]) -> Result<Self, CompileError> {
        let mut part = Self::default();
        let mut given = given.iter();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::TypeSection(section) => {
                    for group in section.clone() {
                        part.type_count += group?.types().len() as u32;
                    }
                    part.types = Some(section);
                }
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let ty = import?.ty;
                        let given = given.next().ok_or_else(|| fault("a missing argument"))?;
                        let index = match ty {
                            TypeRef::Func(index) | TypeRef::FuncExact(index) => index,
                            _ => 0,
                        };
                        part.given[Space::of(&ty) as usize].push((*given, index));
                    }
                }
                Payload::FunctionSection(section) => {
                    part.funcs = section.into_iter().collect::<Result<_, _>>()?;
                }
                Payload::TableSection(section) => part.tables = Some(section),
                Payload::MemorySection(section) => part.memories = Some(section),
                Payload::TagSection(section) => part.tags = Some(section),
                Payload::GlobalSection(section) => part.globals = Some(section),
                Payload::StartSection { func, .. } => part.start = Some(func),
                Payload::ElementSection(section) => part.elements = Some(section),
                Payload::DataSection(section) => part.data = Some(section),
                Payload::CodeSectionEntry(body) => part.bodies.push(body),
                Payload::CustomSection(section) if section.name() == "name" => {
                    let reader = wasmparser::BinaryReader::new(section.data(), 0);
                    part.names = names(NameSectionReader::new(reader));
                }
                _ => {}
            }
        }
        Ok(part)
    }

    /// The given items for the imports of an index space.
    pub(super) fn given(&self, space: Space) -> &[(Given, TypeRefOf)] {
        &self.given[space as usize]
    }

    /// Number of items that the part defines.
    pub(super) fn defined(&self, space: Space) -> u32 {
        match space {
            Space::Func => self.funcs.len() as u32,
            Space::Table => self
                .tables
                .as_ref()
                .map_or(0, wasmparser::SectionLimited::count),
            Space::Memory => self
                .memories
                .as_ref()
                .map_or(0, wasmparser::SectionLimited::count),
            Space::Global => self
                .globals
                .as_ref()
                .map_or(0, wasmparser::SectionLimited::count),
            Space::Tag => self
                .tags
                .as_ref()
                .map_or(0, wasmparser::SectionLimited::count),
        }
    }

    /// Number of element segments and of data segments.
    pub(super) fn segments(&self) -> [u32; 2] {
        [
            self.elements
                .as_ref()
                .map_or(0, wasmparser::SectionLimited::count),
            self.data
                .as_ref()
                .map_or(0, wasmparser::SectionLimited::count),
        ]
    }

    /// The initial size of the part's first table.
    pub(super) fn table_len(&self) -> u64 {
        let mut tables = self.tables.clone().into_iter().flatten();
        let table = tables.next().and_then(Result::ok);
        table.map_or(0, |table| table.ty.initial)
    }

    /// The type index of a function.
    pub(super) fn type_of(&self, func: u32) -> Option<u32> {
        let imported = self.given(Space::Func);
        match imported.get(func as usize) {
            Some((_, ty)) => Some(*ty),
            None => self.funcs.get(func as usize - imported.len()).copied(),
        }
    }

    /// The type with an index.
    pub(super) fn ty(&self, index: u32) -> Option<SubType> {
        let all = self.each_type.get_or_init(|| {
            let groups = self.types.clone().into_iter().flatten();
            let groups = groups.filter_map(Result::ok);
            groups.flat_map(wasmparser::RecGroup::into_types).collect()
        });
        all.get(index as usize).cloned()
    }

    /// Whether two types are the same function type, with numbers only. References could name types
    /// by indices, which differ between parts.
    pub(super) fn same_numbers(one: Option<SubType>, other: Option<SubType>) -> bool {
        let (Some(one), Some(other)) = (one, other) else {
            return false;
        };
        let inner = [&one, &other].map(|ty| &ty.composite_type.inner);
        let [
            CompositeInnerType::Func(one),
            CompositeInnerType::Func(other),
        ] = inner
        else {
            return false;
        };
        let mut values = one.params().iter().chain(one.results());
        one == other && values.all(|ty| !ty.is_reference_type())
    }

    /// The part's only element segment, if the segment is active: the table, and the function at
    /// each element.
    pub(super) fn only_segment(&self) -> Option<(u32, Vec<(u32, u32)>)> {
        let section = self
            .elements
            .clone()
            .filter(|section| section.count() == 1)?;
        let segment = section.into_iter().next()?.ok()?;
        let ElementKind::Active {
            table_index,
            offset_expr,
        } = segment.kind
        else {
            return None;
        };
        let mut operators = offset_expr.get_operators_reader();
        let wasmparser::Operator::I32Const { value } = operators.read().ok()? else {
            return None;
        };
        let wasmparser::Operator::End = operators.read().ok()? else {
            return None;
        };
        let wasmparser::ElementItems::Functions(funcs) = segment.items else {
            return None;
        };
        let funcs = funcs.into_iter().collect::<Result<Vec<u32>, _>>().ok()?;
        let first = value.cast_unsigned();
        first.checked_add(u32::try_from(funcs.len()).ok()?)?;
        let elements = (first..).zip(funcs).collect();
        Some((table_index.unwrap_or(0), elements))
    }
}

/// The names of functions. Damaged parts of the section are skipped.
fn names(section: NameSectionReader<'_>) -> Vec<(u32, &str)> {
    let mut names = vec![];
    for name in section {
        if let Ok(Name::Function(map)) = name {
            let all = map.into_iter().filter_map(Result::ok);
            names.extend(all.map(|naming| (naming.index, naming.name)));
        }
    }
    names
}

/// A fault of the translation, which no valid component causes.
pub(super) fn fault(what: &str) -> CompileError {
    CompileError::Component(format!(
        "{what}; this is a fault of the compiler, report it"
    ))
}
