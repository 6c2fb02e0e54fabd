//! [`GuestBody`]: the body of a request that streams to the guest.

use super::body::Unread;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use pirn_wasi2::http::ErrorCode;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

/// The body of a request, with a limit of its size.
#[derive(Debug)]
pub struct GuestBody {
    /// The start of the body, which arrived before the guest got a slot.
    ahead: Bytes,
    /// The rest; `None` if nothing follows `ahead`.
    rest: Option<Incoming>,
    bytes_max: u64,
    /// The end of the time for the body, if it has a limit.
    late: Option<Pin<Box<Sleep>>>,
    arrival: Arc<Arrival>,
}

/// The progress of a body. The guest's body and the server share it.
#[derive(Debug, Default)]
pub(crate) struct Arrival {
    bytes: AtomicU64,
    /// Whether the guest waits for the client.
    is_awaited: AtomicBool,
    failure: OnceLock<Unread>,
}

impl Arrival {
    /// Number of bytes that have arrived.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the guest waits for bytes of the client.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// The reason for which the body failed.
    pub(crate) fn failure(&self) -> Option<&Unread> {
        self.failure.get()
    }
}

impl GuestBody {
    /// A body that fails after more than `bytes_max` bytes. `arrival` gets its progress.
    pub(crate) fn new(body: Incoming, bytes_max: usize, arrival: &Arc<Arrival>) -> Self {
        Self {
            ahead: Bytes::new(),
            rest: Some(body),
            bytes_max: bytes_max as u64,
            late: None,
            arrival: Arc::clone(arrival),
        }
    }

    /// Puts bytes that have arrived before the rest. `is_whole` says that nothing follows.
    pub(crate) fn after(mut self, ahead: Bytes, is_whole: bool) -> Self {
        let bytes = ahead.len() as u64;
        self.arrival.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ahead = ahead;
        if is_whole {
            self.rest = None;
        }
        self
    }

    /// Sets the time until which the body must have arrived.
    pub(crate) fn until(mut self, until: Option<Instant>) -> Self {
        self.late = match self.rest {
            Some(_) => until.map(|until| Box::pin(sleep_until(until.into()))),
            None => None,
        };
        self
    }

    fn fail(
        &mut self,
        why: Unread,
        error: ErrorCode,
    ) -> Poll<Option<Result<Frame<Bytes>, ErrorCode>>> {
        self.rest = None;
        // The body has ended, so this is the first failure.
        let _ = self.arrival.failure.set(why);
        Poll::Ready(Some(Err(error)))
    }
}

impl Body for GuestBody {
    type Data = Bytes;
    type Error = ErrorCode;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ErrorCode>>> {
        if !self.ahead.is_empty() {
            let ahead = std::mem::take(&mut self.ahead);
            return Poll::Ready(Some(Ok(Frame::data(ahead))));
        }
        let Some(rest) = &mut self.rest else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(rest).poll_frame(context);
        self.arrival
            .is_awaited
            .store(polled.is_pending(), Ordering::Relaxed);
        match polled {
            Poll::Pending => {
                let late = self.late.as_mut().map(|late| late.as_mut().poll(context));
                match late {
                    Some(Poll::Ready(())) => {
                        self.fail(Unread::Slow, ErrorCode::ConnectionReadTimeout)
                    }
                    _ => Poll::Pending,
                }
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(error))) => {
                let why = Unread::Malformed(error.to_string());
                self.fail(why, ErrorCode::HttpProtocolError)
            }
            Poll::Ready(Some(Ok(frame))) => {
                let more = frame.data_ref().map_or(0, |data| data.len() as u64);
                let bytes = self.arrival.bytes.fetch_add(more, Ordering::Relaxed) + more;
                match bytes > self.bytes_max {
                    true => {
                        let error = ErrorCode::HttpRequestBodySize(Some(bytes));
                        self.fail(Unread::TooLarge, error)
                    }
                    false => Poll::Ready(Some(Ok(frame))),
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_empty() && self.rest.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.rest {
            Some(rest) => rest.size_hint(),
            None => SizeHint::with_exact(0),
        };
        let ahead = self.ahead.len() as u64;
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(ahead));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(ahead));
        }
        hint
    }
}
