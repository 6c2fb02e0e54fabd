//! Lends the caller of a host function to the embedder's function, by a [`pirn_caller_t`].
//!
//! # Safety
//!
//! This file owns one fact. A handle leads to a `Caller` only while its host function runs, and
//! only on the thread of that function. A C program may keep the handle and use it too late. While
//! the instance lives, such a use is an error.
#![allow(unsafe_code)]

use crate::caller::{pirn_caller_t, unlent};
use crate::data::Data;
use crate::entry::shared;
use crate::error::Fallible;
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use pirn_runtime::Caller;

/// Restores the pointer in a handle when dropped, also during unwinding.
struct Restore<'a>(&'a Cell<*mut c_void>, *mut c_void);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs `call` with a handle that leads to `caller`.
pub(crate) fn lend<R>(
    caller: &mut Caller<'_, Data>,
    call: impl FnOnce(*mut pirn_caller_t) -> R,
) -> R {
    let place = caller.data().caller.handle();
    // SAFETY: the instance owns the handle, and lives, because its host function runs.
    let handle = unsafe { place.as_ref() };
    let current = ptr::from_mut(caller).cast();
    let _running = handle.runner.begin();
    let _restore = Restore(&handle.current, handle.current.replace(current));
    call(place.as_ptr())
}

/// Runs `body` with the `Caller` that a handle leads to. Until `body` returns, the pointer in the
/// handle is null, so a second use is an error.
///
/// # Errors
///
/// If the handle is null, or leads to no caller on this thread.
///
/// # Safety
///
/// `handle` must be null, or the handle of a live instance.
pub(crate) unsafe fn lent<R>(
    handle: *const pirn_caller_t,
    body: impl FnOnce(&mut Caller<'_, Data>) -> Fallible<R>,
) -> Fallible<R> {
    // SAFETY: the caller ensures that `handle` is null or belongs to a live instance, which owns
    // the handle.
    let handle = unsafe { shared(handle, "caller")? };
    handle.runner.check()?;
    let current = handle.current.replace(ptr::null_mut());
    if current.is_null() {
        return Err(unlent());
    }
    let _restore = Restore(&handle.current, current);
    // SAFETY: `lend` stored the pointer, and restores the handle before its caller ends.
    // `runner.check` found the thread of `lend`, so `lend` has not returned. Nothing else uses the
    // `Caller`: the embedder's function runs, and the handle holds null until `body` returns.
    body(unsafe { &mut *current.cast::<Caller<'_, Data>>() })
}
