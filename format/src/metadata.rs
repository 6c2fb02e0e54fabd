//! The variable part of a compiled module. `open` and `prepare` read this part; requests never do.
//!
//! The encoding is [postcard], whose wire format is fixed and documented. The content hash of the
//! file is checked before the metadata is decoded.
//!
//! [postcard]: https://postcard.jamesmunns.com/wire-format

mod check;
mod snapshot;

pub use snapshot::{Element, Snapshot};

use crate::component::Component;
use crate::error::FormatError;
use crate::layout::{Counts, InstanceLayout};
use crate::types::{
    AddrType, CompositeKind, CompositeType, ExternType, FieldType, FuncType, GlobalType, Groups,
    HeapType, MemoryType, SubType, Subtypes, TableType, ValType,
};
use serde::{Deserialize, Serialize};

/// Everything about a module except its code and the tables that are searched in place.
///
/// Index spaces follow WebAssembly: imports first, then definitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Name of the module from its name section.
    pub name: Option<String>,
    /// Types. A type refers only to earlier types and to types in its recursion group.
    pub types: Vec<SubType>,
    /// Recursion groups of the types.
    pub groups: Groups,
    /// Imports, in order.
    pub imports: Vec<Import>,
    /// Exports, in order.
    pub exports: Vec<Export>,
    /// Type index of every function.
    pub funcs: Vec<u32>,
    /// Type of every table.
    pub tables: Vec<TableType>,
    /// For each defined table, the initial value of all its elements; `None` for null.
    pub table_inits: Vec<Option<ConstExpr>>,
    /// Type of every memory.
    pub memories: Vec<MemoryType>,
    /// Type index of every tag. The function type has no results.
    pub tags: Vec<u32>,
    /// Type of every global.
    pub globals: Vec<GlobalType>,
    /// Initial value of every defined global.
    pub global_inits: Vec<ConstExpr>,
    /// The start function, if any.
    pub start: Option<u32>,
    /// Functions that can be referred to, ascending.
    ///
    /// These are exported functions, the start function, and functions in an element segment, in a
    /// global's initial value or in `ref.func`. Each function in the list has a
    /// [`FuncRef`](crate::layout::FuncRef) at its position in the list.
    pub address_taken: Vec<u32>,
    /// Text offset of the code of every function. For an imported function, the offset of the
    /// trampoline that calls a host function.
    pub code: Vec<u32>,
    /// For every type, the text offset of the trampoline through which the host calls functions of
    /// the type. `None` if no function of the type can be referred to.
    pub entries: Vec<Option<u32>>,
    /// Element segments, in order.
    pub elements: Vec<ElementSegment>,
    /// Data segments, in order.
    pub data: Vec<DataSegment>,
    /// Whether the module imports or exports a table, or has an instruction that changes a table.
    /// Otherwise a reset need not restore the tables, and the host cannot change them.
    pub tables_change: bool,
    /// Whether the module allocates on the instance's heap: structs, arrays or boxed references.
    pub heap: bool,
    /// Whether the code counts fuel in [`Context::fuel`](crate::layout::Context::fuel), and traps
    /// when the fuel is used up.
    pub fuel: bool,
    /// Names of functions from the name section, by function index, ascending.
    pub func_names: Vec<(u32, String)>,
    /// If the module is a snapshot, the rest of its initial state.
    pub snapshot: Option<Snapshot>,
    /// If the module was a component, its types, imports and exports.
    pub component: Option<Component>,
    /// The input and the settings of the compilation. A snapshot has the `source` of the module
    /// that its code comes from.
    pub source: Source,
}

/// The input and the settings of a compilation. Only people and tools read this data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// SHA-256 of the `.wasm` file, which `sha256sum` prints, too.
    pub wasm_sha256: [u8; 32],
    /// Name and version of the compiler and of its code generator.
    pub compiler: String,
    /// The options that decide the output, as `aotc` takes them on its command line.
    pub options: String,
}

