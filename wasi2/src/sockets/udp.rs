//! [`UdpSocket`] and its streams of datagrams.

use super::fd::{Fd, Registered, local_address, to_ip};
use super::types::{ErrorCode, Failure, IpAddressFamily, IpSocketAddress};
use crate::limits::{DATAGRAM_BYTES, DATAGRAMS_MAX};
use crate::network::Access;
use crate::quota::Token;
use crate::table::Resource;
use crate::wasi::WasiConfig;
use bytes::Bytes;
use pirn_component::Typed;
use pirn_runtime::HostError;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketType, connect_unspec, recvfrom};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::io::Interest;

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

/// A `udp-socket`.
pub(super) struct UdpSocket {
    config: Arc<WasiConfig>,
    family: IpAddressFamily,
    state: State,
    remote: Option<SocketAddr>,
}

enum State {
    Unbound(Fd),
    BindStarted(Arc<Shared>),
    Bound(Arc<Shared>),
    /// An operation ended the guest.
    Closed,
}

/// What the socket and its streams share.
struct Shared {
    fd: Registered,
    /// Number of calls of `stream`. Only the streams of the last one work.
    streams: AtomicU64,
}

/// One of the streams of a socket.
pub(super) struct Stream {
    shared: Arc<Shared>,
    config: Arc<WasiConfig>,
    family: IpAddressFamily,
    remote: Option<SocketAddr>,
    number: u64,
}

impl UdpSocket {
    pub(super) fn open(
        config: Arc<WasiConfig>,
        family: IpAddressFamily,
        counted: Token,
    ) -> Result<Self, ErrorCode> {
        let fd = Fd::open(family, SocketType::DGRAM, counted)?;
        Ok(Self {
            config,
            family,
            state: State::Unbound(fd),
            remote: None,
        })
    }

    pub(super) fn family(&self) -> IpAddressFamily {
        self.family
    }

    /// The socket of the system, for its options.
    pub(super) fn fd(&self) -> Result<BorrowedFd<'_>, ErrorCode> {
        match &self.state {
            State::Unbound(fd) => Ok(fd.as_fd()),
            State::BindStarted(shared) | State::Bound(shared) => Ok(shared.fd.as_fd()),
            State::Closed => Err(ErrorCode::InvalidState),
        }
    }

    pub(super) fn start_bind(&mut self, address: SocketAddr) -> Result<(), Failure> {
        let fd = match &self.state {
            State::Unbound(fd) => fd,
            State::BindStarted(_) => return Err(ErrorCode::ConcurrencyConflict.into()),
            _ => return Err(ErrorCode::InvalidState.into()),
        };
        self.family.check(address)?;
        if !self.config.network.allows(Access::UdpBind, address) {
            return Err(ErrorCode::AccessDenied.into());
        }
        net::bind(fd, &address)?;
        if let State::Unbound(fd) = mem::replace(&mut self.state, State::Closed) {
            self.state = State::BindStarted(Arc::new(Shared {
                fd: fd.register()?,
                streams: AtomicU64::new(0),
            }));
        }
        Ok(())
    }

    pub(super) fn finish_bind(&mut self) -> Result<(), Failure> {
        let State::BindStarted(shared) = &self.state else {
            return Err(ErrorCode::NotInProgress.into());
        };
        self.state = State::Bound(Arc::clone(shared));
        Ok(())
    }

    fn bound(&self) -> Result<&Arc<Shared>, ErrorCode> {
        match &self.state {
            State::Bound(shared) => Ok(shared),
            _ => Err(ErrorCode::InvalidState),
        }
    }

    /// New streams, which are only for one peer if there is a remote address.
    pub(super) fn stream(
        &mut self,
        remote: Option<SocketAddr>,
    ) -> Result<(Incoming, Outgoing), Failure> {
        let shared = Arc::clone(self.bound()?);
        if let Some(remote) = remote {
            self.family.check_remote(remote)?;
            if !self.config.network.allows(Access::UdpSend, remote) {
                return Err(ErrorCode::AccessDenied.into());
            }
        }
        // From here on, the streams of before have no meaning.
        let number = shared.streams.fetch_add(1, Ordering::Relaxed) + 1;
        if self.remote.take().is_some() {
            disconnect(&shared.fd)?;
        }
        if let Some(remote) = remote {
            net::connect(&shared.fd, &remote)?;
            self.remote = Some(remote);
        }
        let stream = |shared| Stream {
            shared,
            config: Arc::clone(&self.config),
            family: self.family,
            remote,
            number,
        };
        let incoming = Incoming(stream(Arc::clone(&shared)));
        let outgoing = Outgoing {
            stream: stream(shared),
            permitted: 0,
        };
        Ok((incoming, outgoing))
    }

    pub(super) fn local_address(&self) -> Result<SocketAddr, ErrorCode> {
        local_address(&self.bound()?.fd)
    }

    pub(super) fn remote_address(&self) -> Result<SocketAddr, ErrorCode> {
        self.remote.ok_or(ErrorCode::InvalidState)
    }
}

/// Takes back a connect. Linux then gives up a port that it chose itself, so that the socket is
/// bound to the port again.
fn disconnect(fd: &Registered) -> Result<(), ErrorCode> {
    let mut address = local_address(fd)?;
    connect_unspec(fd)?;
    let port = address.port();
    address = local_address(fd)?;
    if address.port() == 0 {
        address.set_port(port);
        net::bind(fd, &address)?;
    }
    Ok(())
}

impl Resource for UdpSocket {}

impl Stream {
    /// Fails if the socket has newer streams.
    fn check(&self) -> Result<(), ErrorCode> {
        match self.shared.streams.load(Ordering::Relaxed) == self.number {
            true => Ok(()),
            false => Err(ErrorCode::InvalidState),
        }
    }

    /// The address that a datagram goes to; none if it is the connected one.
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

    /// One datagram that is there.
    fn receive(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), ErrorCode> {
        let received = self.shared.fd.try_io(Interest::READABLE, |fd| {
            let (bytes, _, from) = recvfrom(fd, buffer, RecvFlags::empty())?;
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
pub(super) struct Incoming(Stream);

impl Incoming {
    pub(super) fn receive(&mut self, max: u64) -> Result<Vec<IncomingDatagram>, Failure> {
        let stream = &self.0;
        stream.check()?;
        let max = usize::try_from(max).map_or(DATAGRAMS_MAX, |max| max.min(DATAGRAMS_MAX));
        let (mut datagrams, mut sum) = (vec![], 0);
        // One datagram has fewer bytes.
        let mut buffer = vec![0; if max == 0 { 0 } else { 1 << 16 }];
        for _ in 0..max {
            match stream.receive(&mut buffer) {
                Ok((bytes, from)) => {
                    // Others came before the socket was connected.
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

/// Whether addresses are the same one. The kernel fills in scope and flow.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

impl Resource for Incoming {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.0.check() {
            Ok(()) => self.0.shared.fd.poll_readable(context),
            Err(_) => Poll::Ready(()),
        }
    }
}

/// An `outgoing-datagram-stream`.
pub(super) struct Outgoing {
    stream: Stream,
    permitted: usize,
}

impl Outgoing {
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

impl Resource for Outgoing {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.stream.check() {
            Ok(()) => self.stream.shared.fd.poll_writable(context),
            Err(_) => Poll::Ready(()),
        }
    }
}
