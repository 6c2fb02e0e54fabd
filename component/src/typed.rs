//! Rust types that represent types of the component model: [`Typed`] and [`Param`].
//!
//! A typed call over numbers allocates nothing. The types are compared once: when the host looks a
//! function up, or links a component. Only the type of a [`Value`](crate::Value) is compared at
//! each call.

use crate::component::Info;
use crate::error::{AbiResult, RequestError};
use crate::lift::{Flat, Lift};
use crate::lower::{Collect, Lower, Words};
use pirn_format::component::ValueType;

pub mod cases;
pub mod fields;
mod filled;
pub mod flags;
mod lists;
mod numbers;
mod resources;
mod tuples;
mod values;

pub use filled::Filled;
pub use resources::{AnyResource, Borrow, Own, ResourceType};

/// A Rust type that represents a type of the component model.
///
/// `bool`, the integers, `f32`, `f64`, `char` and `String` represent the types of these names.
/// `Vec` and [`Bytes`](bytes::Bytes) represent a list, `Option` an option, `Result` a result,
/// [`Own`] and [`Borrow`] handles. A tuple of up to 8 fields represents a tuple, or a record by
/// position. A missing payload of a `Result`, and a missing result of a function, is `()`. A
/// [`Value`](crate::Value) represents any type, and each call compares the value with the type.
/// `#[derive(Typed)]` makes records, variants, enums and flags of the program's own types.
pub trait Typed: Param + OwnedType {}

/// A Rust type that the host can pass to a function of a guest: each [`Typed`], and references to a
/// [`Param`]. `&str` is a string, and `&[T]` a list. References can be inside `Option`, `Result`,
/// tuples and lists, as in `Option<&str>` and `&[(&str, u32)]`. A reference to an [`Own`] gives the
/// resource away, as the `Own` itself does: do not pass it again.
///
/// All types that this crate or `#[derive(Typed)]` supports implement this trait. Do not implement
/// it by hand.
pub trait Param: Type {}
impl<T: Type + ?Sized> Param for T {}

/// The parameters of a function of the host: a tuple of up to 8 [`Typed`].
pub trait TypedParams: CallParams + OwnedList {}

/// The parameters of a call of a guest: a tuple of up to 8 [`Param`].
pub trait CallParams: List {}

/// Conversion of one value to the guest's representation. Use `#[derive(Typed)]` to implement this
/// trait, and nothing else.
///
/// A call first asks for the memory ([`request`](Self::request)) and then writes the value
/// ([`lower`](Self::lower) or [`store`](Self::store)). The value must not change between these
/// calls.
pub trait Type: Send {
    /// Whether the type represents `ty`.
    fn is(info: &Info, ty: ValueType) -> bool;

    /// Whether the type represents an optional payload or result. `None` is a missing payload or
    /// result.
    fn is_optional(info: &Info, ty: Option<ValueType>) -> bool {
        ty.is_some_and(|ty| Self::is(info, ty))
    }

    /// Lists the memory that the value needs. A [`Value`](crate::Value) is also compared with
    /// the type.
    fn request(&self, _cx: &mut Collect<'_>, _ty: ValueType) -> Result<(), RequestError> {
        Ok(())
    }

    /// Writes the value as core values.
    fn lower(&self, cx: &mut Lower<'_>, ty: ValueType, to: &mut Words) -> AbiResult;

    /// Writes the value to memory.
    fn store(&self, cx: &mut Lower<'_>, ty: ValueType, at: u32) -> AbiResult;

    /// Writes elements of a list to memory.
    fn store_all(all: &[Self], cx: &mut Lower<'_>, ty: ValueType, mut at: u32) -> AbiResult
    where
        Self: Sized,
    {
        let bytes = cx.info().layout(ty).bytes;
        for one in all {
            one.store(cx, ty, at)?;
            at = at.saturating_add(bytes);
            cx.progress.work(size_of::<Self>().max(bytes as usize))?;
        }
        Ok(())
    }
}

/// Conversion of one value from the guest's representation. Use `#[derive(Typed)]` to implement
/// this trait, and nothing else.
pub trait OwnedType: Type + Sized + 'static {
    /// Reads `length` elements of a list at address `at`. The caller has checked that the list is
    /// in the memory.
    fn load_all(cx: &mut Lift<'_>, ty: ValueType, at: u32, length: u32) -> AbiResult<Vec<Self>> {
        let bytes = cx.info().layout(ty).bytes;
        let mut all = Vec::with_capacity(length as usize);
        for n in 0..length {
            all.push(Self::load(cx, ty, at + n * bytes)?);
            cx.progress.work(size_of::<Self>().max(bytes as usize))?;
        }
        Ok(all)
    }

    /// Reads a value from core values.
    fn lift(cx: &mut Lift<'_>, ty: ValueType, from: &mut Flat<'_>) -> AbiResult<Self>;

    /// Reads a value from memory.
    fn load(cx: &mut Lift<'_>, ty: ValueType, at: u32) -> AbiResult<Self>;
}

/// The names and types of parameters or fields.
pub(crate) type NamedTypes = [(String, ValueType)];

/// Conversion of several values to the guest's representation.
pub trait List: Send {
    /// Whether these types represent `types`.
    fn are(info: &Info, types: &NamedTypes) -> bool;

    /// As [`Type::request`].
    fn request(&self, cx: &mut Collect<'_>, types: &NamedTypes) -> Result<(), RequestError>;

    /// As [`Type::lower`].
    fn lower(&self, cx: &mut Lower<'_>, types: &NamedTypes, to: &mut Words) -> AbiResult;

    /// As [`Type::store`], for one value after the other.
    fn store(&self, cx: &mut Lower<'_>, types: &NamedTypes, at: u32) -> AbiResult;
}

/// Conversion of several values from the guest's representation.
pub trait OwnedList: Sized + 'static {
    /// As [`OwnedType::lift`].
    fn lift(cx: &mut Lift<'_>, types: &NamedTypes, from: &mut Flat<'_>) -> AbiResult<Self>;

    /// As [`OwnedType::load`], for one value after the other.
    fn load(cx: &mut Lift<'_>, types: &NamedTypes, at: u32) -> AbiResult<Self>;
}

/// Nothing: a missing payload or result.
impl Typed for () {}
impl Type for () {
    fn is(_: &Info, _: ValueType) -> bool {
        false
    }

    fn is_optional(_: &Info, ty: Option<ValueType>) -> bool {
        ty.is_none()
    }

    fn lower(&self, _: &mut Lower<'_>, _: ValueType, _: &mut Words) -> AbiResult {
        Ok(())
    }

    fn store(&self, _: &mut Lower<'_>, _: ValueType, _: u32) -> AbiResult {
        Ok(())
    }
}
impl OwnedType for () {
    fn lift(_: &mut Lift<'_>, _: ValueType, _: &mut Flat<'_>) -> AbiResult<Self> {
        Ok(())
    }

    fn load(_: &mut Lift<'_>, _: ValueType, _: u32) -> AbiResult<Self> {
        Ok(())
    }
}
