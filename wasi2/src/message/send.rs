//! [`SendRequest`]: sends requests of guests to other servers.

use super::error_code::ErrorCode;
use super::incoming::IncomingBody;
use super::outgoing::OutgoingBody;
use http::{Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The times that a guest allows for a request (`request-options`).
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestTimeouts {
    /// Time until the connection is established.
    pub connect: Option<Duration>,
    /// Time from the connection to the head of the response.
    pub first_byte: Option<Duration>,
    /// Time between two pieces of the response's body.
    pub between_bytes: Option<Duration>,
}

/// The response to a request.
pub type Sending = Pin<Box<dyn Future<Output = Result<Response<IncomingBody>, ErrorCode>> + Send>>;

/// Sends requests of guests to other servers.
pub trait SendRequest: Send + Sync {
    /// Sends a request. The caller has checked that the URI has a scheme and an authority, and that
    /// the fields are allowed.
    ///
    /// # Errors
    ///
    /// [`ErrorCode`] if the request is denied at once. The future returns later errors.
    fn send(
        &self,
        request: Request<OutgoingBody>,
        timeouts: RequestTimeouts,
    ) -> Result<Sending, ErrorCode>;
}
