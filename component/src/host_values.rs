//! Conversion of the parameters and the result of a host function: to and from dynamic values, or
//! to and from Rust types.

use crate::component::Info;
use crate::error::AbiResult;
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Words};
use crate::state::Unwritten;
use crate::typed::{OwnedList, Param, TypedParams};
use crate::value::Value;
use pirn_format::component::{FuncType, ValueType};
use pirn_runtime::HostError;
use std::any::type_name;
use std::marker::PhantomData;

/// Converts the parameters and the result of a host function.
pub(crate) trait HostValues: Send + Sync + 'static {
    type Params: Send + 'static;
    type Output: Send + 'static;
    type Unwritten: Unwritten + 'static;

    /// Checks that a component's function type matches `Params` and `Output`. The error names the
    /// Rust types.
    fn check(info: &Info, ty: &FuncType) -> Result<(), String>;

    /// Reads the parameters.
    fn lift(
        cx: &mut Lift<'_>,
        ty: &FuncType,
        words: &mut Flat<'_>,
        in_memory: Option<(u64, u32)>,
    ) -> AbiResult<Self::Params>;

    /// Converts the result to a form that can be written to the guest. The error describes a result
    /// that does not fit the type.
    fn unwritten(
        output: Self::Output,
        ty: Option<ValueType>,
    ) -> Result<Option<Self::Unwritten>, &'static str>;
}

/// Converts dynamic values ([`Value`]).
pub(crate) struct Untyped;

impl HostValues for Untyped {
    type Params = Vec<Value>;
    type Output = Option<Value>;
    type Unwritten = OfType<Value>;

    fn check(_: &Info, _: &FuncType) -> Result<(), String> {
        Ok(())
    }

    fn lift(
        cx: &mut Lift<'_>,
        ty: &FuncType,
        words: &mut Flat<'_>,
        in_memory: Option<(u64, u32)>,
    ) -> AbiResult<Vec<Value>> {
        params(cx, ty, words, in_memory)
    }

    fn unwritten(
        output: Option<Value>,
        ty: Option<ValueType>,
    ) -> Result<Option<OfType<Value>>, &'static str> {
        match (&output, ty) {
            (None, Some(_)) => Err("no result, its type has one"),
            (Some(_), None) => Err("a result, its type has none"),
            _ => Ok(output.map(OfType)),
        }
    }
}

/// Reads parameters from core values, or from memory if they are there.
#[inline]
fn params<P: OwnedList>(
    cx: &mut Lift<'_>,
    ty: &FuncType,
    words: &mut Flat<'_>,
    in_memory: Option<(u64, u32)>,
) -> AbiResult<P> {
    let Some((bytes, align)) = in_memory else {
        return P::lift(cx, &ty.params, words);
    };
    let at = words.word() as u32;
    cx.check_params(at, bytes, align)?;
    P::load(cx, &ty.params, at)
}

/// Converts to parameters of the Rust type `P`, and from a result of the Rust type `R`. The host
/// only writes the result.
pub(crate) struct OfTypes<P, R>(PhantomData<fn(P) -> R>);

/// A result of a Rust type.
pub(crate) struct OfType<R>(R);

impl<P: TypedParams, R: Param + 'static> HostValues for OfTypes<P, R> {
    type Params = P;
    type Output = R;
    type Unwritten = OfType<R>;

    fn check(info: &Info, ty: &FuncType) -> Result<(), String> {
        match P::are(info, &ty.params) && R::is_optional(info, ty.result) {
            true => Ok(()),
            false => Err(format!("{} -> {}", type_name::<P>(), type_name::<R>())),
        }
    }

    #[inline]
    fn lift(
        cx: &mut Lift<'_>,
        ty: &FuncType,
        words: &mut Flat<'_>,
        in_memory: Option<(u64, u32)>,
    ) -> AbiResult<P> {
        params(cx, ty, words, in_memory)
    }

    #[inline]
    fn unwritten(output: R, ty: Option<ValueType>) -> Result<Option<OfType<R>>, &'static str> {
        // `check` has compared the types.
        Ok(ty.map(|_| OfType(output)))
    }
}

impl<R: Param + 'static> Unwritten for OfType<R> {
    #[inline]
    fn request(&self, cx: &mut Collect<'_>, ty: ValueType, place: &str) -> Result<(), HostError> {
        let requested = self.0.request(cx, ty);
        requested.map_err(|error| error.at(place).into())
    }

    #[inline]
    fn flat(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult {
        self.0.lower(cx, ty, to)
    }

    #[inline]
    fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult {
        self.0.store(cx, ty, at)
    }
}
