//! [`Front`]: handles a request from its header to its response, with all limits.

use crate::answer;
use crate::body::{self, Unread};
use crate::engine::{End, Engine, Ran, Work};
use crate::environment::{Ends, environment};
use crate::journal::Journal;
use crate::limits::Limits;
use crate::metrics::{Metrics, Outcome};
use crate::place::Place;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;

/// A response with its whole body.
pub(crate) type Reply = Response<Full<Bytes>>;

/// Path of the metrics.
pub(crate) const METRICS_PATH: &str = "/metrics";

/// The shared state of all requests.
pub(crate) struct Front {
    pub(crate) engine: Arc<dyn Engine>,
    /// One permit for each request that may wait for a slot.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    pub(crate) journal: Journal,
    pub(crate) routes: Vec<String>,
    /// For each route, one permit for each of its requests that may wait for a guest or have one.
    pub(crate) turns: Vec<Semaphore>,
    pub(crate) limits: Limits,
}

/// Why a request got no guest, or why its guest gave no valid answer.
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

/// Counts a request. If it is dropped early, the client is gone.
struct Watch<'a> {
    front: &'a Front,
    route: Option<usize>,
    start: Instant,
    over: bool,
}

impl Watch<'_> {
    fn over(mut self, outcome: Outcome) {
        self.over = true;
        self.count(outcome);
    }

    fn count(&self, outcome: Outcome) {
        let took = self.start.elapsed();
        self.front.metrics.count(self.route, outcome, took);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.count(Outcome::Gone);
        }
    }
}

impl Front {
    /// Answers a request.
    pub(crate) async fn answer(&self, request: Request<Incoming>, ends: Ends) -> Reply {
        let path = request.uri().path();
        if path == METRICS_PATH {
            return self.render();
        }
        let route = self.route(path);
        let watch = Watch {
            front: self,
            route,
            start: Instant::now(),
            over: false,
        };
        let name = route.map_or("-", |route| self.routes[route].as_str());
        match self.serve(request, route, ends).await {
            Ok(reply) => {
                let (status, took) = (reply.status().as_u16(), watch.start.elapsed());
                tracing::debug!(route = name, status, ?took, "answered");
                watch.over(Outcome::Ok);
                reply
            }
            Err(refusal) => {
                let (outcome, why) = (refusal.outcome, refusal.why);
                // Failures of guests go to the log. Errors of clients do not, so that a client
                // cannot fill it.
                if outcome.is_guests() {
                    self.journal.failure(name, outcome.name(), &why);
                } else {
                    tracing::debug!(route = name, outcome = outcome.name(), ?why, "refused");
                }
                watch.over(outcome);
                refused(outcome)
            }
        }
    }

    /// The route with the longest prefix of this path.
    fn route(&self, path: &str) -> Option<usize> {
        let fits = |prefix: &str| {
            let rest = path.strip_prefix(prefix.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let routes = self.routes.iter().enumerate();
        let fitting = routes.filter(|(_, prefix)| fits(prefix));
        Some(fitting.max_by_key(|(_, prefix)| prefix.len())?.0)
    }

    async fn serve(
        &self,
        request: Request<Incoming>,
        route: Option<usize>,
        ends: Ends,
    ) -> Result<Reply, Refusal> {
        let no_route = || Refusal::new(Outcome::NotFound, "no route has this path");
        let route = route.ok_or_else(no_route)?;
        let (parts, body) = request.into_parts();
        let body = self.body(body).await?;
        // Held until the guest has ended.
        let _turn = self.turns[route].try_acquire().map_err(|_| {
            let why = "the route has as many requests as --route-requests allows";
            Refusal::new(Outcome::Full, why)
        })?;
        let work = self.work(&parts, route, body, ends)?;
        let ran = self.engine.run(work).await;
        let ran =
            ran.ok_or_else(|| Refusal::new(Outcome::Full, "no slot was free within --wait"))?;
        self.metrics.count_guest(route, ran.took, &ran.usage);
        self.journal.errors(&self.routes[route], &ran.errors);
        response(ran)
    }

    /// Reads the body of a request, with limits of size and time.
    async fn body(&self, body: Incoming) -> Result<Bytes, Refusal> {
        let (bytes_max, time_max) = (self.limits.body_max, self.limits.body_timeout);
        let read = body::read(body, bytes_max, time_max).await;
        read.map_err(|unread| match unread {
            Unread::TooLarge => {
                let why = format!("body is larger than {bytes_max} bytes");
                Refusal::new(Outcome::TooLarge, why)
            }
            Unread::Slow => {
                let why = format!("body did not come within {time_max:?}");
                Refusal::new(Outcome::Slow, why)
            }
            Unread::Malformed(error) => Refusal::new(Outcome::Bad, format!("body: {error}")),
            Unread::NoMemory(error) => Refusal::new(Outcome::Failed, format!("body: {error}")),
        })
    }

    /// Builds the input of the guest.
    fn work(&self, parts: &Parts, route: usize, body: Bytes, ends: Ends) -> Result<Work, Refusal> {
        let environment = environment(parts, &self.routes[route], body.len(), ends);
        let environment =
            environment.map_err(|error| Refusal::new(Outcome::Bad, error.to_string()))?;
        let full = |_| Refusal::new(Outcome::Full, "the queue of waiting requests is full");
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(full)?;
        Ok(Work {
            route,
            environment,
            body,
            place: Place::new(place, self.limits.wait),
        })
    }

    fn render(&self) -> Reply {
        let waiting = self.limits.waiting_max - self.places.available_permits();
        let text = self.metrics.render(self.engine.slots(), waiting);
        let mut reply = Response::new(Full::from(text));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4");
        reply.headers_mut().insert(CONTENT_TYPE, kind);
        reply
    }
}

/// Builds the response of a guest that has ended.
fn response(ran: Ran) -> Result<Reply, Refusal> {
    let outcome = match ran.end {
        End::Exited(0) if ran.overflowed => {
            let why = "guest printed more than --answer-max";
            return Err(Refusal::new(Outcome::Output, why));
        }
        End::Exited(0) => {
            let malformed =
                |error: answer::Malformed| Refusal::new(Outcome::Malformed, error.to_string());
            return Ok(answer::parse(ran.output).map_err(malformed)?.map(Full::new));
        }
        // A program often ends itself when its output is refused. The output is then the cause.
        End::Exited(_) | End::Trap(_) if ran.overflowed => Outcome::Output,
        End::Exited(_) => Outcome::Exit,
        End::Trap(_) => Outcome::Trap,
        End::Deadline => Outcome::Deadline,
        End::Panic(_) | End::System(_) => Outcome::Failed,
    };
    Err(Refusal::new(outcome, ran.end.to_string()))
}

/// The response to a client whose request failed. It reveals nothing about guests and modules.
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
    let mut reply = Response::new(Full::from(format!("{why}\n")));
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
pub(crate) fn is_served(method: &Method) -> bool {
    *method != Method::CONNECT
}
