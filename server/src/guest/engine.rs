//! [`Engine`]: the interface between the server and the runtime that runs its guests.

use super::place::Place;
use crate::cgi::Environment;
use crate::http::guest_body::GuestBody;
use hyper::Request;
use pirn_runtime::Usage;
use pirn_wasi2::http::Answer;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Runs guests, each in its own sandbox.
pub trait Engine: Send + Sync + 'static {
    /// Whether the guest of a route is a handler. A handler gets the request before its body has
    /// arrived. Any other guest is a CGI program: it also gets the environment of its request, and
    /// the size hint of the request's body is exact.
    fn is_handler(&self, _route: usize) -> bool {
        false
    }

    /// Gives a request to a guest. The request's body may still arrive.
    ///
    /// The run of the guest never blocks a thread. A guest that computes for long gives other
    /// guests a turn.
    ///
    /// # Errors
    ///
    /// If the request cannot be passed to the guest.
    fn begin(&self, exchange: Exchange) -> Result<Begun, End>;

    /// The current state of the slots.
    fn slots(&self) -> Slots;
}

/// A request to a guest. Its body may still arrive.
pub struct Exchange {
    /// Number of the route, which selects the guest.
    pub route: usize,
    /// The request.
    pub request: Request<GuestBody>,
    /// The environment of a CGI program: the request's meta-variables and header fields. Empty for
    /// a handler.
    pub environment: Environment,
    /// The request's place in the queue for slots.
    pub place: Place,
}

/// A guest that has got a request. The guest runs while the caller polls `run`.
pub struct Begun {
    /// Resolves to the response when the guest has set or printed its head.
    pub answer: Answer,
    /// The run of the guest. The guest's resources are free again when the future ends or is
    /// dropped.
    pub run: EndedLater,
}

/// Resolves to the end of a guest, or to `None` if no slot was free in time.
pub type EndedLater = Pin<Box<dyn Future<Output = Option<Ended>> + Send>>;

/// The result of one run of a guest.
#[derive(Debug)]
pub struct Ended {
    /// The reason for which the guest ended.
    pub end: End,
    /// Standard error, and standard output of a handler, up to their common limit.
    pub errors: Vec<u8>,
    /// Time of waiting for a slot.
    pub waited: Duration,
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
    /// The guest succeeded, but its output is no valid response.
    Malformed(String),
    /// The guest printed more than its limit.
    Output,
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
            Self::Output => f.write_str("guest printed more than --answer-max"),
            Self::Trap(why) | Self::Malformed(why) | Self::Panic(why) | Self::System(why) => {
                f.write_str(why)
            }
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
