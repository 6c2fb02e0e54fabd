//! `wasi:sockets/network`: addresses, and errors.

use crate::codes::error_codes;
use crate::table::resource_type;
use pirn_component::Typed;
use pirn_runtime::HostError;
use rustix::io::Errno;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

pub(super) const NETWORK: &str = "wasi:sockets/network@0.2.12";

/// A `network`. It has no state, because the same rules apply to all sockets of a guest.
pub(super) struct NetworkHandle;

resource_type!(NetworkHandle, NETWORK, "network", ready);

error_codes! {
    pub(super) ErrorCode, else Unknown;
    Unknown;
    AccessDenied = ACCESS | PERM;
    NotSupported = OPNOTSUPP | NOPROTOOPT | PROTONOSUPPORT;
    InvalidArgument = INVAL | AFNOSUPPORT | DESTADDRREQ;
    OutOfMemory = NOMEM | NOBUFS;
    Timeout = TIMEDOUT;
    ConcurrencyConflict = ALREADY;
    NotInProgress;
    WouldBlock = AGAIN;
    InvalidState = ISCONN | NOTCONN | PIPE;
    NewSocketLimit = MFILE | NFILE;
    AddressNotBindable = ADDRNOTAVAIL;
    AddressInUse = ADDRINUSE;
    RemoteUnreachable = HOSTUNREACH | HOSTDOWN | NETUNREACH | NETDOWN | NETRESET | NONET;
    ConnectionRefused = CONNREFUSED;
    ConnectionReset = CONNRESET;
    ConnectionAborted = CONNABORTED;
    DatagramTooLarge = MSGSIZE;
    NameUnresolvable;
    TemporaryResolverFailure;
    PermanentResolverFailure;
}

impl ErrorCode {
    /// The code for an error of a stream, if the error came from the kernel.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        Errno::from_io_error(error).map(Self::from)
    }
}

/// The reason for which a function failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The guest gets this code.
    Code(ErrorCode),
    /// The error ends the guest.
    Host(HostError),
}

impl From<ErrorCode> for Failure {
    fn from(code: ErrorCode) -> Self {
        Self::Code(code)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Code(errno.into())
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

/// The result of a function. The inner result goes to the guest; the outer error ends the guest.
pub(super) type Answer<R> = Result<Result<R, ErrorCode>, HostError>;

/// Converts the result of a function.
pub(super) fn answer<R>(result: Result<R, Failure>) -> Answer<R> {
    match result {
        Ok(result) => Ok(Ok(result)),
        Err(Failure::Code(code)) => Ok(Err(code)),
        Err(Failure::Host(error)) => Err(error),
    }
}

/// `ip-address-family`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(super) enum IpAddressFamily {
    Ipv4,
    Ipv6,
}

impl IpAddressFamily {
    /// Refuses an address of the other family, and an IPv4-mapped IPv6 address, which the kernel
    /// treats as the IPv4 address.
    pub(super) fn check(self, address: SocketAddr) -> Result<(), ErrorCode> {
        let is_own = match address.ip() {
            IpAddr::V4(_) => self == Self::Ipv4,
            IpAddr::V6(ip) => self == Self::Ipv6 && ip.to_ipv4_mapped().is_none(),
        };
        match is_own {
            true => Ok(()),
            false => Err(ErrorCode::InvalidArgument),
        }
    }

    /// Refuses an address that cannot be a destination: an unspecified address or port 0.
    pub(super) fn check_remote(self, address: SocketAddr) -> Result<(), ErrorCode> {
        self.check(address)?;
        match address.ip().is_unspecified() || address.port() == 0 {
            true => Err(ErrorCode::InvalidArgument),
            false => Ok(()),
        }
    }
}

/// Refuses multicast and broadcast addresses, which TCP does not support.
pub(super) fn check_unicast(address: SocketAddr) -> Result<(), ErrorCode> {
    let is_broadcast = matches!(address.ip(), IpAddr::V4(ip) if ip.is_broadcast());
    match address.ip().is_multicast() || is_broadcast {
        true => Err(ErrorCode::InvalidArgument),
        false => Ok(()),
    }
}

/// `ip-address`
#[derive(Debug, Clone, Copy, Typed)]
pub(super) enum IpAddress {
    Ipv4((u8, u8, u8, u8)),
    Ipv6((u16, u16, u16, u16, u16, u16, u16, u16)),
}

impl From<IpAddr> for IpAddress {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(ip) => Self::Ipv4(ip.octets().into()),
            IpAddr::V6(ip) => Self::Ipv6(ip.segments().into()),
        }
    }
}

/// `ipv4-socket-address`
#[derive(Debug, Clone, Copy, Typed)]
pub(super) struct Ipv4SocketAddress {
    port: u16,
    address: (u8, u8, u8, u8),
}

/// `ipv6-socket-address`
#[derive(Debug, Clone, Copy, Typed)]
pub(super) struct Ipv6SocketAddress {
    port: u16,
    flow_info: u32,
    address: (u16, u16, u16, u16, u16, u16, u16, u16),
    scope_id: u32,
}

/// `ip-socket-address`
#[derive(Debug, Clone, Copy, Typed)]
pub(super) enum IpSocketAddress {
    Ipv4(Ipv4SocketAddress),
    Ipv6(Ipv6SocketAddress),
}

impl From<SocketAddr> for IpSocketAddress {
    fn from(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::Ipv4(Ipv4SocketAddress {
                port: address.port(),
                address: address.ip().octets().into(),
            }),
            SocketAddr::V6(address) => Self::Ipv6(Ipv6SocketAddress {
                port: address.port(),
                flow_info: address.flowinfo(),
                address: address.ip().segments().into(),
                scope_id: address.scope_id(),
            }),
        }
    }
}

impl From<IpSocketAddress> for SocketAddr {
    fn from(address: IpSocketAddress) -> Self {
        match address {
            IpSocketAddress::Ipv4(of) => {
                SocketAddrV4::new(<[u8; 4]>::from(of.address).into(), of.port).into()
            }
            IpSocketAddress::Ipv6(of) => {
                let ip = <[u16; 8]>::from(of.address).into();
                SocketAddrV6::new(ip, of.port, of.flow_info, of.scope_id).into()
            }
        }
    }
}
