//! [`Scratch`]: a host buffer that wasi-common uses in place of the guest's memory.
//!
//! wasi-common allocates as many bytes as the arguments of a call ask for. It also accesses guest
//! pages that the kernel may refuse. Therefore the arguments of most functions are copied to this
//! buffer first, up to its size, and results are copied from it to the guest. A call then costs the
//! host at most one buffer for each thread, for any arguments of the guest. Functions with small
//! arguments and results use the guest's memory, after the host has populated its pages.
//!
//! The buffer is not cleared between two calls, and may hold another guest's bytes. Only bytes that
//! wasi-common has written, or that were cleared before, may be copied to a guest.

use crate::guest::Bytes;
use core::cell::Cell;
use pirn_runtime::{HostError, Trap};
use wiggle::GuestMemory;

/// Longest path that is accepted (Linux's `PATH_MAX`, path_resolution(7)).
pub(crate) const PATH_MAX: u32 = 4096;
/// Most bytes that are transferred at a time.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Room for a piece with the vectors of a call, for two paths, or for the maximum number of
/// subscriptions with their events.
const SCRATCH_BYTES: usize = 96 << 10;
/// Most results that a function has.
const ANSWERS_MAX: usize = 2;

thread_local! {
    /// The buffer of this thread, while no call uses it.
    static BUFFER: Cell<Option<Box<Buffer>>> = const { Cell::new(None) };
}

/// wiggle checks the alignment of host addresses.
#[repr(C, align(8))]
struct Buffer([u8; SCRATCH_BYTES]);

/// A result: its offset in the buffer, and the address where the guest wants the result.
#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    here: usize,
    there: u32,
    len: usize,
}

/// The buffer during one call.
///
/// Bytes of earlier calls, perhaps of other guests, are still in it. Only bytes that were cleared
/// before, or that wasi-common reports as written, may be copied to a guest.
pub(crate) struct Scratch {
    /// `Some` until the [`Scratch`] is dropped.
    buffer: Option<Box<Buffer>>,
    used: usize,
    answers: [Answer; ANSWERS_MAX],
    answers_count: usize,
}

impl Scratch {
    /// Takes the buffer of this thread. Allocates another buffer if a call on this thread already
    /// uses it. This happens when a file of the embedder runs a guest.
    pub(crate) fn take() -> Self {
        let new = || Box::new(Buffer([0; SCRATCH_BYTES]));
        Self {
            buffer: Some(BUFFER.take().unwrap_or_else(new)),
            used: 0,
            answers: [Answer::default(); ANSWERS_MAX],
            answers_count: 0,
        }
    }

    /// Reserves room and returns its offset. The buffer is large enough for all reservations of a
    /// function.
    pub(crate) fn reserve(&mut self, bytes: usize) -> usize {
        let at = self.used.next_multiple_of(8);
        self.used = at + bytes;
        debug_assert!(self.used <= SCRATCH_BYTES, "{} bytes of scratch", self.used);
        at
    }

    /// Reserves cleared room for a result that is copied to the guest as a whole: wasi-common does
    /// not write the padding.
    pub(crate) fn reserve_cleared(&mut self, bytes: usize) -> usize {
        let at = self.reserve(bytes);
        self.range(at, bytes).fill(0);
        at
    }

    /// The whole buffer.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &mut self.buffer {
            Some(buffer) => &mut buffer.0,
            None => &mut [],
        }
    }

    /// `len` bytes at an offset.
    pub(crate) fn range(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.bytes()[at..][..len]
    }

    /// The 32-bit number at an offset.
    pub(crate) fn number(&mut self, at: usize) -> u32 {
        let bytes = self.range(at, 4).first_chunk();
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Writes a 32-bit number at an offset.
    pub(crate) fn set_number(&mut self, at: usize, number: u32) {
        self.range(at, 4).copy_from_slice(&number.to_le_bytes());
    }

    /// The buffer, as the guest memory that wasi-common expects.
    pub(crate) fn memory(&mut self) -> GuestMemory<'_> {
        GuestMemory::Unshared(self.bytes())
    }

    /// Copies a path from the guest. Returns the offset and length to pass to wasi-common; `None`
    /// if the path is longer than [`PATH_MAX`].
    ///
    /// # Errors
    ///
    /// The trap for a path that does not lie in the memory.
    pub(crate) fn path(
        &mut self,
        memory: &Bytes<'_>,
        path: i32,
        len: i32,
    ) -> Result<Option<(i32, i32)>, Trap> {
        let len = len.cast_unsigned();
        if len > PATH_MAX {
            return Ok(None);
        }
        let at = self.reserve(len as usize);
        memory.read(path.cast_unsigned(), self.range(at, len as usize))?;
        Ok(Some((at as i32, len.cast_signed())))
    }

    /// Reserves room for a result, and returns its offset to pass to wasi-common.
    ///
    /// # Errors
    ///
    /// The error for an address that does not lie in the guest's memory, or is not aligned.
    pub(crate) fn answer(
        &mut self,
        memory: &Bytes<'_>,
        there: i32,
        (len, align): (usize, u32),
    ) -> Result<i32, HostError> {
        let there = there.cast_unsigned();
        memory.check(there, len as u64, align)?;
        let here = self.reserve_cleared(len);
        self.answers[self.answers_count] = Answer { here, there, len };
        self.answers_count += 1;
        Ok(here as i32)
    }

    /// Copies all results to the guest.
    ///
    /// # Errors
    ///
    /// The trap for a page that the kernel refuses.
    pub(crate) fn give(&mut self, memory: &mut Bytes<'_>) -> Result<(), Trap> {
        for i in 0..self.answers_count {
            let Answer { here, there, len } = self.answers[i];
            memory.write(there, self.range(here, len))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        BUFFER.set(self.buffer.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{EVENT_BYTES, SUBSCRIPTION_BYTES};
    use crate::buffers::VECTORS_MAX;
    use crate::sleep::SUBSCRIPTIONS_MAX;

    #[test]
    fn there_is_room_for_all_that_a_call_reserves() {
        let vectors = 8 + 8 + VECTORS_MAX as usize * 8 + PIECE_BYTES;
        let subscriptions = SUBSCRIPTIONS_MAX as usize * (SUBSCRIPTION_BYTES + EVENT_BYTES);
        let paths = 2 * PATH_MAX as usize + PIECE_BYTES;
        for bytes in [vectors, subscriptions, paths] {
            assert!(bytes + 64 <= SCRATCH_BYTES, "{bytes}");
        }
    }

    #[test]
    fn a_call_within_a_call_has_a_buffer_of_its_own() {
        let mut one = Scratch::take();
        one.set_number(0, 7);
        let mut other = Scratch::take();
        other.set_number(0, 8);
        assert_eq!((one.number(0), other.number(0)), (7, 8));
    }
}
