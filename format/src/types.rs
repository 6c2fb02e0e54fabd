//! The types of WebAssembly as the metadata of a compiled module records them.

mod composite;
mod groups;
mod reference;
mod subtypes;

use crate::layout::WASM_PAGE_BYTES;
pub use composite::{CompositeType, FieldType, Fields, Layouts, StorageType, SubType};
use core::fmt;
pub use groups::{Groups, SUPERTYPES_MAX, number_types};
pub use reference::{CompositeKind, HeapType, RefType};
use serde::{Deserialize, Serialize};
pub use subtypes::Subtypes;

/// A value type (spec 3.0, 2.3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ValType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 32-bit IEEE 754 number.
    F32,
    /// 64-bit IEEE 754 number.
    F64,
    /// 128-bit vector.
    V128,
    /// A reference.
    Ref(RefType),
}

impl ValType {
    /// Reference to a function, or null.
    pub const FUNCREF: Self = Self::nullable(HeapType::Func);
    /// Reference to a host value, or null.
    pub const EXTERNREF: Self = Self::nullable(HeapType::Extern);
    /// Reference to an exception, or null.
    pub const EXNREF: Self = Self::nullable(HeapType::Exn);
    /// Any reference except to functions, host values and exceptions, or null.
    pub const ANYREF: Self = Self::nullable(HeapType::Any);

    /// A nullable reference to this heap type: `(ref null heap)`.
    #[must_use]
    pub const fn nullable(heap: HeapType) -> Self {
        let nullable = true;
        Self::Ref(RefType { nullable, heap })
    }

    /// A non-null reference to this heap type: `(ref heap)`.
    #[must_use]
    pub const fn non_null(heap: HeapType) -> Self {
        let nullable = false;
        Self::Ref(RefType { nullable, heap })
    }

    /// The heap type, if this is a reference type.
    #[must_use]
    pub const fn heap(self) -> Option<HeapType> {
        match self {
            Self::Ref(ty) => Some(ty.heap),
            _ => None,
        }
    }

    /// Whether the type is defaultable (spec 3.0, 3.2): zero or null is a value of the type.
    #[must_use]
    pub const fn has_default(self) -> bool {
        !matches!(
            self,
            Self::Ref(RefType {
                nullable: false,
                ..
            })
        )
    }

    /// Whether values of this type are references to functions.
    #[must_use]
    pub const fn is_func_ref(self) -> bool {
        matches!(self, Self::Ref(ty) if matches!(ty.heap.top(), HeapType::Func))
    }

    /// Whether values of this type are references to exceptions.
    #[must_use]
    pub const fn is_exn_ref(self) -> bool {
        matches!(self, Self::Ref(ty) if matches!(ty.heap.top(), HeapType::Exn))
    }

    /// Index of the module-defined type that this type refers to, if any.
    #[must_use]
    pub const fn type_index(self) -> Option<u32> {
        match self {
            Self::Ref(RefType {
                heap: HeapType::Concrete(_, index),
                ..
            }) => Some(index),
            _ => None,
        }
    }

    /// The type with its type index replaced by `name(index)`.
    #[must_use]
    pub fn renamed(self, name: impl FnOnce(u32) -> u32) -> Self {
        match self {
            Self::Ref(RefType {
                nullable,
                heap: HeapType::Concrete(kind, index),
            }) => Self::Ref(RefType {
                nullable,
                heap: HeapType::Concrete(kind, name(index)),
            }),
            other => other,
        }
    }

    /// Whether each value of this type is also a value of `wanted` (spec 3.3, matching).
    ///
    /// Type indices must mean the same types in `self` and `wanted`. `is_sub(a, b)` says whether
    /// type `a` is type `b` or a declared subtype of type `b`.
    #[must_use]
    pub fn matches(self, wanted: Self, is_sub: impl FnOnce(u32, u32) -> bool) -> bool {
        match (self, wanted) {
            (Self::Ref(found), Self::Ref(wanted)) => {
                (wanted.nullable || !found.nullable) && found.heap.matches(wanted.heap, is_sub)
            }
            (found, wanted) => found == wanted,
        }
    }
}

impl From<RefType> for ValType {
    fn from(ty: RefType) -> Self {
        Self::Ref(ty)
    }
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ref(ty) => return ty.fmt(f),
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::V128 => "v128",
        })
    }
}

/// A function type (spec 2.3.6).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FuncType {
    /// Parameter types, in order.
    pub params: Vec<ValType>,
    /// Result types, in order.
    pub results: Vec<ValType>,
}

impl FuncType {
    /// Types of the parameters and results.
    pub fn values(&self) -> impl Iterator<Item = ValType> {
        self.params.iter().chain(&self.results).copied()
    }
}

