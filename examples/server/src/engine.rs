//! [`Engine`]: who runs guests. The server knows nothing else of it.

use crate::ticket::Ticket;
use bytes::Bytes;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Runs guests, each in a sandbox of its own, on the thread that asks for it.
pub trait Engine: Send + Sync + 'static {
    /// Runs a guest for one request. Whatever the guest holds is free again when this returns.
    fn run(&self, work: Work) -> Ran;

    /// The slots at this moment.
    fn slots(&self) -> Slots;
}

/// What a guest is run for.
#[derive(Debug)]
pub struct Work {
    /// Number of the route, and so of the guest.
    pub route: usize,
    /// The guest's environment: the request's meta-variables and header fields.
    pub environment: Vec<(Cow<'static, str>, String)>,
    /// The guest's standard input.
    pub body: Bytes,
    /// Longest time to wait for a slot.
    pub slot_wait: Duration,
    /// By this the guest is told that nobody waits for it any more.
    pub ticket: Arc<Ticket>,
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
}

impl Ran {
    /// It came to no output.
    #[must_use]
    pub fn without_output(end: End) -> Self {
        Self {
            end,
            output: vec![],
            overflowed: false,
            errors: vec![],
        }
    }
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
    /// Nobody waited for it any more.
    Cancelled,
    /// It did not run: no slot was free in time.
    Full,
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
            Self::Cancelled => f.write_str("client is gone, guest was ended"),
            Self::Full => f.write_str("no slot was free in time"),
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
