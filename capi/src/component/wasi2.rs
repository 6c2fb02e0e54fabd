//! [`pirn_wasi2_t`]: the arguments, variables, streams and directories of a component.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::entry::{self, guard, guard_or, list, out, raw_text, shared, text, unique};
use crate::error::{Fallible, pirn_error_t};
use crate::poison::Building;
use crate::wasi::{keep, open, pirn_capture_t, pirn_files_t};
use bytes::Bytes;
use core::ffi::c_char;
use core::ptr;
use pirn_wasi2::{MemoryLimits, Wasi, WasiBuilder};

/// A context of WASI 0.2 for one component instance. A new context has no arguments, variables,
/// directories or network; its input is empty, and its output is discarded. One thread at a time
/// may use the handle.
///
/// A function that fails spends the handle. A spent handle can only be deleted.
pub struct pirn_wasi2_t {
    builder: Building<WasiBuilder>,
}

impl pirn_wasi2_t {
    /// The finished context.
    pub(crate) fn build(self) -> Fallible<Wasi> {
        Ok(self.builder.finish()?.build())
    }
}

/// Runs the body of a function that changes a context.
///
/// # Safety
///
/// `wasi` must be a live handle that nothing else uses, or null.
unsafe fn change(
    wasi: *mut pirn_wasi2_t,
    change: impl FnOnce(WasiBuilder) -> Fallible<WasiBuilder>,
) -> *mut pirn_error_t {
    guard(|| {
        // SAFETY: the caller ensures that `wasi` is null, or a live handle that nothing else uses
        // during the call.
        unsafe { unique(wasi, "wasi")? }.builder.change(change)
    })
}

/// Makes an empty context. NULL only if the library panics.
#[unsafe(no_mangle)]
pub extern "C" fn pirn_wasi2_new() -> *mut pirn_wasi2_t {
    guard_or(ptr::null_mut(), || {
        let builder = Building::new(WasiBuilder::new());
        Box::into_raw(Box::new(pirn_wasi2_t { builder }))
    })
}

/// Adds an argument, UTF-8. The first argument is the name of the program.
///
/// # Safety
///
/// `wasi` is a live handle, `argument` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_arg(
    wasi: *mut pirn_wasi2_t,
    argument: *const c_char,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi` and a C string
    // `argument`, valid during this call.
    unsafe { change(wasi, |builder| Ok(builder.arg(text(argument, "argument")?))) }
}

/// Adds an environment variable, UTF-8.
///
/// # Safety
///
/// `wasi` is a live handle, `name` and `value` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_env(
    wasi: *mut pirn_wasi2_t,
    name: *const c_char,
    value: *const c_char,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, and C strings `name` and
    // `value`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            Ok(builder.env(text(name, "name")?, text(value, "value")?))
        })
    }
}

/// Gives the guest the three standard streams of this process.
///
/// # Safety
///
/// `wasi` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_inherit_stdio(wasi: *mut pirn_wasi2_t) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, valid during this call.
    unsafe { change(wasi, |builder| Ok(builder.inherit_stdio())) }
}

/// Gives the guest a copy of these bytes as its standard input.
///
/// # Safety
///
/// `wasi` is a live handle, `bytes` points to `len` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_stdin_bytes(
    wasi: *mut pirn_wasi2_t,
    bytes: *const u8,
    len: usize,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi` and `len` bytes at
    // `bytes`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let bytes = list(bytes, len, "bytes")?;
            Ok(builder.stdin(Bytes::copy_from_slice(bytes)))
        })
    }
}

/// Keeps the guest's output to stream PIRN_STDOUT or PIRN_STDERR in memory, at most `bytes_max`
/// bytes. Writes past the limit fail in the guest as on a full disk. The caller owns the capture,
/// which may outlive the instance.
///
/// # Safety
///
/// `wasi` is a live handle, `capture` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_capture(
    wasi: *mut pirn_wasi2_t,
    stream: u32,
    bytes_max: usize,
    capture: *mut *mut pirn_capture_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi` and a writable `capture`,
    // valid during this call.
    unsafe {
        change(wasi, |builder| {
            let to = out(capture, "capture")?;
            let set = (WasiBuilder::stdout as _, WasiBuilder::stderr as _);
            keep(builder, set, stream, bytes_max, to)
        })
    }
}

/// Gives the guest a directory of the host, under the path `guest_path`. The guest reaches nothing
/// outside the directory. If `read_only` is not 0, the guest cannot change the directory.
///
/// # Safety
///
/// `wasi` is a live handle, `host_path` and `guest_path` are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_preopen_dir(
    wasi: *mut pirn_wasi2_t,
    host_path: *const c_char,
    guest_path: *const c_char,
    read_only: i32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, and C strings
    // `host_path` and `guest_path`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let dir = open(raw_text(host_path, "host_path")?)?;
            let guest_path = text(guest_path, "guest_path")?;
            Ok(match read_only {
                0 => builder.preopened_dir(dir, guest_path),
                _ => builder.preopened_dir_read_only(dir, guest_path),
            })
        })
    }
}

/// Gives the guest a copy of files in memory, under the path `guest_path`. The guest may change the
/// copy. The changes may take up to `bytes_max` bytes of memory. The changes end with the instance.
///
/// # Safety
///
/// `wasi` and `files` are live handles, `guest_path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_memory_dir(
    wasi: *mut pirn_wasi2_t,
    files: *const pirn_files_t,
    guest_path: *const c_char,
    bytes_max: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `wasi` and `files`, and a C string
    // `guest_path`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let base = &shared(files, "files")?.base;
            let limits = MemoryLimits {
                bytes_max,
                ..MemoryLimits::default()
            };
            Ok(builder.memory_dir(base, limits, text(guest_path, "guest_path")?))
        })
    }
}

/// Limits the files and directories that the guest has open at the same time. 64 by default.
///
/// # Safety
///
/// `wasi` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_descriptors_max(
    wasi: *mut pirn_wasi2_t,
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
pub unsafe extern "C" fn pirn_wasi2_disk_bytes_max(
    wasi: *mut pirn_wasi2_t,
    bytes: u64,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a live `wasi`, valid during this call.
    unsafe { change(wasi, |builder| Ok(builder.disk_bytes_max(bytes))) }
}

/// Frees a context that was not passed to pirn_component_instance_new, which takes its context
/// over.
///
/// # Safety
///
/// `wasi` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi2_delete(wasi: *mut pirn_wasi2_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `wasi`, and does not use
    // it again.
    unsafe { entry::delete(wasi) };
}
