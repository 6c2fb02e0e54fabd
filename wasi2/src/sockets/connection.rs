//! [`Connection`]: an established TCP connection, and its two streams.

use super::fd::{Registered, runtime};
use crate::io::{Input, Output, StreamFailure};
use crate::limits::WRITE_MAX;
use bytes::{Buf, Bytes, BytesMut};
use pirn_runtime::HostError;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// An established connection. The socket and the two streams share it, and the last one closes it.
pub(super) struct Connection {
    pub(super) fd: Arc<Registered>,
    /// The runtime that the socket belongs to. Instances may be dropped elsewhere.
    runtime: Handle,
    is_receive_shut: AtomicBool,
    sending: Mutex<Sending>,
}

/// What is to be sent.
#[derive(Default)]
struct Sending {
    /// Sends bytes that the kernel did not take at once. It holds the socket, but not the
    /// connection, so that it ends when the connection does.
    rest: Option<JoinHandle<io::Result<()>>>,
    is_shut: bool,
    failed: Option<io::Error>,
}

impl Connection {
    pub(super) fn new(fd: Registered) -> Result<Arc<Self>, HostError> {
        Ok(Arc::new(Self {
            fd: Arc::new(fd),
            runtime: runtime()?,
            is_receive_shut: AtomicBool::new(false),
            sending: Mutex::default(),
        }))
    }

    fn sending<R>(&self, use_it: impl FnOnce(&mut Sending) -> R) -> R {
        use_it(&mut self.sending.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Closes the input stream.
    pub(super) fn shut_receive(&self) {
        if !self.is_receive_shut.swap(true, Ordering::Relaxed) {
            // It fails if the peer is gone, which comes to the same.
            let _ = shutdown(&self.fd, Shutdown::Read);
        }
    }

    /// Closes the output stream, and tells the peer when everything is sent.
    pub(super) fn shut_send(&self) {
        self.sending(|sending| {
            if std::mem::replace(&mut sending.is_shut, true) {
                return;
            }
            match sending.rest.take() {
                None => drop(shutdown(&self.fd, Shutdown::Write)),
                Some(rest) => {
                    let end = end(Arc::clone(&self.fd), rest);
                    sending.rest = Some(self.runtime.spawn(end));
                }
            }
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.sending(|sending| {
            if let Some(rest) = &sending.rest {
                rest.abort();
            }
        });
    }
}

/// Sends without waiting. The number of bytes is 0 if the kernel takes none.
fn try_send(fd: &Registered, bytes: &[u8]) -> io::Result<usize> {
    let sent = fd.try_io(Interest::WRITABLE, |fd| {
        Ok(send(fd, bytes, SendFlags::NOSIGNAL)?)
    });
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        sent => sent,
    }
}

async fn send_all(fd: Arc<Registered>, mut bytes: Bytes) -> io::Result<()> {
    while bytes.has_remaining() {
        fd.writable().await?;
        bytes.advance(try_send(&fd, &bytes)?);
    }
    Ok(())
}

/// Aborts a task when it is dropped.
struct Aborting(JoinHandle<io::Result<()>>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells the peer when everything is sent.
async fn end(fd: Arc<Registered>, rest: JoinHandle<io::Result<()>>) -> io::Result<()> {
    let mut rest = Aborting(rest);
    let sent = (&mut rest.0).await.unwrap_or(Ok(()));
    let _ = shutdown(&fd, Shutdown::Write);
    sent
}

impl Sending {
    /// Whether the rest is sent. If not, wakes the task of the context then.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(rest) = &mut self.rest {
            let Poll::Ready(ended) = Pin::new(rest).poll(context) else {
                return Poll::Pending;
            };
            self.rest = None;
            if let Ok(Err(error)) = ended {
                self.failed = Some(error);
            }
        }
        Poll::Ready(())
    }

    /// An error, if no bytes can be sent any more.
    fn check(&mut self) -> Result<(), StreamFailure> {
        // A task that ended is not pending, whoever asks.
        if self.rest.as_ref().is_some_and(JoinHandle::is_finished) {
            let _ = self.poll_rest(&mut Context::from_waker(std::task::Waker::noop()));
        }
        match self.failed.take() {
            Some(error) => Err(failure(error)),
            None if self.is_shut => Err(StreamFailure::Closed),
            None => Ok(()),
        }
    }
}

/// The end of a stream. A peer that takes no bytes any more has closed it.
fn failure(error: io::Error) -> StreamFailure {
    match Errno::from_io_error(&error) {
        Some(Errno::PIPE) => StreamFailure::Closed,
        _ => error.into(),
    }
}

/// The input stream of a connection.
pub(super) struct TcpInput(pub(super) Arc<Connection>);

impl TcpInput {
    fn is_shut(&self) -> bool {
        self.0.is_receive_shut.load(Ordering::Relaxed)
    }
}

impl Input for TcpInput {
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure> {
        if self.is_shut() {
            return Err(StreamFailure::Closed);
        }
        let received = self.0.fd.try_io(Interest::READABLE, |fd| {
            let mut buffer = BytesMut::zeroed(max);
            let (bytes, _) = recv(fd, &mut buffer[..], RecvFlags::empty())?;
            buffer.truncate(bytes);
            Ok(buffer)
        });
        match received {
            Ok(bytes) if bytes.is_empty() => Err(StreamFailure::Closed),
            Ok(bytes) => Ok(bytes.freeze()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Bytes::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.is_shut() {
            true => Poll::Ready(()),
            false => self.0.fd.poll_readable(context),
        }
    }
}

/// The output stream of a connection. When the guest drops it, the peer sees the end.
pub(super) struct TcpOutput(pub(super) Arc<Connection>);

impl Output for TcpOutput {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        let is_writable = self.0.sending(|sending| {
            let checked = sending.check();
            checked.map(|()| sending.rest.is_none())
        })?;
        let is_writable = is_writable && self.0.fd.is_writable();
        Ok(if is_writable { WRITE_MAX } else { 0 })
    }

    fn write(&mut self, mut bytes: Bytes) -> Result<(), StreamFailure> {
        self.0.sending(|sending| {
            sending.check()?;
            while bytes.has_remaining() {
                match try_send(&self.0.fd, &bytes).map_err(failure)? {
                    0 => {
                        let rest = send_all(Arc::clone(&self.0.fd), bytes);
                        sending.rest = Some(self.0.runtime.spawn(rest));
                        break;
                    }
                    sent => bytes.advance(sent),
                }
            }
            Ok(())
        })
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        self.0.sending(Sending::check)
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (rest, is_ended) = self.0.sending(|sending| {
            let rest = sending.poll_rest(context);
            // The guest learns of an error, and of the end that it asked for, at once.
            (rest, sending.is_shut || sending.failed.is_some())
        });
        match rest {
            _ if is_ended => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => self.0.fd.poll_writable(context),
        }
    }
}

impl Drop for TcpOutput {
    fn drop(&mut self) {
        self.0.shut_send();
    }
}
