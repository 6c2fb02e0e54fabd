//! Rust types as types of the component model: [`Typed`], and functions over them.
//!
//! A typed call of numbers allocates nothing. Its parameters and results are no [`Value`]s, and its
//! type is compared once, when the function is looked up.
//!
//! [`Value`]: crate::Value
#![expect(private_interfaces, reason = "as in the sealed traits")]

use crate::component::Info;
use crate::error::AbiError;
use crate::lift::{Flat, Lift, aligned};
use crate::lower::{Lower, Requests, Words};
use crate::strings::{self, STRING_BYTES_MAX};
use pirn_format::component::{DefinedType, StringEncoding, ValueType};

/// A Rust type that represents a type of the component model.
///
/// `bool`, the integers, `f32`, `f64`, `char` and `String` represent themselves, `Vec` a list,
/// `Option` and `Result` theirs, and tuples of up to 8 a tuple or a record, by position. A missing
/// payload of a `Result`, and a missing result of a function, is `()`.
pub trait Typed: sealed::Type {}

/// The parameters of a function: a tuple of up to 8 [`Typed`].
pub trait TypedParams: sealed::List {}

#[expect(
    private_interfaces,
    reason = "the crate's types, which only the crate uses"
)]
pub(crate) mod sealed {
    use crate::component::Info;
    use crate::error::AbiError;
    use crate::lift::{Flat, Lift};
    use crate::lower::{Lower, Requests, Words};
    use pirn_format::component::{StringEncoding, ValueType};

    /// Conversion of one value.
    pub trait Type: Sized + 'static {
        /// Whether the type represents `ty`.
        fn is(info: &Info, ty: ValueType) -> bool;
        /// Whether the type represents a payload or a result, which may be missing.
        fn is_optional(info: &Info, ty: Option<ValueType>) -> bool {
            ty.is_some_and(|ty| Self::is(info, ty))
        }
        /// Lists the memory that the value needs.
        fn request(
            &self,
            _info: &Info,
            _ty: ValueType,
            _encoding: StringEncoding,
            _requests: &mut Requests,
        ) -> Result<(), AbiError> {
            Ok(())
        }
        /// Writes core values.
        fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> Result<(), AbiError>;
        /// Writes to memory.
        fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> Result<(), AbiError>;
        /// Writes elements of a list to memory.
        fn store_all(
            all: &[Self],
            cx: &mut Lower<'_>,
            ty: ValueType,
            mut at: u32,
        ) -> Result<(), AbiError> {
            let bytes = cx.info().layout(ty).bytes;
            for one in all {
                one.store(cx, ty, at)?;
                at = at.saturating_add(bytes);
            }
            Ok(())
        }
        /// Reads elements of a list, which lies in the memory, from there.
        fn load_all(
            cx: &mut Lift<'_>,
            ty: ValueType,
            at: u32,
            length: u32,
        ) -> Result<Vec<Self>, AbiError> {
            let bytes = cx.info().layout(ty).bytes;
            let places = (0..length).map(|n| at + n * bytes);
            places.map(|at| Self::load(cx, ty, at)).collect()
        }
        /// Reads core values.
        fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> Result<Self, AbiError>;
        /// Reads from memory.
        fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> Result<Self, AbiError>;
    }

    /// Conversion of several values.
    pub trait List: 'static {
        /// Whether these types represent `types`.
        fn are(info: &Info, types: &[(String, ValueType)]) -> bool;
        /// As [`Type::request`].
        fn request(
            &self,
            info: &Info,
            types: &[(String, ValueType)],
            encoding: StringEncoding,
            requests: &mut Requests,
        ) -> Result<(), AbiError>;
        /// As [`Type::lower`].
        fn lower(
            &self,
            cx: &mut Lower<'_>,
            types: &[(String, ValueType)],
            to: &mut Words,
        ) -> Result<(), AbiError>;
        /// As [`Type::store`], one after the other.
        fn store(
            &self,
            cx: &mut Lower<'_>,
            types: &[(String, ValueType)],
            at: u32,
        ) -> Result<(), AbiError>;
    }
}

