//! [`pirn_kind_t`]: the types of WebAssembly values, as numbers.
//!
//! # Safety
//!
//! This file owns no invariants. It reads lists of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::entry::list;
use crate::error::{Fallible, argument};
use pirn_runtime::{CompositeKind, FuncType, HeapType, ValType};

/// The type of a value: one of PIRN_I32 to PIRN_ANYREF.
pub type pirn_kind_t = u32;

/// A 32-bit integer.
pub const PIRN_I32: pirn_kind_t = 0;
/// A 64-bit integer.
pub const PIRN_I64: pirn_kind_t = 1;
/// A 32-bit float.
pub const PIRN_F32: pirn_kind_t = 2;
/// A 64-bit float.
pub const PIRN_F64: pirn_kind_t = 3;
/// A vector of 128 bits.
pub const PIRN_V128: pirn_kind_t = 4;
/// A reference to a function, of any function type.
pub const PIRN_FUNCREF: pirn_kind_t = 5;
/// A reference of the host: a number, where 0 is null.
pub const PIRN_EXTERNREF: pirn_kind_t = 6;
/// A reference to an exception.
pub const PIRN_EXNREF: pirn_kind_t = 7;
/// A reference to a struct, an array, a 31-bit number, or a converted reference of the host.
pub const PIRN_ANYREF: pirn_kind_t = 8;

/// The type of a kind. Each kind of reference stands for the nullable abstract type.
///
/// # Errors
///
/// If no type has this kind.
pub(crate) fn type_of(kind: pirn_kind_t) -> Fallible<ValType> {
    Ok(match kind {
        PIRN_I32 => ValType::I32,
        PIRN_I64 => ValType::I64,
        PIRN_F32 => ValType::F32,
        PIRN_F64 => ValType::F64,
        PIRN_V128 => ValType::V128,
        PIRN_FUNCREF => ValType::FUNCREF,
        PIRN_EXTERNREF => ValType::EXTERNREF,
        PIRN_EXNREF => ValType::EXNREF,
        PIRN_ANYREF => ValType::ANYREF,
        other => {
            return Err(argument(format!(
                "value kind is {other}, the largest is {PIRN_ANYREF}; pass one of `pirn_kind_t`"
            )));
        }
    })
}

/// The kind of a type.
pub(crate) fn kind_of(ty: ValType) -> pirn_kind_t {
    match ty {
        ValType::I32 => PIRN_I32,
        ValType::I64 => PIRN_I64,
        ValType::F32 => PIRN_F32,
        ValType::F64 => PIRN_F64,
        ValType::V128 => PIRN_V128,
        ValType::Ref(ty) => match ty.heap {
            HeapType::Func | HeapType::NoFunc | HeapType::Concrete(CompositeKind::Func, _) => {
                PIRN_FUNCREF
            }
            HeapType::Extern | HeapType::NoExtern => PIRN_EXTERNREF,
            HeapType::Exn | HeapType::NoExn => PIRN_EXNREF,
            _ => PIRN_ANYREF,
        },
    }
}

/// A function type that the caller describes by two lists.
///
/// # Errors
///
/// If a list is null and not empty, or has an unknown kind.
///
/// # Safety
///
/// `params.0` must point to `params.1` kinds, and `results.0` to `results.1` kinds, during the
/// call.
pub(crate) unsafe fn func_type(
    params: (*const pirn_kind_t, usize),
    results: (*const pirn_kind_t, usize),
) -> Fallible<FuncType> {
    // SAFETY: the caller ensures that `params.0` points to `params.1` kinds, and `results.0` to
    // `results.1` kinds.
    let (params, results) = unsafe {
        (
            list(params.0, params.1, "params")?,
            list(results.0, results.1, "results")?,
        )
    };
    let types = |kinds: &[pirn_kind_t]| -> Fallible<Vec<ValType>> {
        kinds.iter().map(|kind| type_of(*kind)).collect()
    };
    Ok(FuncType {
        params: types(params)?,
        results: types(results)?,
    })
}

/// Whether a type is a number of up to 64 bits.
pub(crate) fn is_word(ty: ValType) -> bool {
    matches!(
        ty,
        ValType::I32 | ValType::I64 | ValType::F32 | ValType::F64
    )
}

/// Clears the upper half of a word that holds a 32-bit number: the upper half is unspecified.
#[inline]
pub(crate) fn normal(word: u64, is_narrow: bool) -> u64 {
    match is_narrow {
        true => word & u64::from(u32::MAX),
        false => word,
    }
}

/// Whether a type has 32 bits.
pub(crate) fn is_narrow(ty: ValType) -> bool {
    matches!(ty, ValType::I32 | ValType::F32)
}
