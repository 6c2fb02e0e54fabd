//! [`SubType`]: a type that a module defines, and [`Layouts`]: where the fields of structs lie.

use super::{CompositeKind, FuncType, ValType};
use crate::layout::{OBJECT_ALIGN, OBJECT_HEADER_BYTES};
use core::fmt;
use serde::{Deserialize, Serialize};

/// A type that a module defines, with its declared supertype (spec 3.0, 2.3.8).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SubType {
    /// Whether no type may be declared as a subtype of this type.
    pub is_final: bool,
    /// Declared supertype, as an index into the module's types.
    pub supertype: Option<u32>,
    /// Structure of the type.
    pub composite: CompositeType,
}

/// A composite type (spec 3.0, 2.3.7).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompositeType {
    /// A function type.
    Func(FuncType),
    /// A struct type with these fields.
    Struct(Vec<FieldType>),
    /// An array type with elements of this type.
    Array(FieldType),
}

/// The type of a field of a struct, or of the elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldType {
    /// The type of the stored value.
    pub storage: StorageType,
    /// Whether the guest may change the field.
    pub mutable: bool,
}

/// The storage type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StorageType {
    /// The lowest 8 bits of an `i32`.
    I8,
    /// The lowest 16 bits of an `i32`.
    I16,
    /// A value.
    Val(ValType),
}

impl StorageType {
    /// Bytes of the field, as a power of 2.
    #[must_use]
    pub const fn log2(self) -> u32 {
        match self {
            Self::I8 => 0,
            Self::I16 => 1,
            Self::Val(ValType::I32 | ValType::F32) => 2,
            Self::Val(ValType::I64 | ValType::F64 | ValType::Ref(_)) => 3,
            Self::Val(ValType::V128) => 4,
        }
    }

    /// Bytes of the field.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        1 << self.log2()
    }

    /// The type of the values that the guest writes to the field and reads from it.
    #[must_use]
    pub const fn value(self) -> ValType {
        match self {
            Self::I8 | Self::I16 => ValType::I32,
            Self::Val(ty) => ty,
        }
    }

    /// The storage type with its type index replaced by `name(index)`.
    #[must_use]
    pub fn renamed(self, name: impl FnOnce(u32) -> u32) -> Self {
        match self {
            Self::Val(ty) => Self::Val(ty.renamed(name)),
            packed => packed,
        }
    }
}

impl SubType {
    /// A final type without a supertype. The binary format has this short form for most function
    /// types.
    #[must_use]
    pub const fn alone(composite: CompositeType) -> Self {
        Self {
            is_final: true,
            supertype: None,
            composite,
        }
    }

    /// Whether this is a function, struct or array type.
    #[must_use]
    pub const fn kind(&self) -> CompositeKind {
        match self.composite {
            CompositeType::Func(_) => CompositeKind::Func,
            CompositeType::Struct(_) => CompositeKind::Struct,
            CompositeType::Array(_) => CompositeKind::Array,
        }
    }

    /// The types of the values in this type: parameters and results, fields, or elements.
    pub fn values(&self) -> impl Iterator<Item = ValType> {
        let (func, fields): (&[&[ValType]], &[FieldType]) = match &self.composite {
            CompositeType::Func(ty) => (&[&ty.params, &ty.results], &[]),
            CompositeType::Struct(fields) => (&[], fields),
            CompositeType::Array(element) => (&[], core::slice::from_ref(element)),
        };
        let func: Vec<ValType> = func.concat();
        let fields = fields.iter().map(|field| field.storage.value());
        func.into_iter().chain(fields)
    }

    /// The type with every type index replaced by `name(index)`.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(u32) -> u32) -> Self {
        let values = |types: &[ValType]| types.iter().map(|ty| ty.renamed(&name)).collect();
        let field = |field: &FieldType| FieldType {
            storage: field.storage.renamed(&name),
            ..*field
        };
        Self {
            is_final: self.is_final,
            supertype: self.supertype.map(&name),
            composite: match &self.composite {
                CompositeType::Func(ty) => CompositeType::Func(FuncType {
                    params: values(&ty.params),
                    results: values(&ty.results),
                }),
                CompositeType::Struct(fields) => {
                    CompositeType::Struct(fields.iter().map(field).collect())
                }
                CompositeType::Array(element) => CompositeType::Array(field(element)),
            },
        }
    }
}

