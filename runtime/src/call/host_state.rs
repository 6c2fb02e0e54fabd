//! [`HostState`]: the embedder's data of an instance, and the pending question of its guest.
//!
//! # Safety
//!
//! This file owns one fact. A pending host call of a guest belongs to the suspended call. The
//! pending call is dropped or answered before the suspended call continues.
#![allow(unsafe_code)]

use super::caller::Caller;
use super::host_result::{HostFuture, HostResult};
use crate::error::HostError;
use crate::value::typed::sealed;
use crate::value::{Cell, InstanceId};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::task::{Context, Poll};

/// The host's state of an instance.
pub struct HostState<T, Q, A> {
    /// The embedder's data.
    pub(crate) data: T,
    /// How the current call was made.
    pub(crate) mode: Mode,
    /// The guest's question, until the caller of the guest gets it.
    pub(crate) question: Option<Q>,
    /// The host function that takes the answer.
    pub(crate) reply: Option<Reply<T, A>>,
}

/// How a guest is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// By a call that runs until it returns.
    Call,
    /// Step by step: the guest may ask questions.
    Steps,
    /// By a future that is polled: the guest may call async host functions.
    Async(NonNull<Polled>),
}

/// The poll of a guest's call.
pub(crate) struct Polled {
    /// The context of the current poll, valid only during that poll.
    pub(crate) context: NonNull<Context<'static>>,
    /// The async host function that the guest waits for.
    pub(crate) host: Option<HostCall>,
}

// SAFETY: the pointers are used only while the call borrows the instance. The pointers are to the
// current poll, to cells of the instance's own stack, and to a function that its preparation keeps.
// That function is `Sync`.
unsafe impl<T: Send, Q: Send, A> Send for HostState<T, Q, A> {}
// SAFETY: no pointer is used through a shared reference.
unsafe impl<T: Sync, Q: Sync, A> Sync for HostState<T, Q, A> {}

impl<T, Q, A> HostState<T, Q, A> {
    pub(crate) fn new(data: T) -> Self {
        Self {
            data,
            mode: Mode::Call,
            question: None,
            reply: None,
        }
    }
}

impl<T: fmt::Debug, Q, A> fmt::Debug for HostState<T, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}

/// A pending async host function. When it is ready, it writes its results to the cells from which
/// the guest reads them.
///
/// A `HostCall` contains a [`HostFuture`] of results of some type. Erasing that type needs no
/// second allocation.
pub(crate) struct HostCall {
    future: MaybeUninit<[usize; 2]>,
    cells: *mut [Cell],
    instance_id: InstanceId,
    poll: unsafe fn(&mut Self, &mut Context<'_>) -> Poll<Result<(), HostError>>,
    drop: unsafe fn(&mut Self),
}

// SAFETY: the future is `Send`. The cells belong to a guest that waits for the future.
unsafe impl Send for HostCall {}

impl HostCall {
    /// # Safety
    ///
    /// `cells` must point to the function's cells, on the stack of its guest. That guest must wait
    /// until this value is ready or dropped.
    pub(crate) unsafe fn new<R: HostResult>(
        future: HostFuture<'static, R>,
        cells: *mut [Cell],
        instance_id: InstanceId,
    ) -> Self {
        const { assert!(size_of::<HostFuture<'static, R>>() == size_of::<[usize; 2]>()) };
        let mut place = MaybeUninit::<[usize; 2]>::uninit();
        // SAFETY: the place has the size of the future, as asserted, and its alignment.
        unsafe {
            place
                .as_mut_ptr()
                .cast::<HostFuture<'static, R>>()
                .write(future);
        };
        Self {
            future: place,
            cells,
            instance_id,
            poll: Self::poll_of::<R>,
            drop: Self::drop_of::<R>,
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), HostError>> {
        // SAFETY: `new` stored the `poll_of` for the type of the future.
        unsafe { (self.poll)(self, context) }
    }

    /// # Safety
    ///
    /// This value must have been made of a future of an `R`.
    unsafe fn poll_of<R: HostResult>(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HostError>> {
        // SAFETY: the caller ensures that the future has this type.
        let future = unsafe { &mut *self.future.as_mut_ptr().cast::<HostFuture<'static, R>>() };
        future.as_mut().poll(context).map(|results| {
            let results = results.into_result()?;
            // SAFETY: the caller of `new` ensured that `cells` points to the function's cells, and
            // that the guest waits.
            let cells = unsafe { &mut *self.cells };
            sealed::List::store(results, cells, self.instance_id)?;
            Ok(())
        })
    }

    /// # Safety
    ///
    /// As [`poll_of`](Self::poll_of). In addition, this value must not be used afterwards.
    unsafe fn drop_of<R: HostResult>(&mut self) {
        // SAFETY: the caller ensures that the future has this type, and that it is not used
        // afterwards.
        unsafe {
            self.future
                .as_mut_ptr()
                .cast::<HostFuture<'static, R>>()
                .drop_in_place();
        };
    }
}

impl Drop for HostCall {
    fn drop(&mut self) {
        // SAFETY: `new` stored the `drop_of` for the type of the future.
        unsafe { (self.drop)(self) };
    }
}

/// The destination of the answer to a guest's question: the host function that asked, and its call.
pub(crate) struct Reply<T, A> {
    pub(crate) code: *const (),
    pub(crate) vmctx: *mut u8,
    pub(crate) cells: *mut Cell,
    /// Computes the results from the answer, and writes them to the cells of the call.
    pub(crate) give: GiveAnswer<T, A>,
}

/// Gives an answer to the guest.
///
/// # Safety
///
/// The arguments must be the function that asked, the caller and the cells of its call, and the
/// answer.
pub(crate) type GiveAnswer<T, A> =
    unsafe fn(*const (), Caller<'_, T>, *mut Cell, A) -> Result<(), HostError>;

impl<T, A> Reply<T, A> {
    /// Gives the answer to the guest.
    ///
    /// # Errors
    ///
    /// The error of the host function.
    ///
    /// # Safety
    ///
    /// The guest must still wait for the answer, and the caller must have borrowed its instance.
    pub(crate) unsafe fn give(self, data: &mut T, answer: A) -> Result<(), HostError> {
        // SAFETY: the caller has borrowed the instance, so nothing else views its memory.
        let caller = unsafe { Caller::new(self.vmctx, data) };
        // SAFETY: the function that asked stored these values together.
        unsafe { (self.give)(self.code, caller, self.cells, answer) }
    }
}

impl<'a, T, Q, A> Caller<'a, HostState<T, Q, A>> {
    /// The caller as host functions of the embedder get it, with the embedder's data.
    #[inline]
    pub(crate) fn of_data(self) -> Caller<'a, T> {
        // SAFETY: the new caller replaces this caller. The embedder's data is a part of the state,
        // to which this caller had a valid pointer.
        unsafe { Caller::new(self.vmctx(), &raw mut (*self.data_pointer()).data) }
    }
}
