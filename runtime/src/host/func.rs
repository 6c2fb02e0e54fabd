//! [`IntoFunc`]: Rust closures as functions that guests import.
//!
//! # Safety
//!
//! This file owns one fact. The entry of a [`HostFunc<T>`] points to the function that it holds,
//! and calls that function with its real type.
#![allow(unsafe_code)]

use super::caller::stamp;
use super::{Caller, Store};
use crate::error::HostError;
use crate::instance::exit;
use crate::switch::HostEntry;
use crate::value::typed::{Results, WasmTy, for_each_length, sealed};
use crate::value::{Cell, FuncType, Value};
use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;

/// A host function, ready to be called from a guest of an instance with data `T`.
pub struct HostFunc<T> {
    /// Its type.
    pub(crate) ty: FuncType,
    entry: HostEntry,
    /// The function that the entry points to. A `Box` would claim unique access and would be moved
    /// with this value, so it is an `Arc`.
    _func: Arc<dyn Any + Send + Sync>,
    data: PhantomData<fn(&mut T)>,
}

// SAFETY: the entry points to `_func`, which is `Send` and `Sync`, and to code.
unsafe impl<T> Send for HostFunc<T> {}
// SAFETY: the entry points to `_func`, which is `Send` and `Sync`, and to code.
unsafe impl<T> Sync for HostFunc<T> {}

/// The implementation of a host function.
pub(crate) trait HostCode<T>: Send + Sync + 'static {
    /// Number of cells that it gets: the larger of the numbers of parameters and of results.
    fn cells(&self) -> usize;

    /// Reads the parameters from the cells, and writes the results to them.
    ///
    /// # Errors
    ///
    /// Why the guest must be left.
    fn call(&self, caller: Caller<'_, T>, cells: &mut [Cell]) -> Result<Answered, HostError>;
}

/// The answer of a host function.
///
/// It is a whole word, because a byte store followed by a word load defeats store forwarding. That
/// load would wait some 4 ns for the store to reach the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Answered {
    /// The results are in the cells.
    Done,
    /// The guest waits: its results will be in the cells later.
    Later,
}

impl<T> HostFunc<T> {
    pub(super) fn new<C: HostCode<T>>(ty: FuncType, code: C) -> Self {
        let code = Arc::new(code);
        let entry = HostEntry {
            answer: exit::answer_host::<T, C>,
            func: Arc::as_ptr(&code).cast(),
        };
        Self {
            ty,
            entry,
            _func: code,
            data: PhantomData,
        }
    }

    /// The entry by which guests call the function. It is valid as long as this value lives.
    pub(crate) fn entry(&self) -> HostEntry {
        self.entry
    }
}

impl<T: 'static, Q: 'static, A: 'static> HostFunc<Store<T, Q, A>> {
    /// A host function over untyped values.
    pub(crate) fn untyped<F>(ty: FuncType, func: F) -> Self
    where
        F: Fn(Caller<'_, T>, &[Value], &mut [Value]) -> Result<(), HostError>,
        F: Send + Sync + 'static,
    {
        Self::new(ty.clone(), Untyped { ty, func })
    }
}

/// A closure over untyped values.
struct Untyped<F> {
    ty: FuncType,
    func: F,
}

impl<T, Q, A, F> HostCode<Store<T, Q, A>> for Untyped<F>
where
    F: Fn(Caller<'_, T>, &[Value], &mut [Value]) -> Result<(), HostError>,
    F: Send + Sync + 'static,
{
    fn cells(&self) -> usize {
        self.ty.params.len().max(self.ty.results.len())
    }

    fn call(
        &self,
        caller: Caller<'_, Store<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        let caller = caller.of_data();
        let FuncType { params, results } = &self.ty;
        let stamp = stamp(&caller, true);
        let read = |(cell, ty): (&Cell, _)| cell.value(ty, stamp);
        let arguments: Vec<_> = cells.iter().zip(params.iter().copied()).map(read).collect();
        let mut answers: Vec<_> = results.iter().copied().map(Value::default_of).collect();
        (self.func)(caller, &arguments, &mut answers)?;
        for ((cell, answer), ty) in cells.iter_mut().zip(answers).zip(results) {
            if !answer.fits(*ty) {
                let found = answer.described();
                return Err(HostError::message(format!(
                    "host function gave a result of type {found}, its type says {ty}"
                )));
            }
            *cell = Cell::from_value(answer, stamp)?;
        }
        Ok(Answered::Done)
    }
}

impl<T> fmt::Debug for HostFunc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostFunc({})", self.ty)
    }
}

