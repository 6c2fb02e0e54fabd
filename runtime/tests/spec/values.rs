//! Converts arguments and expected results of the test suite to the runtime's values.

use pirn_runtime::{AnyKind, AnyRef, ExternRef, Value};
use std::num::NonZeroU64;
use wast::core::{AbstractHeapType, HeapType, NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wast::token::{F32, F64};
use wast::{WastArg, WastRet};

/// The argument as a value, or a description of it if the runtime has no such value.
pub(crate) fn argument(arg: &WastArg<'_>) -> Result<Value, String> {
    let WastArg::Core(arg) = arg else {
        return Err(format!("argument {arg:?}"));
    };
    Ok(match arg {
        WastArgCore::I32(value) => Value::I32(*value),
        WastArgCore::I64(value) => Value::I64(*value),
        WastArgCore::F32(value) => Value::F32(value.bits),
        WastArgCore::F64(value) => Value::F64(value.bits),
        WastArgCore::V128(value) => Value::V128(u128::from_le_bytes(value.to_le_bytes())),
        WastArgCore::RefNull(ty) if is(ty, AbstractHeapType::Extern) => Value::ExternRef(None),
        WastArgCore::RefNull(ty) if is(ty, AbstractHeapType::Func) => Value::FuncRef(None),
        WastArgCore::RefNull(ty) if is(ty, AbstractHeapType::Exn) => Value::ExnRef(None),
        WastArgCore::RefNull(ty) if is_any(ty) => Value::AnyRef(None),
        WastArgCore::RefHost(number) => Value::AnyRef(AnyRef::host(external(*number))),
        WastArgCore::RefExtern(number) => Value::ExternRef(Some(external(*number))),
        other => return Err(format!("argument {other:?}")),
    })
}

fn is(ty: &HeapType<'_>, wanted: AbstractHeapType) -> bool {
    matches!(ty, HeapType::Abstract { shared: false, ty } if *ty == wanted)
}

/// Whether a heap type is in the `any` hierarchy.
fn is_any(ty: &HeapType<'_>) -> bool {
    use AbstractHeapType::{Any, Array, Eq, I31, None, Struct};
    [Any, Eq, I31, Struct, Array, None]
        .iter()
        .any(|wanted| is(ty, *wanted))
}

/// Whether a null with this type is expected. An expected type may be any type of the hierarchy.
fn is_null_of(ty: Option<&HeapType<'_>>, top: AbstractHeapType, bottom: AbstractHeapType) -> bool {
    ty.is_none_or(|ty| is(ty, top) || is(ty, bottom) || !matches!(ty, HeapType::Abstract { .. }))
}

/// The suite numbers host references from 0; the runtime permits any number but 0.
fn external(number: u32) -> ExternRef {
    ExternRef::new(NonZeroU64::MIN.saturating_add(u64::from(number)))
}

/// Whether a value is an expected one.
pub(crate) fn matches(value: &Value, expected: &WastRet<'_>) -> bool {
    matches!(expected, WastRet::Core(expected) if core(value, expected))
}

fn core(value: &Value, expected: &WastRetCore<'_>) -> bool {
    match (value, expected) {
        (Value::I32(found), WastRetCore::I32(wanted)) => found == wanted,
        (Value::I64(found), WastRetCore::I64(wanted)) => found == wanted,
        (Value::F32(found), WastRetCore::F32(wanted)) => f32(*found, wanted),
        (Value::F64(found), WastRetCore::F64(wanted)) => f64(*found, wanted),
        (Value::V128(found), WastRetCore::V128(wanted)) => v128(*found, wanted),
        (Value::FuncRef(None), WastRetCore::RefNull(ty)) => is_null_of(
            ty.as_ref(),
            AbstractHeapType::Func,
            AbstractHeapType::NoFunc,
        ),
        (Value::ExternRef(None), WastRetCore::RefNull(ty)) => is_null_of(
            ty.as_ref(),
            AbstractHeapType::Extern,
            AbstractHeapType::NoExtern,
        ),
        (Value::ExnRef(None), WastRetCore::RefNull(ty)) => {
            is_null_of(ty.as_ref(), AbstractHeapType::Exn, AbstractHeapType::NoExn)
        }
        (Value::AnyRef(None), WastRetCore::RefNull(ty)) => {
            let concrete = |ty: &HeapType<'_>| !matches!(ty, HeapType::Abstract { .. });
            ty.as_ref().is_none_or(|ty| is_any(ty) || concrete(ty))
        }
        (Value::AnyRef(Some(_)), WastRetCore::RefAny) => true,
        (Value::AnyRef(Some(any)), wanted) => match (any.kind(), wanted) {
            (AnyKind::I31(_), WastRetCore::RefI31 | WastRetCore::RefEq)
            | (AnyKind::Struct, WastRetCore::RefStruct | WastRetCore::RefEq)
            | (AnyKind::Array, WastRetCore::RefArray | WastRetCore::RefEq) => true,
            (AnyKind::Host(found), WastRetCore::RefHost(wanted)) => {
                found == Some(external(*wanted))
            }
            (_, WastRetCore::Either(any)) => any.iter().any(|expected| core(value, expected)),
            _ => false,
        },
        (Value::FuncRef(Some(_)), WastRetCore::RefFunc(None)) => true,
        (Value::ExternRef(Some(found)), WastRetCore::RefExtern(number)) => {
            number.is_none_or(|number| *found == external(number))
        }
        (value, WastRetCore::Either(any)) => any.iter().any(|expected| core(value, expected)),
        _ => false,
    }
}

fn f32(bits: u32, pattern: &NanPattern<F32>) -> bool {
    match pattern {
        NanPattern::CanonicalNan => bits & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => bits & 0x7fc0_0000 == 0x7fc0_0000,
        NanPattern::Value(value) => bits == value.bits,
    }
}

fn f64(bits: u64, pattern: &NanPattern<F64>) -> bool {
    match pattern {
        NanPattern::CanonicalNan => bits & (u64::MAX >> 1) == 0x7ff8_0000_0000_0000,
        NanPattern::ArithmeticNan => bits & 0x7ff8_0000_0000_0000 == 0x7ff8_0000_0000_0000,
        NanPattern::Value(value) => bits == value.bits,
    }
}

fn v128(bits: u128, pattern: &V128Pattern) -> bool {
    let lane = |i: usize, width: usize| (bits >> (i * width)) as u64;
    match pattern {
        V128Pattern::I8x16(lanes) => all(lanes, |i, wanted| lane(i, 8) as i8 == *wanted),
        V128Pattern::I16x8(lanes) => all(lanes, |i, wanted| lane(i, 16) as i16 == *wanted),
        V128Pattern::I32x4(lanes) => all(lanes, |i, wanted| lane(i, 32) as i32 == *wanted),
        V128Pattern::I64x2(lanes) => all(lanes, |i, wanted| lane(i, 64) as i64 == *wanted),
        V128Pattern::F32x4(lanes) => all(lanes, |i, wanted| f32(lane(i, 32) as u32, wanted)),
        V128Pattern::F64x2(lanes) => all(lanes, |i, wanted| f64(lane(i, 64), wanted)),
    }
}

fn all<T>(lanes: &[T], mut matches: impl FnMut(usize, &T) -> bool) -> bool {
    lanes
        .iter()
        .enumerate()
        .all(|(i, wanted)| matches(i, wanted))
}
