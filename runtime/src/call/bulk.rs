//! How the runtime performs a [`Bulk`] write, in chunks.
//!
//! # Safety
//!
//! This file owns one fact. Each access lies in the ranges of the [`Bulk`], which its constructors
//! require to be valid.
#![allow(unsafe_code)]

use crate::memory::populate;
use crate::stop::{Halt, Watched, look};
use crate::store::bulk::{Bulk, CHUNK_BYTES, Source};
use crate::store::descriptors;
use crate::store::member::Member;
use core::{ptr, slice};
use pirn_format::exit::TrapCode;

impl Bulk {
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
            bytes = descriptors::elements_at_once(member, segment, from, most) as usize * 8;
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
                    descriptors::copy_elements(
                        member,
                        segment,
                        to.cast(),
                        from,
                        (bytes / 8) as u64,
                    );
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
