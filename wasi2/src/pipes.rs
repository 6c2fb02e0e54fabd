//! Sources and sinks of bytes for guests: empty, in memory, bounded, or shared.

use crate::io::{Input, Output, StreamFailure};
use crate::limits::WRITE_MAX;
use bytes::Bytes;
use pirn_wasi::Bounded;
use pirn_wasi::pipe::Pipe;
use std::io::Write;
use std::task::{Context, Poll};

/// An empty source, and a sink that discards bytes.
pub(crate) struct Nothing;

impl Input for Nothing {
    fn read(&mut self, _: usize) -> Result<Bytes, StreamFailure> {
        Err(StreamFailure::Closed)
    }
}

impl Output for Nothing {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        Ok(WRITE_MAX)
    }

    fn write(&mut self, _: Bytes) -> Result<(), StreamFailure> {
        Ok(())
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
}

/// The sink takes no more bytes after a write that exceeded its limit.
impl<W: Write + Send + 'static> Output for Bounded<W> {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        match self.is_refusing() {
            true => Err(StreamFailure::Closed),
            false => Ok(WRITE_MAX),
        }
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        Ok(self.write_all(&bytes)?)
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        Ok(Write::flush(self)?)
    }
}