/// One import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// Module name of the import.
    pub module: String,
    /// Name of the import within that module.
    pub name: String,
    /// Type that the imported item must have.
    pub ty: ExternType,
}

/// One export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// Name, unique among the module's exports.
    pub name: String,
    /// The exported item.
    pub item: ExportItem,
}

/// An exported item, by index in its index space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExportItem {
    /// A function.
    Func(u32),
    /// A table.
    Table(u32),
    /// A memory.
    Memory(u32),
    /// A global.
    Global(u32),
    /// A tag.
    Tag(u32),
}

/// A constant expression (spec 3.4.12 and the extended-const proposal) in postfix order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstExpr(pub Vec<ConstOp>);

impl ConstExpr {
    /// Whether evaluation allocates on the heap. Then every instance evaluates the expression for
    /// itself.
    #[must_use]
    pub fn allocates(&self) -> bool {
        self.0.iter().any(|op| {
            matches!(
                op,
                ConstOp::StructNew(_)
                    | ConstOp::StructNewDefault(_)
                    | ConstOp::ArrayNew(_)
                    | ConstOp::ArrayNewDefault(_)
                    | ConstOp::ArrayNewFixed(..)
                    | ConstOp::AnyConvertExtern
            )
        })
    }
}

/// One operator of a constant expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConstOp {
    /// `i32.const`
    I32(i32),
    /// `i64.const`
    I64(i64),
    /// `f32.const`, as its bits.
    F32(u32),
    /// `f64.const`, as its bits.
    F64(u64),
    /// `v128.const`, little-endian.
    V128([u8; 16]),
    /// `ref.null`
    RefNull,
    /// `ref.func`
    RefFunc(u32),
    /// `global.get`
    GlobalGet(u32),
    /// `i32.add`
    I32Add,
    /// `i32.sub`
    I32Sub,
    /// `i32.mul`
    I32Mul,
    /// `i64.add`
    I64Add,
    /// `i64.sub`
    I64Sub,
    /// `i64.mul`
    I64Mul,
    /// `ref.i31`
    RefI31,
    /// `struct.new`, with the type index.
    StructNew(u32),
    /// `struct.new_default`
    StructNewDefault(u32),
    /// `array.new`
    ArrayNew(u32),
    /// `array.new_default`
    ArrayNewDefault(u32),
    /// `array.new_fixed`, with the type index and the number of elements.
    ArrayNewFixed(u32, u32),
    /// `any.convert_extern`
    AnyConvertExtern,
    /// `extern.convert_any`
    ExternConvertAny,
}

/// An element segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementSegment {
    /// When the segment is copied to a table.
    pub mode: SegmentMode,
    /// The references in the segment.
    pub items: ElementItems,
}

/// The references of an element segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ElementItems {
    /// Functions by index: the common, compact form.
    Funcs(Vec<u32>),
    /// One constant expression for each reference.
    Exprs(Vec<ConstExpr>),
}

impl ElementItems {
    /// Number of references.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Funcs(funcs) => funcs.len(),
            Self::Exprs(exprs) => exprs.len(),
        }
    }

    /// Whether there is no reference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A data segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSegment {
    /// When the segment is copied to a memory.
    pub mode: SegmentMode,
    /// Start of the segment's bytes in [`Section::Data`](crate::sections::Section::Data). Unused,
    /// with a length of 0, if the segment is part of the image.
    pub start: u32,
    /// Number of the segment's bytes in that section.
    pub len: u32,
}

/// When a segment is copied to its table or memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SegmentMode {
    /// At instantiation, to a table or memory.
    Active {
        /// Table or memory index.
        index: u32,
        /// Offset of the destination, in elements or bytes.
        offset: ConstExpr,
    },
    /// Only when the guest executes an instruction that reads the segment, such as `table.init` or
    /// `memory.init`.
    Passive,
    /// Never. The segment only declares references, or the image already contains it.
    Done,
}

