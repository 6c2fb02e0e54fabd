//! Functions for a host function's [`pirn_caller_t`]: data, nested calls, fuel. `memory.rs` has the
//! functions for memories.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::caller::pirn_caller_t;
use crate::calls::{Lists, Wanted, nested};
use crate::entry::{guard, guard_or, out, shared, text};
use crate::error::{not_counted, pirn_error_t};
use crate::lend::lent;
use crate::prepared::{params, pirn_func_t};
use crate::value::{func_of, pirn_val_t};
use core::ffi::{c_char, c_void};
use core::ptr;

/// The `data` of pirn_instance_new. NULL if the handle is invalid.
///
/// # Safety
///
/// `caller` is the handle that a running host function got, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_data(caller: *const pirn_caller_t) -> *mut c_void {
    guard_or(ptr::null_mut(), || {
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function or NULL, valid during this call.
        let data = unsafe { lent(caller, |caller| Ok(caller.data().host.get())) };
        data.unwrap_or(ptr::null_mut())
    })
}

/// 1 if a kill or a limit has stopped the guest since its call of the host function, otherwise 0. A
/// stopped guest does not continue. A host function that waits should call this regularly. 1 if the
/// handle is invalid.
///
/// # Safety
///
/// `caller` is the handle that a running host function got, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_is_stopped(caller: *const pirn_caller_t) -> i32 {
    guard_or(1, || {
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function or NULL, valid during this call.
        let stopped = unsafe { lent(caller, |caller| Ok(caller.is_stopped())) };
        i32::from(stopped.unwrap_or(true))
    })
}

/// Calls a function of the guest that waits for this host function, by values. The call is nested:
/// it uses the guest's stack, limits and fuel. The guest cannot be suspended in a nested call.
///
/// A host function that returns the error of a nested call ends the guest's call with that error.
///
/// # Safety
///
/// As pirn_instance_call, and `caller` is the handle that this host function got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_call(
    caller: *mut pirn_caller_t,
    func: *const pirn_func_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function, valid during this call. It also passes a live `func`, `args_count` values at
        // `args` and room for `results_count` values at `results`. A callback may delete `func`:
        // the call uses a copy.
        unsafe {
            let func = shared(func, "func")?;
            let lists = Lists::new((args, args_count), (results, results_count))?;
            lent(caller, |caller| {
                nested(caller, Wanted::Func(&func.func), &lists)
            })
        }
    })
}

/// As pirn_caller_call, for the exported function `name`.
///
/// # Safety
///
/// As pirn_caller_call, and `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_call_name(
    caller: *mut pirn_caller_t,
    name: *const c_char,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function, valid during this call. It also passes a C string `name`, `args_count` values
        // at `args` and room for `results_count` values at `results`.
        unsafe {
            let name = text(name, "name")?;
            let lists = Lists::new((args, args_count), (results, results_count))?;
            lent(caller, |caller| nested(caller, Wanted::Name(name), &lists))
        }
    })
}

/// As pirn_caller_call, for the function that the PIRN_FUNCREF `reference` refers to: a callback
/// that the guest has passed, for example.
///
/// # Safety
///
/// As pirn_caller_call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_call_ref(
    caller: *mut pirn_caller_t,
    reference: pirn_val_t,
    args: *const pirn_val_t,
    args_count: usize,
    results: *mut pirn_val_t,
    results_count: usize,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function, valid during this call. It also passes `args_count` values at `args` and room
        // for `results_count` values at `results`. The field of `reference` that its kind names is
        // written.
        unsafe {
            let lists = Lists::new((args, args_count), (results, results_count))?;
            lent(caller, |caller| {
                let value = reference.value(&caller.data().references)?;
                let func = func_of(value)?;
                nested(caller, Wanted::Reference(func), &lists)
            })
        }
    })
}

/// As pirn_caller_call, by words as in pirn_instance_call_words.
///
/// # Safety
///
/// As pirn_instance_call_words, and `caller` is the handle that this host function got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_call_words(
    caller: *mut pirn_caller_t,
    func: *const pirn_func_t,
    args: *const u64,
    result: *mut u64,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
        // function, valid during this call. It also passes a live `func`, a word for each parameter
        // at `args` and room for a result at `result`. A callback may delete `func`: the call uses
        // a copy.
        unsafe {
            let func = shared(func, "func")?;
            let words = func.words()?;
            let args = words.words(args)?;
            let to = words.place(result)?;
            let found = lent(caller, |caller| Ok(caller.call(&words.func, params(args))?))?;
            words.store(to, found);
            Ok(())
        }
    })
}

/// The remaining fuel of the calling instance. PIRN_ERROR_ARGUMENT if its module does not count
/// fuel.
///
/// # Safety
///
/// `caller` is the handle that this host function got, `fuel` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_fuel(
    caller: *const pirn_caller_t,
    fuel: *mut u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function and a writable `fuel`, valid during this call.
    guard(|| unsafe {
        let to = out(fuel, "fuel")?;
        let left = lent(caller, |caller| Ok(caller.fuel()))?;
        let left = left.ok_or_else(not_counted)?;
        to.set(left);
        Ok(())
    })
}

/// Sets the remaining fuel of the calling instance.
///
/// # Safety
///
/// `caller` is the handle that this host function got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_caller_set_fuel(
    caller: *mut pirn_caller_t,
    fuel: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes the `caller` of the running host
    // function, valid during this call.
    guard(|| unsafe { lent(caller, |caller| Ok(caller.set_fuel(fuel)?)) })
}
