//! Values that the host gives to a guest, checked against types that are known only at run time.
//!
//! ┌──────────────────────────────────────────────────────────────────────────────────────────────┐
//! │ This file decides which references the host may give. Every change needs two reviews.        │
//! └──────────────────────────────────────────────────────────────────────────────────────────────┘
//!
//! Generated code calls a typed reference without a check of its type. So a reference of a wrong
//! type would let a guest call a function with a wrong signature.

use super::exception;
use crate::error::ValueError;
use crate::module::types;
use crate::store::member::Member;
use crate::value::{Cell, ValType, Value};
use pirn_format::types::CompositeType;

/// The cell of a value that member `at` is to hold as a value of type `wanted`.
///
/// # Errors
///
/// The reason why the member cannot hold the value as that type.
pub(super) fn cell<T>(
    members: &[Member<T>],
    at: usize,
    value: Value,
    wanted: ValType,
) -> Result<Cell, ValueError> {
    let member = &members[at];
    let instance_id = member.instance_id(true);
    let cell = Cell::from_value(value, instance_id)?;
    if !has_type(member, value, wanted) {
        return Err(ValueError::Type {
            wanted,
            found: described(member, value, wanted),
        });
    }
    match exception::is_kept(members, value, instance_id) {
        true => Ok(cell),
        false => Err(ValueError::NotKept),
    }
}

/// Whether a value has type `wanted`. A type index in `wanted` refers to the member's module. A
/// reference to a function, struct or array has its own type and that type's supertypes.
///
/// The caller must have refused references of other instances. This function accepts foreign
/// references for abstract types.
pub(super) fn has_type<T>(member: &Member<T>, value: Value, wanted: ValType) -> bool {
    match (value, wanted.type_index()) {
        (Value::FuncRef(Some(_)) | Value::AnyRef(Some(_)), Some(index)) => {
            let wanted = member.inner.module.type_ids()[index as usize];
            let found = member.type_of(value);
            found.is_some_and(|found| types::is_subtype(found, wanted))
        }
        _ => value.fits(wanted),
    }
}

/// Describes a value that does not have the type `wanted`, for an error.
#[cold]
pub(super) fn described<T>(member: &Member<T>, value: Value, wanted: ValType) -> String {
    let types = &member.inner.module.metadata().types;
    let ty = wanted
        .type_index()
        .map(|index| &types[index as usize].composite);
    match (value, ty) {
        (Value::FuncRef(Some(_)), Some(ty @ CompositeType::Func(_))) => {
            format!("a function of another type than {ty}")
        }
        (
            Value::AnyRef(Some(_)),
            Some(ty @ (CompositeType::Struct(_) | CompositeType::Array(_))),
        ) => {
            format!("{} of another type than {ty}", value.described())
        }
        _ => value.described(),
    }
}
