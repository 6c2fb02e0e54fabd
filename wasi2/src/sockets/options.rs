//! The options of sockets.

use super::types::{ErrorCode, IpAddressFamily};
use crate::limits::SOCKET_BUFFER_MAX;
use rustix::net::sockopt;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Longest time of keep-alive options, in seconds (Linux: `MAX_TCP_KEEPIDLE`).
const KEEP_ALIVE_SECONDS_MAX: u64 = 32_767;

/// Most probes of keep-alive (Linux: `MAX_TCP_KEEPCNT`).
const KEEP_ALIVE_COUNT_MAX: u32 = 127;

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

pub(super) fn hop_limit(fd: BorrowedFd<'_>, family: IpAddressFamily) -> Result<u8, ErrorCode> {
    Ok(match family {
        IpAddressFamily::Ipv4 => u8::try_from(sockopt::ip_ttl(fd)?).unwrap_or(u8::MAX),
        IpAddressFamily::Ipv6 => sockopt::ipv6_unicast_hops(fd)?,
    })
}

pub(super) fn set_hop_limit(
    fd: BorrowedFd<'_>,
    family: IpAddressFamily,
    hops: u8,
) -> Result<(), ErrorCode> {
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

pub(super) fn receive_buffer_size(fd: BorrowedFd<'_>) -> Result<u64, ErrorCode> {
    Ok(sockopt::socket_recv_buffer_size(fd)? as u64)
}

pub(super) fn set_receive_buffer_size(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), ErrorCode> {
    Ok(sockopt::set_socket_recv_buffer_size(
        fd,
        buffer_size(bytes)?,
    )?)
}

pub(super) fn send_buffer_size(fd: BorrowedFd<'_>) -> Result<u64, ErrorCode> {
    Ok(sockopt::socket_send_buffer_size(fd)? as u64)
}

pub(super) fn set_send_buffer_size(fd: BorrowedFd<'_>, bytes: u64) -> Result<(), ErrorCode> {
    Ok(sockopt::set_socket_send_buffer_size(
        fd,
        buffer_size(bytes)?,
    )?)
}
