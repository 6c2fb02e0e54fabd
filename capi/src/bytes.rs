//! [`pirn_bytes_t`]: bytes that the library gives to its caller.
//!
//! # Safety
//!
//! This file owns no invariants. It reads handles of its callers, by the rules of `entry.rs`.
#![allow(unsafe_code)]

use crate::entry;
use core::ptr;

/// Bytes that the library made. Immutable; any threads may read them at the same time.
pub struct pirn_bytes_t {
    /// The bytes, and a zero byte after them.
    bytes: Vec<u8>,
}

impl pirn_bytes_t {
    pub(crate) fn new(mut bytes: Vec<u8>) -> Self {
        bytes.push(0);
        Self { bytes }
    }
}

/// A pointer to the first byte. A zero byte follows the last byte, so text is a C string. NULL for
/// NULL.
///
/// # Safety
///
/// `bytes` is a live handle or NULL. The returned pointer is valid until `bytes` is deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_bytes_data(bytes: *const pirn_bytes_t) -> *const u8 {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `bytes`, valid during
    // this call.
    unsafe { entry::read(bytes, ptr::null(), |bytes| bytes.bytes.as_ptr()) }
}

/// The number of bytes, without the zero byte after them. 0 for NULL.
///
/// # Safety
///
/// `bytes` is a live handle or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_bytes_len(bytes: *const pirn_bytes_t) -> usize {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `bytes`, valid during
    // this call.
    unsafe { entry::read(bytes, 0, |bytes| bytes.bytes.len() - 1) }
}

/// Frees the bytes.
///
/// # Safety
///
/// `bytes` is a live handle, which ends, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pirn_bytes_delete(bytes: *mut pirn_bytes_t) {
    // SAFETY: by the header's contract, the C caller passes a live or NULL `bytes`, and does not
    // use it again.
    unsafe { entry::delete(bytes) };
}
