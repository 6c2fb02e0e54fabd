//! [`pirn_wasi_t`]: the arguments, variables, streams and directories of a guest.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

mod files;
mod streams;

use crate::entry::{self, guard, guard_or, text, unique};
use crate::error::{Fallible, PIRN_ERROR_ARGUMENT, pirn_error_t};
use crate::poison::Building;
use core::ffi::c_char;
use core::fmt::Display;
use core::ptr;
pub use files::*;
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
pub use streams::*;

/// A context of WASI preview 1 for one guest. A new context has no arguments, variables or
/// directories; its input is empty, and its output is discarded. One thread at a time may use the
/// handle.
///
/// A function that fails spends the handle. A spent handle can only be deleted.
pub struct pirn_wasi_t {
    builder: Building<WasiCtxBuilder>,
}

impl pirn_wasi_t {
    /// The finished context.
    pub(crate) fn build(self) -> Fallible<WasiCtx> {
        Ok(self.builder.finish()?.build())
    }
}

/// An error of wasi-common about an argument.
fn refused(what: &str, error: impl Display) -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_ARGUMENT,
        format!("{what} cannot be given to the guest: {error}"),
    )
}

/// Runs the body of a function that changes a context.
///
/// # Safety
///
/// `wasi` must be a live handle that nothing else uses, or null.
unsafe fn change(
    wasi: *mut pirn_wasi_t,
    change: impl FnOnce(WasiCtxBuilder) -> Fallible<WasiCtxBuilder>,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: the caller ensures that `wasi` is null, or a live handle that nothing else uses
        // during the call.
        unsafe { unique(wasi, "wasi")? }.builder.change(change)
    })
}

/// Makes an empty context. NULL only if the library panics.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_wasi_new() -> *mut pirn_wasi_t {
    guard_or(ptr::null_mut(), || {
        let builder = Building::new(WasiCtxBuilder::new());
        Box::into_raw(Box::new(pirn_wasi_t { builder }))
    })
}

/// Adds an argument, UTF-8. The first argument is the name of the program.
///
/// # Safety
///
/// `wasi` is a live handle, `argument` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_arg(
    wasi: *mut pirn_wasi_t,
    argument: *const c_char,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi` and a C string
    // `argument`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let argument = text(argument, "argument")?;
            let added = builder.arg(argument);
            added.map_err(|error| refused("argument", error))
        })
    }
}

/// Adds an environment variable, UTF-8.
///
/// # Safety
///
/// `wasi` is a live handle, `name` and `value` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_env(
    wasi: *mut pirn_wasi_t,
    name: *const c_char,
    value: *const c_char,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, and C strings `name` and
    // `value`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let (name, value) = (text(name, "name")?, text(value, "value")?);
            let added = builder.env(name, value);
            added.map_err(|error| refused("variable", error))
        })
    }
}

/// Limits the descriptors that the guest has open at the same time. 64 by default.
///
/// # Safety
///
/// `wasi` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_descriptors_max(
    wasi: *mut pirn_wasi_t,
    descriptors: u32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, valid during this call.
    unsafe { change(wasi, |builder| Ok(builder.descriptors_max(descriptors))) }
}

/// Limits the bytes that the guest may write to host files that it opens itself. There is no limit
/// by default.
///
/// # Safety
///
/// `wasi` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_disk_bytes_max(
    wasi: *mut pirn_wasi_t,
    bytes: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, valid during this call.
    unsafe { change(wasi, |builder| Ok(builder.disk_bytes_max(bytes))) }
}

/// Frees a context that was passed to neither pirn_instance_new nor pirn_group_new, which take
/// their contexts over.
///
/// # Safety
///
/// `wasi` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_delete(wasi: *mut pirn_wasi_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `wasi`, and does not use
    // it again.
    unsafe { entry::delete(wasi) };
}
