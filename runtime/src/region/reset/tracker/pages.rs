//! [`Ledger`]: records, for each slot of a region, which pages of its memory are writable.
//!
//! ```text
//!   one reservation:  │ slot 0                              │ slot 1 ...
//!   each slot:        │ PageCounters │ one bit per page │ list │ unused │
//! ```
//!
//! All bytes are zero at first. The kernel commits a page of the ledger at the first write to the
//! page. So a slot without memory costs nothing, and a slot with a small memory costs one page.
//!
//! # Safety
//!
//! Owns the reservation and its layout. The reservation holds only atomics, for which all bit
//! patterns are valid.
#![allow(unsafe_code)]

use crate::module::Inner;
use crate::region::reset::memory0::{PAGE, PUT_BACK_MAX};
use crate::sys::memory::{Access, Reservation};
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::io;

/// Maximum number of dirty pages that a slot lists. If an instance writes to more pages, the reset
/// returns the instance's whole memory to the system.
pub(super) const DIRTY_MAX: u32 = PUT_BACK_MAX as u32;

/// Page counters of one slot. Only the current user of the slot changes them: its instance, the
/// host (perhaps on several threads) while it accesses the memory, and finally the reset. All
/// accesses are relaxed: the hand-over of a slot between threads orders them.
#[derive(Debug)]
#[repr(C)]
pub(super) struct PageCounters {
    /// Current size of memory 0. Pages beyond this size are not filled. The size is 0 while the
    /// slot is not tracked.
    pub(super) bytes: AtomicUsize,
    /// End of the part over which the image is mapped. Within this part only writes fault.
    pub(super) mapped: AtomicUsize,
    /// The module whose image fills the pages. Valid while an instance of the module has the slot.
    pub(super) module: AtomicPtr<Inner>,
    /// Number of pages that were filled and have not returned to the system.
    pub(super) filled: AtomicU32,
    /// Number of writable pages. Pages beyond [`DIRTY_MAX`] are counted, but are not on the list.
    pub(super) listed: AtomicU32,
    /// Number of pages that the latest reset left on the list.
    pub(super) kept: AtomicU32,
    /// Number of resets in a row that must find a page unchanged before the page returns to the
    /// system.
    pub(super) hysteresis: AtomicU32,
    /// Number of pages that last returned to the system because they were unchanged, and the number
    /// of resets since then.
    pub(super) given_back: AtomicU32,
    pub(super) since: AtomicU32,
    /// Number of faults in a row that found the page present, and listed if the fault was a write.
    pub(super) repeats: AtomicU32,
    /// Whether a page beyond the initial memory was filled.
    pub(super) grown: AtomicU32,
}

/// A page on the list.
#[derive(Debug)]
#[repr(C)]
pub(super) struct DirtyPage {
    /// Page number. From bit [`IDLE_SHIFT`] on: number of resets in a row that found the page
    /// unchanged.
    page: AtomicU32,
    /// Page of the image that restores this page, counted from 1, or 0 for zeros.
    source: AtomicU32,
}

/// A page number fits below this bit: 2^20 pages of 4 KiB are 4 GiB.
const IDLE_SHIFT: u32 = 24;

impl DirtyPage {
    /// Returns the page number, the number of resets that found the page unchanged, and the source.
    pub(super) fn get(&self) -> (u32, u32, u32) {
        let page = self.page.load(Ordering::Relaxed);
        let source = self.source.load(Ordering::Relaxed);
        (page & ((1 << IDLE_SHIFT) - 1), page >> IDLE_SHIFT, source)
    }

    pub(super) fn set(&self, page: u32, idle: u32, source: u32) {
        self.page
            .store(page | idle << IDLE_SHIFT, Ordering::Relaxed);
        self.source.store(source, Ordering::Relaxed);
    }
}

/// The pages of all slots.
#[derive(Debug)]
pub(super) struct Ledger {
    memory: Reservation,
    /// Bytes from one slot's record to the next.
    stride: usize,
    /// Number of bitmap words of each slot.
    words: usize,
}

/// The page record of one slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotPages<'a> {
    pub(super) pages: &'a PageCounters,
    /// One bit per page: whether the page is listed or counted.
    written: &'a [AtomicU64],
    pub(super) list: &'a [DirtyPage],
}

