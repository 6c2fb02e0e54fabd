//! Numbers, booleans and characters.

use super::{OwnedType, Type, Typed};
use crate::component::Info;
use crate::error::{AbiError, AbiResult};
use crate::lift::{Flat, Lift};
use crate::lower::{Lower, Words};
use crate::stop::PIECE_BYTES;
use pirn_format::component::ValueType;

macro_rules! numbers {
    ($(
        $rust:ty, $ty:ident, $what:literal, |$value:ident| $word:expr, |$from:ident| $back:expr;
    )*) => {$(
        impl Typed for $rust {}
        impl Type for $rust {
            fn is(_: &Info, ty: ValueType) -> bool {
                ty == ValueType::$ty
            }
            #[inline]
            fn lower(&self, _: &mut Lower<'_>, _: ValueType, to: &mut Words) -> AbiResult {
                let $value = *self;
                to.push($word);
                Ok(())
            }
            fn store(&self, cx: &mut Lower<'_>, _: ValueType, at: u32) -> AbiResult {
                cx.write(at, &self.to_le_bytes())
            }
            fn store_all(all: &[Self], cx: &mut Lower<'_>, _: ValueType, mut at: u32) -> AbiResult {
                for all in all.chunks(PIECE_BYTES / size_of::<$rust>()) {
                    let places = cx.bytes(at, size_of_val(all))?;
                    let (places, _) = places.as_chunks_mut::<{ size_of::<$rust>() }>();
                    for (place, one) in places.iter_mut().zip(all) {
                        *place = one.to_le_bytes();
                    }
                    at = at.saturating_add(size_of_val(all) as u32);
                    cx.progress.work(size_of_val(all))?;
                }
                Ok(())
            }
        }
        impl OwnedType for $rust {
            fn load_all(
                cx: &mut Lift<'_>,
                _: ValueType,
                at: u32,
                length: u32,
            ) -> AbiResult<Vec<Self>> {
                let bytes = u64::from(length) * size_of::<Self>() as u64;
                let places = cx.bytes("a list", at, bytes)?;
                let (places, _) = places.as_chunks::<{ size_of::<$rust>() }>();
                let mut all = Vec::with_capacity(places.len());
                for places in places.chunks(PIECE_BYTES / size_of::<$rust>()) {
                    all.extend(places.iter().map(|place| Self::from_le_bytes(*place)));
                    cx.progress.work(size_of_val(places))?;
                }
                Ok(all)
            }
            #[inline]
            fn lift(_: &mut Lift<'_>, _: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
                let $from = from.word();
                Ok($back)
            }
            fn load(cx: &mut Lift<'_>, _: ValueType, at: u32) -> AbiResult<Self> {
                Ok(Self::from_le_bytes(cx.number($what, at)?))
            }
        }
    )*};
}

numbers! {
    u8, U8, "a u8", |v| v.into(), |w| w as Self;
    u16, U16, "a u16", |v| v.into(), |w| w as Self;
    u32, U32, "a u32", |v| v.into(), |w| w as Self;
    u64, U64, "a u64", |v| v, |w| w;
    i8, S8, "an s8", |v| i32::from(v).cast_unsigned().into(), |w| w as Self;
    i16, S16, "an s16", |v| i32::from(v).cast_unsigned().into(), |w| w as Self;
    i32, S32, "an s32", |v| v.cast_unsigned().into(), |w| w as Self;
    i64, S64, "an s64", |v| v.cast_unsigned(), |w| w.cast_signed();
    f32, F32, "an f32", |v| v.to_bits().into(), |w| Self::from_bits(w as u32);
    f64, F64, "an f64", |v| v.to_bits(), |w| Self::from_bits(w);
}

/// Implements [`Type`] and [`OwnedType`] for a Rust type that memory holds as a number.
macro_rules! as_number {
    ($rust:ty, $number:ty, $ty:ident, |$value:ident| $into:expr, |$from:ident| $back:expr) => {
        impl Typed for $rust {}
        impl Type for $rust {
            fn is(_: &Info, ty: ValueType) -> bool {
                ty == ValueType::$ty
            }
            fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
                let $value = *self;
                Type::lower(&$into, cx, ty, to)
            }
            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
                let $value = *self;
                Type::store(&$into, cx, ty, at)
            }
        }
        impl OwnedType for $rust {
            fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
                // A flat value has 32 bits.
                let $from = <u32 as OwnedType>::lift(cx, ty, from)?;
                $back
            }
            fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
                let $from = u32::from(<$number as OwnedType>::load(cx, ty, at)?);
                $back
            }
        }
    };
}

as_number!(
    bool,
    u8,
    Bool,
    |value| u8::from(value),
    |word| Ok(word != 0)
);
as_number!(char, u32, Char, |value| u32::from(value), |word| {
    Self::from_u32(word).ok_or(AbiError::Char(word))
});
