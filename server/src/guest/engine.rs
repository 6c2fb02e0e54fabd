//! [`Engine`]: the interface between the server and the runtime that runs its guests.

use super::place::Place;
use crate::http::guest_body::GuestBody;
use bytes::Bytes;
use hyper::Request;
use pirn_runtime::Usage;
use pirn_wasi2::http::Answer;
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Runs guests, each in its own sandbox.
pub trait Engine: Send + Sync + 'static {
    /// Runs a guest for one request.
    ///
    /// The future never blocks a thread. A guest that computes for long gives other guests a turn.
    /// The guest's resources are free again when the future ends or is dropped.
    fn run(&self, work: Work) -> Running<'_>;

    /// Whether the guest of a route is a handler: it gets the request before its body has arrived,
    /// and answers while it runs. The server calls [`begin`](Self::begin) for a handler, and
    /// [`run`](Self::run) with the whole request for any other guest.
    fn is_handler(&self, _route: usize) -> bool {
        false
    }

    /// Gives a request to a handler, before the body of the request has arrived.
    ///
    /// # Errors
    ///
    /// If the guest of the route is not a handler, or if the request cannot be passed to the guest.
    fn begin(&self, _exchange: Exchange) -> Result<Begun, End> {
        Err(End::System("the engine has no such guests".to_owned()))
    }

    /// The current state of the slots.
    fn slots(&self) -> Slots;
}

/// A request to a handler. Its body may still arrive.
pub struct Exchange {
    /// Number of the route, which selects the guest.
    pub route: usize,
    /// The request.
    pub request: Request<GuestBody>,
    /// The request's place in the queue for slots.
    pub place: Place,
}

/// A handler that has got a request. The handler runs while the caller polls `run`.
pub struct Begun {
    /// Resolves to the response when the guest sets the head of its response.
    pub answer: Answer,
    /// The run of the guest. The guest's resources are free again when the future ends or is
    /// dropped.
    pub run: EndedLater,
}

/// Resolves to the end of a handler, or to `None` if no slot was free in time.
pub type EndedLater = Pin<Box<dyn Future<Output = Option<Ended>> + Send>>;

/// The result of one run of a handler.
#[derive(Debug)]
pub struct Ended {
    /// The reason for which the guest ended.
    pub end: End,
    /// Standard output and standard error, up to their common limit.
    pub errors: Vec<u8>,
    /// Time of waiting for a slot.
    pub waited: Duration,
    /// Time from getting a slot to the end of its reset.
    pub took: Duration,
    /// Resources that the guest used.
    pub usage: Usage,
}

/// A guest that waits for its slot or runs. The result is `None` if no slot was free in time.
pub type Running<'a> = Pin<Box<dyn Future<Output = Option<Ran>> + Send + 'a>>;

/// The input of one run of a guest.
#[derive(Debug)]
pub struct Work {
    /// Number of the route, which selects the guest.
    pub route: usize,
    /// The guest's environment: the request's meta-variables and header fields.
    pub environment: Vec<(Cow<'static, str>, String)>,
    /// The guest's standard input.
    pub body: Bytes,
    /// The request's place in the queue for slots.
    pub place: Place,
}

/// The result of one run of a guest.
#[derive(Debug)]
pub struct Ran {
    /// The reason for which the guest ended.
    pub end: End,
    /// Standard output, up to its limit.
    pub output: Vec<u8>,
    /// Whether the guest printed more than the limit.
    pub overflowed: bool,
    /// Standard error, up to its limit.
    pub errors: Vec<u8>,
    /// Time from getting a slot to the end of its reset.
    pub took: Duration,
    /// Resources that the guest used.
    pub usage: Usage,
}

/// The reason for which a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The guest returned, or exited with this code.
    Exited(u32),
    /// The guest trapped, or made an invalid host call.
    Trap(String),
    /// The guest reached its deadline.
    Deadline,
    /// A host function panicked.
    Panic(String),
    /// The system refused a resource.
    System(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "guest exited with code {code}"),
            Self::Deadline => f.write_str("guest ran past its deadline"),
            Self::Trap(why) | Self::Panic(why) | Self::System(why) => f.write_str(why),
        }
    }
}

/// The slots of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Number of slots.
    pub all: usize,
    /// Number of free slots.
    pub free: usize,
    /// Number of slots that are never used again.
    pub lost: usize,
}
