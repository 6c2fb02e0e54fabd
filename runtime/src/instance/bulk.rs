//! [`Bulk`]: a write of a builtin to a memory, a table or an array, in chunks.
//!
//! After each chunk the runtime checks the interrupt flag. If the call was stopped, the bytes that
//! are already written stay. If only the time slice has ended, the instance keeps the rest of the
//! write. The next step of the call completes it before it enters the guest again.
//!
//! # Safety
//!
//! This file owns one fact. The ranges of a [`Bulk`] stay mapped until it has ended. Bounds are
//! checked before the [`Bulk`] is made. Nothing that a guest can reach shrinks or moves, and the
//! guest does not run.
#![allow(unsafe_code)]

use super::builtin;
use super::member::Member;
use crate::account::HostBytesError;
use crate::memory::populate;
use crate::stop::Watched;
use crate::switch::interrupt_flag::{GO, SLICE_IS_OVER};
use core::{ptr, slice};
use pirn_format::exit::TrapCode;
use pirn_format::layout::TableDesc;

/// Bytes that are written between two checks of the interrupt flag: 16 pages, each of which may
/// cause a page fault.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// Why a bulk write stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The call was stopped.
    Stopped,
    /// Only the time slice of the call has ended.
    SliceIsOver,
    /// The guest must trap.
    Trap(TrapCode),
}

impl From<TrapCode> for Halt {
    fn from(code: TrapCode) -> Self {
        Self::Trap(code)
    }
}

/// Why an instance did not reach its start function.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// A write stopped early.
    Halted(Halt),
    /// The instance would exceed its limit of host memory.
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

/// Checks the interrupt flag of a call. [`Halt::SliceIsOver`] only occurs in a call with time
/// slices.
///
/// # Errors
///
/// Why the work must stop.
#[inline]
pub(crate) fn look(watched: Option<&Watched>) -> Result<(), Halt> {
    match watched.map_or(GO, Watched::flag) {
        GO => Ok(()),
        SLICE_IS_OVER => Err(Halt::SliceIsOver),
        _ => Err(Halt::Stopped),
    }
}

/// The source of a write.
#[derive(Debug, Clone, Copy)]
enum Source {
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

/// A bulk write of a builtin.
#[derive(Debug)]
pub(crate) struct Bulk {
    to: *mut u8,
    bytes: usize,
    done: usize,
    source: Source,
    /// Whether the pages of the destination, and those of the source, are populated first.
    populates: [bool; 2],
    /// The table that gets so many elements once the write is complete.
    grows: Option<(*mut TableDesc, u64)>,
}

// SAFETY: the addresses belong to the instance that holds the write, and both move between threads
// together.
unsafe impl Send for Bulk {}
// SAFETY: no method uses the addresses through a shared reference.
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

    /// Copies bytes. The ranges may overlap.
    ///
    /// # Safety
    ///
    /// (All constructors.) The ranges must belong to memories, tables, arrays or the module of the
    /// instance that keeps the write, or of its group. They must stay valid until the write has
    /// ended.
    pub(super) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) -> Self {
        Self::new(to, bytes, Source::Bytes(from))
    }

    /// Fills the range with one byte.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    pub(super) unsafe fn fill(to: *mut u8, byte: u8, bytes: usize) -> Self {
        Self::new(to, bytes, Source::Byte(byte))
    }

    /// Fills the range with one word.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy). The range must be aligned.
    pub(super) unsafe fn words(to: *mut u64, word: u64, words: usize) -> Self {
        Self::new(to.cast(), words * 8, Source::Word(word))
    }

    /// Writes `len` references of an element segment, which must have so many.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy). The range must be aligned.
    pub(super) unsafe fn elements(to: *mut u64, segment: u32, from: u64, len: u64) -> Self {
        Self::new(to.cast(), len as usize * 8, Source::Elements(segment, from))
    }

    /// Repeats the first `first` bytes of a range. `first` must be a power of two, at most 16.
    ///
    /// # Safety
    ///
    /// As [`copy`](Self::copy).
    pub(super) unsafe fn repeat(to: *mut u8, first: usize, bytes: usize) -> Self {
        let mut bulk = Self::new(to, bytes, Source::Repeated);
        bulk.done = first;
        bulk
    }

    /// Populates the pages of the destination, and of the source, before the write accesses them.
    pub(super) fn populating(mut self, to: bool, from: bool) -> Self {
        self.populates = [to, from];
        self
    }

    /// Sets the size of a table once the write is complete.
    pub(super) fn growing(mut self, table: *mut TableDesc, elements: u64) -> Self {
        self.grows = Some((table, elements));
        self
    }

    /// Performs the write for a member, or the rest of it.
    ///
    /// # Errors
    ///
    /// Why the write stopped early. After [`Halt::SliceIsOver`] it can be continued.
    #[inline]
    pub(crate) fn run<T>(
        &mut self,
        member: &Member<T>,
        watched: Option<&Watched>,
    ) -> Result<(), Halt> {
        while self.done < self.bytes {
            // SAFETY: the caller of the constructor ensured that the ranges are valid.
            unsafe { self.chunk(member)? };
            if self.done < self.bytes {
                look(watched)?;
            }
        }
        if let Some((table, elements)) = self.grows {
            // SAFETY: the descriptor belongs to a table that has room for the new elements, all of
            // which are written.
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
            // A forward copy would overwrite source bytes before it reads them, so copy from the
            // end.
            if ahead < self.bytes {
                at = self.bytes - self.done - bytes;
            }
        }
        // SAFETY: (this whole block) `at` and `bytes` stay in the destination and in the source.
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
