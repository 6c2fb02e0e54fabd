//! Converts types from the validator's form to the format's.

use super::unsupported;
use crate::error::CompileError;
use crate::limits;
use pirn_format::metadata::Metadata;
use pirn_format::types::{
    AddrType, CompositeKind, CompositeType, FieldType, FuncType, GlobalType, HeapType, MemoryType,
    PageSize, RefType, StorageType, SubType, TableType, ValType,
};
use wasmparser::{CompositeInnerType, TypeSectionReader};

/// The kind of each type. Read first, because types may refer to later ones.
pub(super) fn kinds(types: TypeSectionReader<'_>) -> Result<Vec<CompositeKind>, CompileError> {
    let mut kinds = vec![];
    for group in types {
        for ty in group?.types() {
            kinds.push(match ty.composite_type.inner {
                CompositeInnerType::Func(_) => CompositeKind::Func,
                CompositeInnerType::Struct(_) => CompositeKind::Struct,
                CompositeInnerType::Array(_) => CompositeKind::Array,
                CompositeInnerType::Cont(_) => return Err(unsupported("a continuation")),
            });
        }
    }
    Ok(kinds)
}

/// Reads all types and their recursion groups. `kinds` has the kind of each type.
pub(super) fn read(
    types: TypeSectionReader<'_>,
    kinds: &[CompositeKind],
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

fn sub_type(ty: &wasmparser::SubType, kinds: &[CompositeKind]) -> Result<SubType, CompileError> {
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

/// Converts a value type to the format's. `kinds` gives the kind of each type. `Err` for a type
/// that is not in [`FEATURES`](super::FEATURES).
pub(crate) fn value_type(
    ty: wasmparser::ValType,
    kinds: impl Fn(u32) -> Option<CompositeKind>,
) -> Result<ValType, ()> {
    Ok(match ty {
        wasmparser::ValType::I32 => ValType::I32,
        wasmparser::ValType::I64 => ValType::I64,
        wasmparser::ValType::F32 => ValType::F32,
        wasmparser::ValType::F64 => ValType::F64,
        wasmparser::ValType::V128 => ValType::V128,
        wasmparser::ValType::Ref(ty) => ValType::Ref(RefType {
            nullable: ty.is_nullable(),
            heap: heap_type(ty.heap_type(), kinds)?,
        }),
    })
}

/// Converts a heap type to the format's. `kinds` gives the kind of each type. `Err` for a type that
/// is not in [`FEATURES`](super::FEATURES).
pub(crate) fn heap_type(
    ty: wasmparser::HeapType,
    kinds: impl Fn(u32) -> Option<CompositeKind>,
) -> Result<HeapType, ()> {
    use wasmparser::AbstractHeapType as Abstract;
    let ty = match ty {
        wasmparser::HeapType::Concrete(index) => {
            let index = index.as_module_index().ok_or(())?;
            return Ok(HeapType::Concrete(kinds(index).ok_or(())?, index));
        }
        wasmparser::HeapType::Abstract { shared: false, ty } => ty,
        _ => return Err(()),
    };
    Ok(match ty {
        Abstract::Func => HeapType::Func,
        Abstract::NoFunc => HeapType::NoFunc,
        Abstract::Extern => HeapType::Extern,
        Abstract::NoExtern => HeapType::NoExtern,
        Abstract::Any => HeapType::Any,
        Abstract::Eq => HeapType::Eq,
        Abstract::I31 => HeapType::I31,
        Abstract::Struct => HeapType::Struct,
        Abstract::Array => HeapType::Array,
        Abstract::None => HeapType::None,
        Abstract::Exn => HeapType::Exn,
        Abstract::NoExn => HeapType::NoExn,
        Abstract::Cont | Abstract::NoCont => return Err(()),
    })
}

pub(super) fn table_type(
    ty: &wasmparser::TableType,
    kinds: &[CompositeKind],
) -> Result<TableType, CompileError> {
    let kinds = |index| kinds.get(index as usize).copied();
    let element = value_type(wasmparser::ValType::Ref(ty.element_type), kinds)
        .map_err(|()| unsupported("a table of that type"))?;
    Ok(TableType {
        element,
        address: address_type(ty.table64),
        min: ty.initial,
        max: ty.maximum,
    })
}

pub(super) fn memory_type(ty: &wasmparser::MemoryType) -> Result<MemoryType, CompileError> {
    let page = match ty.page_size_log2 {
        None | Some(16) => PageSize::Large,
        Some(0) => PageSize::Byte,
        Some(_) => return Err(unsupported("a memory with pages of that size")),
    };
    match page {
        PageSize::Large => limits::MEMORY_PAGES.check(ty.initial)?,
        PageSize::Byte => limits::MEMORY_BYTES.check(ty.initial)?,
    }
    Ok(MemoryType {
        address: address_type(ty.memory64),
        page,
        min: ty.initial,
        max: ty.maximum,
        shared: ty.shared,
    })
}

fn address_type(is_64: bool) -> AddrType {
    match is_64 {
        true => AddrType::I64,
        false => AddrType::I32,
    }
}

pub(super) fn global_type(
    ty: &wasmparser::GlobalType,
    kinds: &[CompositeKind],
) -> Result<GlobalType, CompileError> {
    let kinds = |index| kinds.get(index as usize).copied();
    let content =
        value_type(ty.content_type, kinds).map_err(|()| unsupported("a global of that type"))?;
    Ok(GlobalType {
        content,
        mutable: ty.mutable,
    })
}
