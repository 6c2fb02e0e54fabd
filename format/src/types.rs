//! The types of WebAssembly as the metadata of a compiled module records them.

use crate::layout::WASM_PAGE_BYTES;
use core::fmt;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A value type (spec 3.0, 2.3.4 and 2.3.5).
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
    /// Reference to a function, not null: `(ref func)`.
    NonNullFuncRef,
    /// Opaque reference of the host, not null: `(ref extern)`.
    NonNullExternRef,
    /// Reference to a function of the type of this index among its module's, or null: `(ref null $t)`.
    TypedFuncRef(u32),
    /// Reference to a function of the type of this index among its module's, not null: `(ref $t)`.
    NonNullTypedFuncRef(u32),
    /// Reference to an exception, or null.
    ExnRef,
    /// Reference to an exception, not null: `(ref exn)`.
    NonNullExnRef,
}

impl ValType {
    /// Whether its values are references to functions.
    #[must_use]
    pub const fn is_func_ref(self) -> bool {
        matches!(
            self,
            Self::FuncRef
                | Self::NonNullFuncRef
                | Self::TypedFuncRef(_)
                | Self::NonNullTypedFuncRef(_)
        )
    }

    /// Whether its values are references to exceptions.
    #[must_use]
    pub const fn is_exn_ref(self) -> bool {
        matches!(self, Self::ExnRef | Self::NonNullExnRef)
    }

    /// The function type that it names, by its index.
    #[must_use]
    pub const fn type_index(self) -> Option<u32> {
        match self {
            Self::TypedFuncRef(index) | Self::NonNullTypedFuncRef(index) => Some(index),
            _ => None,
        }
    }

    /// The same type, which names another's index or number in place of its own.
    #[must_use]
    pub fn renamed(self, name: impl FnOnce(u32) -> u32) -> Self {
        match self {
            Self::TypedFuncRef(index) => Self::TypedFuncRef(name(index)),
            Self::NonNullTypedFuncRef(index) => Self::NonNullTypedFuncRef(name(index)),
            other => other,
        }
    }

    /// Whether each of its values is one of `wanted`, where both name types alike (spec 3.3, matching).
    #[must_use]
    pub fn matches(self, wanted: Self) -> bool {
        match (self, wanted) {
            (Self::NonNullExternRef, Self::ExternRef)
            | (Self::NonNullExnRef, Self::ExnRef)
            | (Self::NonNullTypedFuncRef(_), Self::NonNullFuncRef) => true,
            (found, Self::FuncRef) => found.is_func_ref(),
            (Self::NonNullTypedFuncRef(found), Self::TypedFuncRef(wanted)) => found == wanted,
            (found, wanted) => found == wanted,
        }
    }
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TypedFuncRef(index) => return write!(f, "(ref null {index})"),
            Self::NonNullTypedFuncRef(index) => return write!(f, "(ref {index})"),
            Self::NonNullFuncRef => "(ref func)",
            Self::NonNullExternRef => "(ref extern)",
            Self::NonNullExnRef => "(ref exn)",
            Self::ExnRef => "exnref",
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

impl FuncType {
    /// Its parameters and results.
    pub fn values(&self) -> impl Iterator<Item = ValType> {
        self.params.iter().chain(&self.results).copied()
    }
}

/// A number for each type of a module, so that equal types have equal ones, of whatever modules.
///
/// A type may name those before it. `number` is given each with numbers in place of indices, and gives the same number
/// for the same again: then two types are equal if they are written alike, however far down.
///
/// # Panics
///
/// If a type names itself or one behind it, which neither the validator nor [`Metadata`](crate::metadata::Metadata)
/// lets through.
pub fn number_types(
    types: &[FuncType],
    mut number: impl FnMut(Cow<'_, FuncType>) -> u32,
) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::with_capacity(types.len());
    for ty in types {
        let name = |index: u32| numbers[index as usize];
        let named = |types: &[ValType]| types.iter().map(|ty| ty.renamed(name)).collect();
        let given = if ty.values().any(|ty| ty.type_index().is_some()) {
            Cow::Owned(FuncType {
                params: named(&ty.params),
                results: named(&ty.results),
            })
        } else {
            Cow::Borrowed(ty)
        };
        numbers.push(number(given));
    }
    numbers
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

/// The type of addresses in a memory or table, and of its sizes (spec 3.0, 2.3.10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AddrType {
    /// 32 bits.
    #[default]
    I32,
    /// 64 bits, of which a memory uses no more than the lower 32: see
    /// [`MEMORY_BYTES_MAX`](crate::layout::MEMORY_BYTES_MAX).
    I64,
}

impl AddrType {
    /// The type of its values.
    #[must_use]
    pub const fn val_type(self) -> ValType {
        match self {
            Self::I32 => ValType::I32,
            Self::I64 => ValType::I64,
        }
    }

