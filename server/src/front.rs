//! [`Front`]: handles a request from its header to its response, with all limits.

use crate::cgi::environment::environment;
use crate::guest::engine::{Begun, End, Ended, Engine, Exchange};
use crate::guest::place::Place;
use crate::http::Addresses;
use crate::http::authority;
use crate::http::body::{Unread, read_ahead};
use crate::http::buffered::{Buffered, Reserved};
use crate::http::guest_body::GuestBody;
use crate::limits::Limits;
use crate::operations::access::AccessLog;
use crate::operations::journal::{Journal, short};
use crate::operations::metrics::{Metrics, Outcome};
use crate::operations::traces::Traces;
use crate::record::Record;
use crate::site::{Mount, Site};
use crate::streaming::{Exchanged, Guests, ReplyBody, Stream, failure, unread};
use anyhow::Result;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode, Version};
use pirn_wasi2::http::{ErrorCode, OutgoingBody};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

/// A response.
pub(crate) type Reply = Response<ReplyBody>;

/// Path of the metrics.
const METRICS_PATH: &str = "/metrics";
/// Path that says whether the process works.
const HEALTH_PATH: &str = "/healthz";
/// Path that says whether the server takes requests.
const READY_PATH: &str = "/readyz";

/// Paths that belong to the server, unless it has an admin address.
pub(crate) const RESERVED: [&str; 3] = [METRICS_PATH, HEALTH_PATH, READY_PATH];

/// The shared state of all requests.
pub(crate) struct Front {
    site: ArcSwap<Site>,
    pub(crate) metrics: Metrics,
    pub(crate) access: Option<Arc<AccessLog>>,
    pub(crate) traces: Option<Traces>,
    journal: Arc<Journal>,
    pub(crate) guests: Guests,
    /// Bytes of the bodies of all requests, also of requests to earlier sites.
    buffered: Buffered,
    /// Paths of the public address that belong to the server.
    reserved: &'static [&'static str],
    /// Whether the server was told to stop.
    is_stopping: AtomicBool,
}

/// The reason for which a request got no guest, or its guest gave no valid answer.
struct Refusal {
    outcome: Outcome,
    why: String,
}

impl Refusal {
    fn new(outcome: Outcome, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { outcome, why }
    }
}

impl From<(Outcome, String)> for Refusal {
    fn from((outcome, why): (Outcome, String)) -> Self {
        Self { outcome, why }
    }
}

