//! Tuples, and the parameters of functions.

use super::fields::{Place, field, has_fields};
use super::{CallParams, List, NamedTypes, OwnedList, OwnedType, Param, Type, Typed, TypedParams};
use crate::component::Info;
use crate::error::{AbiResult, RequestError};
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Words};
use pirn_format::component::ValueType;

macro_rules! tuples {
    ($(($($name:ident $at:tt),+);)*) => {$(
        impl<$($name: Typed),+> Typed for ($($name,)+) {}
        impl<$($name: Param),+> Type for ($($name,)+) {
            fn is(info: &Info, ty: ValueType) -> bool {
                has_fields(info, ty, [$($at),+].len())
                    $(&& $name::is(info, field(info, ty, $at)))+
            }

            fn request(&self, cx: &mut Collect<'_>, ty: ValueType) -> Result<(), RequestError> {
                $(self.$at.request(cx, field(cx.info, ty, $at))?;)+
                Ok(())
            }

            fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
                $(self.$at.lower(cx, field(cx.info(), ty, $at), to)?;)+
                Ok(())
            }

            fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
                let mut place = Place::new(at);
                $(
                    let ty_of = field(cx.info(), ty, $at);
                    let at = place.next(cx.info(), ty_of);
                    self.$at.store(cx, ty_of, at)?;
                )+
                Ok(())
            }
        }

        impl<$($name: Typed),+> OwnedType for ($($name,)+) {
            fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self> {
                Ok(($(
                    $name::lift(cx, field(cx.info(), ty, $at), from)?,
                )+))
            }

            fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self> {
                let mut place = Place::new(at);
                Ok(($(
                    {
                        let ty = field(cx.info(), ty, $at);
                        let at = place.next(cx.info(), ty);
                        $name::load(cx, ty, at)?
                    },
                )+))
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
        impl<$($name: Param),*> CallParams for ($($name,)*) {}
        impl<$($name: Typed),*> TypedParams for ($($name,)*) {}
        #[allow(unused_variables, unused_mut, reason = "the empty list has no type")]
        impl<$($name: Param),*> List for ($($name,)*) {
            fn are(info: &Info, types: &NamedTypes) -> bool {
                let wanted: &[u8] = &[$($at),*];
                types.len() == wanted.len() $(&& $name::is(info, types[$at].1))*
            }

            fn request(
                &self,
                cx: &mut Collect<'_>,
                types: &NamedTypes,
            ) -> Result<(), RequestError> {
                $(
                    let (name, ty) = &types[$at];
                    self.$at.request(cx, *ty).map_err(|error| error.at(name))?;
                )*
                Ok(())
            }

            fn lower(&self, cx: &mut Lower<'_>, types: &NamedTypes, to: &mut Words) -> AbiResult {
                $(self.$at.lower(cx, types[$at].1, to)?;)*
                Ok(())
            }

            fn store(&self, cx: &mut Lower<'_>, types: &NamedTypes, at: u32) -> AbiResult {
                let mut place = Place::new(at);
                $(
                    let at = place.next(cx.info(), types[$at].1);
                    self.$at.store(cx, types[$at].1, at)?;
                )*
                Ok(())
            }
        }

        #[allow(unused_variables, unused_mut, reason = "the empty list has no type")]
        impl<$($name: Typed),*> OwnedList for ($($name,)*) {
            fn lift(cx: &mut Lift<'_>, types: &NamedTypes, from: &mut Flat<'_>) -> AbiResult<Self> {
                Ok(($($name::lift(cx, types[$at].1, from)?,)*))
            }

            fn load(cx: &mut Lift<'_>, types: &NamedTypes, at: u32) -> AbiResult<Self> {
                let mut place = Place::new(at);
                Ok(($(
                    {
                        let at = place.next(cx.info(), types[$at].1);
                        $name::load(cx, types[$at].1, at)?
                    },
                )*))
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