/// Number of imports of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    /// Functions.
    pub funcs: u32,
    /// Tables.
    pub tables: u32,
    /// Memories.
    pub memories: u32,
    /// Globals.
    pub globals: u32,
}

impl Metadata {
    /// Encodes the metadata for the file.
    ///
    /// # Errors
    ///
    /// [`FormatError::Damaged`] if the encoder fails, which no value of this type causes.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        postcard::to_allocvec(self).map_err(|e| FormatError::Damaged(format!("metadata: {e}")))
    }

    /// Decodes the metadata. Checks that every index is in range, and that every initial value has
    /// the type of the place that it initialises.
    ///
    /// # Errors
    ///
    /// [`FormatError::Damaged`], which names the wrong part.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (metadata, rest): (Self, _) = postcard::take_from_bytes(bytes)
            .map_err(|e| FormatError::Damaged(format!("metadata: {e}")))?;
        if !rest.is_empty() {
            let damage = format!("metadata: {} bytes after its end", rest.len());
            return Err(FormatError::Damaged(damage));
        }
        crate::metadata::check::check(&metadata)?;
        Ok(metadata)
    }

    /// Compares the types of this metadata: equality and subtyping.
    #[must_use]
    pub fn subtypes(&self) -> Subtypes<'_> {
        Subtypes::new(&self.types, &self.groups)
    }

    /// Whether element segment `segment` exists, and each of its references is a value of type
    /// `wanted`.
    ///
    /// Decoding compares active segments with their tables. The metadata records no type for other
    /// segments. So a verifier must call this for each instruction that reads such a segment, with
    /// the type of the instruction's table or array. `subtypes` must come from
    /// [`Metadata::subtypes`] of the same metadata.
    #[must_use]
    pub fn elements_match(&self, segment: u32, wanted: ValType, subtypes: &Subtypes<'_>) -> bool {
        let segment = self.elements.get(segment as usize);
        segment.is_some_and(|segment| check::elements_match(self, segment, wanted, subtypes))
    }

    /// The function type with this index.
    ///
    /// Returns a type without parameters and results if there is no such function type. In checked
    /// metadata that cannot happen for the type of a function or a tag.
    #[must_use]
    pub fn func_type(&self, index: u32) -> &FuncType {
        static NONE: FuncType = FuncType {
            params: vec![],
            results: vec![],
        };
        match self.types.get(index as usize).map(|ty| &ty.composite) {
            Some(CompositeType::Func(ty)) => ty,
            _ => &NONE,
        }
    }

    /// The fields of the struct type with this index; empty if there is no such struct type.
    #[must_use]
    pub fn struct_fields(&self, index: u32) -> &[FieldType] {
        match self.types.get(index as usize).map(|ty| &ty.composite) {
            Some(CompositeType::Struct(fields)) => fields,
            _ => &[],
        }
    }

    /// The element type of the array type with this index; `None` if there is no such array type.
    #[must_use]
    pub fn array_element(&self, index: u32) -> Option<FieldType> {
        match self.types.get(index as usize)?.composite {
            CompositeType::Array(element) => Some(element),
            _ => None,
        }
    }

    /// Whether the module's types are structs, arrays, or references to them or to 31-bit integers,
    /// or contain such references.
    #[must_use]
    pub fn has_object_types(&self) -> bool {
        let is_any = |ty: ValType| ty.heap().is_some_and(|heap| heap.top() == HeapType::Any);
        let is_object = |ty: &SubType| match &ty.composite {
            CompositeType::Func(func) => func.values().any(is_any),
            CompositeType::Struct(_) | CompositeType::Array(_) => true,
        };
        self.types.iter().any(is_object)
            || self.tables.iter().any(|table| is_any(table.element))
            || self.globals.iter().any(|global| is_any(global.content))
    }

    /// The kind of the type with this index.
    #[must_use]
    pub fn kind(&self, index: u32) -> Option<CompositeKind> {
        self.types.get(index as usize).map(SubType::kind)
    }

    /// Number of supertypes in the chain above the type with this index.
    #[must_use]
    pub fn depth(&self, index: u32) -> u32 {
        let mut above = self.types[index as usize].supertype;
        let mut depth = 0;
        while let Some(index) = above {
            above = self.types[index as usize].supertype;
            depth += 1;
        }
        depth
    }

    /// Number of imported functions.
    #[must_use]
    pub fn imported_funcs(&self) -> u32 {
        self.count_imports(|ty| matches!(ty, ExternType::Func(_)))
    }

    /// The imports that are functions, in order.
    pub fn imports_of_funcs(&self) -> impl Iterator<Item = &Import> {
        self.imports
            .iter()
            .filter(|import| matches!(import.ty, ExternType::Func(_)))
    }

    /// Number of imported tables.
    #[must_use]
    pub fn imported_tables(&self) -> u32 {
        self.count_imports(|ty| matches!(ty, ExternType::Table(_)))
    }

    /// Number of imported memories.
    #[must_use]
    pub fn imported_memories(&self) -> u32 {
        self.count_imports(|ty| matches!(ty, ExternType::Memory(_)))
    }

    /// Number of imported globals.
    #[must_use]
    pub fn imported_globals(&self) -> u32 {
        self.count_imports(|ty| matches!(ty, ExternType::Global(_)))
    }

    /// Numbers of imports of each kind. Walks through all imports four times.
    #[must_use]
    pub fn imported(&self) -> Imported {
        Imported {
            funcs: self.imported_funcs(),
            tables: self.imported_tables(),
            memories: self.imported_memories(),
            globals: self.imported_globals(),
        }
    }

    fn count_imports(&self, is: impl Fn(&ExternType) -> bool) -> u32 {
        self.imports.iter().filter(|import| is(&import.ty)).count() as u32
    }

    /// The memories that the module defines. The descriptor of the first such memory is in the
    /// context. Only a snapshot has images of the other memories.
    #[must_use]
    pub fn own_memories(&self) -> &[MemoryType] {
        self.memories
            .get(self.imported_memories() as usize..)
            .unwrap_or_default()
    }

    /// The address type of a memory; 32 bits if there is no memory with this index.
    #[must_use]
    pub fn memory_address(&self, memory: u32) -> AddrType {
        let memory = self.memories.get(memory as usize);
        memory.map_or(AddrType::I32, |memory| memory.address)
    }

    /// The counts that determine the layout of the instance area.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            globals: self.globals.len() as u32,
            tables: self.tables.len() as u32,
            memories: self.memories.len() as u32,
            segments: (self.data.len() + self.elements.len()) as u32,
            imported_funcs: self.imported_funcs(),
            types: self.types.len() as u32,
            address_taken_funcs: self.address_taken.len() as u32,
            tags: self.tags.len() as u32,
        }
    }

    /// Where the parts of the instance area lie; `None` if the area is too large.
    #[must_use]
    pub fn layout(&self) -> Option<InstanceLayout> {
        InstanceLayout::new(self.counts())
    }

    /// Position of function `index` in [`address_taken`](Self::address_taken), if the function can
    /// be referred to.
    #[must_use]
    pub fn address_taken_position(&self, index: u32) -> Option<u32> {
        self.address_taken
            .binary_search(&index)
            .ok()
            .map(|at| at as u32)
    }

    /// The exported item with this name.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<ExportItem> {
        self.exports
            .iter()
            .find(|export| export.name == name)
            .map(|export| export.item)
    }

    /// The name of function `index`: from the name section, or else the name of its first export.
    #[must_use]
    pub fn func_name(&self, index: u32) -> Option<&str> {
        if let Ok(at) = self.func_names.binary_search_by_key(&index, |(i, _)| *i) {
            return Some(&self.func_names[at].1);
        }
        let exported = |export: &&Export| export.item == ExportItem::Func(index);
        self.exports
            .iter()
            .find(exported)
            .map(|export| export.name.as_str())
    }
}

#[cfg(test)]
mod tests;
