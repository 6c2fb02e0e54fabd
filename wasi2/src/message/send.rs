//! [`SendRequest`]: how requests of guests to other servers are sent.

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
    /// Until the connection is established.
    pub connect: Option<Duration>,
    /// From then to the head of the response.
    pub first_byte: Option<Duration>,
    /// Between two pieces of the response's body.
    pub between_bytes: Option<Duration>,
}

/// The response to a request.
pub type Sending = Pin<Box<dyn Future<Output = Result<Response<IncomingBody>, ErrorCode>> + Send>>;

/// Sends requests of guests to other servers.
pub trait SendRequest: Send + Sync {
    /// Sends a request. Its URI has a scheme and an authority, and its fields are allowed.
    ///
    /// # Errors
    ///
    /// [`ErrorCode`] if the request is denied at once. The future has those that come later.
    fn send(
        &self,
        request: Request<OutgoingBody>,
        timeouts: RequestTimeouts,
    ) -> Result<Sending, ErrorCode>;
}
