//! Lends the caller of a host function to the embedder's function, by a [`pirn_caller_t`].
//!
//! # Safety
//!
//! This file owns one fact. A handle leads to the caller of the host function that runs, on the
//! thread of that function, and to nothing at any other time. A C program may keep the handle and
//! use it too late. While the instance lives, such a use is an error.
#![allow(unsafe_code)]

use crate::caller::pirn_caller_t;
use crate::data::Data;
use crate::entry::shared;
use crate::error::{Fallible, PIRN_ERROR_BUSY, pirn_error_t};
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use pirn_runtime::Caller;

/// A number that no other running thread has.
pub(crate) fn thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| ptr::from_ref(place).addr())
}

/// Runs `call` with a handle that leads to `caller`.
pub(crate) fn lend<R>(
    caller: &mut Caller<'_, Data>,
    call: impl FnOnce(*mut pirn_caller_t) -> R,
) -> R {
    /// Restores the state of the handle, also during unwinding.
    struct Restore(NonNull<pirn_caller_t>, *mut c_void, usize);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the instance lives, because its host function runs.
            let handle = unsafe { self.0.as_ref() };
            handle.current.set(self.1);
            handle.thread.set(self.2);
        }
    }
    let place = caller.data().caller.handle();
    // SAFETY: the instance lives, because its host function runs.
    let handle = unsafe { place.as_ref() };
    let current = ptr::from_mut(caller).cast();
    let _restore = Restore(
        place,
        handle.current.replace(current),
        handle.thread.replace(thread()),
    );
    call(place.as_ptr())
}

/// Runs `body` with the caller that a handle leads to. Until `body` returns, the handle leads to
/// nothing.
///
/// # Errors
///
/// If the handle is null, or leads to no caller on this thread.
///
/// # Safety
///
/// The handle must be null, or that of an instance that lives.
pub(crate) unsafe fn lent<R>(
    handle: *const pirn_caller_t,
    body: impl FnOnce(&mut Caller<'_, Data>) -> Fallible<R>,
) -> Fallible<R> {
    struct GiveBack<'a>(&'a Cell<*mut c_void>, *mut c_void);
    impl Drop for GiveBack<'_> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    // SAFETY: the caller ensures that the instance lives, and it owns the handle.
    let handle = unsafe { shared(handle, "caller")? };
    if handle.thread.get() != thread() {
        return Err(unlent());
    }
    let current = handle.current.replace(ptr::null_mut());
    if current.is_null() {
        return Err(unlent());
    }
    let _back = GiveBack(&handle.current, current);
    // SAFETY: `lend` stored the pointer, and restores the handle before its caller ends. The handle
    // is on the thread of `lend`, so `lend` has not returned. Nothing else uses the caller: the
    // embedder's function runs, and the pointer was taken out of the handle.
    body(unsafe { &mut *current.cast::<Caller<'_, Data>>() })
}

#[cold]
fn unlent() -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_BUSY,
        "`caller` is used outside its host function, or on another thread; use it in the function \
         that got it, before that function returns",
    )
}
