//! [`pirn_val_t`]: a WebAssembly value in C.
//!
//! # Safety
//!
//! This file owns one fact. A field of the union is read only if the kind of the value says that
//! this field was written. All bits are valid for each field.
#![allow(unsafe_code)]

use crate::error::{Fallible, argument};
use crate::kinds::{
    PIRN_ANYREF, PIRN_EXNREF, PIRN_EXTERNREF, PIRN_F32, PIRN_F64, PIRN_FUNCREF, PIRN_I32, PIRN_I64,
    PIRN_V128, kind_of, pirn_kind_t, type_of,
};
use crate::references::References;
use core::num::NonZeroU64;
use pirn_runtime::{ExternRef, FuncRef, ValType, Value};

/// The content of a value. The `kind` of the value says which field is written.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pirn_val_of_t {
    /// PIRN_I32.
    pub i32: i32,
    /// PIRN_I64.
    pub i64: i64,
    /// PIRN_F32. The bits of a NaN survive.
    pub f32: f32,
    /// PIRN_F64. The bits of a NaN survive.
    pub f64: f64,
    /// PIRN_V128: lane 0 first, each lane little-endian.
    pub v128: [u8; 16],
    /// PIRN_EXTERNREF: any number of the embedder's, 0 for null. The numbers from 2^64 - 2^49 up to
    /// 2^64 - 2^48 are reserved. The other reference types: a number that an instance or a group
    /// gave, valid for that instance or group only, or 0 for null.
    pub reference: u64,
}

/// A WebAssembly value. A value owns nothing, and may be copied.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pirn_val_t {
    /// The type of the value.
    pub kind: pirn_kind_t,
    /// The content.
    pub of: pirn_val_of_t,
}

impl pirn_val_t {
    /// Zero or null.
    pub(crate) fn zero(ty: ValType) -> Self {
        let (kind, of) = (kind_of(ty), pirn_val_of_t { v128: [0; 16] });
        Self { kind, of }
    }

    /// The value for C.
    ///
    /// # Errors
    ///
    /// If the instance has given too many references.
    pub(crate) fn of(value: Value, references: &mut References) -> Fallible<Self> {
        // Writes all bytes, so that no old memory of the library reaches the embedder.
        let mut made = Self::zero(value.ty());
        match value {
            Value::I32(number) => made.of.i32 = number,
            Value::I64(number) => made.of.i64 = number,
            Value::F32(bits) => made.of.f32 = f32::from_bits(bits),
            Value::F64(bits) => made.of.f64 = f64::from_bits(bits),
            Value::V128(bits) => made.of.v128 = bits.to_le_bytes(),
            Value::ExternRef(reference) => {
                made.of.reference = reference.map_or(0, |reference| reference.get().get());
            }
            Value::FuncRef(None) | Value::ExnRef(None) | Value::AnyRef(None) => {}
            Value::FuncRef(_) | Value::ExnRef(_) | Value::AnyRef(_) => {
                made.of.reference = references.number(value)?;
            }
        }
        Ok(made)
    }

    /// The value for the runtime.
    ///
    /// # Errors
    ///
    /// For an unknown kind, and for a reference that the instance has not given.
    ///
    /// # Safety
    ///
    /// The field of `self.of` that `self.kind` names must have been written.
    pub(crate) unsafe fn value(&self, references: &References) -> Fallible<Value> {
        // SAFETY: the caller ensures that the field of `self.of` that `self.kind` names was
        // written.
        unsafe {
            Ok(match self.kind {
                PIRN_I32 => Value::I32(self.of.i32),
                PIRN_I64 => Value::I64(self.of.i64),
                PIRN_F32 => Value::F32(self.of.f32.to_bits()),
                PIRN_F64 => Value::F64(self.of.f64.to_bits()),
                PIRN_V128 => Value::V128(u128::from_le_bytes(self.of.v128)),
                PIRN_EXTERNREF => {
                    Value::ExternRef(NonZeroU64::new(self.of.reference).map(ExternRef::new))
                }
                PIRN_FUNCREF | PIRN_EXNREF | PIRN_ANYREF => {
                    reference(self.kind, self.of.reference, references)?
                }
                other => return Err(unknown(other)),
            })
        }
    }
}

/// The reference with a number; null for number 0.
fn reference(kind: pirn_kind_t, number: u64, references: &References) -> Fallible<Value> {
    if number == 0 {
        return Ok(Value::default_of(type_of(kind)?));
    }
    let found = references.get(number)?;
    match kind_of(found.ty()) == kind {
        true => Ok(found),
        false => Err(argument(format!(
            "reference {number:#x} has kind {}, the value says {kind}; pass the kind that the \
             instance gave",
            kind_of(found.ty())
        ))),
    }
}

#[cold]
fn unknown(kind: pirn_kind_t) -> Box<crate::error::pirn_error_t> {
    match type_of(kind) {
        Err(error) => error,
        Ok(ty) => argument(format!("value kind {kind} ({ty}) cannot be passed")),
    }
}

/// The values for the runtime.
///
/// # Errors
///
/// As [`pirn_val_t::value`].
///
/// # Safety
///
/// As [`pirn_val_t::value`].
pub(crate) unsafe fn values(
    given: &[pirn_val_t],
    references: &References,
) -> Fallible<smallvec::SmallVec<[Value; 8]>> {
    // SAFETY: the caller ensures for each value in `given` that the field that its kind names was
    // written.
    given
        .iter()
        .map(|value| unsafe { value.value(references) })
        .collect()
}

/// The function that a value refers to.
///
/// # Errors
///
/// If the value is no reference to a function, or is null.
pub(crate) fn func_of(value: Value) -> Fallible<FuncRef> {
    match value {
        Value::FuncRef(Some(func)) => Ok(func),
        other => Err(argument(format!(
            "value {other} refers to no function; pass a funcref that is not null"
        ))),
    }
}
