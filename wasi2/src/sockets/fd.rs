//! [`Fd`] and [`Registered`]: sockets of the host, which count against the guest's limit.

use super::types::{ErrorCode, Failure, IpAddressFamily};
use crate::quota::Token;
use pirn_runtime::HostError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, getsockname, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// A socket of the host. It never blocks, and is closed on exec(3).
#[derive(Debug)]
pub(super) struct Fd {
    fd: OwnedFd,
    counted: Token,
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The flags of all sockets.
pub(super) const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

impl Fd {
    /// A new socket.
    pub(super) fn open(
        family: IpAddressFamily,
        ty: SocketType,
        counted: Token,
    ) -> Result<Self, Errno> {
        let domain = match family {
            IpAddressFamily::Ipv4 => AddressFamily::INET,
            IpAddressFamily::Ipv6 => AddressFamily::INET6,
        };
        let fd = Self::new(socket_with(domain, ty, FLAGS, None)?, counted);
        if family == IpAddressFamily::Ipv6 {
            sockopt::set_ipv6_v6only(&fd, true)?;
        }
        Ok(fd)
    }

    pub(super) fn new(fd: OwnedFd, counted: Token) -> Self {
        Self { fd, counted }
    }

    /// Adds the socket to the event loop of the caller's tokio runtime.
    pub(super) fn register(self) -> Result<Registered, Failure> {
        runtime()?;
        let stream = TcpStream::from_std(self.fd.into());
        let stream = stream.map_err(|error| ErrorCode::of(&error).unwrap_or(ErrorCode::Unknown))?;
        Ok(Registered {
            stream,
            _counted: self.counted,
        })
    }
}

/// A socket in the event loop of a tokio runtime.
pub(super) struct Registered {
    /// A socket of any kind, not only TCP. Tokio only waits until the socket is ready. `TcpStream`
    /// can wait for all kinds of sockets without `unsafe`.
    stream: TcpStream,
    _counted: Token,
}

impl AsFd for Registered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Registered {
    /// Runs an operation. If tokio knows that the socket is not ready, fails with `WouldBlock`.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.stream.try_io(interest, || operation(self.as_fd()))
    }

    /// Whether the kernel may accept bytes. False after a send that would have blocked.
    pub(super) fn is_writable(&self) -> bool {
        self.try_io(Interest::WRITABLE, |_| Ok(())).is_ok()
    }

    /// Waits until the kernel may accept bytes.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// Ready if a read or an accept would return at once, also with an error or the end. Otherwise
    /// wakes the task of the context when the call would return.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        // Tokio reports a socket ready until a read would block. The guest may have read
        // everything. The first check then clears the readiness, and the second poll waits.
        for _ in 0..2 {
            // An error means that the runtime ends. The next operation fails.
            if ready!(self.stream.poll_read_ready(context)).is_err() {
                break;
            }
            if self.is_readable() {
                break;
            }
        }
        Poll::Ready(())
    }

    /// Asks the kernel whether a read or an accept would return at once, also with an error or the
    /// end.
    pub(super) fn is_readable(&self) -> bool {
        let asked = self.try_read(|fd| {
            let mut now = [PollFd::new(&fd, PollFlags::IN | PollFlags::RDHUP)];
            match poll(&mut now, Some(&Timespec::default())) {
                // This clears the readiness in tokio.
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        asked.is_ok()
    }

    /// Runs an operation that reads. If tokio knows of neither data nor an error, fails with
    /// `WouldBlock`. There are two calls of `try_io`, because an error does not make a UDP socket
    /// readable, and `try_io` takes one interest at a time.
    pub(super) fn try_read<R>(
        &self,
        mut operation: impl FnMut(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        match self.try_io(Interest::READABLE, &mut operation) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.try_io(Interest::ERROR, operation)
            }
            result => result,
        }
    }

    /// Waits until there may be data or an error.
    pub(super) async fn readable_or_failed(&self) {
        let _ = self
            .stream
            .ready(Interest::READABLE | Interest::ERROR)
            .await;
    }

    /// Ready if the socket accepts bytes or has failed. Otherwise wakes the task of the context
    /// when this happens.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_write_ready(context).map(drop)
    }
}

/// The tokio runtime that polls the guest. Without a runtime, returns an error that ends the guest,
/// because tokio would panic.
pub(super) fn runtime() -> Result<Handle, HostError> {
    Handle::try_current().map_err(|_| {
        HostError::message(
            "sockets need a tokio runtime; call the guest by call_async on one, with I/O and time",
        )
    })
}

/// The address that a socket is bound to.
pub(super) fn local_address(fd: impl AsFd) -> Result<SocketAddr, ErrorCode> {
    to_ip(getsockname(fd)?)
}

/// Converts an address of a socket.
pub(super) fn to_ip(address: SocketAddrAny) -> Result<SocketAddr, ErrorCode> {
    address.try_into().map_err(|_| ErrorCode::Unknown)
}
