//! [`Bulk`]: a write of a builtin to a memory, a table or an array, in chunks.
//!
//! After each chunk the runtime checks the interrupt flag. If the call was stopped, the bytes that
//! are already written stay. If only the time slice has ended, the instance keeps the rest of the
//! write. The next step of the call completes the write before it enters the guest again.
//!
//! # Safety
//!
//! This file owns one fact. The ranges of a [`Bulk`] stay mapped until the write has ended. Bounds
//! are checked before the [`Bulk`] is made. No memory, table or array that a guest can reach
//! shrinks or moves, and the guest does not run.
#![allow(unsafe_code)]

use pirn_format::layout::TableDesc;

/// Bytes that are written between two checks of the interrupt flag: 16 pages, which may cause 16
/// page faults.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// The source of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// Bytes at this address, which may overlap the destination.
    Bytes(*const u8),
    /// One byte, repeated.
    Byte(u8),
    /// One word, repeated.
    Word(u64),
    /// References of an element segment, from a position on. The segment may have been dropped.
    Elements(u32, u64),
    /// The first bytes of the destination, which are already written and are repeated.
    Repeated,
}

/// A bulk write of a builtin. Other files cannot change its ranges.
#[derive(Debug)]
pub(crate) struct Bulk {
    write: Write,
    /// Number of bytes that are written.
    done: usize,
}

/// The destination and the source of a [`Bulk`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) to: *mut u8,
    pub(crate) bytes: usize,
    pub(crate) source: Source,
    /// Whether the pages of the destination, and the pages of the source, are populated first.
    pub(crate) populates: [bool; 2],
    /// The table that grows, and the number of elements that it has once the write is complete.
    pub(crate) grows: Option<(*mut TableDesc, u64)>,
}

// SAFETY: the addresses belong to the instance that holds the write, and the write moves between
// threads together with the instance.
unsafe impl Send for Bulk {}
// SAFETY: no method uses the addresses through a shared reference.
unsafe impl Sync for Bulk {}

impl Bulk {
    fn new(to: *mut u8, bytes: usize, source: Source) -> Self {
        Self {
            write: Write {
                to,
                bytes,
                source,
                populates: [false; 2],
                grows: None,
            },
            done: 0,
        }
    }

    /// Copies bytes. The ranges may overlap.
    ///
    /// # Safety
    ///
    /// (All constructors.) The ranges must belong to memories, tables, arrays or the module of the
    /// instance that keeps the write, or of its group. The ranges must stay valid until the write
    /// has ended.
    pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Self {
        Self::new(to, bytes, Source::Bytes(from))
    }

    /// Fills the range with one byte.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    pub(crate) unsafe fn fill(to: *mut u8, byte: u8, bytes: usize) -> Self {
        Self::new(to, bytes, Source::Byte(byte))
    }

    /// Fills the range with one word.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy). The range must be aligned.
    pub(crate) unsafe fn words(to: *mut u64, word: u64, words: usize) -> Self {
        Self::new(to.cast(), words * 8, Source::Word(word))
    }

    /// Writes `len` references of an element segment, from `from` on. The segment must have these
    /// references.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy). The range must be aligned.
    pub(crate) unsafe fn elements(to: *mut u64, segment: u32, from: u64, len: u64) -> Self {
        Self::new(to.cast(), len as usize * 8, Source::Elements(segment, from))
    }

    /// Repeats the first `first` bytes of a range. `first` must be a power of two, at most 16.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    pub(crate) unsafe fn repeat(to: *mut u8, first: usize, bytes: usize) -> Self {
        let mut bulk = Self::new(to, bytes, Source::Repeated);
        bulk.done = first;
        bulk
    }

    /// Populates the pages of the destination, and of the source, before the write accesses them.
    pub(crate) fn populating(mut self, to: bool, from: bool) -> Self {
        self.write.populates = [to, from];
        self
    }

    /// Sets the size of a table once the write is complete.
    ///
    /// # Safety
    ///
    /// The descriptor must belong to a table of the instance that keeps the write, or of its group.
    /// The table must have room for the elements, and the write must fill the new elements.
    pub(crate) unsafe fn growing(mut self, table: *mut TableDesc, elements: u64) -> Self {
        self.write.grows = Some((table, elements));
        self
    }

    /// The write, and the number of bytes that are already written.
    #[inline]
    pub(crate) fn progress(&self) -> (Write, usize) {
        (self.write, self.done)
    }

    /// Adds to the number of bytes that are written.
    ///
    /// # Safety
    ///
    /// The next chunk of the write must be written, and have this length.
    #[inline]
    pub(crate) unsafe fn advance(&mut self, bytes: usize) {
        self.done += bytes;
    }
}
