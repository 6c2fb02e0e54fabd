//! Strings, lists, and references.

use super::{OwnedType, Param, Type, Typed};
use crate::component::Info;
use crate::error::{AbiResult, RequestError};
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Words};
use crate::strings::{self, STRING_BYTES_MAX};
use bytes::Bytes;
use pirn_format::component::{DefinedType, ValueType};

impl Type for str {
    fn is(_: &Info, ty: ValueType) -> bool {
        ty == ValueType::String
    }

    fn request(&self, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
        let (_, align, bytes, _) = strings::plan(cx.encoding, self, &mut cx.progress)?;
        if bytes > STRING_BYTES_MAX {
            return Err(cx.mismatch(ty, "a longer string"));
        }
        cx.requests.count(self.len());
        cx.progress.work(size_of::<String>())?;
        Ok(cx.requests.push(bytes, align)?)
    }

    fn lower(&self, cx: &mut Lower<'_>, _: ValueType, to: &mut Words) -> AbiResult {
        let (address, length) = cx.string(self)?;
        to.push(address.into());
        to.push(length.into());
        Ok(())
    }

    fn store(&self, cx: &mut Lower<'_>, _: ValueType, at: u32) -> AbiResult {
        let (address, length) = cx.string(self)?;
        cx.pair(at, address, length)
    }
}

/// Implements [`Type`] for a Rust type that dereferences to another type. The methods call the
/// methods of the other type.
macro_rules! dereferenced {
    ([$($generics:tt)*] $rust:ty, $of:ty) => {
        impl<$($generics)*> Type for $rust {
            fn is(info: &Info, ty: ValueType) -> bool {
                <$of as Type>::is(info, ty)
            }

            fn is_optional(info: &Info, ty: Option<ValueType>) -> bool {
                <$of as Type>::is_optional(info, ty)
            }

            fn request(&self, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
                <$of as Type>::request(self, cx, ty)
            }

            fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
                <$of as Type>::lower(self, cx, ty, to)
            }

            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
                <$of as Type>::store(self, cx, ty, at)
            }
        }
    };
}

dereferenced!([T: Type + Sync + ?Sized] &T, T);
dereferenced!([] String, str);
dereferenced!([T: Param] Vec<T>, [T]);
dereferenced!([] Bytes, [u8]);

impl Typed for String {}
impl OwnedType for String {
    fn lift(cx: &mut Lift<'_>, _: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
        let (address, length) = (from.word() as u32, from.word() as u32);
        cx.string(address, length)
    }

    fn load(cx: &mut Lift<'_>, _: ValueType, at: u32) -> AbiResult<Self> {
        let (address, length) = (cx.word(at)?, cx.word(at.saturating_add(4))?);
        cx.string(address, length)
    }
}

/// The element type of a list. Linking has checked that the type is a list; for any other type,
/// returns the type itself.
fn element(info: &Info, ty: ValueType) -> ValueType {
    match ty {
        ValueType::Defined(index) => match info.defined(index) {
            DefinedType::List(element) => *element,
            _ => ty,
        },
        _ => ty,
    }
}

impl<T: Param> Type for [T] {
    fn is(info: &Info, ty: ValueType) -> bool {
        let ValueType::Defined(index) = ty else {
            return false;
        };
        matches!(info.defined(index), DefinedType::List(element) if T::is(info, *element))
    }

    fn request(&self, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
        let element = element(cx.info, ty);
        let layout = cx.info.layout(element);
        cx.requests.count(size_of_val(self));
        let bytes = u64::from(layout.bytes) * self.len() as u64;
        cx.requests.push(bytes, layout.align)?;
        let mut all = self.iter();
        all.try_for_each(|one| one.request(cx, element))
    }

    fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
        let address = store_list(self, cx, ty)?;
        to.push(address.into());
        to.push(self.len() as u64);
        Ok(())
    }

    fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
        let address = store_list(self, cx, ty)?;
        cx.pair(at, address, self.len() as u32)
    }
}

impl<T: Typed> Typed for Vec<T> {}
impl<T: Typed> OwnedType for Vec<T> {
    fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
        let (address, length) = (from.word() as u32, from.word() as u32);
        load_list(cx, ty, address, length)
    }

    fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
        let (address, length) = (cx.word(at)?, cx.word(at.saturating_add(4))?);
        load_list(cx, ty, address, length)
    }
}

/// A list of bytes. The conversion from `Vec` to `Bytes` does not copy the bytes again.
impl Typed for Bytes {}
impl OwnedType for Bytes {
    fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
        Vec::<u8>::lift(cx, ty, from).map(Self::from)
    }

    fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
        Vec::<u8>::load(cx, ty, at).map(Self::from)
    }
}

fn store_list<T: Param>(all: &[T], cx: &mut Lower<'_>, ty: ValueType) -> AbiResult<u32> {
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
) -> AbiResult<Vec<T>> {
    let element = element(cx.info(), ty);
    cx.check_list(element, address, length, size_of::<T>())?;
    T::load_all(cx, element, address, length)
}
