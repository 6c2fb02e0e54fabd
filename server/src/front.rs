//! [`Front`]: handles a request from its header to its response, with all limits.

use crate::cgi::answer;
use crate::cgi::environment::environment;
use crate::guest::engine::{Begun, End, Ended, Engine, Exchange, Ran, Work};
use crate::guest::place::Place;
use crate::http::Addresses;
use crate::http::authority;
use crate::http::body::{self, Unread};
use crate::http::buffered::{Buffered, NoRoom, Reserved};
use crate::http::guest_body::GuestBody;
use crate::limits::Limits;
use crate::operations::access::AccessLog;
use crate::operations::journal::{Journal, short};
use crate::operations::metrics::{Metrics, Outcome};
use crate::operations::traces::Traces;
use crate::record::Record;
use crate::site::{Mount, Site};
use crate::streaming::{Exchanged, Guests, ReplyBody, Stream, failure};
use anyhow::Result;
use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use pirn_wasi2::http::ErrorCode;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
        let mut record = Record::new(&site, route, log, traces, &request, addresses);
        if let Err(error) = read {
            return self.refuse(record, Refusal::new(Outcome::Bad, error.to_string()));
        }
        let Some(number) = route else {
            let refusal = Refusal::new(Outcome::NotFound, "no route has this path");
            return self.refuse(record, refusal);
        };
        if site.engine.is_handler(number) {
            return match self.stream(&site, number, request, record).await {
                Ok(reply) => reply,
                Err((record, refusal)) => self.refuse(record, refusal),
            };
        }
        let limits = &site.limits;
        let reserved = Reserved::new(
            (&self.buffered, limits.buffered_max),
            (buffered, limits.client_buffered_max()),
        );
        let served = self.serve(&site, request, number, addresses, reserved, &mut record);
        match served.await {
            Ok(reply) => {
                let (status, took) = (reply.status().as_u16(), record.took());
                tracing::debug!(route = record.route(), status, ?took, "answered");
                let bytes = reply.body().size_hint().exact().unwrap_or_default();
                record.end(Outcome::Ok, status, bytes);
                reply
            }
            Err(refusal) => self.refuse(record, refusal),
        }
    }

    /// Logs and records a refusal, and answers the client.
    fn refuse(&self, record: Record, refusal: Refusal) -> Reply {
        let (outcome, why) = (refusal.outcome, refusal.why);
        // Only failures of guests go to the log at its default level. Otherwise a client could fill
        // the log.
        if outcome.is_guests() {
            self.journal.failure(record.route(), outcome.name(), &why);
        } else {
            let route = record.route();
            tracing::debug!(route, outcome = outcome.name(), ?why, "refused");
        }
        let reply = refused(outcome);
        let bytes = reply.body().size_hint().exact().unwrap_or_default();
        record.end(outcome, reply.status().as_u16(), bytes);
        reply
    }

    /// Answers a request by a handler. The handler runs in this future until it sets the head of
    /// its response, and then in its own task.
    async fn stream(
        &self,
        site: &Arc<Site>,
        number: usize,
        request: Request<Incoming>,
        mut record: Record,
    ) -> Result<Reply, (Record, Refusal)> {
        // A request that waits here has no place in the queue and no permit of its route yet.
        catch_up().await;
        let bytes_in = Arc::default();
        let is_head = *request.method() == Method::HEAD;
        let begun = begin(site, number, request, &mut record, &bytes_in);
        let (begun, turn) = match begun {
            Ok(begun) => begun,
            Err(refusal) => return Err((record, refusal)),
        };
        let Begun {
            mut answer,
            mut run,
        } = begun;
        let mut ended = None;
        let mut head = tokio::select! {
            biased;
            end = &mut run => {
                ended = Some(end);
                answer.try_recv().ok()
            }
            head = &mut answer => head.ok(),
        };
        if head.is_none() && ended.is_none() {
            // The guest has dropped its `response-outparam`. The end of the guest is the reason to
            // report.
            ended = Some(run.as_mut().await);
            head = None;
        }
        let ended = match ended {
            Some(None) => {
                let why = "no slot was free within --wait";
                return Err((record, Refusal::new(Outcome::Full, why)));
            }
            Some(Some(ended)) => Some(ended),
            None => None,
        };
        let response = match head {
            // If the body has already failed, the connection would end without an answer.
            Some(Ok(response)) if response.body().error().is_none() => response,
            other => {
                let error = other.and_then(|head| match head {
                    Ok(response) => response.body().error(),
                    Err(error) => Some(error),
                });
                if let Some(ended) = &ended {
                    record.guest_ended(ended);
                    self.journal.errors(record.route(), &ended.errors);
                }
                record.bytes_in = bytes_in.load(Ordering::Relaxed);
                return Err((record, no_response(ended.as_ref(), error)));
            }
        };
        let status = response.status();
        let is_sent = !is_head && has_body(status);
        let exchanged = Exchanged::new(record, &self.journal, status.as_u16(), bytes_in);
        let guest = match ended {
            Some(ended) => {
                exchanged.guest_ended(&ended);
                drop(turn);
                None
            }
            None => {
                let exchanged = Arc::clone(&exchanged);
                Some(self.guests.spawn(async move {
                    if let Some(ended) = run.await {
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

    async fn serve(
        &self,
        site: &Site,
        request: Request<Incoming>,
        number: usize,
        addresses: Addresses,
        reserved: Reserved,
        record: &mut Record,
    ) -> Result<Reply, Refusal> {
        let route = &site.routes[number];
        check_admission(site, number, request.body())?;
        let (mut parts, body) = request.into_parts();
        let body = read(body, &site.limits, reserved).await?;
        record.bytes_in = body.len() as u64;
        // The request holds the permit until its guest has ended, and the place until the guest has
        // a slot. It holds neither permit nor place while its body arrives: slow clients could
        // otherwise hold all permits and places.
        let (_turn, place) = admit(site, number)?;
        record.pass_trace(&mut parts.headers);
        let environment = environment(&parts, &route.prefix, body.len(), addresses);
        let environment =
            environment.map_err(|error| Refusal::new(Outcome::Bad, error.to_string()))?;
        let work = Work {
            route: number,
            environment,
            body,
            place,
        };
        let since = Instant::now();
        record.before = Some(record.took());
        let ran = site.engine.run(work).await;
        let took = ran.as_ref().map(|ran| ran.took);
        record.wait = Some(since.elapsed().saturating_sub(took.unwrap_or_default()));
        record.guest = took;
        let ran =
            ran.ok_or_else(|| Refusal::new(Outcome::Full, "no slot was free within --wait"))?;
        site.counters.count_guest(number, ran.took, &ran.usage);
        self.journal.errors(&route.prefix, &ran.errors);
        response(ran)
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

/// Reads the body of a request, with limits of size and time.
async fn read(body: Incoming, limits: &Limits, reserved: Reserved) -> Result<Bytes, Refusal> {
    let (bytes_max, time_max) = (limits.body_max, limits.body_timeout);
    let read = body::read(body, bytes_max, time_max, reserved).await;
    read.map_err(|unread| match unread {
        Unread::TooLarge => too_large(bytes_max),
        Unread::Slow => {
            let why = format!("body did not come within {time_max:?}");
            Refusal::new(Outcome::Slow, why)
        }
        Unread::Malformed(error) => Refusal::new(Outcome::Bad, format!("body: {error}")),
        Unread::NoRoom(NoRoom { needed, bytes_max }) => {
            let why = format!(
                "bodies would take {needed} bytes of {bytes_max}; raise --buffered-max, or the \
                 part of a client by --client-connections"
            );
            Refusal::new(Outcome::Full, why)
        }
        Unread::NoMemory(error) => Refusal::new(Outcome::Failed, format!("body: {error}")),
    })
}

fn too_large(bytes_max: usize) -> Refusal {
    let why = format!("body is larger than {bytes_max} bytes");
    Refusal::new(Outcome::TooLarge, why)
}

const ROUTE_FULL: &str = "the route has as many requests as it may";
const QUEUE_FULL: &str = "the queue of waiting requests is full";

/// Refuses a request whose body has too large a declared length.
fn check_size(site: &Site, body: &Incoming) -> Result<(), Refusal> {
    let bytes_max = site.limits.body_max;
    match body.size_hint().lower() > bytes_max as u64 {
        true => Err(too_large(bytes_max)),
        false => Ok(()),
    }
}

/// Refuses a request that [`admit`] would refuse now, or whose body is too large, before the server
/// reads the body.
fn check_admission(site: &Site, number: usize, body: &Incoming) -> Result<(), Refusal> {
    check_size(site, body)?;
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
/// data from the processor's caches before each request (`docs/performance.md`). The wait ends when
/// the other tasks of this thread have had a turn, each of at most a time slice.
async fn catch_up() {
    yield_now().await;
}

/// Gives a request to a handler. Also returns the permit of the route. The caller must hold the
/// permit until the guest has ended.
fn begin(
    site: &Arc<Site>,
    number: usize,
    request: Request<Incoming>,
    record: &mut Record,
    bytes_in: &Arc<AtomicU64>,
) -> Result<(Begun, OwnedSemaphorePermit), Refusal> {
    check_size(site, request.body())?;
    let (turn, place) = admit(site, number)?;
    let mut request = request.map(|body| GuestBody::new(body, site.limits.body_max, bytes_in));
    record.pass_trace(request.headers_mut());
    let exchange = Exchange {
        route: number,
        request,
        place,
    };
    record.before = Some(record.took());
    let begun = site.engine.begin(exchange);
    let begun = begun.map_err(|end| Refusal::new(Outcome::Failed, end.to_string()))?;
    Ok((begun, turn))
}

/// Whether responses with this status have a body (RFC 9112, section 6.3).
fn has_body(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

/// The refusal of a request whose guest gave no response.
fn no_response(ended: Option<&Ended>, error: Option<ErrorCode>) -> Refusal {
    if let Some((outcome, why)) = ended.and_then(|ended| failure(&ended.end)) {
        return Refusal::new(outcome, why);
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

/// Builds the response from the output of a CGI guest.
fn response(ran: Ran) -> Result<Reply, Refusal> {
    let outcome = match ran.end {
        End::Exited(0) if ran.overflowed => {
            let why = "guest printed more than --answer-max";
            return Err(Refusal::new(Outcome::Output, why));
        }
        End::Exited(0) => {
            let malformed =
                |error: answer::Malformed| Refusal::new(Outcome::Malformed, error.to_string());
            return Ok(answer::parse(ran.output).map_err(malformed)?.map(whole));
        }
        // A program often fails after the server refused its output. Then report the output as the
        // cause.
        End::Exited(_) | End::Trap(_) if ran.overflowed => Outcome::Output,
        End::Exited(_) => Outcome::Exit,
        End::Trap(_) => Outcome::Trap,
        End::Deadline => Outcome::Deadline,
        End::Panic(_) | End::System(_) => Outcome::Failed,
    };
    Err(Refusal::new(outcome, ran.end.to_string()))
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