macro_rules! numbers {
    ($(
        $rust:ty, $ty:ident, $what:literal, |$value:ident| $word:expr, |$from:ident| $back:expr;
    )*) => {$(
        impl Typed for $rust {}
        impl sealed::Type for $rust {
            fn is(_: &Info, ty: ValueType) -> bool {
                ty == ValueType::$ty
            }
            #[inline]
            fn lower(
                &self,
                _: &mut Lower<'_>,
                _: ValueType,
                to: &mut Words,
            ) -> Result<(), AbiError> {
                let $value = *self;
                to.push($word);
                Ok(())
            }
            fn store(&self, cx: &mut Lower<'_>, _: ValueType, at: u32) -> Result<(), AbiError> {
                cx.write(at, &self.to_le_bytes())
            }
            fn store_all(
                all: &[Self],
                cx: &mut Lower<'_>,
                _: ValueType,
                at: u32,
            ) -> Result<(), AbiError> {
                let places = cx.bytes(at, size_of_val(all))?;
                for (place, one) in places.chunks_exact_mut(size_of::<Self>()).zip(all) {
                    place.copy_from_slice(&one.to_le_bytes());
                }
                Ok(())
            }
            fn load_all(
                cx: &mut Lift<'_>,
                _: ValueType,
                at: u32,
                length: u32,
            ) -> Result<Vec<Self>, AbiError> {
                let bytes = u64::from(length) * size_of::<Self>() as u64;
                let places = cx.bytes("a list", at, bytes)?.chunks_exact(size_of::<Self>());
                let mut number = [0; size_of::<Self>()];
                let numbers = places.map(|place| {
                    number.copy_from_slice(place);
                    Self::from_le_bytes(number)
                });
                Ok(numbers.collect())
            }
            #[inline]
            fn lift(
                _: &mut Lift<'_>,
                _: ValueType,
                from: &mut Flat<'_>,
            ) -> Result<Self, AbiError> {
                let $from = from.next();
                Ok($back)
            }
            fn load(cx: &mut Lift<'_>, _: ValueType, at: u32) -> Result<Self, AbiError> {
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

/// A type that is represented as another one.
macro_rules! as_number {
    ($rust:ty, $number:ty, $ty:ident, |$value:ident| $into:expr, |$from:ident| $back:expr) => {
        impl Typed for $rust {}
        impl sealed::Type for $rust {
            fn is(_: &Info, ty: ValueType) -> bool {
                ty == ValueType::$ty
            }
            fn lower(
                &self,
                cx: &mut Lower<'_>,
                ty: ValueType,
                to: &mut Words,
            ) -> Result<(), AbiError> {
                let $value = *self;
                sealed::Type::lower(&$into, cx, ty, to)
            }
            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> Result<(), AbiError> {
                let $value = *self;
                sealed::Type::store(&$into, cx, ty, at)
            }
            fn lift(
                cx: &mut Lift<'_>,
                ty: ValueType,
                from: &mut Flat<'_>,
            ) -> Result<Self, AbiError> {
                // A flat value has 32 bits.
                let $from = <u32 as sealed::Type>::lift(cx, ty, from)?;
                $back
            }
            fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> Result<Self, AbiError> {
                let $from = u32::from(<$number as sealed::Type>::load(cx, ty, at)?);
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

impl Typed for String {}
impl sealed::Type for String {
    fn is(_: &Info, ty: ValueType) -> bool {
        ty == ValueType::String
    }

    fn request(
        &self,
        _: &Info,
        _: ValueType,
        encoding: StringEncoding,
        requests: &mut Requests,
    ) -> Result<(), AbiError> {
        let (_, align, bytes, _) = strings::plan(encoding, self);
        match bytes > STRING_BYTES_MAX {
            true => Err(AbiError::HostBytes(STRING_BYTES_MAX as usize)),
            false => requests.push(bytes, align),
        }
    }

    fn lower(&self, cx: &mut Lower<'_>, _: ValueType, to: &mut Words) -> Result<(), AbiError> {
        let (address, length) = cx.string(self)?;
        to.push(address.into());
        to.push(length.into());
        Ok(())
    }

    fn store(&self, cx: &mut Lower<'_>, _: ValueType, at: u32) -> Result<(), AbiError> {
        let (address, length) = cx.string(self)?;
        cx.pair(at, address, length)
    }

    fn lift(cx: &mut Lift<'_>, _: ValueType, from: &mut Flat<'_>) -> Result<Self, AbiError> {
        let (address, length) = (from.next() as u32, from.next() as u32);
        cx.string(address, length)
    }

    fn load(cx: &mut Lift<'_>, _: ValueType, at: u32) -> Result<Self, AbiError> {
        let (address, length) = (cx.word(at)?, cx.word(at.saturating_add(4))?);
        cx.string(address, length)
    }
}

/// The element type of a list; any type if it is none, which the check of types excludes.
fn element(info: &Info, ty: ValueType) -> ValueType {
    match ty {
        ValueType::Defined(index) => match info.defined(index) {
            DefinedType::List(element) => *element,
            _ => ty,
        },
        _ => ty,
    }
}

impl<T: Typed> Typed for Vec<T> {}
impl<T: Typed> sealed::Type for Vec<T> {
    fn is(info: &Info, ty: ValueType) -> bool {
        let ValueType::Defined(index) = ty else {
            return false;
        };
        matches!(info.defined(index), DefinedType::List(element) if T::is(info, *element))
    }

    fn request(
        &self,
        info: &Info,
        ty: ValueType,
        encoding: StringEncoding,
        requests: &mut Requests,
    ) -> Result<(), AbiError> {
        let element = element(info, ty);
        let layout = info.layout(element);
        requests.push(u64::from(layout.bytes) * self.len() as u64, layout.align)?;
        let mut all = self.iter();
        all.try_for_each(|one| one.request(info, element, encoding, requests))
    }

    fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> Result<(), AbiError> {
        let address = store_list(self, cx, ty)?;
        to.push(address.into());
        to.push(self.len() as u64);
        Ok(())
    }

    fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> Result<(), AbiError> {
        let address = store_list(self, cx, ty)?;
        cx.pair(at, address, self.len() as u32)
    }

    fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> Result<Self, AbiError> {
        let (address, length) = (from.next() as u32, from.next() as u32);
        load_list(cx, ty, address, length)
    }

    fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> Result<Self, AbiError> {
        let (address, length) = (cx.word(at)?, cx.word(at.saturating_add(4))?);
        load_list(cx, ty, address, length)
    }
}

fn store_list<T: Typed>(all: &[T], cx: &mut Lower<'_>, ty: ValueType) -> Result<u32, AbiError> {
    let element = element(cx.info(), ty);
    let address = cx.piece();
    T::store_all(all, cx, element, address)?;
    Ok(address)
}

fn load_list<T: Typed>(
    cx: &mut Lift<'_>,
    ty: ValueType,
    address: u32,
    length: u32,
) -> Result<Vec<T>, AbiError> {
    let element = element(cx.info(), ty);
    cx.check_list(element, address, length, size_of::<T>())?;
    T::load_all(cx, element, address, length)
}

/// The payload types of an option or result.
fn payloads(info: &Info, ty: ValueType) -> [Option<ValueType>; 2] {
    match ty {
        ValueType::Defined(index) => match info.defined(index) {
            DefinedType::Option(some) => [None, Some(*some)],
            DefinedType::Result(ok, error) => [*ok, *error],
            _ => [None; 2],
        },
        _ => [None; 2],
    }
}

/// A payload type. What stands for a missing one is not used.
fn present(ty: Option<ValueType>) -> ValueType {
    ty.unwrap_or(ValueType::Bool)
}

/// Nothing: a missing payload or result.
impl Typed for () {}
impl sealed::Type for () {
    fn is(_: &Info, _: ValueType) -> bool {
        false
    }

    fn is_optional(_: &Info, ty: Option<ValueType>) -> bool {
        ty.is_none()
    }

    fn lower(&self, _: &mut Lower<'_>, _: ValueType, _: &mut Words) -> Result<(), AbiError> {
        Ok(())
    }

    fn store(&self, _: &mut Lower<'_>, _: ValueType, _: u32) -> Result<(), AbiError> {
        Ok(())
    }

    fn lift(_: &mut Lift<'_>, _: ValueType, _: &mut Flat<'_>) -> Result<Self, AbiError> {
        Ok(())
    }

    fn load(_: &mut Lift<'_>, _: ValueType, _: u32) -> Result<Self, AbiError> {
        Ok(())
    }
}

/// An enumeration of Rust with one payload a case. Each case has a number, a pattern, and an
/// expression that makes it of its payload.
macro_rules! cases {
    (
        [$($generic:ident),*] $rust:ty, |$info:ident, $of:ident| $is:expr;
        $($number:literal: $pattern:pat => $payload:expr, $type:ty, |$back:ident| $made:expr;)*
    ) => {
        impl<$($generic: Typed),*> Typed for $rust {}
        impl<$($generic: Typed),*> sealed::Type for $rust {
            fn is($info: &Info, ty: ValueType) -> bool {
                let ValueType::Defined(index) = ty else {
                    return false;
                };
                let $of = $info.defined(index);
                $is
            }

            fn request(
                &self,
                info: &Info,
                ty: ValueType,
                encoding: StringEncoding,
                requests: &mut Requests,
            ) -> Result<(), AbiError> {
                let types = payloads(info, ty);
                match self {
                    $($pattern => {
                        let ty = present(types[$number]);
                        sealed::Type::request($payload, info, ty, encoding, requests)
                    })*
                }
            }

            fn lower(
                &self,
                cx: &mut Lower<'_>,
                ty: ValueType,
                to: &mut Words,
            ) -> Result<(), AbiError> {
                let types = payloads(cx.info(), ty);
                let count = cx.info().layout(ty).flat.map_or(1, |flat| flat.len());
                let end = to.len() + count;
                match self {
                    $($pattern => {
                        to.push($number);
                        sealed::Type::lower($payload, cx, present(types[$number]), to)?;
                    })*
                }
                to.pad(end);
                Ok(())
            }

            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> Result<(), AbiError> {
                let types = payloads(cx.info(), ty);
                let payload = at.saturating_add(cx.info().layout(ty).payload);
                match self {
                    $($pattern => {
                        // Both types have at most 256 cases.
                        cx.write(at, &[$number])?;
                        sealed::Type::store($payload, cx, present(types[$number]), payload)
                    })*
                }
            }

            fn lift(
                cx: &mut Lift<'_>,
                ty: ValueType,
                from: &mut Flat<'_>,
            ) -> Result<Self, AbiError> {
                let types = payloads(cx.info(), ty);
                let words = cx.info().layout(ty).flat.map_or(1, |flat| flat.len());
                let end = from.remaining().saturating_sub(words);
                let value = match from.next() as u32 {
                    $($number => {
                        let ty = present(types[$number]);
                        let $back = <$type as sealed::Type>::lift(cx, ty, from)?;
                        $made
                    })*
                    found => return Err(AbiError::Discriminant { found, cases: 2 }),
                };
                from.skip(from.remaining().saturating_sub(end));
                Ok(value)
            }

            fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> Result<Self, AbiError> {
                let types = payloads(cx.info(), ty);
                let payload = at.saturating_add(cx.info().layout(ty).payload);
                match u32::from(cx.number::<1>("a discriminant", at)?[0]) {
                    $($number => {
                        let ty = present(types[$number]);
                        let $back = <$type as sealed::Type>::load(cx, ty, payload)?;
                        Ok($made)
                    })*
                    found => Err(AbiError::Discriminant { found, cases: 2 }),
                }
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

/// The types of the fields of a tuple or record.
fn fields(info: &Info, ty: ValueType, at: usize) -> ValueType {
    let ValueType::Defined(index) = ty else {
        return ty;
    };
    let found = match info.defined(index) {
        DefinedType::Tuple(types) => types.get(at).copied(),
        DefinedType::Record(fields) => fields.get(at).map(|(_, ty)| *ty),
        _ => None,
    };
    present(found)
}

macro_rules! tuples {
    ($(($($name:ident $at:tt),+);)*) => {$(
        impl<$($name: Typed),+> Typed for ($($name,)+) {}
        impl<$($name: Typed),+> sealed::Type for ($($name,)+) {
            fn is(info: &Info, ty: ValueType) -> bool {
                let ValueType::Defined(index) = ty else {
                    return false;
                };
                let len = [$($at),+].len();
                let fits = match info.defined(index) {
                    DefinedType::Tuple(types) => types.len() == len,
                    DefinedType::Record(fields) => fields.len() == len,
                    _ => false,
                };
                fits $(&& $name::is(info, fields(info, ty, $at)))+
            }

            fn request(
                &self,
                info: &Info,
                ty: ValueType,
                encoding: StringEncoding,
                requests: &mut Requests,
            ) -> Result<(), AbiError> {
                $(self.$at.request(info, fields(info, ty, $at), encoding, requests)?;)+
                Ok(())
            }

            fn lower(
                &self,
                cx: &mut Lower<'_>,
                ty: ValueType,
                to: &mut Words,
            ) -> Result<(), AbiError> {
                $(self.$at.lower(cx, fields(cx.info(), ty, $at), to)?;)+
                Ok(())
            }

            fn store(
                &self,
                cx: &mut Lower<'_>,
                ty: ValueType,
                mut at: u32,
            ) -> Result<(), AbiError> {
                $(
                    let field = fields(cx.info(), ty, $at);
                    let layout = cx.info().layout(field);
                    at = aligned(at, layout.align);
                    self.$at.store(cx, field, at)?;
                    at = at.saturating_add(layout.bytes);
                )+
                let _ = at;
                Ok(())
            }

            fn lift(
                cx: &mut Lift<'_>,
                ty: ValueType,
                from: &mut Flat<'_>,
            ) -> Result<Self, AbiError> {
                Ok(($(
                    $name::lift(cx, fields(cx.info(), ty, $at), from)?,
                )+))
            }

            fn load(cx: &mut Lift<'_>, ty: ValueType, mut at: u32) -> Result<Self, AbiError> {
                let value = ($(
                    {
                        let field = fields(cx.info(), ty, $at);
                        let layout = cx.info().layout(field);
                        at = aligned(at, layout.align);
                        let value = $name::load(cx, field, at)?;
                        at = at.saturating_add(layout.bytes);
                        value
                    },
                )+);
                let _ = at;
                Ok(value)
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

macro_rules! params {
    ($(($($name:ident $at:tt),*);)*) => {$(
        impl<$($name: Typed),*> TypedParams for ($($name,)*) {}
        #[allow(unused_variables, unused_mut, reason = "the empty list has no type")]
        impl<$($name: Typed),*> sealed::List for ($($name,)*) {
            fn are(info: &Info, types: &[(String, ValueType)]) -> bool {
                let wanted: &[u8] = &[$($at),*];
                types.len() == wanted.len() $(&& $name::is(info, types[$at].1))*
            }

            fn request(
                &self,
                info: &Info,
                types: &[(String, ValueType)],
                encoding: StringEncoding,
                requests: &mut Requests,
            ) -> Result<(), AbiError> {
                $(self.$at.request(info, types[$at].1, encoding, requests)?;)*
                Ok(())
            }

            fn lower(
                &self,
                cx: &mut Lower<'_>,
                types: &[(String, ValueType)],
                to: &mut Words,
            ) -> Result<(), AbiError> {
                $(self.$at.lower(cx, types[$at].1, to)?;)*
                Ok(())
            }

            fn store(
                &self,
                cx: &mut Lower<'_>,
                types: &[(String, ValueType)],
                mut at: u32,
            ) -> Result<(), AbiError> {
                $(
                    let layout = cx.info().layout(types[$at].1);
                    at = aligned(at, layout.align);
                    self.$at.store(cx, types[$at].1, at)?;
                    at = at.saturating_add(layout.bytes);
                )*
                let _ = at;
                Ok(())
            }
        }
    )*};
}

params! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}