impl Front {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        mounts: Vec<Mount>,
        limits: Limits,
        access: Option<AccessLog>,
        traces: Option<Traces>,
        reserved: &'static [&'static str],
    ) -> Result<Self> {
        let metrics = Metrics::default();
        let journal = Journal::new(limits.log_max, Arc::clone(&metrics.lines_dropped));
        let site = Site::new(engine, mounts, limits, &metrics, reserved, None)?;
        Ok(Self {
            site: ArcSwap::from_pointee(site),
            metrics,
            access: access.map(Arc::new),
            traces,
            journal: Arc::new(journal),
            guests: Guests::default(),
            buffered: Buffered::default(),
            reserved,
            is_stopping: AtomicBool::new(false),
        })
    }

    /// Replaces the site. Requests that have begun keep the old site.
    pub(crate) fn replace(
        &self,
        engine: Arc<dyn Engine>,
        mounts: Vec<Mount>,
        limits: Limits,
    ) -> Result<()> {
        let earlier = self.site();
        let site = Site::new(
            engine,
            mounts,
            limits,
            &self.metrics,
            self.reserved,
            Some(&earlier),
        )?;
        self.site.store(Arc::new(site));
        Ok(())
    }

    /// The site of requests that begin now.
    pub(crate) fn site(&self) -> Arc<Site> {
        self.site.load_full()
    }

    /// Answers a request. `buffered` counts the bytes of the bodies of its client.
    pub(crate) async fn answer(
        &self,
        mut request: Request<Incoming>,
        addresses: Addresses,
        buffered: &Buffered,
    ) -> Reply {
        // Read the target first, so that the record and the guest get the same path and host.
        let read = authority::read(&mut request, addresses.local);
        let path = request.uri().path();
        let site = self.site();
        if read.is_ok() {
            if !is_served(request.method()) {
                let mut reply = Reply::default();
                *reply.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                return reply;
            }
            if self.reserved.contains(&path) {
                return self.own_or_missing(path);
            }
        }
        let route = site.route(path);
        let (log, traces) = (self.access.as_ref(), self.traces.as_ref());
        let record = Record::new(&site, route, log, traces, &request, addresses);
        if let Err(error) = read {
            return self.refuse(record, Refusal::new(Outcome::Bad, error.to_string()));
        }
        let Some(number) = route else {
            let refusal = Refusal::new(Outcome::NotFound, "no route has this path");
            return self.refuse(record, refusal);
        };
        let limits = &site.limits;
        let reserved = Reserved::new(
            (&self.buffered, limits.buffered_max),
            (buffered, limits.client_buffered_max()),
        );
        let asked = Asked {
            site: &site,
            number,
            addresses,
            reserved,
        };
        match self.serve(asked, request, record).await {
            Ok(reply) => reply,
            Err((record, refusal)) => self.refuse(record, refusal),
        }
    }

    /// Logs and records a refusal, and answers the client.
    fn refuse(&self, record: Record, refusal: Refusal) -> Reply {
        let (outcome, why) = (refusal.outcome, refusal.why);
        self.journal.failure(record.route(), outcome, &why);
        let reply = refused(outcome);
        let bytes = reply.body().size_hint().exact().unwrap_or_default();
        record.end(outcome, reply.status().as_u16(), bytes);
        reply
    }

    /// Answers a request by a guest. The guest runs in this future until the head of its response
    /// is there, and then in its own task.
    async fn serve(
        &self,
        asked: Asked<'_>,
        request: Request<Incoming>,
        mut record: Record,
    ) -> Result<Reply, (Record, Refusal)> {
        // A request that waits here has no place in the queue and no permit of its route yet.
        catch_up().await;
        let is_head = *request.method() == Method::HEAD;
        let is_cgi = !asked.site.engine.is_handler(asked.number);
        let is_old = request.version() == Version::HTTP_10;
        let begun = begin(asked, request, &mut record, is_cgi).await;
        let (mut begun, turn) = match begun {
            Ok(begun) => begun,
            Err(refusal) => return Err((record, refusal)),
        };
        // An answer without a body would let the client begin its next request while the guest
        // runs. A client of HTTP/1.0 could not see that an answer is incomplete.
        let waits = |status| is_cgi && (is_old || is_head || !has_body(status));
        let (head, ended) = begun_answer(&mut begun, waits).await;
        let ended = match ended {
            Some(None) => {
                let waited = |before| record.took().saturating_sub(before);
                record.wait = record.before.map(waited);
                let why = "no slot was free within --wait";
                return Err((record, Refusal::new(Outcome::Full, why)));
            }
            Some(Some(ended)) => Some(ended),
            None => None,
        };
        let has_failed = |end: &End| is_cgi && *end != End::Exited(0);
        let response = match head {
            // If the body has already failed, the connection would end without an answer. A program
            // that has failed before its answer is sent gives none.
            Some(Ok(response))
                if response.body().error().is_none()
                    && !ended.as_ref().is_some_and(|ended| has_failed(&ended.end)) =>
            {
                response
            }
            other => {
                let error = other.and_then(|head| match head {
                    Ok(response) => response.body().error(),
                    Err(error) => Some(error),
                });
                if let Some(ended) = &ended {
                    record.guest_ended(ended);
                    self.journal.errors(record.route(), &ended.errors);
                }
                let refusal = no_response(ended.as_ref(), error, &record);
                return Err((record, refusal));
            }
        };
        let status = response.status();
        let is_sent = !is_head && has_body(status);
        let exchanged = Exchanged::new(record, &self.journal, status.as_u16());
        let guest = match ended {
            Some(ended) => {
                exchanged.guest_ended(&ended);
                drop(turn);
                None
            }
            None => {
                let exchanged = Arc::clone(&exchanged);
                Some(self.guests.spawn(async move {
                    if let Some(ended) = begun.run.await {
                        exchanged.guest_ended(&ended);
                    }
                    drop(turn);
                }))
            }
        };
        let stream = |body| Stream::new(body, exchanged, guest, is_sent);
        let reply = response.map(|body| ReplyBody::Stream(stream(body)));
        catch_up().await;
        Ok(reply)
    }

    /// Makes `/readyz` fail from now on.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Answers a request that came to the admin address at `local`.
    pub(crate) fn answer_admin<B>(&self, mut request: Request<B>, local: SocketAddr) -> Reply {
        match authority::read(&mut request, local) {
            Ok(()) => self.own_or_missing(request.uri().path()),
            Err(error) => {
                tracing::debug!(%error, "admin request refused");
                refused(Outcome::Bad)
            }
        }
    }

    /// The response to one of the server's own paths, or 404 for another path.
    fn own_or_missing(&self, path: &str) -> Reply {
        let site = self.site();
        let slots = site.engine.slots();
        match path {
            METRICS_PATH => {
                let dropped = self.access.as_ref().map_or(0, |access| access.dropped());
                let (waiting, buffered) = (site.waiting(), self.buffered.bytes());
                let text = self.metrics.render(slots, waiting, buffered, dropped);
                page(StatusCode::OK, "text/plain; version=0.0.4", text)
            }
            HEALTH_PATH => page(StatusCode::OK, "text/plain", "ok\n"),
            READY_PATH if self.is_stopping.load(Ordering::Relaxed) => {
                page(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "stopping\n")
            }
            READY_PATH if slots.lost >= slots.all => page(
                StatusCode::SERVICE_UNAVAILABLE,
                "text/plain",
                "all slots are lost\n",
            ),
            READY_PATH => page(StatusCode::OK, "text/plain", "ready\n"),
            _ => refused(Outcome::NotFound),
        }
    }
}

