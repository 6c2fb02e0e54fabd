//! Populates guest memory before the runtime reads or writes it.
//!
//! If the kernel cannot provide a page of tracked memory, touching the page raises SIGBUS. The
//! runtime therefore touches each page of a range first, with routines that return an error on
//! SIGBUS ([`crate::switch::arch::touch`]). Only if a touch fails, the runtime populates pages,
//! many pages with one ioctl. A page that is present costs one access, and on aarch64 two for
//! writing. The functions for single numbers load and store with these routines directly.
//!
//! # Safety
//!
//! Owns this invariant: a populated page can be read, or written, without SIGBUS as long as the
//! caller borrows the instance. Only a reset returns pages to the system.
#![allow(unsafe_code)]

use crate::region::reset::tracker;
use crate::signals::page_fault::Touched;
use crate::switch::arch::touch::{FAILED, dirty, load, load_u32, load_u64, store_u32, store_u64};
use pirn_format::exit::TrapCode;

/// Bytes between two touches: the smallest page of any kernel for our targets.
const STEP: usize = 4096;
/// Number of bytes that are populated at a time after a failed touch.
const BATCH: usize = 64 << 10;
/// Maximum number of times in a row that a touch may fail after the page was populated. A page that
/// the kernel cannot read back from swap always fails.
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
    // SAFETY: the caller ensures that the range lies in the memory of an instance that it borrows.
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
/// The range must lie in the memory of an instance that the caller borrows. No other thread may
/// write to the memory during the call.
#[inline]
pub(crate) unsafe fn writable(start: *mut u8, len: usize) -> Result<(), TrapCode> {
    // SAFETY: the caller ensures that the range lies in the memory of an instance that it borrows,
    // and that no other thread writes to it.
    unsafe { each(start, len, true) }
}

/// Defines functions that load and store one type of number, with one access if the pages are
/// present.
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
        /// The bytes of the number must lie in the memory of an instance that the caller borrows.
        #[inline]
        pub(crate) unsafe fn $load(at: *const u8) -> Result<$number, TrapCode> {
            #[cold]
            #[inline(never)]
            unsafe fn populated(at: *const u8) -> Result<$number, TrapCode> {
                // SAFETY: the bytes lie in the memory of an instance that the caller borrows.
                // `readable` makes them readable.
                unsafe {
                    readable(at, size_of::<$number>())?;
                    Ok(at.cast::<$number>().read_unaligned())
                }
            }
            // SAFETY: the bytes lie in the memory of an instance that the caller borrows.
            let loaded = unsafe { $load_by(at) };
            let number = match loaded.failed {
                0 => loaded.number as $number,
                // SAFETY: the bytes lie in the memory of an instance that the caller borrows.
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
        /// The bytes of the number must lie in the memory of an instance that the caller borrows.
        /// No other thread may write to the memory during the call.
        #[inline]
        pub(crate) unsafe fn $store(at: *mut u8, number: $number) -> Result<(), TrapCode> {
            #[cold]
            #[inline(never)]
            unsafe fn populated(at: *mut u8, number: $number) -> Result<(), TrapCode> {
                // SAFETY: the bytes lie in the memory of an instance that the caller borrows, and
                // no other thread writes to them. `writable` makes them writable.
                unsafe {
                    writable(at, size_of::<$number>())?;
                    at.cast::<$number>().write_unaligned(number);
                }
                Ok(())
            }
            let number = number.to_le();
            // SAFETY: the bytes lie in the memory of an instance that the caller borrows, and no
            // other thread writes to them.
            match unsafe { $store_by(at, number) } {
                // SAFETY: the caller ensures that the bytes lie in the memory of an instance that
                // it borrows, and that no other thread writes.
                FAILED => unsafe { populated(at, number) },
                _ => Ok(()),
            }
        }
    };
}

numbers!(u32, number_u32 by load_u32, put_u32 by store_u32);
numbers!(u64, number_u64 by load_u64, put_u64 by store_u64);

/// Touches all pages of a range, and populates the missing pages.
///
/// # Safety
///
/// The range must lie in the memory of an instance that the caller borrows. If `write` is set, no
/// other thread may write to the memory during the call.
#[inline]
unsafe fn each(start: *mut u8, len: usize, write: bool) -> Result<(), TrapCode> {
    let mut offset = 0;
    while offset < len {
        let at = start.wrapping_add(offset);
        // SAFETY: `at` is a byte of the range, for which the caller ensures what `touch` requires.
        if !unsafe { touch(at, write) } {
            // SAFETY: `at` begins the rest of the range, for which the caller ensures what `fill`
            // requires.
            unsafe { fill(at, len - offset, write)? };
        }
        offset += STEP - at as usize % STEP;
    }
    Ok(())
}

/// Touches a byte, and returns whether its page was present.
///
/// # Safety
///
/// The byte must lie in the memory of an instance that the caller borrows. If `write` is set, no
/// other thread may write to the memory during the call.
#[inline]
unsafe fn touch(at: *mut u8, write: bool) -> bool {
    // SAFETY: the byte lies in the memory of an instance that the caller borrows. `dirty` keeps the
    // byte's value, and no other thread writes meanwhile.
    let touched = unsafe {
        match write {
            true => dirty(at),
            false => load(at),
        }
    };
    touched != FAILED
}

/// Populates the first pages of a range, after a touch of the first page failed.
///
/// # Safety
///
/// The range must lie in the memory of an instance that the caller borrows. If `write` is set, no
/// other thread may write to the memory during the call.
#[cold]
unsafe fn fill(at: *mut u8, len: usize, write: bool) -> Result<(), TrapCode> {
    let start = at as usize;
    for _ in 0..FAILURES_MAX {
        // SAFETY: the range lies in the memory of an instance that the caller borrows.
        let touched = unsafe { tracker::populate_range(start..start + len.min(BATCH), write) };
        if touched != Touched::There {
            break;
        }
        // SAFETY: `at` is the first byte of the range, for which the caller ensures what `touch`
        // requires.
        if unsafe { touch(at, write) } {
            return Ok(());
        }
    }
    Err(TrapCode::MemoryExhausted)
}
