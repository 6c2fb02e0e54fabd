//! Texts of the library as C strings.

use core::ffi::{CStr, c_char};
use core::ptr;
use std::ffi::CString;

/// A C string of a text. A zero byte in the text becomes U+FFFD.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// The pointer to a text, or NULL for `None`.
pub(crate) fn c_pointer(text: Option<&CStr>) -> *const c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}