    /// The address that a value is, of whose bits only as many count as the type has.
    #[must_use]
    pub const fn address(self, bits: u64) -> u64 {
        match self {
            Self::I32 => bits & u32::MAX as u64,
            Self::I64 => bits,
        }
    }

    /// What the text format has before limits.
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
    /// The type of its indices.
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

/// The type of a memory (spec 2.3.9, and the proposal of custom page sizes). Limits are in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemoryType {
    /// The type of its addresses.
    pub address: AddrType,
    /// The size of its pages.
    pub page: PageSize,
    /// Initial number of pages.
    pub min: u64,
    /// Most pages that `memory.grow` may reach, if stated.
    pub max: Option<u64>,
}

/// The size of a memory's pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PageSize {
    /// 64 KiB, as of all memories that do not say otherwise.
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

    /// The same as a power of 2.
    #[must_use]
    pub const fn log2(self) -> u32 {
        match self {
            Self::Large => WASM_PAGE_BYTES.trailing_zeros(),
            Self::Byte => 0,
        }
    }
}

impl MemoryType {
    /// The initial number of bytes, if 64 bits hold it.
    #[must_use]
    pub const fn min_bytes(&self) -> Option<u64> {
        self.min.checked_mul(self.page.bytes())
    }

    /// How many bytes are accessible at first, if 64 bits hold the number: those, and of the page of 64 KiB that the last
    /// lies in all others, which generated code does not touch.
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
        })
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
    /// A tag, by index into the module's types: the parameters are the values of its exceptions.
    Tag(u32),
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValType::{
        ExternRef, FuncRef, I32, NonNullExternRef, NonNullFuncRef, NonNullTypedFuncRef,
        TypedFuncRef,
    };

    fn ty(params: &[ValType]) -> FuncType {
        FuncType {
            params: params.to_vec(),
            results: vec![],
        }
    }

    /// Numbers as a process gives them, from 100 on.
    fn numbers(modules: &[&[FuncType]]) -> Vec<Vec<u32>> {
        let mut known: Vec<FuncType> = vec![];
        let mut number = |ty: Cow<'_, FuncType>| {
            let at = known.iter().position(|known| *known == *ty);
            let at = at.unwrap_or_else(|| {
                known.push(ty.into_owned());
                known.len() - 1
            });
            100 + at as u32
        };
        let modules = modules.iter();
        modules
            .map(|types| number_types(types, &mut number))
            .collect()
    }

    #[test]
    fn equal_types_have_equal_numbers_wherever_they_are() {
        let one = [ty(&[I32]), ty(&[TypedFuncRef(0)]), ty(&[TypedFuncRef(1)])];
        let other = [
            ty(&[]),
            ty(&[TypedFuncRef(0)]),
            ty(&[I32]),
            ty(&[I32]),
            ty(&[TypedFuncRef(3)]),
            ty(&[NonNullTypedFuncRef(2)]),
            ty(&[TypedFuncRef(4)]),
        ];
        let found = numbers(&[&one, &other]);
        let [one, other] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(one[..], [100, 101, 102]);
        assert_eq!(other[..], [103, 104, 100, 100, 101, 105, 102]);
    }

    #[test]
    fn references_match_those_that_hold_them() {
        let all = [
            I32,
            FuncRef,
            ExternRef,
            NonNullFuncRef,
            NonNullExternRef,
            TypedFuncRef(1),
            TypedFuncRef(2),
            NonNullTypedFuncRef(1),
            NonNullTypedFuncRef(2),
        ];
        let wider = [
            (NonNullFuncRef, vec![FuncRef]),
            (NonNullExternRef, vec![ExternRef]),
            (TypedFuncRef(1), vec![FuncRef]),
            (TypedFuncRef(2), vec![FuncRef]),
            (
                NonNullTypedFuncRef(1),
                vec![FuncRef, NonNullFuncRef, TypedFuncRef(1)],
            ),
            (
                NonNullTypedFuncRef(2),
                vec![FuncRef, NonNullFuncRef, TypedFuncRef(2)],
            ),
        ];
        for found in all {
            for wanted in all {
                let is_wider =
                    |(ty, wider): &(ValType, Vec<ValType>)| *ty == found && wider.contains(&wanted);
                let expected = found == wanted || wider.iter().any(is_wider);
                assert_eq!(found.matches(wanted), expected, "{found} {wanted}");
            }
        }
    }
}
