//! The standard streams of the process, as streams of a guest.
//!
//! A pipe, a terminal or a socket is read and written only when poll(2) says that this would not
//! block. Until then the guest waits in the event loop of tokio. Other files never wait.

use crate::io::{Input, Output, StreamFailure};
use crate::limits::{READ_MAX, WRITE_MAX};
use bytes::{Bytes, BytesMut};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll, ready};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::runtime::Handle;

/// Most bytes of a write to a pipe that poll(2) calls ready: Linux has room for a page then.
const PIPE_WRITE_MAX: usize = 4096;

/// A standard stream. Other processes may share it, so its flags stay as they are.
struct Stream {
    fd: OwnedFd,
    event: PollFlags,
    event_loop: EventLoop,
}

/// A duplicate of a stream in the event loop of a tokio runtime.
enum EventLoop {
    /// The stream was not used yet.
    Unknown,
    /// Any stream that is read. Tokio asks the kernel only whether it is ready.
    Read(Receiver),
    /// Any stream that is written.
    Write(Sender),
    /// The system cannot wait for it: it is a regular file, a directory or /dev/null.
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

    /// Whether the system can wait for the stream.
    fn can_wait(&mut self) -> bool {
        matches!(self.event_loop(), EventLoop::Read(_) | EventLoop::Write(_))
    }

    fn is_ready(&self) -> bool {
        is_ready(&self.fd, self.event)
    }

    /// Whether the stream can be read or written. If not, wakes the task of the context then.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.event_loop();
        // Tokio keeps a stream ready until an operation would block, and the last one may have
        // read or written all: the second time, it waits.
        for _ in 0..2 {
            let check = || match self.is_ready() {
                true => Ok(()),
                false => Err(io::ErrorKind::WouldBlock.into()),
            };
            let checked = match &self.event_loop {
                EventLoop::Read(stream) => {
                    // An error means that the runtime ends. The next operation waits itself.
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
        // It became ready, and again not, since the last check.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Whether a file can be read or written now. This is also true at its end or after an error, which
/// the read or write then reports.
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
        let mut bytes = BytesMut::zeroed(max.min(READ_MAX));
        match read(&self.0.fd, &mut bytes[..]) {
            Ok(0) => Err(StreamFailure::Closed),
            Ok(len) => Ok(bytes.split_to(len).freeze()),
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
                // Another process has made the file nonblocking, and it takes only a part.
                Err(Errno::AGAIN) => {
                    let mut room = [PollFd::new(&self.0.fd, PollFlags::OUT)];
                    poll(&mut room, None).map_err(io::Error::from)?;
                }
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        Ok(())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_ready(context)
    }
}
