//! [`Store`]: all that the host keeps of an instance: the embedder's data, and what the guest waits for.
//!
//! # Safety
//!
//! Owns the fact that what a guest waits for is of the call that is suspended, and dropped or answered
//! before that goes on.
#![allow(unsafe_code)]

use super::{Caller, HostError, HostFuture, HostResult};
use crate::value::typed::sealed;
use crate::value::{Cell, Stamp};
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;
use core::task::{Context, Poll};

/// All that the host keeps of an instance.
pub struct Store<T, Q, A> {
    /// The embedder's.
    pub(crate) data: T,
    /// How its guest is called.
    pub(crate) mode: Mode,
    /// What the guest asked, until whoever called it is told.
    pub(crate) question: Option<Q>,
    /// Where the answer goes.
    pub(crate) reply: Option<Reply<T, A>>,
}

/// How a guest is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// Until it returns.
    Call,
    /// Step by step: it may ask.
    Steps,
    /// By a future that is polled: it may call async host functions.
    Async(NonNull<Polled>),
}

/// A poll of a guest's call.
pub(crate) struct Polled {
    /// What it is polled with, while it is.
    pub(crate) context: NonNull<Context<'static>>,
    /// The async host function that the guest waits for.
    pub(crate) host: Option<HostCall>,
}

// SAFETY: the pointers are to what is looked at while the instance is borrowed by whoever made it: a poll
// while it lasts; cells of the instance's own stack, and a function that its preparation holds, which is
// `Sync`.
unsafe impl<T: Send, Q: Send, A> Send for Store<T, Q, A> {}
// SAFETY: as above; nothing is looked at through a shared reference.
unsafe impl<T: Sync, Q: Sync, A> Sync for Store<T, Q, A> {}

impl<T, Q, A> Store<T, Q, A> {
    pub(crate) fn new(data: T) -> Self {
        Self {
            data,
            mode: Mode::Call,
            question: None,
            reply: None,
        }
    }
}

impl<T: fmt::Debug, Q, A> fmt::Debug for Store<T, Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.data.fmt(f)
    }
}

/// An async host function that was called, and puts its results where the guest looks for them.
///
/// It is a [`HostFuture`] of results of some type, without another allocation to hide
/// that.
pub(crate) struct HostCall {
    future: MaybeUninit<[usize; 2]>,
    cells: *mut Cell,
    stamp: Stamp,
    poll: unsafe fn(&mut Self, &mut Context<'_>) -> Poll<Result<(), HostError>>,
    drop: unsafe fn(&mut Self),
}

// SAFETY: the future is, and the cells are of a guest that waits for it.
unsafe impl Send for HostCall {}

impl HostCall {
    /// # Safety
    ///
    /// The cells must be as many as the function has, and its guest's, which waits until this is ready or
    /// dropped.
    pub(crate) unsafe fn new<R: HostResult>(
        future: HostFuture<'static, R>,
        cells: *mut Cell,
        stamp: Stamp,
    ) -> Self {
        const { assert!(size_of::<HostFuture<'static, R>>() == size_of::<[usize; 2]>()) };
        let mut place = MaybeUninit::<[usize; 2]>::uninit();
        // SAFETY: it is of that size, and as aligned.
        unsafe {
            place
                .as_mut_ptr()
                .cast::<HostFuture<'static, R>>()
                .write(future);
        };
        Self {
            future: place,
            cells,
            stamp,
            poll: Self::poll_of::<R>,
            drop: Self::drop_of::<R>,
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), HostError>> {
        // SAFETY: made for the same `R`.
        unsafe { (self.poll)(self, context) }
    }

    /// # Safety
    ///
    /// It must have been made of a future of an `R`.
    unsafe fn poll_of<R: HostResult>(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), HostError>> {
        // SAFETY: the caller's promise.
        let future = unsafe { &mut *self.future.as_mut_ptr().cast::<HostFuture<'static, R>>() };
        future.as_mut().poll(context).map(|results| {
            let results = results.into_result()?;
            let count = <R::Results as sealed::List>::TYPES.len();
            // SAFETY: by `new`.
            let cells = unsafe { slice::from_raw_parts_mut(self.cells, count) };
            sealed::List::store(results, cells, self.stamp)?;
            Ok(())
        })
    }

    /// # Safety
    ///
    /// As [`poll_of`](Self::poll_of), and nothing is done with it any more.
    unsafe fn drop_of<R: HostResult>(&mut self) {
        // SAFETY: the caller's promise.
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
        // SAFETY: made for the same `R`.
        unsafe { (self.drop)(self) };
    }
}

/// Where the answer to a guest's question goes: the host function that asked, and its call.
pub(crate) struct Reply<T, A> {
    pub(crate) code: *const (),
    pub(crate) vmctx: *mut u8,
    pub(crate) cells: *mut Cell,
    /// Takes the answer to where the guest looks for the results.
    pub(crate) give: GiveAnswer<T, A>,
}

/// # Safety
///
/// The function that asked, the cells of its call, and its caller must be given.
pub(crate) type GiveAnswer<T, A> =
    unsafe fn(*const (), Caller<'_, T>, *mut Cell, A) -> Result<(), HostError>;

impl<T, A> Reply<T, A> {
    /// Answers.
    ///
    /// # Errors
    ///
    /// What the host function gives.
    ///
    /// # Safety
    ///
    /// The guest must still wait for it, and its instance be borrowed.
    pub(crate) unsafe fn give(self, data: &mut T, answer: A) -> Result<(), HostError> {
        // SAFETY: the caller's promise: nobody views the memory of an instance that is borrowed.
        let caller = unsafe { Caller::new(self.vmctx, data) };
        // SAFETY: they were noted together.
        unsafe { (self.give)(self.code, caller, self.cells, answer) }
    }
}
