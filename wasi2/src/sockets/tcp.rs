//! [`TcpSocket`]: the states of a `tcp-socket`.

use super::connection::Connection;
use super::fd::{FLAGS, Fd, Registered, local_address, to_ip};
use super::options::Socket;
use super::types::{ErrorCode, Failure, IpAddressFamily, check_unicast};
use crate::limits::{BACKLOG, BACKLOG_MAX};
use crate::network::Access;
use crate::quota::Token;
use crate::table::{Resource, resource_type};
use crate::wasi::WasiConfig;
use pirn_component::HostBytes;
use rustix::io::Errno;
use rustix::net::{self, SocketType, acceptfrom_with, getpeername, sockopt};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::Interest;

/// The interface of the resource type.
pub(super) const TCP: &str = "wasi:sockets/tcp@0.2.12";

/// A `tcp-socket`.
pub(super) struct TcpSocket {
    config: Arc<WasiConfig>,
    family: IpAddressFamily,
    backlog: u64,
    state: State,
}

/// The states of the interface. The kernel already binds in `start-bind`, and listens in
/// `start-listen`.
enum State {
    Unbound(Fd),
    BindStarted(Fd),
    Bound(Fd),
    ListenStarted(Registered),
    Listening(Registered),
    ConnectStarted(Registered),
    /// connect(2) failed at once. `finish-connect` reports the error.
    ConnectFailed(Fd, Errno),
    Connected(Arc<Connection>),
    Closed,
}

impl State {
    fn is_in_progress(&self) -> bool {
        matches!(
            self,
            Self::BindStarted(_)
                | Self::ListenStarted(_)
                | Self::ConnectStarted(_)
                | Self::ConnectFailed(..)
        )
    }

    /// The error of an operation that cannot begin in this state.
    fn refuse(&self) -> ErrorCode {
        match self.is_in_progress() {
            true => ErrorCode::ConcurrencyConflict,
            false => ErrorCode::InvalidState,
        }
    }
}

impl TcpSocket {
    pub(super) fn open(
        config: Arc<WasiConfig>,
        family: IpAddressFamily,
        counted: Token,
    ) -> Result<Self, ErrorCode> {
        let fd = Fd::open(family, SocketType::STREAM, counted)?;
        Ok(Self::in_state(config, family, State::Unbound(fd)))
    }

    fn in_state(config: Arc<WasiConfig>, family: IpAddressFamily, state: State) -> Self {
        Self {
            config,
            family,
            backlog: BACKLOG,
            state,
        }
    }

    /// Fails with `access-denied` if the guest must not use an address in this way.
    fn check_access(&self, access: Access, address: SocketAddr) -> Result<(), ErrorCode> {
        match self.config.network.allows(access, address) {
            true => Ok(()),
            false => Err(ErrorCode::AccessDenied),
        }
    }

    pub(super) fn start_bind(&mut self, address: SocketAddr) -> Result<(), Failure> {
        let State::Unbound(fd) = &self.state else {
            return Err(self.state.refuse().into());
        };
        self.family.check(address)?;
        check_unicast(address)?;
        self.check_access(Access::TcpListen, address)?;
        // The interface requires that connections in TIME_WAIT do not block the port.
        sockopt::set_socket_reuseaddr(fd, address.port() != 0)?;
        net::bind(fd, &address)?;
        if let State::Unbound(fd) = self.take() {
            self.state = State::BindStarted(fd);
        }
        Ok(())
    }

    pub(super) fn finish_bind(&mut self) -> Result<(), Failure> {
        match self.take() {
            State::BindStarted(fd) => {
                self.state = State::Bound(fd);
                Ok(())
            }
            other => self.back(other, ErrorCode::NotInProgress),
        }
    }

    pub(super) fn start_connect(&mut self, address: SocketAddr) -> Result<(), Failure> {
        if !matches!(self.state, State::Unbound(_) | State::Bound(_)) {
            return Err(self.state.refuse().into());
        }
        self.family.check_remote(address)?;
        check_unicast(address)?;
        self.check_access(Access::TcpConnect, address)?;
        let (State::Unbound(fd) | State::Bound(fd)) = self.take() else {
            return Err(ErrorCode::InvalidState.into());
        };
        self.state = match net::connect(&fd, &address) {
            // Register the socket only after connect(2): epoll(7) reports an unconnected socket as
            // hung up.
            Ok(()) | Err(Errno::INPROGRESS) => State::ConnectStarted(fd.register()?),
            Err(errno) => State::ConnectFailed(fd, errno),
        };
        Ok(())
    }

