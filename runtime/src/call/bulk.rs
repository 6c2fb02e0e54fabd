//! How the runtime performs a [`Bulk`] write, in chunks.
//!
//! # Safety
//!
//! This file owns one fact. Each access lies in the ranges of the [`Bulk`], which its constructors
//! require to be valid.
#![allow(unsafe_code)]

use crate::memory::populate;
use crate::stop::{Halt, Watched, look};
use crate::store::bulk::{Bulk, CHUNK_BYTES, Source, Write};
use crate::store::descriptors;
use crate::store::member::Member;
use core::{ptr, slice};
use pirn_format::exit::TrapCode;

impl Bulk {
    /// Performs the write for a member, or the rest of the write.
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
        loop {
            let (write, done) = self.progress();
            if done >= write.bytes {
                break;
            }
            // SAFETY: the caller of the constructor ensured that the ranges are valid.
            let bytes = unsafe { chunk(&write, done, member)? };
            // SAFETY: the chunk is written.
            unsafe { self.advance(bytes) };
            if done + bytes < write.bytes {
                look(watched)?;
            }
        }
        if let Some((table, elements)) = self.progress().0.grows {
            // SAFETY: the descriptor belongs to a table that has room for the new elements, all of
            // which are written.
            unsafe { (*table).elements = elements };
        }
        Ok(())
    }
}

/// Writes the next chunk, after `done` bytes. Returns its length in bytes.
///
/// # Safety
///
/// As [`Bulk::copy`]. `done` must be less than the length of the write.
unsafe fn chunk<T>(write: &Write, done: usize, member: &Member<T>) -> Result<usize, TrapCode> {
    let mut bytes = CHUNK_BYTES.min(write.bytes - done);
    let mut at = done;
    if let Source::Elements(segment, from) = write.source {
        let (from, most) = (from + (at / 8) as u64, (bytes / 8) as u64);
        bytes = descriptors::elements_at_once(member, segment, from, most) as usize * 8;
    }
    if let Source::Bytes(from) = write.source {
        let ahead = (write.to as usize).wrapping_sub(from as usize);
        // A forward copy would overwrite source bytes before it reads them, so copy from the
        // end.
        if ahead < write.bytes {
            at = write.bytes - done - bytes;
        }
    }
    // SAFETY: (this whole block) `at` and `bytes` stay in the destination and in the source.
    unsafe {
        let to = write.to.add(at);
        if write.populates[0] {
            populate::writable(to, bytes)?;
        }
        match write.source {
            Source::Bytes(from) => {
                let from = from.add(at);
                if write.populates[1] {
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
                descriptors::copy_elements(member, segment, to.cast(), from, (bytes / 8) as u64);
            }
            Source::Repeated => {
                let bytes = bytes.min(at);
                ptr::copy_nonoverlapping(write.to, to, bytes);
                return Ok(bytes);
            }
        }
    }
    Ok(bytes)
}
