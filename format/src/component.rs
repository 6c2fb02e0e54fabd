//! [`Component`]: the description of a compiled component, beside its one core module.
//!
//! The compiler joins all core modules of a component into one core module. Each function that this
//! module imports is an adapter ([`Adapter`]). An export is the core function of an exported
//! function of the component, or has a name that [`memory_name`] or a similar function makes.
//!
//! Source: the component model's specification, "Explainer" and "CanonicalABI".

mod check;
mod describe;
mod layout;

pub use describe::cut;
pub use layout::{FlatType, FlatTypes, Layout, Layouts};

use serde::{Deserialize, Serialize};

/// Most core parameters of a lifted or lowered function (CanonicalABI, `MAX_FLAT_PARAMS`). A
/// function with more parameters passes them in memory.
pub const FLAT_PARAMS_MAX: usize = 16;

/// Most core results of a lifted or lowered function (CanonicalABI, `MAX_FLAT_RESULTS`).
pub const FLAT_RESULTS_MAX: usize = 1;

/// A compiled component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    /// Types of values. A type refers only to earlier types.
    pub types: Vec<DefinedType>,
    /// Types of functions.
    pub funcs: Vec<FuncType>,
    /// The functions that the component imports.
    pub imports: Vec<Import>,
    /// The resource types that the component imports, as the paths of their names.
    pub imported_resources: Vec<Path>,
    /// The resource types that the component defines. In the index space of resource types, they
    /// follow the imported types.
    pub resources: Vec<Resource>,
    /// Tables of handles. `None` for a number that nothing uses.
    pub tables: Vec<Option<HandleTable>>,
    /// Number of component instances.
    pub instances: u32,
    /// Canonical options of lifted and lowered functions.
    pub options: Vec<CanonicalOptions>,
    /// The adapter of each function that the core module imports, in order.
    pub adapters: Vec<Adapter>,
    /// The exported functions.
    pub exports: Vec<Export>,
}

/// The names that lead to an item: the name of an instance and the name within it, or one name.
pub type Path = Vec<String>;

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValueType {
    /// `bool`
    Bool,
    /// `s8`
    S8,
    /// `u8`
    U8,
    /// `s16`
    S16,
    /// `u16`
    U16,
    /// `s32`
    S32,
    /// `u32`
    U32,
    /// `s64`
    S64,
    /// `u64`
    U64,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `char`
    Char,
    /// `string`
    String,
    /// A type in [`Component::types`].
    Defined(u32),
    /// An owned handle of a table in [`Component::tables`].
    Own(u32),
    /// A borrowed handle of a table in [`Component::tables`].
    Borrow(u32),
}

/// A type that is made of other types or of names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DefinedType {
    /// `record`: named fields.
    Record(Vec<(String, ValueType)>),
    /// `variant`: named cases.
    Variant(Vec<(String, Option<ValueType>)>),
    /// `list`
    List(ValueType),
    /// `tuple`
    Tuple(Vec<ValueType>),
    /// `flags`
    Flags(Vec<String>),
    /// `enum`
    Enum(Vec<String>),
    /// `option`
    Option(ValueType),
    /// `result`: the types of `ok` and `error`.
    Result(Option<ValueType>, Option<ValueType>),
}

/// The type of a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FuncType {
    /// Named parameters.
    pub params: Vec<(String, ValueType)>,
    /// The result, if there is one.
    pub result: Option<ValueType>,
}

/// An imported function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The path of the function among the imports.
    pub path: Path,
    /// Index of the function's type.
    pub ty: u32,
}

/// A resource type that the component defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// The component instance that defines the resource type.
    pub instance: u32,
    /// Whether the resource type has a destructor. See [`destructor_name`].
    pub has_destructor: bool,
}

/// The handles of one resource type in one component instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandleTable {
    /// Index of the resource type; imported types come first.
    pub resource: u32,
    /// The component instance. All tables of an instance share one index space of handles.
    pub instance: u32,
}

/// The encoding of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StringEncoding {
    /// UTF-8.
    Utf8,
    /// UTF-16, little-endian.
    Utf16,
    /// Latin-1, or UTF-16 if bit 31 of the length is set.
    Latin1OrUtf16,
}

/// The canonical options of a lifted or lowered function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalOptions {
    /// The component instance to which the core function belongs.
    pub instance: u32,
    /// The encoding of the function's strings.
    pub encoding: StringEncoding,
    /// Number of the function's memory, see [`memory_name`].
    pub memory: Option<u32>,
    /// Number of the function that allocates in that memory, see [`realloc_name`].
    pub realloc: Option<u32>,
    /// Number of the function to call after a lifted function's results were read, see
    /// [`post_return_name`].
    pub post_return: Option<u32>,
}

