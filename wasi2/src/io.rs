//! The host's traits for streams of `wasi:io`, and the errors of streams.

use crate::limits::READ_MAX;
use crate::table::resource_type;
use bytes::Bytes;
use std::any::Any;
use std::io;
use std::task::{Context, Poll};

/// A source of bytes. Its functions do not wait.
pub trait Input: Send + 'static {
    /// Returns available bytes, at most `max` bytes; `max` is not 0. Returns no bytes if no byte is
    /// available yet. The bytes should not keep a much larger buffer alive, because the host counts
    /// only the bytes.
    ///
    /// # Errors
    ///
    /// [`StreamFailure`] at the end, or if the source failed.
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure>;

    /// Ready if [`read`](Self::read) would return bytes or an error. Otherwise wakes the task of
    /// the context when `read` would. By default the source is always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// A sink of bytes. Its functions do not wait.
pub trait Output: Send + 'static {
    /// Number of bytes that [`write`](Self::write) takes now, perhaps 0.
    ///
    /// # Errors
    ///
    /// [`StreamFailure`] if the sink will take no more bytes.
    fn check_write(&mut self) -> Result<usize, StreamFailure>;

    /// Takes bytes, at most the number that [`check_write`](Self::check_write) returned last.
    ///
    /// # Errors
    ///
    /// As [`check_write`](Self::check_write).
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure>;

    /// Begins to flush the written bytes. [`poll_ready`](Self::poll_ready) is ready when the flush
    /// has ended. By default there is nothing to flush.
    ///
    /// # Errors
    ///
    /// As [`check_write`](Self::check_write).
    fn flush(&mut self) -> Result<(), StreamFailure> {
        Ok(())
    }

    /// Ready if [`check_write`](Self::check_write) would return a number above 0 or an error.
    /// Otherwise wakes the task of the context when `check_write` would. By default the sink is
    /// always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Most bytes that a read of `len` bytes returns.
pub(crate) fn read_max(len: u64) -> usize {
    usize::try_from(len).map_or(READ_MAX, |len| len.min(READ_MAX))
}

/// Bytes in a buffer without spare capacity, because the host counts only the bytes.
pub(crate) fn exact(mut bytes: Vec<u8>) -> Bytes {
    bytes.shrink_to_fit();
    bytes.into()
}

/// The first bytes of a buffer that others may share, such as the read buffer of a connection. A
/// part below half of [`READ_MAX`] is copied, because it would keep the whole buffer alive.
pub(crate) fn split(buffer: &mut Bytes, max: usize) -> Bytes {
    let some = buffer.split_to(buffer.len().min(max));
    match some.len() < READ_MAX / 2 {
        true => Bytes::copy_from_slice(&some),
        false => some,
    }
}

/// The end of a stream.
#[derive(Debug)]
pub enum StreamFailure {
    /// The source has no more bytes, or the sink takes no more bytes.
    Closed,
    /// An operation failed. The stream is then closed.
    Failed(IoError),
}

impl From<io::Error> for StreamFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(IoError::new(error))
    }
}

/// An error of a stream, as a resource (`wasi:io/error`).
pub struct IoError {
    /// An [`io::Error`], or the error type of an interface, such as `wasi:http`.
    pub(crate) cause: Box<dyn Any + Send>,
    text: String,
}

impl IoError {
    /// Makes an error. An interface that knows the type of the cause can read the cause.
    pub fn new(cause: impl ToString + Any + Send) -> Self {
        Self {
            text: cause.to_string(),
            cause: Box::new(cause),
        }
    }

    /// The cause, if it has this type.
    #[must_use]
    pub fn downcast_ref<C: Any>(&self) -> Option<&C> {
        self.cause.downcast_ref()
    }

    /// The error in words.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Debug for IoError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("IoError").field(&self.text).finish()
    }
}

resource_type!(IoError, "wasi:io/error@0.2.12", "error", ready);
