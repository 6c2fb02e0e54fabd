//! The standard streams of the process, as streams of a guest.
//!
//! The host reads or writes a pipe, a terminal or a socket only when poll(2) reports that the call
//! would not block. Until then the guest waits in the event loop of tokio. Reads and writes of
//! other files never wait.

use crate::io::{Input, Output, StreamFailure, exact};
use crate::limits::{READ_MAX, WRITE_MAX};
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Handle;

/// Most bytes of one write to a pipe. When poll(2) reports a pipe writable, Linux has room for a
/// page.
const PIPE_WRITE_MAX: usize = 4096;

/// A standard stream. Other processes may share it, so the host does not change its flags.
struct Stream {
    fd: OwnedFd,
    event: PollFlags,
    event_loop: EventLoop,
}

/// A duplicate of a stream in the event loop of a tokio runtime.
enum EventLoop {
    /// The stream was not used yet.
    Unknown,
    /// An input stream, which need not be a pipe: tokio only waits until the stream is ready.
    Read(Receiver),
    /// An output stream, which need not be a pipe.
    Write(Sender),
    /// epoll(7) refuses the stream: it is a regular file, a directory or /dev/null.
    Refuses,
}

impl EventLoop {
    fn of(fd: &OwnedFd, event: PollFlags) -> io::Result<Self> {
        let fd = fd.try_clone()?;
        match event {
            PollFlags::IN => Receiver::from_owned_fd_unchecked(fd).map(Self::Read),
            _ => Sender::from_owned_fd_unchecked(fd).map(Self::Write),
        }
    }
}

impl Stream {
    fn of(fd: impl AsFd, event: PollFlags) -> io::Result<Self> {
        Ok(Self {
            fd: fd.as_fd().try_clone_to_owned()?,
            event,
            event_loop: EventLoop::Unknown,
        })
    }

    fn event_loop(&mut self) -> &EventLoop {
        if matches!(self.event_loop, EventLoop::Unknown) && Handle::try_current().is_ok() {
            let added = EventLoop::of(&self.fd, self.event);
            self.event_loop = added.unwrap_or(EventLoop::Refuses);
        }
        &self.event_loop
    }

    /// Whether epoll(7) accepts the stream.
    fn can_wait(&mut self) -> bool {
        matches!(self.event_loop(), EventLoop::Read(_) | EventLoop::Write(_))
    }

    fn is_ready(&self) -> bool {
        is_ready(&self.fd, self.event)
    }

    /// Ready if the stream can be read or written. Otherwise wakes the task of the context when it
    /// can.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.event_loop();
        // Tokio reports a stream ready until an operation would block. The last operation may have
        // read or written everything. The first check then clears the readiness, and the second
        // poll waits.
        for _ in 0..2 {
            let check = || match self.is_ready() {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
            let checked = match &self.event_loop {
                EventLoop::Read(stream) => {
                    // An error means that the runtime ends.
                    let _ = ready!(stream.poll_read_ready(context));
                    stream.try_io(check)
                }
                EventLoop::Write(stream) => {
                    let _ = ready!(stream.poll_write_ready(context));
                    stream.try_io(check)
                }
                EventLoop::Unknown | EventLoop::Refuses => Ok(()),
            };
            if checked.is_ok() {
                return Poll::Ready(());
            }
        }
        // The stream became ready, and then not ready again, between the checks.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Whether a read or write would return at once. True also at the end of the file and after an
/// error: the call then reports the end or the error.
fn is_ready(fd: &OwnedFd, event: PollFlags) -> bool {
    let mut now = [PollFd::new(fd, event)];
    let polled = poll(&mut now, Some(&Timespec::default()));
    !matches!(polled, Ok(0) | Err(Errno::INTR))
}

/// A standard input.
pub(crate) struct StandardInput(Stream);

impl StandardInput {
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Self> {
        Stream::of(fd, PollFlags::IN).map(Self)
    }
}

impl Input for StandardInput {
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure> {
        if !self.0.is_ready() {
            return Ok(Bytes::new());
        }
        let mut bytes = Vec::with_capacity(max.min(READ_MAX));
        match read(&self.0.fd, spare_capacity(&mut bytes)) {
            Ok(0) => Err(StreamFailure::Closed),
            Ok(_) => Ok(exact(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Bytes::new()),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_ready(context)
    }
}

/// A standard output.
pub(crate) struct StandardOutput(Stream);

impl StandardOutput {
    pub(crate) fn of(fd: impl AsFd) -> io::Result<Self> {
        Stream::of(fd, PollFlags::OUT).map(Self)
    }
}

impl Output for StandardOutput {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        let waits = self.0.can_wait();
        Ok(match (waits, waits && self.0.is_ready()) {
            (false, _) => WRITE_MAX,
            (true, true) => PIPE_WRITE_MAX,
            (true, false) => 0,
        })
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match write(&self.0.fd, rest) {
                Ok(len) => rest = &rest[len..],
                Err(Errno::INTR) => {}
                // Another process has made the file nonblocking, and its buffer is full.
                Err(Errno::AGAIN) => {
                    let mut room = [PollFd::new(&self.0.fd, PollFlags::OUT)];
                    poll(&mut room, None).map_err(io::Error::from)?;
                }
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_ready(context)
    }
}
