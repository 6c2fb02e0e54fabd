//! Short forms of the interfaces.

use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::io::poll::{Pollable, poll};
pub use wasip2::io::streams::{InputStream, OutputStream, StreamError};
pub use wasip2::sockets::instance_network::instance_network;
pub use wasip2::sockets::network::{
    ErrorCode, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, Ipv6SocketAddress,
};
pub use wasip2::sockets::tcp::{ShutdownType, TcpSocket};
pub use wasip2::sockets::tcp_create_socket::create_tcp_socket;

pub fn to_wasi(address: SocketAddr) -> IpSocketAddress {
    match address {
        SocketAddr::V4(v4) => IpSocketAddress::Ipv4(Ipv4SocketAddress {
            port: v4.port(),
            address: v4.ip().octets().into(),
        }),
        SocketAddr::V6(v6) => IpSocketAddress::Ipv6(Ipv6SocketAddress {
            port: v6.port(),
            flow_info: v6.flowinfo(),
            address: v6.ip().segments().into(),
            scope_id: v6.scope_id(),
        }),
    }
}

pub fn from_wasi(address: IpSocketAddress) -> SocketAddr {
    match address {
        IpSocketAddress::Ipv4(v4) => {
            SocketAddrV4::new(<[u8; 4]>::from(v4.address).into(), v4.port).into()
        }
        IpSocketAddress::Ipv6(v6) => {
            let ip = <[u16; 8]>::from(v6.address).into();
            SocketAddrV6::new(ip, v6.port, v6.flow_info, v6.scope_id).into()
        }
    }
}

/// An address in words.
pub fn at(address: &str) -> IpSocketAddress {
    to_wasi(address.parse().expect("an address"))
}

pub fn family(address: &str) -> IpAddressFamily {
    match address.parse::<SocketAddr>().expect("an address").ip() {
        IpAddr::V4(_) => IpAddressFamily::Ipv4,
        IpAddr::V6(_) => IpAddressFamily::Ipv6,
    }
}

/// The address that a socket is bound to.
pub fn local(socket: &TcpSocket) -> Result<SocketAddr, ErrorCode> {
    socket.local_address().map(from_wasi)
}

/// A TCP socket for addresses as this one.
pub fn socket_for(address: &str) -> TcpSocket {
    create_tcp_socket(family(address)).expect("a socket")
}

/// Repeats an operation until it does not answer would-block.
pub fn finish<R>(
    pollable: &Pollable,
    mut operation: impl FnMut() -> Result<R, ErrorCode>,
) -> Result<R, ErrorCode> {
    loop {
        match operation() {
            Err(ErrorCode::WouldBlock) => pollable.block(),
            result => return result,
        }
    }
}

pub fn bind(socket: &TcpSocket, address: &str) -> Result<(), ErrorCode> {
    socket.start_bind(&instance_network(), at(address))?;
    finish(&socket.subscribe(), || socket.finish_bind())
}

pub fn listen(socket: &TcpSocket) -> Result<(), ErrorCode> {
    socket.start_listen()?;
    finish(&socket.subscribe(), || socket.finish_listen())
}

pub fn connect(
    socket: &TcpSocket,
    address: &str,
) -> Result<(InputStream, OutputStream), ErrorCode> {
    socket.start_connect(&instance_network(), at(address))?;
    finish(&socket.subscribe(), || socket.finish_connect())
}

pub fn connected(address: &str) -> (TcpSocket, InputStream, OutputStream) {
    let socket = socket_for(address);
    let (input, output) = connect(&socket, address).expect("a connection");
    (socket, input, output)
}

/// A listening socket, and its address.
pub fn listener(address: &str) -> (TcpSocket, String) {
    let socket = socket_for(address);
    bind(&socket, address).expect("it binds");
    listen(&socket).expect("it listens");
    let address = local(&socket).expect("it is bound");
    (socket, address.to_string())
}

/// Whether a pollable is ready within some milliseconds. For checks that nothing happens: a busy
/// host may need any time for what happens, so that is waited for by `block`.
pub fn within(pollable: &Pollable, milliseconds: u64) -> bool {
    let clock = subscribe_duration(milliseconds * 1_000_000);
    poll(&[pollable, &clock]).contains(&0)
}

pub fn write_all(output: &OutputStream, bytes: &[u8]) -> Result<(), StreamError> {
    let chunks = bytes.chunks(4096);
    for chunk in chunks {
        output.blocking_write_and_flush(chunk)?;
    }
    Ok(())
}

/// Reads until the end.
pub fn read_all(input: &InputStream) -> Vec<u8> {
    let mut all = vec![];
    loop {
        match input.blocking_read(1 << 20) {
            Ok(bytes) => all.extend(bytes),
            Err(StreamError::Closed) => return all,
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Bytes that are unlike each other.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

/// Says something to the test.
pub fn say(text: &str) {
    let output = wasip2::cli::stdout::get_stdout();
    let line = format!("{text}\n");
    output
        .blocking_write_and_flush(line.as_bytes())
        .expect("it writes");
}
