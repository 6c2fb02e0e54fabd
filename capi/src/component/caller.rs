//! [`pirn_component_caller_t`]: what a host function of a component has, and its result.
//!
//! # Safety
//!
//! This file owns two facts. The handle of an instance stays at one address as long as the
//! instance. Its result is used only on the thread that runs the host function, while it runs.
#![allow(unsafe_code)]

use super::value::{pirn_component_value_t, values};
use crate::entry::{guard, guard_or, shared};
use crate::error::{Fallible, PIRN_ERROR_BUSY, pirn_error_t};
use crate::lend::thread;
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicUsize};
use pirn_component::Value;

/// A host function's access to the component instance that calls it. The library owns it. It is
/// valid until the host function returns, on the thread that runs the function.
pub struct pirn_component_caller_t {
    /// The thread that runs the host function; 0 while none runs.
    thread: AtomicUsize,
    /// The embedder's pointer.
    data: AtomicPtr<c_void>,
    /// The result of the host function.
    result: Cell<Option<Value>>,
}

/// Owns the [`pirn_component_caller_t`] of an instance, at an address that never changes.
pub(crate) struct CallerPlace(NonNull<pirn_component_caller_t>);

// SAFETY: only the thread that runs a host function of the instance uses the result, which `here`
// checks. That thread has exclusive access to the instance.
unsafe impl Send for CallerPlace {}

impl CallerPlace {
    pub(crate) fn new(data: *mut c_void) -> Self {
        let handle = Box::new(pirn_component_caller_t {
            thread: AtomicUsize::new(0),
            data: AtomicPtr::new(data),
            result: Cell::new(None),
        });
        Self(NonNull::from(Box::leak(handle)))
    }

    /// Runs a host function with the handle. Returns what it returned, and its result.
    pub(crate) fn lend<R>(
        &self,
        call: impl FnOnce(*mut pirn_component_caller_t) -> R,
    ) -> (R, Option<Value>) {
        /// Ends the use of the handle, also during unwinding.
        struct End(NonNull<pirn_component_caller_t>);
        impl Drop for End {
            fn drop(&mut self) {
                // SAFETY: the instance lives, because its host function runs.
                unsafe { self.0.as_ref() }.thread.store(0, Relaxed);
            }
        }
        // SAFETY: this value owns the handle.
        let handle = unsafe { self.0.as_ref() };
        handle.result.set(None);
        handle.thread.store(thread(), Relaxed);
        let end = End(self.0);
        let returned = call(self.0.as_ptr());
        drop(end);
        (returned, handle.result.take())
    }
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        // SAFETY: `new` made the box, and the instance ends, so no host function of it runs.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The handle, if its host function runs on this thread.
///
/// # Safety
///
/// The handle must be null, or that of an instance that lives.
unsafe fn here<'a>(
    caller: *const pirn_component_caller_t,
) -> Fallible<&'a pirn_component_caller_t> {
    // SAFETY: the caller ensures that the instance lives, and it owns the handle.
    let caller = unsafe { shared(caller, "caller")? };
    match caller.thread.load(Relaxed) == thread() {
        true => Ok(caller),
        false => Err(pirn_error_t::text(
            PIRN_ERROR_BUSY,
            "`caller` is used outside its host function, or on another thread; use it in the \
             function that got it, before that function returns",
        )),
    }
}

/// The `data` of pirn_component_instance_new. NULL for NULL, and outside the host function.
///
/// # Safety
///
/// `caller` is the handle that this host function got, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_caller_data(
    caller: *const pirn_component_caller_t,
) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        // SAFETY: the caller ensures that the handle is live or NULL.
        let found = unsafe { here(caller) };
        found.map_or(ptr::null_mut(), |caller| caller.data.load(Relaxed))
    })
}

/// Sets the result of a host function. `value` is copied, so it may be on the stack of the
/// function. A later call replaces the result of an earlier one. A function without a result calls
/// this not at all. The type of the result is checked when the host function has returned.
///
/// # Safety
///
/// `caller` is the handle that this host function got. `value` points to a value that is as
/// pirn_component_value_t says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_component_caller_return(
    caller: *const pirn_component_caller_t,
    value: *const pirn_component_value_t,
) -> *mut pirn_error_t {
    // SAFETY: the caller ensures that the pointers are as required.
    guard(|| unsafe {
        let caller = here(caller)?;
        let value = shared(value, "value")?;
        let made = values(slice::from_ref(value))?.pop();
        caller.result.set(made);
        Ok(())
    })
}
