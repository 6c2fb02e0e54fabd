//! The exclusive use of an instance, or of a group of instances, by one function at a time.
//!
//! # Safety
//!
//! This file owns one fact. At most one function at a time has a reference to the instance in a
//! place. `state` says whether a function has the reference. A second function gets an error. If a
//! handle is deleted while a function uses its instance, that function frees the handle.
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

/// An instance, and a state that says whether a function uses it.
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

impl<I> Place<Option<I>> {
    /// Drops the instance.
    ///
    /// # Safety
    ///
    /// The state must be `DELETED`, and nothing may use the instance.
    pub(crate) unsafe fn clear(&self) {
        // SAFETY: the caller ensures that nothing uses the instance. No function can begin to,
        // because the state is `DELETED`.
        unsafe { *self.instance.get() = None };
    }
}

// SAFETY: only the function that has set `state` to `BUSY` or `DELETED` accesses the instance, as
// with a lock. The state's orders hand the instance over between threads.
unsafe impl<I: Send> Sync for Place<I> {}

/// A handle to an instance. `Out::give` makes it.
pub(crate) trait Exclusive: Sized {
    type Inner;
    /// The name of the handle in error messages: the parameter's name.
    const NAME: &'static str = "instance";

    /// The place of the instance in this handle.
    ///
    /// # Errors
    ///
    /// If the handle has no place of its own.
    fn place(&self) -> Fallible<&Place<Self::Inner>>;

    /// The error of a use after the handle was deleted. Only a handle whose call still runs can be
    /// used then, or a handle that shares its place with others.
    fn deleted() -> Box<pirn_error_t> {
        busy(Self::NAME)
    }

    /// Frees a deleted handle.
    ///
    /// # Safety
    ///
    /// `handle` must be live, its place in state `DELETED`, and nothing may use it afterwards.
    unsafe fn free(handle: *mut Self) {
        // SAFETY: `Out::give` made the box, and the caller gives it away.
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// The exclusive use of an instance by one function.
struct Use<H: Exclusive> {
    handle: *mut H,
    /// The place in the handle.
    place: *const Place<H::Inner>,
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
    /// `handle` must be a live handle or null.
    #[inline]
    unsafe fn begin(handle: *mut H) -> Fallible<Self> {
        // SAFETY: the caller ensures that `handle` is live or null.
        let place = unsafe { shared(handle, H::NAME)? }.place()?;
        match place.state.compare_exchange(IDLE, BUSY, Acquire, Acquire) {
            Ok(_) => Ok(Self {
                handle,
                place,
                ended: false,
            }),
            Err(POISONED) => Err(Poisoned(H::NAME).into()),
            Err(DELETED) => Err(H::deleted()),
            Err(_) => Err(busy(H::NAME)),
        }
    }
}

impl<H: Exclusive> Drop for Use<H> {
    #[inline]
    fn drop(&mut self) {
        let next = if self.ended { IDLE } else { POISONED };
        // SAFETY: the handle with the place is live. Nothing frees a handle in state `BUSY`, and
        // only this function frees it in state `DELETED`.
        let state = unsafe { &(*self.place).state };
        if state
            .compare_exchange(BUSY, next, Release, Acquire)
            .is_err()
        {
            // SAFETY: the state is `DELETED`: `take` or `delete` has left the handle to this
            // function, and nothing uses the handle after that.
            unsafe { H::free(self.handle) };
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
/// `handle` must be a live handle or null.
#[inline]
pub(crate) unsafe fn with<H: Exclusive, R>(
    handle: *mut H,
    body: impl FnOnce(&mut H::Inner) -> Fallible<R>,
) -> Fallible<R> {
    // SAFETY: the caller ensures that `handle` is live or null.
    let mut used = unsafe { Use::begin(handle)? };
    // SAFETY: `used` has the exclusive use, so there is no other reference to the instance.
    let result = body(unsafe { &mut *(*used.place).instance.get() });
    used.ended = true;
    result
}

/// Takes over a handle that the caller deletes.
///
/// # Errors
///
/// If the handle is null, in use or poisoned. A handle in use or poisoned is freed all the same.
///
/// # Safety
///
/// `handle` must be a live handle or null, and nothing may use it after this call.
pub(crate) unsafe fn take<H: Exclusive>(handle: *mut H) -> Fallible<Box<H>> {
    // SAFETY: the caller ensures that `handle` is live or null.
    let place = unsafe { shared(handle, H::NAME)? }.place();
    let state = match place {
        Ok(place) => &place.state,
        Err(error) => {
            // SAFETY: the handle has no place, so no function uses it after it has read it. The
            // caller gives `handle` away.
            drop(unsafe { Box::from_raw(handle) });
            return Err(error);
        }
    };
    match state.swap(DELETED, AcqRel) {
        // The function that uses the instance frees the handle.
        BUSY | DELETED => Err(busy(H::NAME)),
        // SAFETY: the old state says that no function uses the instance, and the caller gives
        // `handle` away.
        IDLE => Ok(unsafe { Box::from_raw(handle) }),
        _ => {
            // SAFETY: the old state says that no function uses the instance, and the caller gives
            // `handle` away.
            drop(unsafe { Box::from_raw(handle) });
            Err(Poisoned(H::NAME).into())
        }
    }
}

/// Deletes a handle that owns a share of its place: no error is left to report.
///
/// # Safety
///
/// `place` must be the place of `handle`, which must be live. This function must not be called
/// again for `handle`.
pub(crate) unsafe fn delete<H: Exclusive>(place: &Place<H::Inner>, handle: *mut H) {
    // A function that uses the instance frees the handle.
    if place.state.swap(DELETED, AcqRel) != BUSY {
        // SAFETY: the caller ensures that `handle` is live. No function uses its instance, and none
        // can begin to, because the state is `DELETED`.
        unsafe { H::free(handle) };
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
