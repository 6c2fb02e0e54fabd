//! Populating guest memory before the runtime reads or writes it.
//!
//! A page of tracked memory that the kernel refuses raises SIGBUS when it is touched. The runtime
//! therefore touches each page of a range first, by routines whose SIGBUS is an answer
//! ([`crate::switch::arch::touch`]). Only if a touch fails are pages filled, many by one ioctl. Pages
//! that are present cost a load each, and for writing a store each. Numbers are loaded and stored by
//! such routines directly.
//!
//! # Safety
//!
//! Owns the fact that a populated page can be read, or written, without SIGBUS as long as the caller
//! borrows the instance: only a reset gives pages back.
#![allow(unsafe_code)]

use super::tracked::{self, Touched};
use crate::switch::arch::touch::{FAILED, load, load_u32, load_u64, store, store_u32, store_u64};
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

/// Routines for the numbers of one type: one access where the pages are present.
macro_rules! numbers {
    ($number:ty, $load:ident by $load_by:ident, $store:ident by $store_by:ident) => {
        /// Loads a little-endian number, which need not be aligned, and populates its pages first
        /// where they are missing.
        ///
        /// # Errors
        ///
        /// As [`readable`].
        ///
        /// # Safety
        ///
        /// As [`readable`], for the bytes of the number.
        #[inline]
        pub(crate) unsafe fn $load(at: *const u8) -> Result<$number, TrapCode> {
            #[cold]
            #[inline(never)]
            unsafe fn populated(at: *const u8) -> Result<$number, TrapCode> {
                // SAFETY: the caller's promise; then the bytes can be read.
                unsafe {
                    readable(at, size_of::<$number>())?;
                    Ok(at.cast::<$number>().read_unaligned())
                }
            }
            // SAFETY: the caller's promise: the bytes are in an instance's memory.
            let loaded = unsafe { $load_by(at) };
            let number = match loaded.failed {
                0 => loaded.number as $number,
                // SAFETY: the caller's promise.
                _ => unsafe { populated(at)? },
            };
            Ok(<$number>::from_le(number))
        }

        /// Stores a little-endian number, which need not be aligned, and populates its pages first
        /// where they are missing.
        ///
        /// # Errors
        ///
        /// As [`readable`].
        ///
        /// # Safety
        ///
        /// As [`writable`], for the bytes of the number.
        #[inline]
        pub(crate) unsafe fn $store(at: *mut u8, number: $number) -> Result<(), TrapCode> {
            #[cold]
            #[inline(never)]
            unsafe fn populated(at: *mut u8, number: $number) -> Result<(), TrapCode> {
                // SAFETY: the caller's promise; then the bytes can be written.
                unsafe {
                    writable(at, size_of::<$number>())?;
                    at.cast::<$number>().write_unaligned(number);
                }
                Ok(())
            }
            let number = number.to_le();
            // SAFETY: the caller's promise: the bytes are in an instance's memory.
            match unsafe { $store_by(at, number) } {
                // SAFETY: the caller's promise.
                FAILED => unsafe { populated(at, number) },
                _ => Ok(()),
            }
        }
    };
}

numbers!(u32, number_u32 by load_u32, put_u32 by store_u32);
numbers!(u64, number_u64 by load_u64, put_u64 by store_u64);

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
