//! Sources and sinks of bytes for guests: empty, in memory, or shared.

use crate::io::{Input, Output, StreamFailure};
use crate::limits::WRITE_MAX;
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// An empty source, and a sink that discards bytes.
pub(crate) struct Nothing;

impl Input for Nothing {
    fn read(&mut self, _: usize) -> Result<Bytes, StreamFailure> {
        Err(StreamFailure::Closed)
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

impl Output for Nothing {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        Ok(WRITE_MAX)
    }

    fn write(&mut self, _: Bytes) -> Result<(), StreamFailure> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        Ok(())
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// A source or a sink that several streams share. All clones use the same source or sink.
#[derive(Debug)]
pub struct Pipe<P: ?Sized>(Arc<Mutex<P>>);

impl<P: ?Sized> Clone for Pipe<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> Pipe<P> {
    /// Shares a source or a sink.
    pub fn new(pipe: P) -> Self {
        Self(Arc::new(Mutex::new(pipe)))
    }
}

impl<P: ?Sized> Pipe<P> {
    /// Gives access to the source or sink.
    pub fn with<R>(&self, use_it: impl FnOnce(&mut P) -> R) -> R {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Pipe<dyn Input> {
    /// Shares a source of any type.
    pub(crate) fn input(input: impl Input) -> Self {
        Self(Arc::new(Mutex::new(input)))
    }
}

impl Pipe<dyn Output> {
    /// Shares a sink of any type.
    pub(crate) fn output(output: impl Output) -> Self {
        Self(Arc::new(Mutex::new(output)))
    }
}

impl<P: Input + ?Sized> Input for Pipe<P> {
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure> {
        self.with(|pipe| pipe.read(max))
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.with(|pipe| pipe.poll_ready(context))
    }
}

impl<P: Output + ?Sized> Output for Pipe<P> {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        self.with(P::check_write)
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        self.with(|pipe| pipe.write(bytes))
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        self.with(P::flush)
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.with(|pipe| pipe.poll_ready(context))
    }
}

impl Input for Bytes {
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure> {
        match self.len() {
            0 => Err(StreamFailure::Closed),
            len => Ok(self.split_to(len.min(max))),
        }
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// A sink that keeps bytes up to a limit. A write that exceeds the limit fails; the sink keeps the
/// bytes that fit.
#[derive(Debug)]
pub struct Collected {
    bytes: BytesMut,
    bytes_max: usize,
    is_full: bool,
}

impl Collected {
    /// A sink that keeps at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            bytes_max,
            is_full: false,
        }
    }

    /// The bytes that were written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a write has exceeded the limit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_full
    }
}

impl Output for Collected {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        match self.is_full {
            true => Err(StreamFailure::Closed),
            false => Ok(WRITE_MAX),
        }
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        let free = self.bytes_max - self.bytes.len();
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(free)]);
        if bytes.len() > free {
            self.is_full = true;
            return Err(io::Error::from(io::ErrorKind::StorageFull).into());
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        Ok(())
    }

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}