/// A response of the server itself, with this text.
fn page(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(whole(text));
    *reply.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    reply.headers_mut().insert(CONTENT_TYPE, kind);
    reply
}

const ROUTE_FULL: &str = "the route has as many requests as it may";
const QUEUE_FULL: &str = "the queue of waiting requests is full";

/// Refuses a request whose body has too large a declared length.
fn check_size(site: &Site, body: &Incoming) -> Result<(), Refusal> {
    let bytes_max = site.limits.body_max;
    match body.size_hint().lower() > bytes_max as u64 {
        true => Err(unread(&Unread::TooLarge, &site.limits).into()),
        false => Ok(()),
    }
}

/// Refuses a request that [`admit`] would refuse now, before the server reads the body.
fn check_admission(site: &Site, number: usize) -> Result<(), Refusal> {
    let turns = &site.routes[number].turns;
    for (permits, why) in [(turns, ROUTE_FULL), (&site.places, QUEUE_FULL)] {
        if permits.available_permits() == 0 {
            return Err(Refusal::new(Outcome::Full, why));
        }
    }
    Ok(())
}

/// Takes a permit of a request's route and a place in the queue for slots. Fails at once if no
/// permit or no place is free.
fn admit(site: &Site, number: usize) -> Result<(OwnedSemaphorePermit, Place), Refusal> {
    let take = |permits: &Arc<Semaphore>, why| {
        let permit = Arc::clone(permits).try_acquire_owned();
        permit.map_err(|_| Refusal::new(Outcome::Full, why))
    };
    let turn = take(&site.routes[number].turns, ROUTE_FULL)?;
    let place = take(&site.places, QUEUE_FULL)?;
    Ok((turn, Place::new(place, site.limits.wait)))
}

/// Lets the other connections of this thread run until they reach this point too, or wait.
///
/// A thread thus reads all requests that have arrived, runs their guests one after another, and
/// then writes the responses. Otherwise the kernel's socket code would evict the guest's code and
/// data from the processor's caches before each request (`docs/performance/http.md`). The wait ends
/// when the other tasks of this thread have had a turn, each of at most a time slice.
async fn catch_up() {
    yield_now().await;
}

/// A request that has a route.
struct Asked<'a> {
    site: &'a Site,
    /// Number of the route.
    number: usize,
    addresses: Addresses,
    reserved: Reserved,
}

