//! [`Vectors`]: the buffers of the guest between which a call moves bytes.
//!
//! A call uses at most [`VECTORS_MAX`] vectors, and moves up to [`PIECE_BYTES`] bytes at a time.
//! All pointers are checked before any byte is moved.

use super::abi::{CALL_BYTES_MAX, VECTOR_BYTES, VECTORS_MAX};
use super::failure::{Done, Failure};
use super::memory::Memory;
use crate::errno::Errno;
use crate::scratch::{PIECE_BYTES, Scratch};
use smallvec::SmallVec;
use std::io::IoSlice;

/// Most vectors that a call has without an allocation. A larger number costs every call time.
const FEW: usize = 4;
/// Most parts that are written in place.
const PARTS_MAX: usize = 16;

/// The checked vectors of a call, and how far their bytes were moved.
pub(super) struct Vectors {
    /// Address and length of each vector.
    all: SmallVec<[(u32, u32); FEW]>,
    /// Index of the next vector, and the number of its bytes that were moved.
    next: usize,
    used: u32,
    /// The bytes that are left to move.
    left: u64,
}

impl Vectors {
    /// Copies the vectors of a call. Checks that the array and every buffer lie in the guest's
    /// memory.
    ///
    /// # Errors
    ///
    /// `inval` if the guest passes more vectors than the call uses, and those have no bytes; the
    /// error of an invalid pointer.
    pub(super) fn copy(memory: &Memory<'_>, array: u32, count: u32) -> Done<Self> {
        memory.check(array, u64::from(count) * u64::from(VECTOR_BYTES), 4)?;
        let used = count.min(VECTORS_MAX);
        let len = (used * VECTOR_BYTES) as usize;
        let (mut few, mut many) = ([0; FEW * VECTOR_BYTES as usize], vec![]);
        let copied = match few.get_mut(..len) {
            Some(few) => few,
            None => {
                many.resize(len, 0);
                &mut many[..]
            }
        };
        memory.read(array, copied)?;
        let mut all = SmallVec::new();
        let mut bytes = 0;
        for vector in copied.as_chunks::<8>().0 {
            let number = u64::from_le_bytes(*vector);
            let (start, len) = (number as u32, (number >> 32) as u32);
            memory.check(start, len.into(), 1)?;
            all.push((start, len));
            bytes += u64::from(len);
        }
        if bytes == 0 && count > VECTORS_MAX {
            return Err(Errno::INVAL.into());
        }
        Ok(Self {
            all,
            next: 0,
            used: 0,
            left: bytes.min(CALL_BYTES_MAX),
        })
    }

    /// The number of bytes that are left to move.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The number of bytes of the next piece.
    pub(super) fn piece(&self) -> usize {
        self.left.min(PIECE_BYTES as u64) as usize
    }

    /// The next parts of the vectors, `len` bytes in total: address and length of each.
    fn parts(&self, len: usize) -> impl Iterator<Item = (u32, usize)> {
        let (mut used, mut left) = (self.used, len);
        let parts = self.all[self.next..].iter().map(move |(start, whole)| {
            let some = ((whole - used) as usize).min(left);
            let at = start + used;
            used = 0;
            left -= some;
            (at, some)
        });
        parts.filter(|(_, len)| *len > 0)
    }

    /// The only part of the next piece; `None` if the piece has several parts.
    pub(super) fn single(&self) -> Option<(u32, usize)> {
        let mut parts = self.parts(self.piece());
        let first = parts.next()?;
        parts.next().is_none().then_some(first)
    }

    /// Marks bytes as moved.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.left -= bytes as u64;
        let mut moved = bytes;
        while let Some((_, len)) = self.all.get(self.next) {
            let rest = (len - self.used) as usize;
            if moved < rest {
                self.used += moved as u32;
                return;
            }
            moved -= rest;
            (self.next, self.used) = (self.next + 1, 0);
        }
    }

    /// Copies bytes to the next parts of the vectors, and marks them as moved.
    pub(super) fn give(&mut self, memory: &mut Memory<'_>, bytes: &[u8]) -> Done {
        let mut rest = bytes;
        for (at, len) in self.parts(bytes.len()) {
            let (some, after) = rest.split_at(len);
            memory.write(at, some)?;
            rest = after;
        }
        self.advance(bytes.len());
        Ok(())
    }

    /// Copies bytes from the next parts of the vectors, and marks them as moved.
    pub(super) fn fill(&mut self, memory: &Memory<'_>, room: &mut [u8]) -> Done {
        self.copy_out(memory, room)?;
        self.advance(room.len());
        Ok(())
    }

    fn copy_out(&self, memory: &Memory<'_>, room: &mut [u8]) -> Done {
        let mut rest = room;
        for (at, len) in self.parts(rest.len()) {
            let (some, after) = rest.split_at_mut(len);
            memory.read(at, some)?;
            rest = after;
        }
        Ok(())
    }

    /// Calls `write` with the bytes of the next piece, which `write` moves as far as it can.
    /// Returns its result. Few parts of a plain memory are read in place. Bytes of a shared memory
    /// are copied first, because other threads may change them.
    pub(super) fn gather<R>(
        &self,
        memory: &Memory<'_>,
        write: impl FnOnce(&[IoSlice<'_>]) -> R,
    ) -> Done<R> {
        let piece = self.piece();
        match memory {
            Memory::Plain(memory) if self.parts(piece).nth(PARTS_MAX).is_none() => {
                let mut slices = SmallVec::<[IoSlice<'_>; PARTS_MAX]>::new();
                for (at, len) in self.parts(piece) {
                    slices.push(IoSlice::new(memory.slice(at, len as u32)?));
                }
                Ok(write(&slices))
            }
            memory => {
                let mut scratch = Scratch::take();
                let piece = scratch.piece(piece);
                self.copy_out(memory, piece)?;
                Ok(write(&[IoSlice::new(piece)]))
            }
        }
    }
}

/// The reason for which the transfer of a piece to or from a file in memory ended early.
pub(super) enum Interrupted {
    File(pirn_memory_files::FileError),
    Guest(Failure),
}

impl From<pirn_memory_files::FileError> for Interrupted {
    fn from(error: pirn_memory_files::FileError) -> Self {
        Self::File(error)
    }
}

impl From<Interrupted> for Failure {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::File(error) => crate::files::memory_errno(error).into(),
            Interrupted::Guest(failure) => failure,
        }
    }
}
