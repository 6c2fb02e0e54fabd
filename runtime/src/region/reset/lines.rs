//! [`Lines`]: restores a page, and stores only the cache lines that differ.
//!
//! A guest changes few lines of a page that it writes to. A comparison reads the page and its
//! initial contents. The processor reads faster than it stores, and a line without a store stays
//! clean in the cache. The instruction set of the processor is detected once, when a region is
//! built.
//!
//! # Safety
//!
//! Owns this invariant: [`Lines`] holds a routine only if the processor has its instruction set.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod routine;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use super::memory0::PAGE;
use core::fmt;
use core::ptr;
use routine::LINE;
pub(in crate::region) use routine::Lines;

impl Lines {
    /// The fastest routines that this processor can run.
    pub(super) fn detect() -> Self {
        *Self::all().first().unwrap_or(&PORTABLE)
    }

    /// All routines that this processor can run, the fastest first.
    fn all() -> Vec<Self> {
        let mut all = vec![];
        #[cfg(target_arch = "x86_64")]
        x86_64::add(&mut all);
        #[cfg(target_arch = "aarch64")]
        aarch64::add(&mut all);
        all.push(PORTABLE);
        all
    }

    /// Makes a page equal to `initial`, or zero if `initial` is `None`. Returns whether the page
    /// differed.
    ///
    /// # Safety
    ///
    /// `page` must be the address of [`PAGE`] writable bytes, aligned to [`LINE`]. No other thread
    /// may use these bytes during the call.
    #[inline]
    pub(super) unsafe fn restore(&self, page: *mut u8, initial: Option<&[u8]>) -> bool {
        match initial {
            Some(initial) => {
                debug_assert_eq!(initial.len(), PAGE);
                // SAFETY: the caller ensures the conditions for `page`. The image's format makes
                // `initial` a whole page. The image lies in a mapped file, so it does not overlap a
                // slot.
                unsafe { (self.restore)(page, initial.as_ptr()) }
            }
            // SAFETY: the caller ensures the conditions for `page`. `clear` does not read the null
            // pointer.
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

/// A line as integers, for processors without suitable vector instructions.
type Words = [u64; LINE / 8];

/// Portable routine, see [`PutBack`](routine::PutBack).
///
/// # Safety
///
/// The conditions of [`PutBack`](routine::PutBack) must hold.
unsafe fn put_back<const ZEROS: bool>(page: *mut u8, initial: *const u8) -> bool {
    let mut changed = false;
    for at in (0..PAGE).step_by(LINE) {
        // SAFETY: `at` is the offset of a line in both pages, for which the caller ensures the
        // conditions of `PutBack`.
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

    // The routines under test store whole aligned lines. The alignment is no padding against false
    // sharing.
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
                    // SAFETY: the page is a local variable of this test.
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
                // SAFETY: the page is a local variable of this test.
                let changed = unsafe { lines.restore(page.0.as_mut_ptr(), None) };
                assert!(changed && page.0 == [0; PAGE], "{lines:?}, byte {at}");
                page.0[at] = 1;
                // SAFETY: the page is a local variable of this test.
                let changed = unsafe { lines.restore(page.0.as_mut_ptr(), Some(&[0; PAGE])) };
                assert!(changed && page.0 == [0; PAGE], "{lines:?}, byte {at}");
            }
        }
    }
}
