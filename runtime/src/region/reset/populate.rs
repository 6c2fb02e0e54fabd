//! Populating guest memory before the runtime reads or writes it.
//!
//! A page of tracked memory that the kernel refuses raises SIGBUS when it is touched. The runtime
//! therefore touches each page of a range first, by routines whose SIGBUS is an answer
//! ([`crate::switch::arch::touch`]). Only if a touch fails are pages filled, many by one ioctl. Pages
//! that are present cost a load each, and for writing a store each.
//!
//! # Safety
//!
//! Owns the fact that a populated page can be read, or written, without SIGBUS as long as the caller
//! borrows the instance: only a reset gives pages back.
#![allow(unsafe_code)]

use super::tracked::{self, Touched};
use crate::switch::arch::touch::{FAILED, load, store};
use pirn_format::exit::TrapCode;

/// Bytes between two touches: the smallest page of any kernel for our targets.
const STEP: usize = 4096;
/// Bytes that are populated at a time after a touch that failed.
const BATCH: usize = 64 << 10;
/// Times in a row that a page may fail after it was populated. A page that cannot be read back from
/// swap always fails.
const FAILURES_MAX: u32 = 100;

/// Makes all pages of a range readable.
///
/// # Errors
///
/// [`TrapCode::MemoryExhausted`] if the kernel has no memory for a page.
///
/// # Safety
///
/// The range must lie in the memory of an instance that the caller borrows.
#[inline]
pub(crate) unsafe fn readable(start: *const u8, len: usize) -> Result<(), TrapCode> {
    // SAFETY: the caller's promise.
    unsafe { each(start.cast_mut(), len, false) }
}

/// Makes all pages of a range writable, and lists them as dirty.
///
/// # Errors
///
/// As [`readable`].
///
/// # Safety
///
/// As [`readable`], and no other thread may write to the memory meanwhile.
#[inline]
pub(crate) unsafe fn writable(start: *mut u8, len: usize) -> Result<(), TrapCode> {
    // SAFETY: the caller's promise.
    unsafe { each(start, len, true) }
}

/// # Safety
///
/// As [`readable`] and [`writable`].
#[inline]
unsafe fn each(start: *mut u8, len: usize, write: bool) -> Result<(), TrapCode> {
    let mut offset = 0;
    while offset < len {
        let at = start.wrapping_add(offset);
        // SAFETY: a byte of the range.
        if !unsafe { touch(at, write) } {
            // SAFETY: the rest of the range.
            unsafe { fill(at, len - offset, write)? };
        }
        offset += STEP - at as usize % STEP;
    }
    Ok(())
}

/// Touches a byte, and tells whether its page was present.
///
/// # Safety
///
/// As [`each`], for the byte.
#[inline]
unsafe fn touch(at: *mut u8, write: bool) -> bool {
    // SAFETY: the caller's promise. The byte is stored as it was loaded, and no other thread writes.
    unsafe {
        let byte = load(at);
        byte != FAILED && !(write && store(at, byte) == FAILED)
    }
}

/// Populates the first pages of a range after a touch of the first failed.
///
/// # Safety
///
/// As [`each`].
#[cold]
unsafe fn fill(at: *mut u8, len: usize, write: bool) -> Result<(), TrapCode> {
    let start = at as usize;
    for _ in 0..FAILURES_MAX {
        // SAFETY: the caller's promise.
        let touched = unsafe { tracked::populate_range(start..start + len.min(BATCH), write) };
        if touched != Touched::There {
            break;
        }
        // SAFETY: as above.
        if unsafe { touch(at, write) } {
            return Ok(());
        }
    }
    Err(TrapCode::MemoryExhausted)
}
