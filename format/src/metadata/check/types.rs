//! Checks the types that a module defines.

use super::{damaged, index, of_kind};
use crate::error::FormatError;
use crate::metadata::Metadata;
use crate::types::{CompositeType, HeapType, SUPERTYPES_MAX, SubType, Subtypes, ValType};

/// Maximum number of fields of a struct: the validator's limit.
const FIELDS_MAX: usize = 10_000;

/// Maximum number of parameters, and of results, of a function: the validator's limit.
const VALUES_MAX: usize = 1000;

/// Checks types, groups and the order of supertypes.
///
/// A type refers only to earlier types and to types of its group. A supertype precedes its subtypes
/// and is not final.
pub(super) fn check(m: &Metadata) -> Result<(), FormatError> {
    let mut depths: Vec<usize> = Vec::with_capacity(m.types.len());
    for range in m.groups.ranges(m.types.len()) {
        let Some((first, len)) = range else {
            return damaged("groups of types", "they are not consecutive");
        };
        for (at, ty) in m.types.iter().enumerate().skip(first).take(len) {
            let mut values = ty.values();
            values.try_for_each(|ty| named_type(m, ty, first + len))?;
            let depth = match ty.supertype {
                Some(above) => {
                    index("supertype", above, at)?;
                    if m.types[above as usize].is_final {
                        return damaged("supertype", &format!("type {above} is final"));
                    }
                    depths[above as usize] + 1
                }
                None => 0,
            };
            if depth > SUPERTYPES_MAX {
                let depth = format!("a type has {depth}, the limit is {SUPERTYPES_MAX}");
                return damaged("supertypes", &depth);
            }
            depths.push(depth);
            sizes(ty)?;
        }
    }
    Ok(())
}

/// Checks that a type does not exceed the validator's limits for fields, parameters and results.
fn sizes(ty: &SubType) -> Result<(), FormatError> {
    let within = |what: &str, count: usize, limit: usize| match count <= limit {
        true => Ok(()),
        false => damaged(what, &format!("{count}, the limit is {limit}")),
    };
    match &ty.composite {
        CompositeType::Func(func) => {
            within("parameters", func.params.len(), VALUES_MAX)?;
            within("results", func.results.len(), VALUES_MAX)
        }
        CompositeType::Struct(fields) => within("fields", fields.len(), FIELDS_MAX),
        CompositeType::Array(_) => Ok(()),
    }
}

/// Checks that each type matches its supertype. The types must have passed [`check`].
pub(super) fn supertypes(m: &Metadata, subtypes: &Subtypes<'_>) -> Result<(), FormatError> {
    for (at, ty) in m.types.iter().enumerate() {
        let Some(above) = ty.supertype else {
            continue;
        };
        let wanted = &m.types[above as usize].composite;
        if !subtypes.composites_match(&ty.composite, wanted) {
            return damaged(
                "supertype",
                &format!("type {at} does not match type {above}"),
            );
        }
    }
    Ok(())
}

/// Checks that the type index in a value type is less than `len` and has the stated kind.
pub(super) fn named_type(m: &Metadata, ty: ValType, len: usize) -> Result<(), FormatError> {
    let Some(HeapType::Concrete(kind, named)) = ty.heap() else {
        return Ok(());
    };
    index("type of a reference", named, len)?;
    of_kind(m, "type of a reference", named, kind)
}
