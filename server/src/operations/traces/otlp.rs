//! [`Traces`] by the OpenTelemetry crates: OTLP over HTTP, encoded by protobuf.

use super::collector::Collector;
use super::{SpanEnd, SpanStart};
use crate::operations::traceparent::Parent;
use crate::units::{Endpoint, Ratio};
use anyhow::{Context as _, Result};
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};
use std::time::{Duration, SystemTime};
use tokio::task::spawn_blocking;

/// Most bytes of a path in a span.
const PATH_BYTES_MAX: usize = 1024;

/// Longest time to send the last spans when the server stops.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Methods that span names and attributes may contain. A client could invent any number of other
/// methods.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The span of a request.
#[derive(Debug)]
pub(crate) struct RequestSpan {
    tracer: SdkTracer,
    span: Span,
    begin: SystemTime,
}

impl Traces {
    /// Starts the thread that sends spans. Must be called on a thread of tokio.
    ///
    /// A request that continues a trace is sampled if its parent is sampled. Of the other requests,
    /// a part of `ratio` is sampled.
    ///
    /// # Errors
    ///
    /// If the OpenTelemetry variables of the environment are wrong.
    pub fn start(endpoint: &Endpoint, ratio: Ratio) -> Result<Self> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new())
            .with_endpoint(&endpoint.0)
            .build();
        let exporter = exporter.context("cannot send traces")?;
        let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio.0)));
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("pirn-serve");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(sampler)
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("pirn-serve");
        Ok(Self { provider, tracer })
    }

    /// Begins the span of a request.
    pub(crate) fn begin(&self, request: &SpanStart<'_>) -> RequestSpan {
        let method = METHODS.iter().find(|method| **method == request.method);
        let name = match (method, request.route) {
            (Some(method), Some(route)) => format!("{method} {route}"),
            (Some(method), None) => (*method).to_owned(),
            (None, Some(route)) => format!("HTTP {route}"),
            (None, None) => "HTTP".to_owned(),
        };
        let context = request
            .parent
            .and_then(|parent| remote(parent, request.state));
        let context = context.map(|parent| Context::new().with_remote_span_context(parent));
        let builder = self
            .tracer
            .span_builder(name)
            .with_kind(SpanKind::Server)
            .with_start_time(request.time);
        let context = context.unwrap_or_default();
        let mut span = self.tracer.build_with_context(builder, &context);
        if span.is_recording() {
            let path = request.path.as_bytes();
            let path = String::from_utf8_lossy(&path[..path.len().min(PATH_BYTES_MAX)]);
            span.set_attributes([
                KeyValue::new("http.request.method", *method.unwrap_or(&"_OTHER")),
                KeyValue::new("url.scheme", "http"),
                KeyValue::new("url.path", path.into_owned()),
                KeyValue::new("client.address", request.client.to_string()),
            ]);
            if let Some(route) = request.route {
                span.set_attribute(KeyValue::new("http.route", route.to_owned()));
            }
        }
        RequestSpan {
            tracer: self.tracer.clone(),
            span,
            begin: request.time,
        }
    }

    /// Sends the spans that wait, and ends the thread.
    pub(crate) async fn close(&self) {
        let provider = self.provider.clone();
        let closed = spawn_blocking(move || provider.shutdown_with_timeout(CLOSE_MAX)).await;
        if let Ok(Err(error)) = closed {
            tracing::warn!(%error, "last spans are not sent");
        }
    }
}

/// The parent of a span.
fn remote(parent: Parent<'_>, state: Option<&str>) -> Option<SpanContext> {
    let state = state.and_then(|state| state.parse::<TraceState>().ok());
    Some(SpanContext::new(
        TraceId::from_hex(parent.trace_id).ok()?,
        SpanId::from_hex(parent.span_id).ok()?,
        TraceFlags::default().with_sampled(parent.is_sampled),
        true,
        state.unwrap_or_default(),
    ))
}

impl RequestSpan {
    pub(crate) fn trace_id(&self) -> String {
        self.span.span_context().trace_id().to_string()
    }

    /// The value of `traceparent` for children of this span.
    pub(crate) fn traceparent(&self) -> String {
        let context = self.span.span_context();
        let sampled = u8::from(context.is_sampled());
        format!(
            "00-{}-{}-{sampled:02x}",
            context.trace_id(),
            context.span_id()
        )
    }

    pub(crate) fn end(&mut self, end: &SpanEnd<'_>) {
        if !self.span.is_recording() {
            return;
        }
        self.span.set_attributes([
            KeyValue::new("pirn.outcome", end.outcome.to_owned()),
            KeyValue::new("http.request.body.size", end.bytes_in as i64),
            KeyValue::new("http.response.body.size", end.bytes_out as i64),
        ]);
        if let Some(status) = end.status {
            let status_code = KeyValue::new("http.response.status_code", i64::from(status));
            self.span.set_attribute(status_code);
            if status >= 500 {
                self.span.set_status(Status::error(end.outcome.to_owned()));
            }
        }
        let parent = self.span.span_context().clone();
        let parent = Context::new().with_remote_span_context(parent);
        if let (Some(before), Some(wait)) = (end.before, end.wait) {
            let since = self.begin + before;
            self.child(&parent, "wait for a slot", since, wait);
            if let Some(guest) = end.guest {
                self.child(&parent, "guest", since + wait, guest);
            }
        }
        self.span.end_with_timestamp(self.begin + end.total);
    }

    fn child(&self, parent: &Context, name: &'static str, since: SystemTime, took: Duration) {
        let builder = self.tracer.span_builder(name).with_start_time(since);
        let mut child = self.tracer.build_with_context(builder, parent);
        child.end_with_timestamp(since + took);
    }
}
