//! Converts the module's types from the validator's form to the format's.

use super::{unsupported, value_type};
use crate::error::CompileError;
use pirn_format::metadata::Metadata;
use pirn_format::types::{CompositeType, FieldType, FuncType, Kind, StorageType, SubType};
use wasmparser::{CompositeInnerType, TypeSectionReader};

/// The kind of each type. Read first, because types may refer to later ones.
pub(super) fn kinds(types: TypeSectionReader<'_>) -> Result<Vec<Kind>, CompileError> {
    let mut kinds = vec![];
    for group in types {
        for ty in group?.types() {
            kinds.push(match ty.composite_type.inner {
                CompositeInnerType::Func(_) => Kind::Func,
                CompositeInnerType::Struct(_) => Kind::Struct,
                CompositeInnerType::Array(_) => Kind::Array,
                CompositeInnerType::Cont(_) => return Err(unsupported("a continuation")),
            });
        }
    }
    Ok(kinds)
}

/// Reads all types and their recursion groups. `kinds` has the kind of each type.
pub(super) fn read(
    types: TypeSectionReader<'_>,
    kinds: &[Kind],
    metadata: &mut Metadata,
) -> Result<(), CompileError> {
    for group in types {
        // In range: the validator allows a million types.
        let first = metadata.types.len() as u32;
        for ty in group?.types() {
            metadata.types.push(sub_type(ty, kinds)?);
        }
        let len = metadata.types.len() as u32 - first;
        // A group of one type is equivalent to no group.
        if len > 1 {
            metadata.groups.0.push((first, len));
        }
    }
    Ok(())
}

fn sub_type(ty: &wasmparser::SubType, kinds: &[Kind]) -> Result<SubType, CompileError> {
    let kind = |index: u32| kinds.get(index as usize).copied();
    let values = |types: &[wasmparser::ValType]| -> Result<Vec<_>, ()> {
        types.iter().map(|ty| value_type(*ty, kind)).collect()
    };
    let field = |field: &wasmparser::FieldType| -> Result<FieldType, ()> {
        let storage = match field.element_type {
            wasmparser::StorageType::I8 => StorageType::I8,
            wasmparser::StorageType::I16 => StorageType::I16,
            wasmparser::StorageType::Val(ty) => StorageType::Val(value_type(ty, kind)?),
        };
        let mutable = field.mutable;
        Ok(FieldType { storage, mutable })
    };
    let composite = || -> Result<CompositeType, ()> {
        Ok(match &ty.composite_type.inner {
            CompositeInnerType::Func(ty) => CompositeType::Func(FuncType {
                params: values(ty.params())?,
                results: values(ty.results())?,
            }),
            CompositeInnerType::Struct(ty) => {
                CompositeType::Struct(ty.fields.iter().map(field).collect::<Result<_, _>>()?)
            }
            CompositeInnerType::Array(ty) => CompositeType::Array(field(&ty.0)?),
            CompositeInnerType::Cont(_) => return Err(()),
        })
    };
    let supertype = |index: &wasmparser::PackedIndex| index.unpack().as_module_index();
    Ok(SubType {
        is_final: ty.is_final,
        supertype: ty.supertype_idxs.first().and_then(supertype),
        composite: composite().map_err(|()| unsupported("a type with a part of that type"))?,
    })
}
