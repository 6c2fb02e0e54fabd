//! Host functions for which the guest waits: [`Asking`] functions, which the caller of the guest
//! answers, and [`Async`] functions.
//!
//! # Safety
//!
//! This file owns one fact. The future of an async host function borrows an instance. The future is
//! polled and dropped only while the call that made the future borrows that instance.
#![allow(unsafe_code)]

use super::caller::{Caller, instance_id};
use super::host_code::{Answered, HostCode};
use super::host_result::{HostFuture, HostResult, MaybeFuture, cells_of, needs_instance_id};
use super::host_state::{HostCall, HostState, Mode, Reply};
use crate::error::{CallState, HostError, Operation, StateError};
use crate::store::host_func::HostFunc;
use crate::value::typed::sealed;
use crate::value::{Cell, FuncType};
use core::marker::PhantomData;
use core::slice;
use core::task::Poll;

/// A host function that asks the caller of the guest.
struct Asking<P, R, F, G> {
    ask: F,
    reply: G,
    cells: usize,
    types: PhantomData<fn(P) -> R>,
}

/// A function that asks the question of `ask`, and returns to the guest the results that `reply`
/// computes from the answer. `ty` must be the type of `P` and `R`, or flat.
pub(crate) fn asking<T, Q, A, P, R, F, G>(
    ty: FuncType,
    ask: F,
    reply: G,
) -> HostFunc<HostState<T, Q, A>>
where
    T: 'static,
    Q: 'static,
    A: 'static,
    P: sealed::List,
    R: HostResult,
    F: Fn(Caller<'_, T>, P) -> Result<Q, HostError> + Send + Sync + 'static,
    G: Fn(Caller<'_, T>, P, A) -> R + Send + Sync + 'static,
{
    let (cells, types) = (cells_of(&ty), PhantomData);
    let code = Asking {
        ask,
        reply,
        cells,
        types,
    };
    HostFunc::of(ty, code)
}

impl<T, Q, A, P, R, F, G> HostCode<HostState<T, Q, A>> for Asking<P, R, F, G>
where
    P: sealed::List,
    R: HostResult,
    F: Fn(Caller<'_, T>, P) -> Result<Q, HostError> + Send + Sync + 'static,
    G: Fn(Caller<'_, T>, P, A) -> R + Send + Sync + 'static,
{
    fn cells(&self) -> usize {
        self.cells
    }

    #[inline]
    fn call(
        &self,
        caller: Caller<'_, HostState<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        let vmctx = caller.vmctx();
        let store = caller.data_pointer();
        // SAFETY: the pointer is valid while the caller lives, and no reference to the state
        // exists.
        let state = match unsafe { (*store).mode } {
            _ if caller.is_nested() => Some(CallState::Nested),
            Mode::Steps => None,
            Mode::Call => Some(CallState::Called),
            Mode::Async(_) => Some(CallState::Awaited),
        };
        if let Some(state) = state {
            return Err(StateError::new(Operation::Ask, state).into());
        }
        let parameters = P::load(cells, instance_id(&caller, needs_instance_id::<P, R>()));
        // `of_data` replaces `caller` by a caller whose data is a part of the state.
        let question = (self.ask)(caller.of_data(), parameters)?;
        // SAFETY: the host function has returned, so nothing else uses the state.
        let store = unsafe { &mut *store };
        store.question = Some(question);
        store.reply = Some(Reply {
            code: (&raw const *self).cast(),
            vmctx,
            cells: cells.as_mut_ptr(),
            give: give::<T, A, P, R, F, G>,
        });
        Ok(Answered::Later)
    }
}

/// Gives the guest an answer: a [`GiveAnswer`](super::host_state::GiveAnswer).
///
/// # Safety
///
/// `code` must point to an [`Asking`] function with these types. `caller` and `at` must be the
/// caller and the cells of the call of that function.
unsafe fn give<T, A, P, R, F, G>(
    code: *const (),
    caller: Caller<'_, T>,
    at: *mut Cell,
    answer: A,
) -> Result<(), HostError>
where
    P: sealed::List,
    R: HostResult,
    G: Fn(Caller<'_, T>, P, A) -> R,
{
    // SAFETY: the caller ensures that `code` points to an `Asking` with these types.
    let code = unsafe { &*code.cast::<Asking<P, R, F, G>>() };
    // SAFETY: the caller ensures that `at` points to the cells of the call. The guest waits, and
    // its parameters are still in the cells.
    let cells = unsafe { slice::from_raw_parts_mut(at, code.cells) };
    let instance_id = instance_id(&caller, needs_instance_id::<P, R>());
    let results = (code.reply)(caller, P::load(cells, instance_id), answer).into_result()?;
    sealed::List::store(results, cells, instance_id)?;
    Ok(())
}

/// An async host function.
struct Async<P, R, F> {
    func: F,
    cells: usize,
    types: PhantomData<fn(P) -> R>,
}

/// A function that returns its results or a future of them. `ty` must be the type of `P` and `R`,
/// or flat.
pub(crate) fn future<T, Q, A, P, R, F>(ty: FuncType, func: F) -> HostFunc<HostState<T, Q, A>>
where
    T: 'static,
    Q: 'static,
    A: 'static,
    P: sealed::List,
    R: HostResult,
    F: for<'a> Fn(Caller<'a, T>, P) -> MaybeFuture<'a, R> + Send + Sync + 'static,
{
    let (cells, types) = (cells_of(&ty), PhantomData);
    HostFunc::of(ty, Async { func, cells, types })
}

/// Wraps a function that always returns a future.
pub(crate) fn always<T, P, R, F>(
    func: F,
) -> impl for<'a> Fn(Caller<'a, T>, P) -> MaybeFuture<'a, R> + Send + Sync + 'static
where
    T: 'static,
    P: 'static,
    R: 'static,
    F: for<'a> Fn(Caller<'a, T>, P) -> HostFuture<'a, R> + Send + Sync + 'static,
{
    move |caller: Caller<'_, T>, parameters: P| MaybeFuture::Future(func(caller, parameters))
}

impl<T, Q, A, P, R, F> HostCode<HostState<T, Q, A>> for Async<P, R, F>
where
    T: 'static,
    P: sealed::List,
    R: HostResult,
    F: for<'a> Fn(Caller<'a, T>, P) -> MaybeFuture<'a, R> + Send + Sync + 'static,
{
    fn cells(&self) -> usize {
        self.cells
    }

    #[inline]
    fn call(
        &self,
        caller: Caller<'_, HostState<T, Q, A>>,
        cells: &mut [Cell],
    ) -> Result<Answered, HostError> {
        let instance_id = instance_id(&caller, needs_instance_id::<P, R>());
        let vmctx = caller.vmctx();
        let store = caller.data_pointer();
        let refused = |state| Err(StateError::new(Operation::Await, state).into());
        // SAFETY: the pointer is valid while the caller lives, and no reference to the state
        // exists.
        let mut polled = match unsafe { (*store).mode } {
            _ if caller.is_nested() => return refused(CallState::Nested),
            Mode::Async(polled) => polled,
            Mode::Call => return refused(CallState::Called),
            Mode::Steps => return refused(CallState::Stepped),
        };
        let _async = caller.in_async_host();
        // SAFETY: the data outlives the future. The call drops the future before it uses the
        // instance for anything else: see `instance/future.rs`. Until then only other fields of the
        // store are used.
        let caller: Caller<'static, T> = unsafe { Caller::new(vmctx, &raw mut (*store).data) };
        let mut future = match (self.func)(caller, P::load(cells, instance_id)) {
            MaybeFuture::Future(future) => future,
            MaybeFuture::Ready(results) => {
                sealed::List::store(results.into_result()?, cells, instance_id)?;
                return Ok(Answered::Done);
            }
        };
        // SAFETY: both pointers are valid during a poll, and this code runs inside that poll.
        let (polled, context) = unsafe {
            let polled = polled.as_mut();
            let context = polled.context.as_mut();
            (polled, context)
        };
        if let Poll::Ready(results) = future.as_mut().poll(context) {
            drop(future);
            sealed::List::store(results.into_result()?, cells, instance_id)?;
            return Ok(Answered::Done);
        }
        // SAFETY: `cells` are all cells of this call, whose guest will be left.
        polled.host = Some(unsafe { HostCall::new(future, cells, instance_id) });
        Ok(Answered::Later)
    }
}
