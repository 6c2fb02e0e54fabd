//! [`pirn_component_caller_t`]: a component host function's access to its caller, and the
//! function's result.
//!
//! # Safety
//!
//! This file owns one fact. Only the thread of a running host function uses the result in a handle.
#![allow(unsafe_code)]

use super::value::{pirn_component_value_t, values};
use crate::caller::{CallerPlace, Runner};
use crate::data::Pointer;
use crate::entry::{guard, guard_or, shared};
use crate::error::{Fallible, pirn_error_t};
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use core::slice;
use pirn_component::Value;

/// A host function's access to the component instance that calls the function. The library owns
/// this handle. It is valid until the host function returns, on the thread that runs the function.
pub struct pirn_component_caller_t {
    runner: Runner,
    /// The embedder's pointer.
    data: Pointer,
    /// The result of the host function.
    result: Cell<Option<Value>>,
}

impl pirn_component_caller_t {
    pub(crate) fn new(data: *mut c_void) -> Self {
        Self {
            runner: Runner::default(),
            data: Pointer::new(data),
            result: Cell::new(None),
        }
    }
}

impl CallerPlace<pirn_component_caller_t> {
    /// The embedder's pointer.
    pub(crate) fn host(&self) -> *mut c_void {
        // SAFETY: this value owns the handle, so the handle is live.
        unsafe { self.handle().as_ref() }.data.get()
    }

    /// Runs a host function with the handle. Returns the return value of `call`, and the result
    /// that the host function set.
    pub(crate) fn lend<R>(
        &self,
        call: impl FnOnce(*mut pirn_component_caller_t) -> R,
    ) -> (R, Option<Value>) {
        let place = self.handle();
        // SAFETY: this value owns the handle, so the handle is live.
        let handle = unsafe { place.as_ref() };
        handle.result.set(None);
        let running = handle.runner.begin();
        let returned = call(place.as_ptr());
        drop(running);
        (returned, handle.result.take())
    }
}

/// The handle, if its host function runs on this thread.
///
/// # Safety
///
/// `caller` must be null, or the handle of a live instance.
unsafe fn here<'a>(
    caller: *const pirn_component_caller_t,
) -> Fallible<&'a pirn_component_caller_t> {
    // SAFETY: the caller ensures that `caller` is null or belongs to a live instance, which owns
    // the handle.
    let caller = unsafe { shared(caller, "caller")? };
    caller.runner.check()?;
    Ok(caller)
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
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function or NULL, valid during this call.
        let found = unsafe { here(caller) };
        found.map_or(ptr::null_mut(), |caller| caller.data.get())
    })
}

/// Sets the result of a host function. `value` is copied, so it may be on the stack of the
/// function. A later call replaces the result of an earlier one. A function without a result does
/// not call this. The type of the result is checked when the host function has returned.
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
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function and a `value` as pirn_component_value_t describes. Both are valid during this call.
    guard(|| unsafe {
        let caller = here(caller)?;
        let value = shared(value, "value")?;
        let made = values(slice::from_ref(value))?.pop();
        caller.result.set(made);
        Ok(())
    })
}
