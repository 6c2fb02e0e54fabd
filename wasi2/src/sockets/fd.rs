//! [`Fd`] and [`Registered`]: sockets of the system, which count as the guest's.

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

/// A socket of the system. It never blocks, and no program that the process starts has it.
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
    /// Any socket. Tokio asks the kernel only whether it is ready, and this is the type that does
    /// that for all kinds of sockets without `unsafe`.
    stream: TcpStream,
    _counted: Token,
}

impl AsFd for Registered {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Registered {
    /// Runs an operation, unless it is known that the kernel would make it wait.
    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce(BorrowedFd<'_>) -> io::Result<R>,
    ) -> io::Result<R> {
        self.stream.try_io(interest, || operation(self.as_fd()))
    }

    /// Whether it is not known that the kernel takes no bytes.
    pub(super) fn is_writable(&self) -> bool {
        self.try_io(Interest::WRITABLE, |_| Ok(())).is_ok()
    }

    /// Waits until it is not known that the kernel takes no bytes.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// Whether there is something to read or to accept, an error, or the end. If not, wakes the
    /// task of the context then.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        // Tokio keeps a socket ready until a read finds nothing, and the guest may have read all:
        // the second time, it waits.
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

    /// Asks the kernel whether there is something to read or to accept, an error, or the end.
    pub(super) fn is_readable(&self) -> bool {
        let asked = self.try_read(|fd| {
            let mut now = [PollFd::new(&fd, PollFlags::IN | PollFlags::RDHUP)];
            match poll(&mut now, Some(&Timespec::default())) {
                // Tokio waits from now on.
                Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        asked.is_ok()
    }

    /// Runs an operation that reads, unless it is known that there is nothing. An error does not
    /// make a UDP socket readable, and `try_io` wants one interest at a time.
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

    /// Waits until it is not known that there is nothing to read, and no error.
    pub(super) async fn readable_or_failed(&self) {
        let _ = self
            .stream
            .ready(Interest::READABLE | Interest::ERROR)
            .await;
    }

    /// Whether it takes bytes, or has failed. If not, wakes the task of the context then.
    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.poll_write_ready(context).map(drop)
    }
}

/// The tokio runtime that polls the guest. Ends the guest if there is none: tokio would panic.
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

/// An address of a socket.
pub(super) fn to_ip(address: SocketAddrAny) -> Result<SocketAddr, ErrorCode> {
    address.try_into().map_err(|_| ErrorCode::Unknown)
}