impl Ledger {
    /// Creates a ledger for `slots` memories of at most `memory_bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// The error of mmap(2) or mprotect(2).
    pub(super) fn new(slots: usize, memory_bytes_max: usize) -> io::Result<Self> {
        let words = memory_bytes_max.div_ceil(PAGE * 64);
        let bytes =
            size_of::<PageCounters>() + words * 8 + DIRTY_MAX as usize * size_of::<DirtyPage>();
        let stride = bytes.next_multiple_of(crate::sys::page_bytes());
        let memory = Reservation::new(slots * stride)?;
        // SAFETY: the reservation was just created, and no other code knows its address.
        unsafe { memory.protect(memory.range(), Access::ReadWrite)? };
        Ok(Self {
            memory,
            stride,
            words,
        })
    }

    /// Returns the record of a slot, or `None` if there is no such slot.
    pub(super) fn account(&self, index: usize) -> Option<SlotPages<'_>> {
        let range = self.memory.range();
        let start = range.start + index.checked_mul(self.stride)?;
        if start >= range.end {
            return None;
        }
        let bits = start + size_of::<PageCounters>();
        let list = bits + self.words * 8;
        // SAFETY: `new` reserved `stride` bytes for each slot, with the three parts one after
        // another. The size of each part is a multiple of 8 bytes, so each part is aligned.
        unsafe {
            Some(SlotPages {
                pages: &*(start as *const PageCounters),
                written: slice::from_raw_parts(bits as *const AtomicU64, self.words),
                list: slice::from_raw_parts(list as *const DirtyPage, DIRTY_MAX as usize),
            })
        }
    }
}

impl SlotPages<'_> {
    /// Lists a page that becomes writable. Returns whether the page was not listed before.
    pub(super) fn list(&self, page: u32, source: u32) -> bool {
        let bit = 1 << (page % 64);
        let word = &self.written[page as usize / 64];
        if word.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return false;
        }
        let at = self.pages.listed.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = self.list.get(at as usize) {
            place.set(page, 0, source);
        }
        true
    }

    /// Adds to the number of filled pages.
    pub(super) fn note_filled(&self, pages: u32) {
        self.pages.filled.fetch_add(pages, Ordering::Relaxed);
    }

    /// Whether a page is listed or counted, and thus present and writable.
    pub(super) fn is_dirty(&self, page: u32) -> bool {
        let word = self.written[page as usize / 64].load(Ordering::Relaxed);
        word & 1 << (page % 64) != 0
    }

    /// Records that a page is no longer on the list.
    pub(super) fn clear(&self, page: u32) {
        let word = &self.written[page as usize / 64];
        // No other thread uses the slot, so a load and a store are enough.
        let others = word.load(Ordering::Relaxed) & !(1 << (page % 64));
        word.store(others, Ordering::Relaxed);
    }

    /// Records that all pages returned to the system.
    pub(super) fn clear_all(&self) {
        let listed = self.pages.listed.swap(0, Ordering::Relaxed) as usize;
        if listed <= self.list.len() {
            for listed in &self.list[..listed] {
                self.clear(listed.get().0);
            }
        } else {
            for word in self.written {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.pages.kept.store(0, Ordering::Relaxed);
        self.pages.filled.store(0, Ordering::Relaxed);
        self.pages.grown.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_once_and_what_is_too_much_is_counted() {
        let pages = DIRTY_MAX + 100;
        let ledger = Ledger::new(2, pages as usize * PAGE).unwrap();
        assert!(ledger.account(2).is_none());
        let (one, other) = (ledger.account(0).unwrap(), ledger.account(1).unwrap());
        for round in 0..2 {
            for page in 0..pages {
                assert!(one.list(page, page + 1));
                assert!(!one.list(page, 0));
            }
            assert_eq!(one.pages.listed.load(Ordering::Relaxed), pages);
            assert_eq!(one.list[7].get(), (7, 0, 8), "round {round}");
            one.clear_all();
        }
        one.list(5, 1);
        one.list(6, 2);
        one.list[0].set(5, 250, 1);
        assert_eq!(one.list[0].get(), (5, 250, 1));
        one.clear_all();
        one.list(6, 3);
        assert_eq!(one.pages.listed.load(Ordering::Relaxed), 1);
        assert_eq!(one.list[0].get(), (6, 0, 3));
        assert_eq!(other.pages.listed.load(Ordering::Relaxed), 0);
        assert!(
            other
                .written
                .iter()
                .all(|word| word.load(Ordering::Relaxed) == 0)
        );
    }
}
