//! [`Lines`]: a page is put back by storing only the cache lines that differ.
//!
//! A guest changes few lines of a page that it writes to. Comparing reads both pages, which the
//! processor does faster than it stores, and a line that is not stored stays clean in the cache. What
//! the processor has is found out once, when a region is made.
//!
//! # Safety
//!
//! Owns the fact that a routine for an instruction set is only handed out where the processor has it.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::PAGE;
use core::fmt;
use core::ptr;

/// Bytes that are compared at a time, and stored if they differ.
const LINE: usize = 64;

/// Makes a page equal to another, and tells whether it was not. Both are of [`PAGE`] bytes and lie
/// apart; the first is writable and aligned to [`LINE`]. The other is not looked at by a routine whose
/// parameter says that it is of zeros.
type PutBack = unsafe fn(page: *mut u8, initial: *const u8) -> bool;

/// The routines for this processor.
#[derive(Clone, Copy)]
pub(in crate::region) struct Lines {
    name: &'static str,
    restore: PutBack,
    /// The same with a page of zeros.
    clear: PutBack,
}

impl Lines {
    /// The fastest that this processor has.
    pub(super) fn detect() -> Self {
        *Self::all().first().unwrap_or(&PORTABLE)
    }

    /// All that this processor has, the fastest first.
    fn all() -> Vec<Self> {
        let mut all = vec![];
        #[cfg(target_arch = "x86_64")]
        x86_64::add(&mut all);
        #[cfg(target_arch = "aarch64")]
        aarch64::add(&mut all);
        all.push(PORTABLE);
        all
    }

    /// Makes a page equal to `initial`, or zero if there is none, and tells whether it was not.
    ///
    /// # Safety
    ///
    /// `page` must be the address of [`PAGE`] writable bytes, aligned to [`LINE`], which nobody else
    /// uses meanwhile.
    #[inline]
    pub(super) unsafe fn restore(&self, page: *mut u8, initial: Option<&[u8]>) -> bool {
        match initial {
            Some(initial) => {
                debug_assert_eq!(initial.len(), PAGE);
                // SAFETY: the caller's promise; `initial` is a page by the image's format and lies in
                // a mapped file, apart from all slots.
                unsafe { (self.restore)(page, initial.as_ptr()) }
            }
            // SAFETY: the caller's promise.
            None => unsafe { (self.clear)(page, ptr::null()) },
        }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({})", self.name)
    }
}

const PORTABLE: Lines = Lines {
    name: "portable",
    restore: put_back::<false>,
    clear: put_back::<true>,
};

/// A line, as the processor reads it without instructions of its own for that.
type Words = [u64; LINE / 8];

/// # Safety
///
/// As for [`PutBack`].
unsafe fn put_back<const ZEROS: bool>(page: *mut u8, initial: *const u8) -> bool {
    let mut changed = false;
    for at in (0..PAGE).step_by(LINE) {
        // SAFETY: lines of both pages.
        unsafe {
            let line = page.add(at).cast::<Words>();
            let wanted = if ZEROS {
                [0; LINE / 8]
            } else {
                ptr::read_unaligned(initial.add(at).cast::<Words>())
            };
            if *line != wanted {
                line.write(wanted);
                changed = true;
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[repr(align(64))]
    struct Page([u8; PAGE]);

    proptest! {
        #[test]
        fn every_routine_puts_back_every_byte(
            initial in proptest::collection::vec(any::<u8>(), PAGE + 1),
            offset in 0..=1_usize,
            changes in proptest::collection::vec((0..PAGE, any::<u8>()), 0..20),
        ) {
            let initial = &initial[offset..offset + PAGE];
            for lines in Lines::all() {
                for initial in [Some(initial), None] {
                    let wanted = initial.unwrap_or(&[0; PAGE]);
                    let mut page = Page([0; PAGE]);
                    page.0.copy_from_slice(wanted);
                    for (at, value) in &changes {
                        page.0[*at] = *value;
                    }
                    let differs = page.0 != wanted;
                    // SAFETY: a page of this test's own.
                    let changed = unsafe { lines.restore(page.0.as_mut_ptr(), initial) };
                    prop_assert_eq!(changed, differs, "{:?}", lines);
                    prop_assert!(page.0 == wanted, "{:?}", lines);
                }
            }
        }
    }

    #[test]
    fn one_byte_anywhere_is_found() {
        for lines in Lines::all() {
            for at in 0..PAGE {
                let mut page = Page([0; PAGE]);
                page.0[at] = 1;
                // SAFETY: a page of this test's own.
                let changed = unsafe { lines.restore(page.0.as_mut_ptr(), None) };
                assert!(changed && page.0 == [0; PAGE], "{lines:?}, byte {at}");
                page.0[at] = 1;
                // SAFETY: as above.
                let changed = unsafe { lines.restore(page.0.as_mut_ptr(), Some(&[0; PAGE])) };
                assert!(changed && page.0 == [0; PAGE], "{lines:?}, byte {at}");
            }
        }
    }
}
