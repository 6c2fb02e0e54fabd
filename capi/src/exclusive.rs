//! The exclusive use of an instance, or of a group of instances, by one function at a time.
//!
//! # Safety
//!
//! This file owns one fact. At most one function at a time has a reference to the instance in a
//! handle. `state` says whether one has, and a second function gets an error. A handle that is
//! deleted while a function has its instance is freed by that function.
#![allow(unsafe_code)]

use crate::entry::shared;
use crate::error::{Fallible, PIRN_ERROR_BUSY, Poisoned, pirn_error_t};
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// No function uses the instance.
const IDLE: u8 = 0;
/// A function uses the instance.
const BUSY: u8 = 1;
/// A function uses the instance, and frees the handle when it returns.
const DELETED: u8 = 2;
/// An earlier function has panicked.
const POISONED: u8 = 3;

/// An instance, and whether a function uses it.
pub(crate) struct Place<I> {
    state: AtomicU8,
    instance: UnsafeCell<I>,
}

impl<I> Place<I> {
    pub(crate) fn new(instance: I) -> Self {
        Self {
            state: AtomicU8::new(IDLE),
            instance: UnsafeCell::new(instance),
        }
    }

    pub(crate) fn into_inner(self) -> I {
        self.instance.into_inner()
    }
}

/// A handle to an instance. `Out::give` makes it.
pub(crate) trait Exclusive {
    type Inner;
    /// The name of the handle in error messages, which is that of the parameter.
    const NAME: &'static str = "instance";

    /// The place of the instance in this handle.
    fn place(&self) -> &Place<Self::Inner>;
}

/// The exclusive use of an instance by one function.
struct Use<H: Exclusive> {
    handle: *mut H,
    /// Whether the function has returned, and not panicked.
    ended: bool,
}

impl<H: Exclusive> Use<H> {
    /// Begins the use of an instance.
    ///
    /// # Errors
    ///
    /// If the handle is null, in use or poisoned.
    ///
    /// # Safety
    ///
    /// The handle must be live or null.
    #[inline]
    unsafe fn begin(handle: *mut H) -> Fallible<Self> {
        // SAFETY: the caller ensures that the handle is live or null.
        let state = unsafe { &shared(handle, H::NAME)?.place().state };
        match state.compare_exchange(IDLE, BUSY, Acquire, Acquire) {
            Ok(_) => Ok(Self {
                handle,
                ended: false,
            }),
            Err(POISONED) => Err(Poisoned(H::NAME).into()),
            Err(_) => Err(busy(H::NAME)),
        }
    }
}

impl<H: Exclusive> Drop for Use<H> {
    #[inline]
    fn drop(&mut self) {
        let next = if self.ended { IDLE } else { POISONED };
        // SAFETY: nothing frees a handle whose state is `BUSY`, and this function frees one whose
        // state is `DELETED`.
        let state = unsafe { &(*self.handle).place().state };
        if state
            .compare_exchange(BUSY, next, Release, Acquire)
            .is_err()
        {
            // SAFETY: the state is `DELETED`: `take` has left the handle to this function, and
            // nothing uses it after that.
            drop(unsafe { Box::from_raw(self.handle) });
        }
    }
}

/// Runs `body` with the instance of a handle.
///
/// # Errors
///
/// If the handle is null, in use or poisoned, and the errors of `body`.
///
/// # Safety
///
/// The handle must be live or null.
#[inline]
pub(crate) unsafe fn with<H: Exclusive, R>(
    handle: *mut H,
    body: impl FnOnce(&mut H::Inner) -> Fallible<R>,
) -> Fallible<R> {
    // SAFETY: the caller ensures that the handle is live or null.
    let mut used = unsafe { Use::begin(handle)? };
    // SAFETY: `used` has the exclusive use, so there is no other reference to the instance.
    let result = body(unsafe { &mut *(*handle).place().instance.get() });
    used.ended = true;
    result
}

/// Takes over a handle that ends.
///
/// # Errors
///
/// If the handle is null, in use or poisoned. It ends all the same.
///
/// # Safety
///
/// The handle must be live or null, and nothing uses it after this call.
pub(crate) unsafe fn take<H: Exclusive>(handle: *mut H) -> Fallible<Box<H>> {
    // SAFETY: the caller ensures that the handle is live or null.
    let state = unsafe { &shared(handle, H::NAME)?.place().state };
    match state.swap(DELETED, AcqRel) {
        // The function that uses the instance frees the handle.
        BUSY | DELETED => Err(busy(H::NAME)),
        // SAFETY: no function uses the instance, and the caller gives the handle away.
        IDLE => Ok(unsafe { Box::from_raw(handle) }),
        _ => {
            // SAFETY: no function uses the instance, and the caller gives the handle away.
            drop(unsafe { Box::from_raw(handle) });
            Err(Poisoned(H::NAME).into())
        }
    }
}

#[cold]
fn busy(name: &str) -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_BUSY,
        format!(
            "{name} is in use by another function; wait until it returns, and use the caller's \
             handle in a host function"
        ),
    )
}
