//! The cases of variants, enums, options and results. The code that `#[derive(Typed)]` generates
//! calls the public functions of this module.

use super::{OwnedType, Param, Type, Typed};
use crate::component::Info;
use crate::error::{AbiError, AbiResult, RequestError};
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Words};
use pirn_format::component::{DefinedType, ValueType};

/// Whether a type is a variant, or an enum, with these cases in this order. `is` checks the type of
/// a case's payload: it gets the number of the case and the payload's type.
pub fn is_variant(
    info: &Info,
    ty: ValueType,
    names: &[&str],
    is: impl Fn(usize, Option<ValueType>) -> bool,
) -> bool {
    let ValueType::Defined(index) = ty else {
        return false;
    };
    let fits = |at: usize, found: &str, payload| names.get(at) == Some(&found) && is(at, payload);
    match info.defined(index) {
        DefinedType::Variant(cases) => {
            let mut all = cases.iter().enumerate();
            cases.len() == names.len()
                && all.all(|(at, (found, payload))| fits(at, found, *payload))
        }
        DefinedType::Enum(cases) => {
            let mut all = cases.iter().enumerate();
            cases.len() == names.len() && all.all(|(at, found)| fits(at, found, None))
        }
        _ => false,
    }
}

/// The type of the payload of a case. For a case without payload, returns an arbitrary type, which
/// `()` ignores.
#[must_use]
pub fn payload(info: &Info, ty: ValueType, number: u32) -> ValueType {
    let found = match ty {
        ValueType::Defined(index) => match info.defined(index) {
            DefinedType::Variant(cases) => cases.get(number as usize).and_then(|(_, ty)| *ty),
            DefinedType::Option(some) => Some(*some),
            DefinedType::Result(ok, error) => match number {
                0 => *ok,
                _ => *error,
            },
            _ => None,
        },
        _ => None,
    };
    found.unwrap_or(ValueType::Bool)
}

/// Writes a case as core values.
///
/// # Errors
///
/// [`AbiError`] if the payload cannot be written.
pub fn lower<P: Type>(
    cx: &mut Lower<'_>,
    ty: ValueType,
    number: u32,
    value: &P,
    to: &mut Words,
) -> AbiResult {
    let end = to.len() + cx.info().words(ty);
    to.push(number.into());
    value.lower(cx, payload(cx.info(), ty, number), to)?;
    to.pad(end);
    Ok(())
}

/// Writes a case to memory.
///
/// # Errors
///
/// [`AbiError`] if the payload cannot be written, or if the value exceeds the memory.
pub fn store<P: Type>(
    cx: &mut Lower<'_>,
    ty: ValueType,
    number: u32,
    value: &P,
    at: u32,
) -> AbiResult {
    let layout = cx.info().layout(ty);
    let (discriminant, offset) = (layout.discriminant as usize, layout.payload);
    cx.write(at, &number.to_le_bytes()[..discriminant])?;
    let payload = payload(cx.info(), ty, number);
    value.store(cx, payload, at.saturating_add(offset))
}

/// Reads a case from core values. `read` gets the number of the case, and reads the payload.
///
/// # Errors
///
/// The error of `read`.
pub fn lift<V>(
    cx: &mut Lift<'_>,
    ty: ValueType,
    from: &mut Flat<'_>,
    read: impl FnOnce(&mut Lift<'_>, u32, ValueType, &mut Flat<'_>) -> AbiResult<V>,
) -> AbiResult<V> {
    let end = from.remaining().saturating_sub(cx.info().words(ty));
    let number = from.word() as u32;
    let payload = payload(cx.info(), ty, number);
    let value = read(cx, number, payload, from)?;
    from.skip(from.remaining().saturating_sub(end));
    Ok(value)
}

/// Reads a case from memory. `read` gets the number of the case and the address of its payload, and
/// reads the payload.
///
/// # Errors
///
/// The error of `read`, or [`AbiError`] if the value exceeds the memory.
pub fn load<V>(
    cx: &mut Lift<'_>,
    ty: ValueType,
    at: u32,
    read: impl FnOnce(&mut Lift<'_>, u32, ValueType, u32) -> AbiResult<V>,
) -> AbiResult<V> {
    let layout = cx.info().layout(ty);
    let (discriminant, offset) = (layout.discriminant, layout.payload);
    let number = cx.unsigned(at, discriminant)?;
    let payload = payload(cx.info(), ty, number);
    read(cx, number, payload, at.saturating_add(offset))
}

/// Reports a discriminant for which no case exists.
///
/// # Errors
///
/// Always.
pub fn unknown<V>(found: u32, cases: usize) -> AbiResult<V> {
    Err(AbiError::Discriminant { found, cases })
}

/// Implements [`Type`] and [`OwnedType`] for a Rust enum with one payload in each case. Each case
/// has a number, a pattern, and an expression that makes the case from the payload.
macro_rules! cases {
    (
        [$($generic:ident),*] $rust:ty, |$info:ident, $of:ident| $is:expr;
        $($number:literal: $pattern:pat => $payload:expr, $type:ty, |$back:ident| $made:expr;)*
    ) => {
        impl<$($generic: Typed),*> Typed for $rust {}
        impl<$($generic: Param),*> Type for $rust {
            fn is($info: &Info, ty: ValueType) -> bool {
                let ValueType::Defined(index) = ty else {
                    return false;
                };
                let $of = $info.defined(index);
                $is
            }

            fn request(&self, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
                match self {
                    $($pattern => {
                        let ty = payload(cx.info, ty, $number);
                        Type::request($payload, cx, ty)
                    })*
                }
            }

            fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
                match self {
                    $($pattern => lower(cx, ty, $number, $payload, to),)*
                }
            }

            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
                match self {
                    $($pattern => store(cx, ty, $number, $payload, at),)*
                }
            }
        }

        impl<$($generic: Typed),*> OwnedType for $rust {
            fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
                lift(cx, ty, from, |cx, number, ty, from| match number {
                    $($number => {
                        let $back = <$type as OwnedType>::lift(cx, ty, from)?;
                        Ok($made)
                    })*
                    found => unknown(found, 2),
                })
            }

            fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
                load(cx, ty, at, |cx, number, ty, at| match number {
                    $($number => {
                        let $back = <$type as OwnedType>::load(cx, ty, at)?;
                        Ok($made)
                    })*
                    found => unknown(found, 2),
                })
            }
        }
    };
}

cases! {
    [T] Option<T>,
    |info, of| matches!(of, DefinedType::Option(some) if T::is(info, *some));
    0: None => &(), (), |_nothing| None;
    1: Some(some) => some, T, |some| Some(some);
}

cases! {
    [T, E] Result<T, E>,
    |info, of| matches!(
        of,
        DefinedType::Result(ok, error) if T::is_optional(info, *ok) && E::is_optional(info, *error)
    );
    0: Ok(ok) => ok, T, |ok| Ok(ok);
    1: Err(error) => error, E, |error| Err(error);
}