/// The return type of a host function: results, or a `Result` of them with any error.
pub trait HostResult: 'static {
    /// The results.
    type Results: Results;
    /// Converts the return value to the results or to an error.
    ///
    /// # Errors
    ///
    /// The error that the host function returned.
    fn into_result(self) -> Result<Self::Results, HostError>;
}

impl<R: Results> HostResult for R {
    type Results = R;
    fn into_result(self) -> Result<R, HostError> {
        Ok(self)
    }
}

impl<R: Results, E: Into<HostError> + 'static> HostResult for Result<R, E> {
    type Results = R;
    fn into_result(self) -> Result<R, HostError> {
        self.map_err(Into::into)
    }
}

/// A closure that can be a host function: `Fn(Caller<'_, T>, A, B, ...) -> R` or without the
/// [`Caller`], of up to 16 [`WasmTy`] parameters, where `R` is a [`HostResult`].
pub trait IntoFunc<T, P, R>: Send + Sync + 'static {
    /// Makes a host function of the closure.
    #[doc(hidden)]
    fn into_func<Q: 'static, A: 'static>(self) -> HostFunc<Store<T, Q, A>>;
}

/// A closure over Rust types.
struct Typed<P, R, F> {
    func: F,
    types: PhantomData<fn(P) -> R>,
}

impl<T, Q, A, P, R, F> HostCode<Store<T, Q, A>> for Typed<P, R, F>
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
        caller: Caller<'_, Store<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        let caller = caller.of_data();
        let stamp = stamp(&caller, needs_stamp::<P, R>());
        let parameters = P::load(cells, stamp);
        let answer = (self.func)(caller, parameters).into_result()?;
        sealed::List::store(answer, cells, stamp)?;
        Ok(Answered::Done)
    }
}

/// Number of cells of a function over these parameters and results.
#[inline]
pub(super) fn cells<P: sealed::List, R: HostResult>() -> usize {
    let results = <R::Results as sealed::List>::TYPES;
    P::TYPES.len().max(results.len())
}

/// Whether one of these values carries the instance id.
#[inline]
pub(super) fn needs_stamp<P: sealed::List, R: HostResult>() -> bool {
    P::NEEDS_STAMP || <R::Results as sealed::List>::NEEDS_STAMP
}

/// The type of a function over these parameters and results.
pub(super) fn func_type<P: sealed::List, R: sealed::List>() -> FuncType {
    FuncType {
        params: P::TYPES.to_vec(),
        results: R::TYPES.to_vec(),
    }
}

fn typed<T, Q, A, P, R, F>(func: F) -> HostFunc<Store<T, Q, A>>
where
    T: 'static,
    Q: 'static,
    A: 'static,
    P: sealed::List,
    R: HostResult,
    F: Fn(Caller<'_, T>, P) -> R + Send + Sync + 'static,
{
    let types = PhantomData;
    HostFunc::new(func_type::<P, R::Results>(), Typed { func, types })
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
            fn into_func<Q: 'static, W: 'static>(self) -> HostFunc<Store<T, Q, W>> {
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
            fn into_func<Q: 'static, W: 'static>(self) -> HostFunc<Store<T, Q, W>> {
                typed(move |caller: Caller<'_, T>, ($($name,)*): ($($name,)*)| {
                    self(caller, $($name),*)
                })
            }
        }
    };
}

for_each_length!(into_func);
