//! The types of a module, and the indices of those that every module defines.

use super::shapes::Shape;
use wasm_encoder::{
    CompositeInnerType, CompositeType, FieldType, StorageType, StructType, SubType, ValType,
};

/// `() -> ()`
pub(super) const EMPTY: u32 = 0;
/// `() -> values`
pub(super) const MAKES: u32 = 1;
/// `values -> ()`
pub(super) const TAKES: u32 = 2;
/// `values -> values`
pub(super) const BOTH: u32 = 3;
/// `v128 -> v128`
pub(super) const VECTOR: u32 = 4;
/// An array of i32.
pub(super) const ARRAY: u32 = 5;
/// A struct with a field for each value.
pub(super) const STRUCT: u32 = 6;

/// The value types of a shape.
pub(super) fn values(shape: Shape) -> Vec<ValType> {
    let ty = match shape.value {
        0 => ValType::I32,
        1 => ValType::I64,
        2 => ValType::F64,
        3 => ValType::V128,
        _ => ValType::FUNCREF,
    };
    vec![ty; shape.arity as usize]
}

/// A struct type with `fields` fields.
pub(super) fn structure(fields: u32, supertype: Option<u32>) -> SubType {
    let field = FieldType {
        element_type: StorageType::Val(ValType::I64),
        mutable: true,
    };
    SubType {
        is_final: false,
        supertype_idxs: supertype.into_iter().collect(),
        composite_type: CompositeType {
            inner: CompositeInnerType::Struct(StructType {
                fields: vec![field; fields as usize].into(),
            }),
            shared: false,
            descriptor: None,
            describes: None,
        },
    }
}
