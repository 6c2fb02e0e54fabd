//! `wasi:http`: requests and responses in both directions.
//!
//! [`begin`] makes two resources from a request. A server passes them to the component's
//! [`HANDLE`], and gets the response from the [`Answer`] that [`begin`] also returns.

mod bodies;
mod fields;
mod incoming;
mod names;
mod outgoing;
mod responses;
mod send;

pub use crate::message::{
    Allowed, AllowedError, BodyWriter, Client, DnsErrorPayload, ErrorCode, FieldSizePayload,
    IncomingBody, OutgoingBody, RequestTimeouts, SendRequest, Sending, TlsAlertReceivedPayload,
};
pub use bodies::complete;
pub use incoming::{Answer, Handle, IncomingRequest, ResponseOutparam, begin};

use crate::wasi::View;
use pirn_component::{LinkError, Linker};

/// The function that answers requests. [`Prepared::typed`](pirn_component::Prepared::typed) also
/// finds the function of another 0.2 version by this name. Its Rust type is [`Handle`].
pub const HANDLE: &str = "wasi:http/incoming-handler@0.2.12#handle";

/// Adds the interfaces of `wasi:http` to a linker. Together with [`link()`](crate::link()), it
/// gives a linker all imports of the world `wasi:http/proxy`.
///
/// # Errors
///
/// [`LinkError::Duplicate`] if the linker already defines one of the functions.
pub fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    fields::link(linker)?;
    bodies::link(linker)?;
    incoming::link(linker)?;
    outgoing::link(linker)?;
    responses::link(linker)?;
    send::link(linker)
}