impl fmt::Display for StorageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I8 => f.write_str("i8"),
            Self::I16 => f.write_str("i16"),
            Self::Val(ty) => ty.fmt(f),
        }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { storage, mutable } = self;
        match mutable {
            true => write!(f, "(mut {storage})"),
            false => storage.fmt(f),
        }
    }
}

impl fmt::Display for CompositeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Func(ty) => ty.fmt(f),
            Self::Array(element) => write!(f, "(array {element})"),
            Self::Struct(fields) => {
                f.write_str("(struct")?;
                fields.iter().try_for_each(|field| write!(f, " {field}"))?;
                f.write_str(")")
            }
        }
    }
}

/// Where the fields of all structs of a module lie, by type index.
///
/// Fields are laid out in declaration order. Each field is aligned to its size, but at most to
/// [`OBJECT_ALIGN`]. Therefore an inherited field has the same offset as in the supertype.
#[derive(Debug, Clone, Default)]
pub struct Layouts {
    /// For each type: index of the first field in `offsets`, and bytes of the struct.
    types: Vec<(u32, u32)>,
    offsets: Vec<u32>,
}

/// Where the fields of one struct lie.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// Offset of each field from the address of the header.
    pub offsets: &'a [u32],
    /// Bytes of the whole struct including its header, a multiple of [`OBJECT_ALIGN`].
    pub bytes: u32,
}

impl Layouts {
    /// Lays out the structs among a module's types.
    #[must_use]
    pub fn new(types: &[SubType]) -> Self {
        let mut layouts = Self::default();
        if !types.iter().any(|ty| ty.kind() == CompositeKind::Struct) {
            return layouts;
        }
        for ty in types {
            // Fits in 32 bits: every field takes at least one byte of the module.
            let first = layouts.offsets.len() as u32;
            let mut at = OBJECT_HEADER_BYTES;
            if let CompositeType::Struct(fields) = &ty.composite {
                for field in fields {
                    let bytes = field.storage.bytes();
                    at = at.next_multiple_of(bytes.min(OBJECT_ALIGN));
                    layouts.offsets.push(at);
                    // Cannot overflow: the validator allows 10,000 fields.
                    at += bytes;
                }
            }
            let bytes = at.next_multiple_of(OBJECT_ALIGN);
            layouts.types.push((first, bytes));
        }
        layouts
    }

    /// The layout of the struct with this type index.
    #[must_use]
    pub fn fields(&self, index: u32) -> Fields<'_> {
        let at = index as usize;
        let (first, bytes) = self.types[at];
        let end = self.types.get(at + 1).map(|(next, _)| *next as usize);
        let end = end.unwrap_or(self.offsets.len());
        Fields {
            offsets: &self.offsets[first as usize..end],
            bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StorageType::{I8, I16, Val};

    fn of(fields: &[StorageType]) -> SubType {
        let field = |storage: &StorageType| FieldType {
            storage: *storage,
            mutable: false,
        };
        SubType::alone(CompositeType::Struct(fields.iter().map(field).collect()))
    }

    #[test]
    fn fields_are_aligned_packed_and_where_those_of_a_supertype_are() {
        let base = [I8, Val(ValType::I32), I16];
        let more = [
            &base[..],
            &[I8, Val(ValType::V128), Val(ValType::EXTERNREF)],
        ]
        .concat();
        let types = [of(&base), of(&[]), of(&more)];
        let layouts = Layouts::new(&types);
        let found = |index| (layouts.fields(index).offsets, layouts.fields(index).bytes);
        assert_eq!(found(0), (&[8, 12, 16][..], 24));
        assert_eq!(found(1), (&[][..], 8));
        assert_eq!(found(2), (&[8, 12, 16, 18, 24, 40][..], 48));
    }
}
