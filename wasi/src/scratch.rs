//! [`Scratch`]: a buffer of the host for bytes on their way to or from a guest. A call then costs
//! the host at most one buffer for each thread, for any arguments of the guest.
//!
//! The buffer is not cleared between two calls, and may hold another guest's bytes. Only bytes that
//! the call has filled may be copied to a guest.

use core::cell::Cell;

/// Most bytes that are transferred at a time.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

thread_local! {
    /// The buffer of this thread, while no call uses it.
    static BUFFER: Cell<Option<Box<[u8; PIECE_BYTES]>>> = const { Cell::new(None) };
}

/// The buffer during one call.
pub(crate) struct Scratch {
    /// `Some` until the [`Scratch`] is dropped.
    buffer: Option<Box<[u8; PIECE_BYTES]>>,
}

impl Scratch {
    /// Takes the buffer of this thread. Allocates another buffer if a call on this thread already
    /// uses it. This happens when a stream of the embedder runs a guest.
    pub(crate) fn take() -> Self {
        let new = || Box::new([0; PIECE_BYTES]);
        Self {
            buffer: Some(BUFFER.take().unwrap_or_else(new)),
        }
    }

    /// The first `len` bytes, at most [`PIECE_BYTES`].
    pub(crate) fn piece(&mut self, len: usize) -> &mut [u8] {
        match &mut self.buffer {
            Some(buffer) => &mut buffer[..len],
            None => &mut [],
        }
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

    #[test]
    fn a_call_within_a_call_has_a_buffer_of_its_own() {
        let mut one = Scratch::take();
        one.piece(1)[0] = 7;
        let mut other = Scratch::take();
        other.piece(1)[0] = 8;
        assert_eq!((one.piece(1)[0], other.piece(1)[0]), (7, 8));
    }
}
