//! HTTP messages of `wasi:http`, independent of the guest: errors, bodies in both directions, and
//! the client for requests to other servers.

mod allowed;
mod client;
mod error_code;
mod incoming;
mod outgoing;
mod send;
mod target;

pub use allowed::{Allowed, AllowedError};
pub use client::Client;
pub use error_code::{DnsErrorPayload, ErrorCode, FieldSizePayload, TlsAlertReceivedPayload};
pub use incoming::IncomingBody;
pub(crate) use incoming::Receiving;
pub use outgoing::{BodyWriter, OutgoingBody};
pub(crate) use outgoing::{Writer, channel};
pub use send::{RequestTimeouts, SendRequest, Sending};
