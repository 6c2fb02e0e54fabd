//! [`UdpSocket`]: the states of a `udp-socket`.

use super::datagrams::{Incoming, Outgoing, Shared, Stream, UDP};
use super::fd::{Fd, Registered, local_address};
use super::options::Socket;
use super::types::{ErrorCode, Failure, IpAddressFamily};
use crate::network::Access;
use crate::quota::Token;
use crate::table::resource_type;
use crate::wasi::WasiConfig;
use rustix::net::{self, SocketType, connect_unspec};
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Registration in the event loop failed during `start-bind`.
    Closed,
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

    /// Makes new streams. With `remote`, the streams exchange datagrams only with this address.
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
        // From here on, the earlier streams no longer work.
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
        let incoming = Incoming::new(stream(Arc::clone(&shared)));
        Ok((incoming, Outgoing::new(stream(shared))))
    }
}

/// Undoes a connect. Linux then releases a port that the kernel chose, so this function binds the
/// socket to that port again.
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

impl Socket for UdpSocket {
    fn family(&self) -> IpAddressFamily {
        self.family
    }

    fn fd(&self) -> Result<BorrowedFd<'_>, ErrorCode> {
        match &self.state {
            State::Unbound(fd) => Ok(fd.as_fd()),
            State::BindStarted(shared) | State::Bound(shared) => Ok(shared.fd.as_fd()),
            State::Closed => Err(ErrorCode::InvalidState),
        }
    }

    fn local_address(&self) -> Result<SocketAddr, ErrorCode> {
        local_address(&self.bound()?.fd)
    }

    fn remote_address(&self) -> Result<SocketAddr, ErrorCode> {
        self.remote.ok_or(ErrorCode::InvalidState)
    }
}

resource_type!(UdpSocket, UDP, "udp-socket", ready);
