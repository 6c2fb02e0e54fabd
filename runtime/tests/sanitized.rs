//! Canaries of `.ci/sanitize`: deliberate invalid accesses that only a sanitizer detects. The
//! normal test run makes the valid variant. The script runs the invalid one and fails unless the
//! sanitizer reports it.
#![allow(unsafe_code, reason = "invalid accesses for a sanitizer")]

use std::hint::black_box;
use std::mem::MaybeUninit;

/// Reads a heap byte before or after it is freed.
fn freed(before: bool) -> u8 {
    let bytes = Box::into_raw(Box::new([7_u8; 64]));
    let first: *const u8 = black_box(bytes.cast());
    // SAFETY: `first` points into a live box if `before` is true. Otherwise the read is invalid on
    // purpose.
    unsafe {
        let found = before.then(|| *first);
        drop(Box::from_raw(bytes));
        found.unwrap_or_else(|| *first)
    }
}

/// Reads an initialised or an uninitialised byte.
fn unwritten(written: bool) -> u8 {
    let mut byte = MaybeUninit::new(7_u8);
    if !written {
        byte = MaybeUninit::uninit();
    }
    // SAFETY: the byte is initialised if `written` is true. Otherwise the read is invalid on
    // purpose.
    unsafe { byte.assume_init() }
}

#[test]
fn valid_accesses_are_not_reported() {
    assert_eq!((freed(true), unwritten(true)), (7, 7));
}

#[test]
#[ignore = "wrong on purpose: for AddressSanitizer and Miri"]
fn canary_reads_a_freed_byte() {
    black_box(freed(false));
}

#[test]
#[ignore = "wrong on purpose: for Miri"]
fn canary_reads_an_uninitialised_byte() {
    black_box(unwritten(false));
}
