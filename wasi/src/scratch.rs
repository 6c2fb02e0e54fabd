//! [`Scratch`]: the memory of the host that wasi-common sees in place of a guest's.
//!
//! wasi-common allocates as much as the arguments of a call ask for, and touches a guest's pages
//! where the kernel may refuse them. So the arguments of most functions are copied here first, as
//! much as there is room for, and answers are copied from here to the guest: a call costs the host
//! this much memory, once a thread, whatever it asks for. Functions whose arguments and answers are
//! small use the guest's memory, after its pages were populated.
//!
//! The memory is not cleared between two calls, and may hold another guest's bytes. Only what
//! wasi-common has written, or what was cleared before, may be copied to a guest.

use crate::guest::Bytes;
use core::cell::Cell;
use pirn_runtime::{HostError, Trap};
use wiggle::GuestMemory;

/// Longest path that is passed on (`PATH_MAX` of Linux, path_resolution(7)).
pub(crate) const PATH_MAX: u32 = 4096;
/// Most bytes that go to or from the host at a time.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Room for a piece with the vectors of a call, for two paths, and for the most subscriptions with
/// their events.
const SCRATCH_BYTES: usize = 96 << 10;
/// Most places of answers that a function has.
const ANSWERS_MAX: usize = 2;

thread_local! {
    /// The thread's buffer, unless a call uses it.
    static BUFFER: Cell<Option<Box<Buffer>>> = const { Cell::new(None) };
}

/// wiggle looks at the alignment of the host's addresses.
#[repr(C, align(8))]
struct Buffer([u8; SCRATCH_BYTES]);

/// Where an answer of wasi-common's is, and where the guest wants it.
#[derive(Debug, Clone, Copy, Default)]
struct Answer {
    here: usize,
    there: u32,
    len: usize,
}

/// The memory of the host that one call uses. Bytes of earlier calls, which may be other guests',
/// are still in it: nothing may be given to a guest but what was cleared before, or bytes of which
/// wasi-common says that it wrote each.
pub(crate) struct Scratch {
    /// `Some` until it is dropped.
    buffer: Option<Box<Buffer>>,
    used: usize,
    answers: [Answer; ANSWERS_MAX],
    answers_count: usize,
}

impl Scratch {
    /// The buffer of this thread; another if a call on this thread uses it, because a file of the
    /// host's runs a guest.
    pub(crate) fn take() -> Self {
        let new = || Box::new(Buffer([0; SCRATCH_BYTES]));
        Self {
            buffer: Some(BUFFER.take().unwrap_or_else(new)),
            used: 0,
            answers: [Answer::default(); ANSWERS_MAX],
            answers_count: 0,
        }
    }

    /// Reserves room, and gives its address. All that a function reserves fits.
    pub(crate) fn reserve(&mut self, bytes: usize) -> usize {
        let at = self.used.next_multiple_of(8);
        self.used = at + bytes;
        debug_assert!(self.used <= SCRATCH_BYTES, "{} bytes of scratch", self.used);
        at
    }

    /// Reserves room for what is given to the guest whole: wasi-common does not write the padding.
    pub(crate) fn reserve_cleared(&mut self, bytes: usize) -> usize {
        let at = self.reserve(bytes);
        self.range(at, bytes).fill(0);
        at
    }

    /// All bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match &mut self.buffer {
            Some(buffer) => &mut buffer.0,
            None => &mut [],
        }
    }

    /// So many bytes at an address.
    pub(crate) fn range(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.bytes()[at..][..len]
    }

    /// The 32-bit number at an address.
    pub(crate) fn number(&mut self, at: usize) -> u32 {
        let bytes = self.range(at, 4).first_chunk();
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Puts a 32-bit number at an address.
    pub(crate) fn set_number(&mut self, at: usize, number: u32) {
        self.range(at, 4).copy_from_slice(&number.to_le_bytes());
    }

    /// What wasi-common takes for the guest's memory.
    pub(crate) fn memory(&mut self) -> GuestMemory<'_> {
        GuestMemory::Unshared(self.bytes())
    }

    /// Copies a path of the guest's, and gives the pointer and length to pass on; `None` for a path
    /// that is longer than [`PATH_MAX`], which is not copied.
    ///
    /// # Errors
    ///
    /// The trap of a path that does not lie in the memory.
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

    /// Reserves the place of an answer, and gives the pointer to pass on.
    ///
    /// # Errors
    ///
    /// The error of a place that does not lie in the guest's memory, or is not aligned.
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

    /// Copies all answers to where the guest wants them.
    ///
    /// # Errors
    ///
    /// The trap of a page that the kernel refuses.
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
    use crate::buffers::VECTORS_MAX;
    use crate::poll::EVENT_BYTES;
    use crate::sleep::{SUBSCRIPTION_BYTES, SUBSCRIPTIONS_MAX};

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
