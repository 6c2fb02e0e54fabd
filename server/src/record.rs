//! [`Record`]: reports the outcome of a request to the metrics, the access log and the trace.

use crate::guest::engine::Ended;
use crate::http::Addresses;
use crate::http::guest_body::Arrival;
use crate::limits::Limits;
use crate::operations::access::{AccessLog, Line, shortened};
use crate::operations::metrics::Outcome;
use crate::operations::traceparent::{Parent, TRACEPARENT};
use crate::operations::traces::{RequestSpan, SpanEnd, SpanStart, Traces};
use crate::site::Site;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, REFERER, USER_AGENT};
use hyper::{Method, Request};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Name of the header field with the data that other tracing systems add to `traceparent`.
const TRACESTATE: &str = "tracestate";

/// Most bytes of `tracestate` (W3C Trace Context, section 3.3.1.5). A longer field is ignored.
const STATE_BYTES_MAX: usize = 512;

/// Follows a request from its header to its answer. If the record is dropped before
/// [`end`](Record::end), the client is gone.
pub(crate) struct Record {
    site: Arc<Site>,
    route: Option<usize>,
    start: Instant,
    logged: Option<Logged>,
    span: Option<RequestSpan>,
    /// The progress of the request's body.
    pub(crate) arrival: Arc<Arrival>,
    /// Time until the request began to wait for a slot.
    pub(crate) before: Option<Duration>,
    /// Time that the request waited for a slot.
    pub(crate) wait: Option<Duration>,
    /// Time from getting a slot to the end of its reset.
    pub(crate) guest: Option<Duration>,
    is_over: bool,
}

/// Data of a request for the access log only.
struct Logged {
    log: Arc<AccessLog>,
    time: SystemTime,
    client: IpAddr,
    method: Method,
    path: String,
    referer: Option<Vec<u8>>,
    agent: Option<Vec<u8>>,
    trace_id: Option<String>,
}

impl Logged {
    fn new<B>(
        log: &Arc<AccessLog>,
        request: &Request<B>,
        time: SystemTime,
        addresses: Addresses,
        span: Option<&RequestSpan>,
    ) -> Self {
        let headers = request.headers();
        let start = |bytes: &[u8]| shortened(bytes).to_vec();
        let field = |name: HeaderName| headers.get(name).map(|value| start(value.as_bytes()));
        let uri = request.uri();
        let path = uri
            .path_and_query()
            .map_or(uri.path(), |path| path.as_str());
        Self {
            log: Arc::clone(log),
            time,
            client: addresses.remote.ip(),
            method: request.method().clone(),
            path: String::from_utf8_lossy(&start(path.as_bytes())).into_owned(),
            referer: field(REFERER),
            agent: field(USER_AGENT),
            trace_id: match span {
                Some(span) => Some(span.trace_id()),
                None => Parent::of(headers).map(|parent| parent.trace_id.to_owned()),
            },
        }
    }
}

impl Record {
    pub(crate) fn new<B>(
        site: &Arc<Site>,
        route: Option<usize>,
        log: Option<&Arc<AccessLog>>,
        traces: Option<&Traces>,
        request: &Request<B>,
        addresses: Addresses,
    ) -> Self {
        let time = SystemTime::now();
        let span = traces.map(|traces| {
            let headers = request.headers();
            let state = headers
                .get(TRACESTATE)
                .and_then(|state| state.to_str().ok());
            traces.begin(&SpanStart {
                time,
                method: request.method().as_str(),
                path: request.uri().path(),
                route: route.map(|route| site.routes[route].prefix.as_str()),
                client: addresses.remote.ip(),
                parent: Parent::of(headers),
                state: state.filter(|state| state.len() <= STATE_BYTES_MAX),
            })
        });
        Self {
            site: Arc::clone(site),
            route,
            start: Instant::now(),
            logged: log.map(|log| Logged::new(log, request, time, addresses, span.as_ref())),
            span,
            arrival: Arc::default(),
            before: None,
            wait: None,
            guest: None,
            is_over: false,
        }
    }

    /// The name of the route; `-` for a request without a route.
    pub(crate) fn route(&self) -> &str {
        self.route
            .map_or("-", |route| &self.site.routes[route].prefix)
    }

    /// The limits of the request's site.
    pub(crate) fn limits(&self) -> &Limits {
        &self.site.limits
    }

    /// Keeps the times of a guest that has ended, and counts the resources that it used.
    pub(crate) fn guest_ended(&mut self, ended: &Ended) {
        self.wait = Some(ended.waited);
        self.guest = Some(ended.took);
        if let Some(route) = self.route {
            let counters = &self.site.counters;
            counters.count_guest(route, ended.took, &ended.usage);
        }
    }

    /// Time since the request's header arrived.
    pub(crate) fn took(&self) -> Duration {
        self.start.elapsed()
    }

    /// Replaces `traceparent` in the request, so that spans of the guest become children of the
    /// request's span.
    pub(crate) fn pass_trace(&self, headers: &mut HeaderMap) {
        if let Some(span) = &self.span
            && let Ok(parent) = HeaderValue::try_from(span.traceparent())
        {
            if Parent::of(headers).is_none() {
                headers.remove(TRACESTATE);
            }
            headers.insert(TRACEPARENT, parent);
        }
    }

    /// Counts and logs the request with its answer.
    pub(crate) fn end(mut self, outcome: Outcome, status: u16, bytes_out: u64) {
        self.is_over = true;
        self.tell(outcome, Some(status), bytes_out);
    }

    fn tell(&mut self, outcome: Outcome, status: Option<u16>, bytes_out: u64) {
        let total = self.took();
        self.site.counters.count(self.route, outcome, total);
        if let Some(span) = &mut self.span {
            span.end(&SpanEnd {
                outcome: outcome.name(),
                status,
                bytes_in: self.arrival.bytes(),
                bytes_out,
                before: self.before,
                wait: self.wait,
                guest: self.guest,
                total,
            });
        }
        if let Some(logged) = &self.logged {
            logged.log.log(&Line {
                time: logged.time,
                client: logged.client,
                method: logged.method.as_str(),
                path: &logged.path,
                referer: logged.referer.as_deref(),
                agent: logged.agent.as_deref(),
                route: self.route.map(|_| self.route()),
                status,
                outcome: outcome.name(),
                bytes_in: self.arrival.bytes(),
                bytes_out,
                wait: self.wait,
                guest: self.guest,
                total,
                trace_id: logged.trace_id.as_deref(),
            });
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_over {
            self.tell(Outcome::Gone, None, 0);
        }
    }
}
