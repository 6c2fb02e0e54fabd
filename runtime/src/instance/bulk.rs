//! [`Bulk`]: what a builtin writes to a memory, a table or an array, chunk by chunk.
//!
//! After each chunk the runtime looks at the interrupt flag. A call that is stopped leaves what was
//! written so far. A call whose slice of time is over keeps the rest of the work, and its next step
//! finishes it before the guest is entered again.
//!
//! # Safety
//!
//! Owns the fact that the ranges of a [`Bulk`] stay mapped until it has ended: bounds are checked
//! before it is made, nothing that a guest can reach shrinks or moves, and the guest does not run.
#![allow(unsafe_code)]

use super::builtin;
use super::member::Member;
use crate::account::HostBytesError;
use crate::region::reset::populate;
use crate::stop::{GO, SLICE_IS_OVER, Watched};
use core::{ptr, slice};
use pirn_format::exit::TrapCode;
use pirn_format::layout::TableDesc;

/// Bytes that are written between two looks at the interrupt flag: 16 pages, all of which may be
/// missing.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Why bulk work ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The call is stopped.
    Stopped,
    /// Only its slice of time is over.
    SliceIsOver,
    /// The guest traps.
    Trap(TrapCode),
}

impl From<TrapCode> for Halt {
    fn from(code: TrapCode) -> Self {
        Self::Trap(code)
    }
}

/// Why an instance did not come as far as its start function.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// What it wrote ended before its end.
    Halted(Halt),
    /// The host may hold no more memory for it.
    HostBytes(HostBytesError),
}

impl From<Halt> for NotStarted {
    fn from(halt: Halt) -> Self {
        Self::Halted(halt)
    }
}

impl From<HostBytesError> for NotStarted {
    fn from(error: HostBytesError) -> Self {
        Self::HostBytes(error)
    }
}

/// Looks at the interrupt flag of a call. A call without slices of time never ends with its slice.
///
/// # Errors
///
/// Why the work is not continued.
#[inline]
pub(crate) fn look(watched: Option<&Watched>) -> Result<(), Halt> {
    match watched.map_or(GO, Watched::flag) {
        GO => Ok(()),
        SLICE_IS_OVER => Err(Halt::SliceIsOver),
        _ => Err(Halt::Stopped),
    }
}

/// What is written.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// As many bytes from there, which may overlap.
    Bytes(*const u8),
    /// A byte, again and again.
    Byte(u8),
    /// A word, again and again.
    Word(u64),
    /// References of an element segment, dropped or not, from a position on.
    Elements(u32, u64),
    /// What the first bytes of the range hold, which are so many.
    Repeated,
}

/// What a builtin writes.
#[derive(Debug)]
pub(crate) struct Bulk {
    to: *mut u8,
    bytes: usize,
    done: usize,
    source: Source,
    /// Whether the pages of the range, and of the source, are populated first.
    populates: [bool; 2],
    /// The table that has so many elements once all is written.
    grows: Option<(*mut TableDesc, u64)>,
}

// SAFETY: the addresses are of an instance that holds the work, which goes to other threads with it.
unsafe impl Send for Bulk {}
// SAFETY: nothing is done by a shared reference.
unsafe impl Sync for Bulk {}

impl Bulk {
    fn new(to: *mut u8, bytes: usize, source: Source) -> Self {
        Self {
            to,
            bytes,
            done: 0,
            source,
            populates: [false; 2],
            grows: None,
        }
    }

    /// Copies bytes, also between ranges that overlap.
    ///
    /// # Safety
    ///
    /// (All constructors.) The ranges must be of the memories, tables, arrays or module of the instance
    /// that keeps the work, or of its group, and stay so.
    pub(super) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Self {
        Self::new(to, bytes, Source::Bytes(from))
    }

    /// Fills with a byte.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    pub(super) unsafe fn fill(to: *mut u8, byte: u8, bytes: usize) -> Self {
        Self::new(to, bytes, Source::Byte(byte))
    }

    /// Fills with a word.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy); the range is aligned.
    pub(super) unsafe fn words(to: *mut u64, word: u64, words: usize) -> Self {
        Self::new(to.cast(), words * 8, Source::Word(word))
    }

    /// Writes references of an element segment, which has as many.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy); the range is aligned.
    pub(super) unsafe fn elements(to: *mut u64, segment: u32, from: u64, len: u64) -> Self {
        Self::new(to.cast(), len as usize * 8, Source::Elements(segment, from))
    }

    /// Repeats the first `first` bytes of a range, a power of two, 16 at most.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    pub(super) unsafe fn repeat(to: *mut u8, first: usize, bytes: usize) -> Self {
        let mut bulk = Self::new(to, bytes, Source::Repeated);
        bulk.done = first;
        bulk
    }

    /// Populates the pages of the range, and of the source, before they are used.
    pub(super) fn populating(mut self, to: bool, from: bool) -> Self {
        self.populates = [to, from];
        self
    }

    /// Gives a table so many elements once all is written.
    pub(super) fn growing(mut self, table: *mut TableDesc, elements: u64) -> Self {
        self.grows = Some((table, elements));
        self
    }

    /// Does the work, or what is left of it, for a member.
    ///
    /// # Errors
    ///
    /// Why it ended before its end; after [`Halt::SliceIsOver`] it can be continued.
    #[inline]
    pub(crate) fn run<T>(
        &mut self,
        member: &Member<T>,
        watched: Option<&Watched>,
    ) -> Result<(), Halt> {
        while self.done < self.bytes {
            // SAFETY: by the constructors.
            unsafe { self.chunk(member)? };
            if self.done < self.bytes {
                look(watched)?;
            }
        }
        if let Some((table, elements)) = self.grows {
            // SAFETY: the descriptor of a table that has room, all of which is written.
            unsafe { (*table).elements = elements };
        }
        Ok(())
    }

    /// Writes the next chunk.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    unsafe fn chunk<T>(&mut self, member: &Member<T>) -> Result<(), TrapCode> {
        let mut bytes = CHUNK_BYTES.min(self.bytes - self.done);
        let mut at = self.done;
        if let Source::Elements(segment, from) = self.source {
            let (from, most) = (from + (at / 8) as u64, (bytes / 8) as u64);
            bytes = builtin::elements_at_once(member, segment, from, most) as usize * 8;
        }
        if let Source::Bytes(from) = self.source {
            let ahead = (self.to as usize).wrapping_sub(from as usize);
            // What a copy from the start would overwrite before it is read is copied from the end.
            if ahead < self.bytes {
                at = self.bytes - self.done - bytes;
            }
        }
        // SAFETY: (all of this) `at` and `bytes` stay in the range, and in the source.
        unsafe {
            let to = self.to.add(at);
            if self.populates[0] {
                populate::writable(to, bytes)?;
            }
            match self.source {
                Source::Bytes(from) => {
                    let from = from.add(at);
                    if self.populates[1] {
                        populate::readable(from, bytes)?;
                    }
                    ptr::copy(from, to, bytes);
                }
                Source::Byte(byte) => ptr::write_bytes(to, byte, bytes),
                Source::Word(word) => {
                    slice::from_raw_parts_mut(to.cast::<u64>(), bytes / 8).fill(word);
                }
                Source::Elements(segment, from) => {
                    let from = from + (at / 8) as u64;
                    builtin::copy_elements(member, segment, to.cast(), from, (bytes / 8) as u64);
                }
                Source::Repeated => {
                    let bytes = bytes.min(at);
                    ptr::copy_nonoverlapping(self.to, to, bytes);
                    self.done += bytes;
                    return Ok(());
                }
            }
        }
        self.done += bytes;
        Ok(())
    }
}
