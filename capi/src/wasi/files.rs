//! The directories of a guest: directories of the host, and [`pirn_files_t`] in memory.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use super::{change, pirn_wasi_t, refused};
use crate::entry::{self, guard, out, raw_text, shared, text};
use crate::error::{Fallible, PIRN_ERROR_SYSTEM, pirn_error_t};
use core::ffi::c_char;
use pirn_wasi::memory_files::{BaseLimits, Limits};
use pirn_wasi::{Dir, MemoryBase, MemoryDir, ambient_authority};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory in memory that instances share. The changes of an instance are its own. Immutable;
/// any threads may use it at the same time.
pub struct pirn_files_t {
    pub(crate) base: MemoryBase,
}

/// Copies a directory or a tar archive of the host into memory. A NULL `path` makes an empty
/// directory.
///
/// # Safety
///
/// `path` is a C string or NULL, `files` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_files_open(
    path: *const c_char,
    files: *mut *mut pirn_files_t,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes a C string or NULL as `path` and a
    // writable `files`, valid during this call.
    guard(|| unsafe {
        let to = out(files, "files")?;
        let base = if path.is_null() {
            MemoryBase::empty()
        } else {
            let path = Path::new(OsStr::from_bytes(raw_text(path, "path")?));
            let opened = MemoryBase::open(path, &BaseLimits::default());
            opened.map_err(|error| pirn_error_t::text(PIRN_ERROR_SYSTEM, error.to_string()))?
        };
        to.give(pirn_files_t { base });
        Ok(())
    })
}

/// Another handle to the files, which the caller deletes separately. NULL for NULL.
///
/// # Safety
///
/// `files` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_files_clone(files: *const pirn_files_t) -> *mut pirn_files_t {
    let another = |files: &pirn_files_t| pirn_files_t {
        base: files.base.clone(),
    };
    // SAFETY: by the header's contract, the C caller passes a live or NULL `files`, valid during
    // this call.
    unsafe { entry::another(files, another) }
}

/// Frees a handle. The files stay as long as another handle or an instance uses them.
///
/// # Safety
///
/// `files` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_files_delete(files: *mut pirn_files_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `files`, and does not
    // use it again.
    unsafe { entry::delete(files) };
}

/// Gives the guest a copy of files in memory, under the path `guest_path`. The guest may change the
/// copy. The changes may take up to `bytes_max` bytes of memory. The changes end with the instance.
/// If `read_only` is not 0, the guest cannot change anything.
///
/// # Safety
///
/// `wasi` and `files` are live handles, `guest_path` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_wasi_memory_dir(
    wasi: *mut pirn_wasi_t,
    files: *const pirn_files_t,
    guest_path: *const c_char,
    bytes_max: u64,
    read_only: i32,
) -> *mut pirn_error_t {
    // SAFETY: by the header's contract, the C caller passes live `wasi` and `files`, and a C string
    // `guest_path`, valid during this call.
    unsafe {
        change(wasi, |builder| {
            let files = shared(files, "files")?;
            let guest_path = text(guest_path, "guest_path")?;
            let limits = Limits {
                bytes_max,
                ..Limits::default()
            };
            let mut dir = MemoryDir::new(&files.base, limits);
            if read_only != 0 {
                dir = dir.read_only();
            }
            let given = builder.memory_dir(dir, guest_path);
            given.map_err(|error| refused("directory", error))
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
pub unsafe extern "C" fn pirn_wasi_preopen_dir(
    wasi: *mut pirn_wasi_t,
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
            let given = match read_only {
                0 => builder.preopened_dir(dir, guest_path),
                _ => builder.preopened_dir_read_only(dir, guest_path),
            };
            given.map_err(|error| refused("directory", error))
        })
    }
}

/// A directory of the host.
pub(crate) fn open(path: &[u8]) -> Fallible<Dir> {
    let path = Path::new(OsStr::from_bytes(path));
    let opened = Dir::open_ambient_dir(path, ambient_authority());
    opened.map_err(|error| {
        let text = format!("cannot open directory {}: {error}", path.display());
        pirn_error_t::text(PIRN_ERROR_SYSTEM, text)
    })
}
