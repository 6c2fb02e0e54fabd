//! [`Engine`]: who runs guests. The server knows nothing else of it.

use crate::place::Place;
use bytes::Bytes;
use pirn_runtime::Usage;
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Runs guests, each in a sandbox of its own.
pub trait Engine: Send + Sync + 'static {
    /// Runs a guest for one request. Nothing of it blocks a thread, a guest that computes gives way to others,
    /// and whatever the guest holds is free again when this ends or is dropped.
    fn run(&self, work: Work) -> Running<'_>;

    /// The slots at this moment.
    fn slots(&self) -> Slots;
}

/// A guest that waits for its slot or runs. None if no slot was free in time.
pub type Running<'a> = Pin<Box<dyn Future<Output = Option<Ran>> + Send + 'a>>;

/// What a guest is run for.
#[derive(Debug)]
pub struct Work {
    /// Number of the route, and so of the guest.
    pub route: usize,
    /// The guest's environment: the request's meta-variables and header fields.
    pub environment: Vec<(Cow<'static, str>, String)>,
    /// The guest's standard input.
    pub body: Bytes,
    /// By this it waits for a slot.
    pub place: Place,
}

/// What became of a guest.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub end: End,
    /// Its standard output, as far as it fitted.
    pub output: Vec<u8>,
    /// Whether there was more output than fitted.
    pub overflowed: bool,
    /// Its standard error, as far as it fitted.
    pub errors: Vec<u8>,
    /// Time from having a slot to its reset.
    pub took: Duration,
    /// What it used.
    pub usage: Usage,
}

/// How a guest ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It returned, or exited with this code.
    Exited(u32),
    /// It trapped, or asked the host for what cannot be.
    Trap(String),
    /// Its time was up.
    Deadline,
    /// A host function panicked.
    Panic(String),
    /// The system refused something.
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
    /// How many there are.
    pub all: usize,
    /// How many nobody has.
    pub free: usize,
    /// How many are never used again.
    pub lost: usize,
}
