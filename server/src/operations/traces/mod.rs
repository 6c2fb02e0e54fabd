//! [`Traces`]: sends a span for each request to a collector, by OpenTelemetry's protocol.

use crate::operations::traceparent::Parent;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

#[cfg(feature = "otlp")]
mod collector;
#[cfg(feature = "otlp")]
mod otlp;

#[cfg(not(feature = "otlp"))]
mod absent;

#[cfg(not(feature = "otlp"))]
pub(crate) use absent::RequestSpan;
#[cfg(not(feature = "otlp"))]
pub use absent::Traces;
#[cfg(feature = "otlp")]
pub(crate) use otlp::RequestSpan;
#[cfg(feature = "otlp")]
pub use otlp::Traces;

/// A request whose span begins.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "no span has them"))]
pub(crate) struct SpanStart<'a> {
    pub(crate) time: SystemTime,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) route: Option<&'a str>,
    pub(crate) client: IpAddr,
    pub(crate) parent: Option<Parent<'a>>,
    /// The field `tracestate`: data that other tracing systems append.
    pub(crate) state: Option<&'a str>,
}

/// A request whose span ends.
#[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "no span has them"))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpanEnd<'a> {
    pub(crate) outcome: &'a str,
    pub(crate) status: Option<u16>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// From the begin of the request to the begin of its wait for a slot.
    pub(crate) before: Option<Duration>,
    pub(crate) wait: Option<Duration>,
    pub(crate) guest: Option<Duration>,
    pub(crate) total: Duration,
}
