//! [`Traces`] of a build without the feature `otlp`, which sends no spans.

use super::{SpanEnd, SpanStart};
use crate::units::{Endpoint, Ratio};
use anyhow::{Result, bail};

/// Sends spans to a collector. This build cannot send spans, so the type has no value.
#[derive(Debug)]
pub enum Traces {}

/// The span of a request.
#[derive(Debug)]
pub(crate) enum RequestSpan {}

impl Traces {
    /// Refuses to send spans.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn start(_: &Endpoint, _: Ratio) -> Result<Self> {
        bail!("this pirn-serve cannot send traces; build it with the feature otlp, or omit --otlp")
    }

    pub(crate) fn begin(&self, _: &SpanStart<'_>) -> RequestSpan {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "the other implementation waits")]
    pub(crate) async fn close(&self) {
        match *self {}
    }
}

impl RequestSpan {
    pub(crate) fn trace_id(&self) -> String {
        match *self {}
    }

    pub(crate) fn traceparent(&self) -> String {
        match *self {}
    }

    pub(crate) fn end(&mut self, _: &SpanEnd<'_>) {
        match *self {}
    }
}