/// Gives a request to its guest. Also returns the permit of the route. The caller must hold the
/// permit until the guest has ended.
///
/// The start of a CGI guest's body arrives first. Meanwhile the request holds neither a permit nor
/// a place: slow clients could otherwise hold all permits and places.
async fn begin(
    asked: Asked<'_>,
    request: Request<Incoming>,
    record: &mut Record,
    is_cgi: bool,
) -> Result<(Begun, OwnedSemaphorePermit), Refusal> {
    let Asked { site, number, .. } = asked;
    let limits = &site.limits;
    check_size(site, request.body())?;
    let (mut parts, mut body) = request.into_parts();
    let body = match is_cgi {
        false => GuestBody::new(body, limits.body_max, &record.arrival),
        true => {
            check_admission(site, number)?;
            let begin = Instant::now();
            let until = begin.checked_add(limits.body_timeout);
            let sizes = (limits.body_max, limits.body_ahead);
            let ahead = read_ahead(&mut body, sizes, until, asked.reserved).await;
            let ahead = ahead.map_err(|error| unread(&error, limits))?;
            let left = limits.body_timeout.saturating_sub(begin.elapsed());
            let body = GuestBody::new(body, limits.body_max, &record.arrival);
            body.after(ahead.bytes, ahead.is_whole).within(Some(left))
        }
    };
    let (turn, place) = admit(site, number)?;
    record.pass_trace(&mut parts.headers);
    let environment = match is_cgi {
        false => vec![],
        true => {
            let prefix = &site.routes[number].prefix;
            let made = environment(&parts, prefix, body.size_hint().lower(), asked.addresses);
            made.map_err(|error| Refusal::new(Outcome::Bad, error.to_string()))?
        }
    };
    let exchange = Exchange {
        route: number,
        request: Request::from_parts(parts, body),
        environment,
        place,
    };
    record.before = Some(record.took());
    let begun = site.engine.begin(exchange);
    let begun = begun.map_err(|end| Refusal::new(Outcome::Failed, end.to_string()))?;
    Ok((begun, turn))
}

/// Runs a guest until the head of its response is there, or until the guest ends if `waits` says so
/// of the status. Returns the head, and the end of a guest that has ended.
async fn begun_answer(
    begun: &mut Begun,
    waits: impl Fn(StatusCode) -> bool,
) -> (
    Option<Result<Response<OutgoingBody>, ErrorCode>>,
    Option<Option<Ended>>,
) {
    let Begun { answer, run } = begun;
    let head = tokio::select! {
        biased;
        ended = &mut *run => return (answer.try_recv().ok(), Some(ended)),
        head = &mut *answer => head.ok(),
    };
    let ended = match &head {
        Some(Ok(response)) if waits(response.status()) => Some(run.await),
        Some(_) => None,
        // The guest has dropped its `response-outparam`. The end of the guest is the reason to
        // report.
        None => Some(run.await),
    };
    (head, ended)
}

/// Whether responses with this status have a body (RFC 9112, section 6.3).
fn has_body(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

/// The refusal of a request whose guest gave no response.
fn no_response(ended: Option<&Ended>, error: Option<ErrorCode>, record: &Record) -> Refusal {
    let (arrival, limits) = (&record.arrival, record.limits());
    if let Some(failed) = ended.and_then(|ended| failure(&ended.end, arrival, limits)) {
        return failed.into();
    }
    if let Some(error) = arrival.failure() {
        return unread(error, limits).into();
    }
    match error {
        // The guest may have set an error with a long text.
        Some(error) => {
            let why = short(format_args!("guest gave an error: {error}"));
            Refusal::new(Outcome::Malformed, why)
        }
        None => Refusal::new(Outcome::Malformed, "guest set no response"),
    }
}

/// A body that is complete in memory.
fn whole(body: impl Into<Bytes>) -> ReplyBody {
    ReplyBody::Whole(Full::new(body.into()))
}

/// The response to a failed request. It reveals nothing about guests and modules.
fn refused(outcome: Outcome) -> Reply {
    let (status, why) = match outcome {
        Outcome::Ok => (StatusCode::OK, ""),
        Outcome::Malformed => (StatusCode::BAD_GATEWAY, "guest gave no answer"),
        Outcome::Output => (StatusCode::BAD_GATEWAY, "guest's answer is too large"),
        Outcome::Exit | Outcome::Trap => (StatusCode::BAD_GATEWAY, "guest failed"),
        Outcome::Deadline => (StatusCode::GATEWAY_TIMEOUT, "guest ran past its deadline"),
        Outcome::Full => (StatusCode::SERVICE_UNAVAILABLE, "server is full"),
        Outcome::Failed | Outcome::Gone => (StatusCode::INTERNAL_SERVER_ERROR, "server failed"),
        Outcome::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "body is too large"),
        Outcome::Slow => (StatusCode::REQUEST_TIMEOUT, "body did not come in time"),
        Outcome::Bad => (StatusCode::BAD_REQUEST, "request is malformed"),
        Outcome::NotFound => (StatusCode::NOT_FOUND, "nothing is here"),
    };
    let mut reply = Response::new(whole(format!("{why}\n")));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    if outcome == Outcome::Full {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Whether guests get requests with this method. CONNECT asks for a tunnel, which guests cannot
/// provide.
fn is_served(method: &Method) -> bool {
    *method != Method::CONNECT
}