impl fmt::Display for FuncType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list(f: &mut fmt::Formatter<'_>, types: &[ValType]) -> fmt::Result {
            f.write_str("(")?;
            for (i, ty) in types.iter().enumerate() {
                write!(f, "{}{ty}", if i == 0 { "" } else { ", " })?;
            }
            f.write_str(")")
        }
        list(f, &self.params)?;
        f.write_str(" -> ")?;
        match self.results.as_slice() {
            [one] => write!(f, "{one}"),
            many => list(f, many),
        }
    }
}

/// The type of a global (spec 2.3.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GlobalType {
    /// Type of the global's value.
    pub content: ValType,
    /// Whether `global.set` may change the global.
    pub mutable: bool,
}

impl fmt::Display for GlobalType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { content, mutable } = self;
        if *mutable {
            write!(f, "(mut {content})")
        } else {
            write!(f, "{content}")
        }
    }
}

/// The type of addresses in a memory or table, and of sizes (spec 3.0, 2.3.10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AddrType {
    /// 32 bits.
    #[default]
    I32,
    /// 64 bits. A memory uses only the lower 32 bits, see
    /// [`MEMORY_BYTES_MAX`](crate::layout::MEMORY_BYTES_MAX).
    I64,
}

impl AddrType {
    /// The value type of the addresses.
    #[must_use]
    pub const fn val_type(self) -> ValType {
        match self {
            Self::I32 => ValType::I32,
            Self::I64 => ValType::I64,
        }
    }

    /// The address in a 64-bit cell: the upper bits are ignored for 32-bit addresses.
    #[must_use]
    pub const fn address(self, bits: u64) -> u64 {
        match self {
            Self::I32 => bits & u32::MAX as u64,
            Self::I64 => bits,
        }
    }

    /// Prefix that the text format writes before limits.
    const fn prefix(self) -> &'static str {
        match self {
            Self::I32 => "",
            Self::I64 => "i64 ",
        }
    }
}

/// The type of a table (spec 2.3.10). Limits are in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableType {
    /// A reference type.
    pub element: ValType,
    /// The type of the table's indices.
    pub address: AddrType,
    /// Initial number of elements.
    pub min: u64,
    /// Most elements that `table.grow` may reach, if stated.
    pub max: Option<u64>,
}

impl fmt::Display for TableType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        limits(f, self.address, self.min, self.max)?;
        write!(f, " {}", self.element)
    }
}

/// The type of a memory (spec 2.3.9, and the proposals for custom page sizes and threads). Limits
/// are in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemoryType {
    /// The type of the memory's addresses.
    pub address: AddrType,
    /// The size of the memory's pages.
    pub page: PageSize,
    /// Initial number of pages.
    pub min: u64,
    /// Most pages that `memory.grow` may reach, if stated.
    pub max: Option<u64>,
    /// Whether several threads may use the memory at the same time. A shared memory has a maximum.
    pub shared: bool,
}

/// The size of a memory's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PageSize {
    /// 64 KiB, the default.
    Large,
    /// One byte.
    Byte,
}

impl PageSize {
    /// Bytes of a page.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.log2()
    }

    /// Bytes of a page, as a power of 2.
    #[must_use]
    pub const fn log2(self) -> u32 {
        match self {
            Self::Large => WASM_PAGE_BYTES.trailing_zeros(),
            Self::Byte => 0,
        }
    }
}

impl MemoryType {
    /// Initial size in bytes; `None` if the size does not fit in 64 bits.
    #[must_use]
    pub const fn min_bytes(&self) -> Option<u64> {
        self.min.checked_mul(self.page.bytes())
    }

    /// Initially accessible bytes: the initial size, rounded up to a page of 64 KiB. `None` if the
    /// size does not fit in 64 bits.
    ///
    /// Generated code does not touch the bytes that rounding adds.
    #[must_use]
    pub fn accessible_bytes(&self) -> Option<u64> {
        self.min_bytes()?.checked_next_multiple_of(WASM_PAGE_BYTES)
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        limits(f, self.address, self.min, self.max)?;
        f.write_str(match self.page {
            PageSize::Large => " pages",
            PageSize::Byte => " pages of a byte",
        })?;
        f.write_str(if self.shared { ", shared" } else { "" })
    }
}

fn limits(
    f: &mut fmt::Formatter<'_>,
    address: AddrType,
    min: u64,
    max: Option<u64>,
) -> fmt::Result {
    f.write_str(address.prefix())?;
    match max {
        Some(max) => write!(f, "{min}..{max}"),
        None => write!(f, "{min}.."),
    }
}

/// The type of an import or an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExternType {
    /// A function, by index into the module's types.
    Func(u32),
    /// A table.
    Table(TableType),
    /// A memory.
    Memory(MemoryType),
    /// A global.
    Global(GlobalType),
    /// A tag, by index into the module's types. The parameters of the function type are the
    /// exception's values.
    Tag(u32),
}
