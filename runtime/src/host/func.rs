//! [`IntoFunc`]: Rust closures as functions that guests import.

use super::{Caller, HostError};
use crate::instance::memory::stamp;
use crate::value::typed::{Results, WasmTy, for_each_length, sealed};
use crate::value::{Cell, FuncType, Value};
use core::fmt;
use std::sync::Arc;

/// A host function, ready to be called from an exit.
pub struct HostFunc<T> {
    /// Its type.
    pub(crate) ty: FuncType,
    /// What a call needs of it.
    pub(crate) entry: HostEntry<T>,
}

/// What a call of a host function needs, without a further look at the function.
pub(crate) struct HostEntry<T> {
    /// The cells that it is given: as many as parameters or results, whichever are more.
    pub(crate) cells: usize,
    pub(crate) call: Arc<Call<T>>,
}

impl<T> Clone for HostEntry<T> {
    fn clone(&self) -> Self {
        Self {
            cells: self.cells,
            call: Arc::clone(&self.call),
        }
    }
}

impl<T> fmt::Debug for HostEntry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostEntry({} cells)", self.cells)
    }
}

type Call<T> = dyn Fn(Caller<'_, T>, &mut [Cell]) -> Result<(), HostError> + Send + Sync;

impl<T> HostFunc<T> {
    fn new(ty: FuncType, call: Arc<Call<T>>) -> Self {
        let cells = ty.params.len().max(ty.results.len());
        Self {
            ty,
            entry: HostEntry { cells, call },
        }
    }

    /// A function over values of any types.
    pub(crate) fn untyped<F>(ty: FuncType, func: F) -> Self
    where
        F: Fn(Caller<'_, T>, &[Value], &mut [Value]) -> Result<(), HostError>,
        F: Send + Sync + 'static,
    {
        let FuncType { params, results } = ty.clone();
        let call = move |caller: Caller<'_, T>, cells: &mut [Cell]| {
            let stamp = stamp(&caller, true);
            let read = |(cell, ty): (&Cell, _)| cell.value(ty, stamp);
            let arguments: Vec<_> = cells.iter().zip(params.iter().copied()).map(read).collect();
            let mut answers: Vec<_> = results.iter().copied().map(Value::default_of).collect();
            func(caller, &arguments, &mut answers)?;
            for ((cell, answer), ty) in cells.iter_mut().zip(answers).zip(&results) {
                if answer.ty() != *ty {
                    let found = answer.ty();
                    return Err(HostError::message(format!(
                        "host function gave a result of type {found}, its type says {ty}"
                    )));
                }
                *cell = Cell::from_value(answer, stamp)?;
            }
            Ok(())
        };
        Self::new(ty, Arc::new(call))
    }
}

impl<T> fmt::Debug for HostFunc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostFunc({})", self.ty)
    }
}

/// What a host function may return: results, or a `Result` of them with any error.
pub trait HostResult: 'static {
    /// The results.
    type Results: Results;
    /// The results, or why there are none.
    ///
    /// # Errors
    ///
    /// What the host function gave as an error.
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
    /// The function.
    #[doc(hidden)]
    fn into_func(self) -> HostFunc<T>;
}

/// Reads parameters, calls, and writes results.
fn typed<T, P, R, F>(func: F) -> HostFunc<T>
where
    P: sealed::List,
    R: HostResult,
    F: Fn(Caller<'_, T>, P) -> R + Send + Sync + 'static,
{
    let params = P::TYPES.to_vec();
    let results = <R::Results as sealed::List>::TYPES;
    let needs_stamp = P::NEEDS_STAMP || <R::Results as sealed::List>::NEEDS_STAMP;
    let call = move |caller: Caller<'_, T>, cells: &mut [Cell]| {
        let stamp = stamp(&caller, needs_stamp);
        let parameters = P::load(cells, stamp);
        let answer = func(caller, parameters).into_result()?;
        sealed::List::store(answer, cells, stamp)?;
        Ok(())
    };
    let ty = FuncType {
        params,
        results: results.to_vec(),
    };
    HostFunc::new(ty, Arc::new(call))
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
            fn into_func(self) -> HostFunc<T> {
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
            fn into_func(self) -> HostFunc<T> {
                typed(move |caller: Caller<'_, T>, ($($name,)*): ($($name,)*)| {
                    self(caller, $($name),*)
                })
            }
        }
    };
}

for_each_length!(into_func);
