//! The streams of a UDP socket: [`Incoming`] and [`Outgoing`].

use super::fd::{Registered, to_ip};
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress};
use crate::limits::{DATAGRAM_BYTES, DATAGRAMS_MAX};
use crate::network::Access;
use crate::table::{Resource, resource_type};
use crate::wasi::WasiConfig;
use bytes::Bytes;
use pirn_component::Typed;
use pirn_runtime::HostError;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, recvfrom};
use std::future::Future;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;

/// The interface of the resource types for UDP.
pub(super) const UDP: &str = "wasi:sockets/udp@0.2.12";

/// `incoming-datagram`
#[derive(Debug, Typed)]
pub(super) struct IncomingDatagram {
    data: Bytes,
    remote_address: IpSocketAddress,
}

/// `outgoing-datagram`
#[derive(Debug, Typed)]
pub(super) struct OutgoingDatagram {
    data: Bytes,
    remote_address: Option<IpSocketAddress>,
}

/// The state that a socket and its streams share.
pub(super) struct Shared {
    pub(super) fd: Registered,
    /// Number of calls of `stream`. Only the streams of the last call work.
    pub(super) streams: AtomicU64,
}

/// One of the streams of a socket.
pub(super) struct Stream {
    pub(super) shared: Arc<Shared>,
    pub(super) config: Arc<WasiConfig>,
    pub(super) family: IpAddressFamily,
    pub(super) remote: Option<SocketAddr>,
    pub(super) number: u64,
}

impl Stream {
    /// Fails if the socket has newer streams.
    fn check(&self) -> Result<(), ErrorCode> {
        match self.shared.streams.load(Ordering::Relaxed) == self.number {
            true => Ok(()),
            false => Err(ErrorCode::InvalidState),
        }
    }

    /// The destination of a datagram. `None` stands for the address to which the socket is
    /// connected.
    fn destination(&self, to: Option<IpSocketAddress>) -> Result<Option<SocketAddr>, ErrorCode> {
        let to = to.map(SocketAddr::from);
        match (self.remote, to) {
            (Some(_), None) => Ok(None),
            (Some(remote), Some(to)) if remote == to => Ok(None),
            (Some(_), Some(_)) | (None, None) => Err(ErrorCode::InvalidArgument),
            (None, Some(to)) => {
                self.family.check_remote(to)?;
                match self.config.network.allows(Access::UdpSend, to) {
                    true => Ok(Some(to)),
                    false => Err(ErrorCode::AccessDenied),
                }
            }
        }
    }

    fn send(&self, datagram: &OutgoingDatagram) -> Result<(), ErrorCode> {
        let to = self.destination(datagram.remote_address)?;
        let fd = &self.shared.fd;
        let sent = fd.try_io(Interest::WRITABLE, |fd| {
            let flags = SendFlags::NOSIGNAL;
            Ok(match to {
                Some(to) => net::sendto(fd, &datagram.data, flags, &to)?,
                None => net::send(fd, &datagram.data, flags)?,
            })
        });
        sent.map(drop).map_err(|error| code(&error))
    }

    /// Receives one datagram without waiting.
    fn receive(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), ErrorCode> {
        let received = self.shared.fd.try_read(|fd| {
            let (bytes, _, from) = recvfrom(fd, &mut *buffer, RecvFlags::empty())?;
            Ok((bytes, from))
        });
        let (bytes, from) = received.map_err(|error| code(&error))?;
        Ok((bytes, to_ip(from.ok_or(ErrorCode::Unknown)?)?))
    }
}

fn code(error: &io::Error) -> ErrorCode {
    match Errno::from_io_error(error) {
        Some(Errno::CONNRESET) => ErrorCode::RemoteUnreachable,
        Some(errno) => errno.into(),
        None if error.kind() == io::ErrorKind::WouldBlock => ErrorCode::WouldBlock,
        None => ErrorCode::Unknown,
    }
}

/// An `incoming-datagram-stream`.
pub(super) struct Incoming {
    stream: Stream,
    wait: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Incoming {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, wait: None }
    }

    pub(super) fn receive(&mut self, max: u64) -> Result<Vec<IncomingDatagram>, Failure> {
        let stream = &self.stream;
        stream.check()?;
        let max = usize::try_from(max).map_or(DATAGRAMS_MAX, |max| max.min(DATAGRAMS_MAX));
        let (mut datagrams, mut sum) = (vec![], 0);
        // Every datagram fits into this buffer.
        let mut buffer = vec![0; if max == 0 { 0 } else { 1 << 16 }];
        for _ in 0..max {
            match stream.receive(&mut buffer) {
                Ok((bytes, from)) => {
                    // Drop datagrams of other peers, which arrived before the socket was connected.
                    if stream.remote.is_none_or(|remote| is_same(remote, from)) {
                        datagrams.push(IncomingDatagram {
                            data: Bytes::copy_from_slice(&buffer[..bytes]),
                            remote_address: from.into(),
                        });
                        sum += bytes;
                    }
                }
                Err(ErrorCode::WouldBlock) => break,
                Err(code) if datagrams.is_empty() => return Err(code.into()),
                Err(_) => break,
            }
            if sum >= DATAGRAM_BYTES {
                break;
            }
        }
        Ok(datagrams)
    }
}

/// Whether two addresses are equal. Ignores scope and flow, which the kernel fills in.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

resource_type!(Incoming, UDP, "incoming-datagram-stream");

impl Resource for Incoming {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // If the guest has read everything, the first check clears the readiness in tokio. The
        // second wait is for new datagrams.
        for _ in 0..2 {
            if self.stream.check().is_err() {
                break;
            }
            let shared = &self.stream.shared;
            let wait = self.wait.get_or_insert_with(|| {
                let shared = Arc::clone(shared);
                Box::pin(async move { shared.fd.readable_or_failed().await })
            });
            ready!(wait.as_mut().poll(context));
            self.wait = None;
            if shared.fd.is_readable() {
                break;
            }
        }
        Poll::Ready(())
    }
}

/// An `outgoing-datagram-stream`.
pub(super) struct Outgoing {
    stream: Stream,
    permitted: usize,
}

impl Outgoing {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            permitted: 0,
        }
    }

    pub(super) fn check_send(&mut self) -> Result<u64, Failure> {
        self.stream.check()?;
        let is_writable = self.stream.shared.fd.is_writable();
        self.permitted = if is_writable { DATAGRAMS_MAX } else { 0 };
        Ok(self.permitted as u64)
    }

    pub(super) fn send(&mut self, datagrams: &[OutgoingDatagram]) -> Result<u64, Failure> {
        let (found, permitted) = (datagrams.len(), mem::take(&mut self.permitted));
        if found > permitted {
            return Err(Failure::Host(HostError::message(format!(
                "{found} datagrams are sent where {permitted} are permitted; call check-send"
            ))));
        }
        self.stream.check()?;
        let mut sent = 0;
        for datagram in datagrams {
            match self.stream.send(datagram) {
                Ok(()) => sent += 1,
                Err(ErrorCode::WouldBlock) => break,
                Err(code) if sent == 0 => return Err(code.into()),
                Err(_) => break,
            }
        }
        Ok(sent)
    }
}

resource_type!(Outgoing, UDP, "outgoing-datagram-stream");

impl Resource for Outgoing {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.stream.check() {
            Ok(()) => self.stream.shared.fd.poll_writable(context),
            Err(_) => Poll::Ready(()),
        }
    }
}