/// The task of a function that the core module imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Adapter {
    /// `canon lower`: calls an imported function.
    Lower {
        /// Index of the imported function.
        import: u32,
        /// Index of the function's type, in the view of the calling component instance.
        ty: u32,
        /// Index of the options.
        options: u32,
    },
    /// `canon resource.new` for a table of handles.
    ResourceNew(u32),
    /// `canon resource.rep`
    ResourceRep(u32),
    /// `canon resource.drop`
    ResourceDrop(u32),
    /// Moves an owned handle to another component instance: handle, source table, destination
    /// table.
    TransferOwn,
    /// Lends a handle to another component instance: handle, source table, destination table.
    TransferBorrow,
    /// A call from one component instance to another begins.
    EnterCall,
    /// A call from one component instance to another ends.
    ExitCall,
    /// Copies a string between memories and changes its encoding.
    Transcode {
        /// The encodings of the source and the destination.
        op: Transcode,
        /// Number of the source memory.
        from: u32,
        /// Number of the destination memory.
        to: u32,
    },
    /// Ends the guest: a rule of the canonical ABI was broken between two component instances. The
    /// parameter is the number of the rule, see [`broken_rule`].
    Trap,
    /// Ends a guest that calls an import while the component instance may not be left.
    CannotLeave,
    /// Takes the address of memory that a lowered function requested, and returns the next request.
    Allocated,
}

/// The conversion of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transcode {
    /// UTF-8 stays as it is.
    CopyUtf8,
    /// UTF-16 stays as it is.
    CopyUtf16,
    /// Latin-1 stays as it is.
    CopyLatin1,
    /// Latin-1 to UTF-16.
    Latin1ToUtf16,
    /// Latin-1 to UTF-8.
    Latin1ToUtf8,
    /// UTF-16 to Latin-1 or UTF-16, where UTF-16 is likely.
    Utf16ToCompactProbablyUtf16,
    /// UTF-16 to Latin-1 or UTF-16.
    Utf16ToCompactUtf16,
    /// UTF-16 to Latin-1, as far as that is possible.
    Utf16ToLatin1,
    /// UTF-16 to UTF-8.
    Utf16ToUtf8,
    /// UTF-8 to UTF-16, after a prefix of Latin-1.
    Utf8ToCompactUtf16,
    /// UTF-8 to Latin-1, as far as that is possible.
    Utf8ToLatin1,
    /// UTF-8 to UTF-16.
    Utf8ToUtf16,
}

/// An exported function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The names that lead to the function.
    pub path: Path,
    /// Index of the function's type.
    pub ty: u32,
    /// Index of the function's options.
    pub options: u32,
    /// The name of the core function among the core module's exports.
    pub core: String,
}

/// The rule of the canonical ABI that code between two component instances says is broken: the
/// parameter of [`Adapter::Trap`].
#[must_use]
pub fn broken_rule(number: u32) -> &'static str {
    match number {
        1 => "an access out of the bounds of a memory",
        17 => "a component instance that may not be entered",
        23 => "a component instance that may not be left",
        24 => "a synchronous function that waits",
        25 => "a number that is no Unicode scalar value",
        30 => "a string out of the bounds of its memory",
        31 => "a list out of the bounds of its memory",
        32 => "a discriminant without a case",
        33 => "an unaligned pointer",
        49 => "an exception that leaves a component",
        _ => "a check of the compiler itself",
    }
}

/// Name under which the core module exports memory `number`. This name and the names below contain
/// a dot, unlike the names of functions of a component.
#[must_use]
pub fn memory_name(number: u32) -> String {
    format!("memory.{number}")
}

/// Name of the function that allocates in a memory.
#[must_use]
pub fn realloc_name(number: u32) -> String {
    format!("realloc.{number}")
}

/// Name of a function to call after results were read.
#[must_use]
pub fn post_return_name(number: u32) -> String {
    format!("post-return.{number}")
}

/// Name of the destructor of a resource type that the component defines.
#[must_use]
pub fn destructor_name(resource: u32) -> String {
    format!("destructor.{resource}")
}

/// Name of the global that holds the flags of a component instance.
#[must_use]
pub fn flags_name(instance: u32) -> String {
    format!("flags.{instance}")
}
