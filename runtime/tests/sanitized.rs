//! The canaries of `.ci/sanitize`: accesses that are wrong on purpose, and found by a sanitizer alone. Each is done right with
//! all tests, and wrong by the script, which fails if it is not told so.
#![allow(unsafe_code, reason = "what sanitizers look for")]

use std::hint::black_box;
use std::mem::MaybeUninit;

/// Reads a byte of the heap before it is freed, or after that.
fn freed(before: bool) -> u8 {
    let bytes = Box::into_raw(Box::new([7_u8; 64]));
    let first: *const u8 = black_box(bytes.cast());
    // SAFETY: the pointer is a box's, which is freed once; what is read is there as long as it is not.
    unsafe {
        let found = before.then(|| *first);
        drop(Box::from_raw(bytes));
        found.unwrap_or_else(|| *first)
    }
}

/// Reads a byte that was written, or one that nobody wrote.
fn unwritten(written: bool) -> u8 {
    let mut byte = MaybeUninit::new(7_u8);
    if !written {
        byte = MaybeUninit::uninit();
    }
    // SAFETY: it was written, if so.
    unsafe { byte.assume_init() }
}

#[test]
fn what_is_right_is_not_reported() {
    assert_eq!((freed(true), unwritten(true)), (7, 7));
}

#[test]
#[ignore = "wrong on purpose: for AddressSanitizer and Miri"]
fn a_byte_that_was_freed_is_read() {
    black_box(freed(false));
}

#[test]
#[ignore = "wrong on purpose: for Miri"]
fn a_byte_that_nobody_wrote_is_read() {
    black_box(unwritten(false));
}
