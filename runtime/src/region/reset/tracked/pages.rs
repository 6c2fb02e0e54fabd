//! [`Ledger`]: for each slot of a region, which pages of its memory can be written to.
//!
//! ```text
//!   one reservation:  │ slot 0                              │ slot 1 ...
//!   each slot:        │ Pages │ a bit a page │ list │ unused │
//! ```
//!
//! All of it is zero at first, and is committed by the kernel where it is first used: a slot without
//! memory costs nothing, and one with a small memory a page.
//!
//! # Safety
//!
//! Owns the reservation and its layout: all of it is atomics, for which any bytes are valid.
#![allow(unsafe_code)]

use super::{LISTED_MAX, PAGE};
use crate::module::Inner;
use crate::sys::memory::{Access, Reservation};
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::io;

/// The pages of one slot. Only who has the slot changes them: its instance, the host while it looks at
/// the memory, maybe from several threads at once, and in the end the reset. So nothing here orders
/// anything: what hands a slot from thread to thread does.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Pages {
    /// Current size of memory 0: what lies beyond is not filled. 0 while the slot is kept another way.
    pub(super) bytes: AtomicUsize,
    /// The module whose image pages are filled from. Valid while an instance of it has the slot.
    pub(super) module: AtomicPtr<Inner>,
    /// Pages that were filled and not given back.
    pub(super) filled: AtomicU32,
    /// Pages that can be written to. Those beyond [`LISTED_MAX`] are counted, and not on the list.
    pub(super) listed: AtomicU32,
    /// How many of those the latest reset left on the list.
    pub(super) kept: AtomicU32,
    /// Resets in a row that must find a page unchanged before it is given back.
    pub(super) patience: AtomicU32,
    /// Pages that were given back for being unchanged, and how many resets ago.
    pub(super) given_back: AtomicU32,
    pub(super) since: AtomicU32,
    /// Times in a row that a page which was touched was as it ought to be.
    pub(super) repeats: AtomicU32,
    /// Whether any of the filled pages lies, or lay, behind the initial memory.
    pub(super) grown: AtomicU32,
}

/// A page on the list.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Listed {
    /// Its number, and from bit [`IDLE_SHIFT`] on how many resets in a row found it unchanged.
    page: AtomicU32,
    /// Which page of the image it is put back to, counted from 1; 0 for zeros.
    source: AtomicU32,
}

/// 2^20 pages of 4 KiB are 4 GiB.
const IDLE_SHIFT: u32 = 24;

impl Listed {
    /// Page, resets that found it unchanged, source.
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
    /// Bytes from slot to slot.
    stride: usize,
    /// Words of bits of each slot.
    words: usize,
}

/// What is known of the pages of one slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account<'a> {
    pub(super) pages: &'a Pages,
    /// A bit a page: whether it is listed, or counted.
    written: &'a [AtomicU64],
    pub(super) list: &'a [Listed],
}

impl Ledger {
    /// For so many slots of memories of up to so many bytes.
    ///
    /// # Errors
    ///
    /// What mmap(2) and mprotect(2) give.
    pub(super) fn new(slots: usize, memory_bytes_max: usize) -> io::Result<Self> {
        let words = memory_bytes_max.div_ceil(PAGE * 64);
        let bytes = size_of::<Pages>() + words * 8 + LISTED_MAX as usize * size_of::<Listed>();
        let stride = bytes.next_multiple_of(crate::sys::page_bytes());
        let memory = Reservation::new(slots * stride)?;
        // SAFETY: a reservation of our own, which nobody else knows.
        unsafe { memory.protect(memory.range(), Access::ReadWrite)? };
        Ok(Self {
            memory,
            stride,
            words,
        })
    }

    /// The pages of a slot, if there is such a slot.
    pub(super) fn account(&self, index: usize) -> Option<Account<'_>> {
        let range = self.memory.range();
        let start = range.start + index.checked_mul(self.stride)?;
        if start >= range.end {
            return None;
        }
        let bits = start + size_of::<Pages>();
        let list = bits + self.words * 8;
        // SAFETY: `new` reserved a stride for each slot, in which the three parts lie behind each other,
        // aligned to 8 bytes because each is a multiple of that.
        unsafe {
            Some(Account {
                pages: &*(start as *const Pages),
                written: slice::from_raw_parts(bits as *const AtomicU64, self.words),
                list: slice::from_raw_parts(list as *const Listed, LISTED_MAX as usize),
            })
        }
    }
}

impl Account<'_> {
    /// Lists a page that can be written to from now on, unless it is listed; tells whether it was not.
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

    /// Counts pages that were filled.
    pub(super) fn note_filled(&self, pages: u32) {
        self.pages.filled.fetch_add(pages, Ordering::Relaxed);
    }

    /// Whether a page is listed, or counted: it is present, and can be written to.
    pub(super) fn is_listed(&self, page: u32) -> bool {
        let word = self.written[page as usize / 64].load(Ordering::Relaxed);
        word & 1 << (page % 64) != 0
    }

    /// Says that a page is not on the list any more.
    pub(super) fn clear(&self, page: u32) {
        let word = &self.written[page as usize / 64];
        // Nobody else has the slot.
        let others = word.load(Ordering::Relaxed) & !(1 << (page % 64));
        word.store(others, Ordering::Relaxed);
    }

    /// Says that all pages were given back.
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
        let pages = LISTED_MAX + 100;
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
