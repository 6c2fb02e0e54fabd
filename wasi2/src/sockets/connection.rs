//! [`Connection`]: an established TCP connection, and its two streams.

use super::fd::{Registered, runtime};
use crate::io::{Input, Output, StreamFailure, exact};
use crate::limits::WRITE_MAX;
use bytes::{Buf, Bytes, BytesMut};
use pirn_component::{HeldBytes, HostBytes};
use pirn_runtime::HostError;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// An established connection. The socket and the two streams share the connection. The drop of the
/// last sharer closes it.
pub(super) struct Connection {
    pub(super) fd: Arc<Registered>,
    /// The runtime that the socket belongs to. An instance may be dropped outside it.
    runtime: Handle,
    is_receive_shut: AtomicBool,
    sending: Arc<Mutex<Sending>>,
    /// Counts the memory of the queue.
    _held: HeldBytes,
}

/// The state of the output direction.
#[derive(Default)]
struct Sending {
    /// Bytes that `task` takes next.
    queued: BytesMut,
    /// The task that sends the bytes that the kernel did not take at once. It holds the socket, but
    /// not the connection. Dropping the connection aborts the task.
    task: Option<AbortHandle>,
    /// Wakes the guest when the task ends.
    waker: Option<Waker>,
    is_shut: bool,
    failed: Option<io::Error>,
}

fn lock(sending: &Mutex<Sending>) -> MutexGuard<'_, Sending> {
    sending.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn new(fd: Registered, host_bytes: &HostBytes) -> Result<Arc<Self>, HostError> {
        Ok(Arc::new(Self {
            _held: host_bytes.hold(WRITE_MAX)?,
            fd: Arc::new(fd),
            runtime: runtime()?,
            is_receive_shut: AtomicBool::new(false),
            sending: Arc::default(),
        }))
    }

    /// Closes the input stream.
    pub(super) fn shut_receive(&self) {
        if !self.is_receive_shut.swap(true, Ordering::Relaxed) {
            // shutdown(2) fails if the peer is gone. No byte can arrive then.
            let _ = shutdown(&self.fd, Shutdown::Read);
        }
    }

    /// Closes the output stream. The peer sees the end after all queued bytes.
    pub(super) fn shut_send(&self) {
        let mut sending = lock(&self.sending);
        // A running task shuts the socket down when it has sent all bytes.
        if !mem::replace(&mut sending.is_shut, true) && sending.task.is_none() {
            let _ = shutdown(&self.fd, Shutdown::Write);
        }
    }

    /// Sends bytes, after the queued bytes.
    fn send(&self, mut bytes: Bytes) -> Result<(), StreamFailure> {
        let mut sending = lock(&self.sending);
        sending.check()?;
        while sending.task.is_none() && bytes.has_remaining() {
            match try_send(&self.fd, &bytes).map_err(failure)? {
                0 => {
                    let task = send_queued(Arc::clone(&self.fd), Arc::clone(&self.sending));
                    sending.task = Some(self.runtime.spawn(task).abort_handle());
                }
                sent => bytes.advance(sent),
            }
        }
        sending.queued.extend_from_slice(&bytes);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = &lock(&self.sending).task {
            task.abort();
        }
    }
}

/// Sends without waiting. Returns 0 if the kernel takes no bytes.
fn try_send(fd: &Registered, bytes: &[u8]) -> io::Result<usize> {
    let sent = fd.try_io(Interest::WRITABLE, |fd| {
        Ok(send(fd, bytes, SendFlags::NOSIGNAL)?)
    });
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        sent => sent,
    }
}

async fn send_all(fd: &Registered, mut bytes: BytesMut) -> io::Result<()> {
    while bytes.has_remaining() {
        fd.writable().await?;
        bytes.advance(try_send(fd, &bytes)?);
    }
    Ok(())
}

/// Sends queued bytes until the queue is empty.
async fn send_queued(fd: Arc<Registered>, sending: Arc<Mutex<Sending>>) {
    let mut sent = Ok(());
    loop {
        let bytes = {
            let mut sending = lock(&sending);
            if sent.is_err() || sending.queued.is_empty() {
                if sending.is_shut {
                    let _ = shutdown(&fd, Shutdown::Write);
                }
                sending.failed = sent.err();
                sending.task = None;
                if let Some(waker) = sending.waker.take() {
                    waker.wake();
                }
                return;
            }
            sending.queued.split()
        };
        sent = send_all(&fd, bytes).await;
    }
}

impl Sending {
    /// Fails if the stream can send no more bytes.
    fn check(&mut self) -> Result<(), StreamFailure> {
        match self.failed.take() {
            Some(error) => Err(failure(error)),
            None if self.is_shut => Err(StreamFailure::Closed),
            None => Ok(()),
        }
    }
}

/// Converts an error of a stream. EPIPE means that the stream is closed.
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
            let mut buffer = Vec::with_capacity(max);
            recv(fd, spare_capacity(&mut buffer), RecvFlags::empty())?;
            Ok(exact(buffer))
        });
        match received {
            Ok(bytes) if bytes.is_empty() => Err(StreamFailure::Closed),
            Ok(bytes) => Ok(bytes),
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
        let mut sending = lock(&self.0.sending);
        sending.check()?;
        let is_writable = sending.task.is_none() && self.0.fd.is_writable();
        Ok(if is_writable { WRITE_MAX } else { 0 })
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        self.0.send(bytes)
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        lock(&self.0.sending).check()
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut sending = lock(&self.0.sending);
        // Report an error, and an end that the guest requested, at once.
        if sending.is_shut || sending.failed.is_some() {
            return Poll::Ready(());
        }
        if sending.task.is_some() {
            sending.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.0.fd.poll_writable(context)
    }
}

impl Drop for TcpOutput {
    fn drop(&mut self) {
        self.0.shut_send();
    }
}
