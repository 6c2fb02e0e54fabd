//! [`IntoFunc`]: Rust closures as functions that guests import.
//!
//! # Safety
//!
//! This file owns one fact. The entry of a [`HostFunc<T>`] points to the function that it holds,
//! and calls that function with its real type.
#![allow(unsafe_code)]

use super::answer::answer_host;
use super::caller::{Caller, instance_id};
use super::host_code::{Answered, HostCode};
use super::host_result::{HostResult, cells, cells_of, func_type, needs_instance_id};
use super::host_state::HostState;
use crate::error::HostError;
use crate::store::host_func::HostFunc;
use crate::switch::HostEntry;
use crate::value::typed::{FlatParams, WasmTy, for_each_length, sealed};
use crate::value::{Cell, FuncType, InstanceId, Value};
use core::marker::PhantomData;
use std::sync::Arc;

impl<T> HostFunc<T> {
    /// A function of this type, with this code.
    pub(super) fn of<C: HostCode<T>>(ty: FuncType, code: C) -> Self {
        let code = Arc::new(code);
        let entry = HostEntry {
            answer: answer_host::<T, C>,
            func: Arc::as_ptr(&code).cast(),
        };
        // SAFETY: the entry points to `code`, and calls it as a `C`.
        unsafe { Self::new(ty, entry, code) }
    }
}

impl<T: 'static, Q: 'static, A: 'static> HostFunc<HostState<T, Q, A>> {
    /// A host function over untyped values.
    pub(crate) fn untyped<F>(ty: FuncType, func: F) -> Self
    where
        F: Fn(Caller<'_, T>, &[Value], &mut [Value]) -> Result<(), HostError>,
        F: Send + Sync + 'static,
    {
        Self::of(ty.clone(), Untyped { ty, func })
    }

    /// A host function over numbers. `ty` must be flat, and have the results of `R`.
    pub(crate) fn flat<R, F>(ty: FuncType, func: F) -> Self
    where
        R: HostResult,
        F: Fn(Caller<'_, T>, FlatParams) -> R + Send + Sync + 'static,
    {
        let (cells, types) = (cells_of(&ty), PhantomData);
        Self::of(ty, Flat { cells, func, types })
    }
}

/// A closure over numbers.
struct Flat<R, F> {
    cells: usize,
    func: F,
    types: PhantomData<fn() -> R>,
}

impl<T, Q, A, R, F> HostCode<HostState<T, Q, A>> for Flat<R, F>
where
    R: HostResult,
    F: Fn(Caller<'_, T>, FlatParams) -> R + Send + Sync + 'static,
{
    fn cells(&self) -> usize {
        self.cells
    }

    fn call(
        &self,
        caller: Caller<'_, HostState<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        // Numbers belong to no instance.
        let nowhere = InstanceId(0);
        let params = <FlatParams as sealed::List>::load(cells, nowhere);
        let results = (self.func)(caller.of_data(), params).into_result()?;
        sealed::List::store(results, cells, nowhere)?;
        Ok(Answered::Done)
    }
}

/// A closure over untyped values.
struct Untyped<F> {
    ty: FuncType,
    func: F,
}

impl<T, Q, A, F> HostCode<HostState<T, Q, A>> for Untyped<F>
where
    F: Fn(Caller<'_, T>, &[Value], &mut [Value]) -> Result<(), HostError>,
    F: Send + Sync + 'static,
{
    fn cells(&self) -> usize {
        cells_of(&self.ty)
    }

    fn call(
        &self,
        caller: Caller<'_, HostState<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        let caller = caller.of_data();
        let FuncType { params, results } = &self.ty;
        let instance_id = instance_id(&caller, true);
        let read = |(cell, ty): (&Cell, _)| cell.value(ty, instance_id);
        let arguments: Vec<_> = cells.iter().zip(params.iter().copied()).map(read).collect();
        let mut answers: Vec<_> = results.iter().copied().map(Value::default_of).collect();
        (self.func)(caller, &arguments, &mut answers)?;
        for ((cell, answer), ty) in cells.iter_mut().zip(answers).zip(results) {
            if !answer.fits(*ty) {
                let found = answer.described();
                return Err(HostError::message(format!(
                    "host function returned {found}, its type says {ty}; return a value of that \
                     type"
                )));
            }
            *cell = Cell::from_value(answer, instance_id)?;
        }
        Ok(Answered::Done)
    }
}

/// A closure that can be a host function: `Fn(Caller<'_, T>, A, B, ...) -> R` or without the
/// [`Caller`], of up to 16 [`WasmTy`] parameters, where `R` is a [`HostResult`].
pub trait IntoFunc<T, P, R>: Send + Sync + 'static {
    /// Makes a host function of the closure.
    #[doc(hidden)]
    fn into_func<Q: 'static, A: 'static>(self) -> HostFunc<HostState<T, Q, A>>;
}

/// A closure over Rust types.
struct Typed<P, R, F> {
    func: F,
    types: PhantomData<fn(P) -> R>,
}

impl<T, Q, A, P, R, F> HostCode<HostState<T, Q, A>> for Typed<P, R, F>
where
    P: sealed::List,
    R: HostResult,
    F: Fn(Caller<'_, T>, P) -> R + Send + Sync + 'static,
{
    #[inline]
    fn cells(&self) -> usize {
        cells::<P, R>()
    }

    #[inline]
    fn call(
        &self,
        caller: Caller<'_, HostState<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        let caller = caller.of_data();
        let instance_id = instance_id(&caller, needs_instance_id::<P, R>());
        let parameters = P::load(cells, instance_id);
        let answer = (self.func)(caller, parameters).into_result()?;
        sealed::List::store(answer, cells, instance_id)?;
        Ok(Answered::Done)
    }
}

fn typed<T, Q, A, P, R, F>(func: F) -> HostFunc<HostState<T, Q, A>>
where
    T: 'static,
    Q: 'static,
    A: 'static,
    P: sealed::List,
    R: HostResult,
    F: Fn(Caller<'_, T>, P) -> R + Send + Sync + 'static,
{
    let types = PhantomData;
    HostFunc::of(func_type::<P, R::Results>(), Typed { func, types })
}

macro_rules! into_func {
    ($($name:ident $at:tt),*) => {
        impl<T, Fun, Ret, $($name),*> IntoFunc<T, ($($name,)*), Ret> for Fun
        where
            T: 'static,
            Fun: Fn($($name),*) -> Ret + Send + Sync + 'static,
            Ret: HostResult,
            $($name: WasmTy,)*
        {
            #[allow(non_snake_case, reason = "a parameter is named after its type")]
            fn into_func<Q: 'static, W: 'static>(self) -> HostFunc<HostState<T, Q, W>> {
                typed(move |_: Caller<'_, T>, ($($name,)*): ($($name,)*)| self($($name),*))
            }
        }

        impl<T, Fun, Ret, $($name),*> IntoFunc<T, (Caller<'static, T>, $($name,)*), Ret> for Fun
        where
            T: 'static,
            Fun: Fn(Caller<'_, T>, $($name),*) -> Ret + Send + Sync + 'static,
            Ret: HostResult,
            $($name: WasmTy,)*
        {
            #[allow(non_snake_case, reason = "a parameter is named after its type")]
            fn into_func<Q: 'static, W: 'static>(self) -> HostFunc<HostState<T, Q, W>> {
                typed(move |caller: Caller<'_, T>, ($($name,)*): ($($name,)*)| {
                    self(caller, $($name),*)
                })
            }
        }
    };
}

for_each_length!(into_func);
