//! The options and addresses that TCP and UDP sockets share.

use super::calls::coded;
use super::types::{ErrorCode, IpAddressFamily, IpSocketAddress};
use crate::limits::SOCKET_BUFFER_MAX;
use crate::methods::{itself, methods, pollable};
use crate::table::Resource;
use crate::wasi::View;
use pirn_component::{LinkError, Linker, ResourceType};
use rustix::net::sockopt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Longest time of keep-alive options, in seconds (Linux: `MAX_TCP_KEEPIDLE`).
const KEEP_ALIVE_SECONDS_MAX: u64 = 32_767;

/// Most probes of keep-alive (Linux: `MAX_TCP_KEEPCNT`).
const KEEP_ALIVE_COUNT_MAX: u32 = 127;

/// A socket of a guest.
pub(super) trait Socket: Resource + ResourceType {
    fn family(&self) -> IpAddressFamily;

    /// The socket of the system.
    fn fd(&self) -> Result<BorrowedFd<'_>, ErrorCode>;

    fn local_address(&self) -> Result<SocketAddr, ErrorCode>;

    fn remote_address(&self) -> Result<SocketAddr, ErrorCode>;
}

/// Adds the methods that both kinds of sockets have. `limit` is the name of the hop limit's
/// methods, which differs between the kinds.
pub(super) fn link<T: View, S: Socket>(
    linker: &mut Linker<T>,
    limit: &str,
) -> Result<(), LinkError> {
    let set_limit = format!("set-{limit}");
    methods! { linker, S, coded;
        "local-address"() => |socket| Ok(IpSocketAddress::from(socket.local_address()?));
        "remote-address"() => |socket| Ok(IpSocketAddress::from(socket.remote_address()?));
        limit() => |socket| Ok(hop_limit(socket.fd()?, socket.family())?);
        set_limit(hops: u8) => |socket| Ok(set_hop_limit(socket.fd()?, socket.family(), hops)?);
        "receive-buffer-size"() => |socket| {
            Ok(sockopt::socket_recv_buffer_size(socket.fd()?)? as u64)
        };
        "set-receive-buffer-size"(bytes: u64) => |socket| {
            Ok(sockopt::set_socket_recv_buffer_size(socket.fd()?, buffer_size(bytes)?)?)
        };
        "send-buffer-size"() => |socket| {
            Ok(sockopt::socket_send_buffer_size(socket.fd()?)? as u64)
        };
        "set-send-buffer-size"(bytes: u64) => |socket| {
            Ok(sockopt::set_socket_send_buffer_size(socket.fd()?, buffer_size(bytes)?)?)
        };
    }
    methods! { linker, S, itself;
        "address-family"() => |socket| Ok(socket.family());
    }
    pollable::<T, S>(linker)
}

fn nonzero<N: Default + PartialEq>(value: N) -> Result<N, ErrorCode> {
    match value == N::default() {
        true => Err(ErrorCode::InvalidArgument),
        false => Ok(value),
    }
}

/// Converts a keep-alive time to seconds, the kernel's unit. Rounds up.
pub(super) fn keep_alive_time(nanoseconds: u64) -> Result<Duration, ErrorCode> {
    let seconds = nonzero(nanoseconds)?.div_ceil(1_000_000_000);
    Ok(Duration::from_secs(seconds.min(KEEP_ALIVE_SECONDS_MAX)))
}

pub(super) fn keep_alive_count(count: u32) -> Result<u32, ErrorCode> {
    nonzero(count).map(|count| count.min(KEEP_ALIVE_COUNT_MAX))
}

fn hop_limit(fd: BorrowedFd<'_>, family: IpAddressFamily) -> Result<u8, ErrorCode> {
    Ok(match family {
        IpAddressFamily::Ipv4 => u8::try_from(sockopt::ip_ttl(fd)?).unwrap_or(u8::MAX),
        IpAddressFamily::Ipv6 => sockopt::ipv6_unicast_hops(fd)?,
    })
}

fn set_hop_limit(fd: BorrowedFd<'_>, family: IpAddressFamily, hops: u8) -> Result<(), ErrorCode> {
    let hops = nonzero(hops)?;
    match family {
        IpAddressFamily::Ipv4 => sockopt::set_ip_ttl(fd, u32::from(hops))?,
        IpAddressFamily::Ipv6 => sockopt::set_ipv6_unicast_hops(fd, Some(hops))?,
    }
    Ok(())
}

fn buffer_size(bytes: u64) -> Result<usize, ErrorCode> {
    nonzero(bytes).map(|bytes| bytes.min(SOCKET_BUFFER_MAX) as usize)
}
