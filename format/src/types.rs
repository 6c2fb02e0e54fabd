//! The types of WebAssembly as the metadata of a compiled module records them.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A value type (spec 2.3.4).
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
    /// Reference to a function, or null.
    FuncRef,
    /// Opaque reference of the host, or null.
    ExternRef,
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::V128 => "v128",
            Self::FuncRef => "funcref",
            Self::ExternRef => "externref",
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
    /// Type of the value it holds.
    pub content: ValType,
    /// Whether `global.set` may change it.
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

/// The type of a table (spec 2.3.10). Limits are in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableType {
    /// [`ValType::FuncRef`] or [`ValType::ExternRef`].
    pub element: ValType,
    /// Initial number of elements.
    pub min: u64,
    /// Most elements that `table.grow` may reach, if stated.
    pub max: Option<u64>,
}

impl fmt::Display for TableType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        limits(f, self.min, self.max)?;
        write!(f, " {}", self.element)
    }
}

/// The type of a memory (spec 2.3.9). Limits are in pages of 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemoryType {
    /// Initial number of pages.
    pub min: u64,
    /// Most pages that `memory.grow` may reach, if stated.
    pub max: Option<u64>,
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        limits(f, self.min, self.max)?;
        f.write_str(" pages")
    }
}

fn limits(f: &mut fmt::Formatter<'_>, min: u64, max: Option<u64>) -> fmt::Result {
    match max {
        Some(max) => write!(f, "{min}..{max}"),
        None => write!(f, "{min}.."),
    }
}

/// What an import is asked to be, and what an export is.
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
}
