//! Connections, and the requests that come by them.

pub(crate) mod buffered;
pub(crate) mod clients;
pub(crate) mod stream;
pub(crate) mod body;
pub mod guest_body;
pub(crate) mod authority;

use std::net::SocketAddr;

/// The addresses of both ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

/// The start of a guest's or a client's text, for an error message.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(64)]).into_owned()
}