    /// Ends a connect: returns the connection, if it is established.
    pub(super) fn finish_connect(
        &mut self,
        host_bytes: &HostBytes,
    ) -> Result<Arc<Connection>, Failure> {
        let fd = match self.take() {
            State::ConnectStarted(fd) => fd,
            // The socket is closed.
            State::ConnectFailed(_, errno) => return Err(connect_error(errno).into()),
            other => return self.back(other, ErrorCode::NotInProgress),
        };
        let connected = fd.try_io(Interest::WRITABLE, |fd| {
            sockopt::socket_error(fd)??;
            match getpeername(fd) {
                Err(Errno::NOTCONN) => Err(io::ErrorKind::WouldBlock.into()),
                peer => Ok(peer.map(drop)?),
            }
        });
        match connected {
            Ok(()) => {
                let connection = Connection::new(fd, host_bytes)?;
                self.state = State::Connected(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.back(State::ConnectStarted(fd), ErrorCode::WouldBlock)
            }
            Err(error) => {
                Err(Errno::from_io_error(&error).map_or(ErrorCode::Unknown, connect_error))?
            }
        }
    }

    pub(super) fn start_listen(&mut self) -> Result<(), Failure> {
        let State::Bound(fd) = &self.state else {
            return Err(self.state.refuse().into());
        };
        net::listen(fd, self.backlog as i32)?;
        if let State::Bound(fd) = self.take() {
            self.state = State::ListenStarted(fd.register()?);
        }
        Ok(())
    }

    pub(super) fn finish_listen(&mut self) -> Result<(), Failure> {
        match self.take() {
            State::ListenStarted(fd) => {
                self.state = State::Listening(fd);
                Ok(())
            }
            other => self.back(other, ErrorCode::NotInProgress),
        }
    }

    /// Accepts a connection. `counted` is `None` if the guest has the maximum number of sockets.
    pub(super) fn accept(
        &mut self,
        counted: Option<Token>,
        host_bytes: &HostBytes,
    ) -> Result<(Self, Arc<Connection>), Failure> {
        let State::Listening(listener) = &self.state else {
            return Err(self.state.refuse().into());
        };
        // Without a token, the connection waits in the kernel.
        let counted = counted.ok_or(ErrorCode::NewSocketLimit)?;
        let accepted = listener.try_io(Interest::READABLE, |fd| {
            let (fd, _) = acceptfrom_with(fd, FLAGS)?;
            Ok(fd)
        });
        let fd = accepted.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => ErrorCode::WouldBlock,
            _ => accept_error(&error),
        })?;
        let connection = Connection::new(Fd::new(fd, counted).register()?, host_bytes)?;
        let state = State::Connected(Arc::clone(&connection));
        let socket = Self::in_state(Arc::clone(&self.config), self.family, state);
        Ok((socket, connection))
    }

    pub(super) fn connection(&self) -> Result<&Connection, ErrorCode> {
        match &self.state {
            State::Connected(connection) => Ok(connection),
            _ => Err(ErrorCode::InvalidState),
        }
    }

    pub(super) fn is_listening(&self) -> bool {
        matches!(self.state, State::Listening(_))
    }

    pub(super) fn set_backlog(&mut self, backlog: u64) -> Result<(), ErrorCode> {
        if backlog == 0 {
            return Err(ErrorCode::InvalidArgument);
        }
        let backlog = backlog.min(BACKLOG_MAX);
        match &self.state {
            State::Unbound(_) | State::BindStarted(_) | State::Bound(_) => {}
            State::ListenStarted(fd) | State::Listening(fd) => net::listen(fd, backlog as i32)?,
            _ => return Err(ErrorCode::InvalidState),
        }
        self.backlog = backlog;
        Ok(())
    }

    fn take(&mut self) -> State {
        mem::replace(&mut self.state, State::Closed)
    }

    /// Restores a state, and fails with a code.
    fn back<R>(&mut self, state: State, code: ErrorCode) -> Result<R, Failure> {
        self.state = state;
        Err(code.into())
    }
}

/// The code for an error of connect(2).
fn connect_error(errno: Errno) -> ErrorCode {
    match errno {
        // No local port is free.
        Errno::ADDRNOTAVAIL | Errno::AGAIN => ErrorCode::AddressInUse,
        errno => errno.into(),
    }
}

/// The code for an error of accept(2). Linux also reports errors of the new connection here.
fn accept_error(error: &io::Error) -> ErrorCode {
    match ErrorCode::of(error) {
        Some(
            code @ (ErrorCode::NewSocketLimit | ErrorCode::OutOfMemory | ErrorCode::AccessDenied),
        ) => code,
        _ => ErrorCode::ConnectionAborted,
    }
}

impl Socket for TcpSocket {
    fn family(&self) -> IpAddressFamily {
        self.family
    }

    fn fd(&self) -> Result<BorrowedFd<'_>, ErrorCode> {
        match &self.state {
            State::Unbound(fd)
            | State::BindStarted(fd)
            | State::Bound(fd)
            | State::ConnectFailed(fd, _) => Ok(fd.as_fd()),
            State::ListenStarted(fd) | State::Listening(fd) | State::ConnectStarted(fd) => {
                Ok(fd.as_fd())
            }
            State::Connected(connection) => Ok(connection.fd.as_fd()),
            State::Closed => Err(ErrorCode::InvalidState),
        }
    }

    fn local_address(&self) -> Result<SocketAddr, ErrorCode> {
        match &self.state {
            State::Unbound(_) | State::BindStarted(_) => Err(ErrorCode::InvalidState),
            _ => local_address(self.fd()?),
        }
    }

    fn remote_address(&self) -> Result<SocketAddr, ErrorCode> {
        let peer = getpeername(&self.connection()?.fd)?;
        to_ip(peer.ok_or(ErrorCode::InvalidState)?)
    }
}

resource_type!(TcpSocket, TCP, "tcp-socket");

impl Resource for TcpSocket {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &self.state {
            State::Listening(fd) => fd.poll_readable(context),
            State::ConnectStarted(fd) => fd.poll_writable(context),
            _ => Poll::Ready(()),
        }
    }
}
