//! [`GuestBody`]: the body of a request that streams to the guest.

use super::body::Unread;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use pirn_wasi2::http::ErrorCode;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::{Sleep, sleep, timeout};

/// The body of a request, with a limit of its size.
#[derive(Debug)]
pub struct GuestBody {
    /// The start of the body, which arrived before the guest got a slot.
    ahead: Bytes,
    /// The rest; `None` if nothing follows `ahead`.
    rest: Option<Incoming>,
    bytes_max: u64,
    /// The time that the guest may still wait for the body. `None` for a component, whose wait has
    /// no limit but the deadline.
    left: Option<Duration>,
    /// The start and the end of the current wait.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
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

    /// Whether the guest waits for bytes of the client, as far as its last look shows.
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
            left: None,
            wait: None,
            arrival: Arc::clone(arrival),
        }
    }

    /// Puts `ahead`, which has arrived, before the rest. `is_whole` says that nothing follows it.
    pub(crate) fn after(mut self, ahead: Bytes, is_whole: bool) -> Self {
        let bytes = ahead.len() as u64;
        self.arrival.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ahead = ahead;
        if is_whole {
            self.rest = None;
        }
        self
    }

    /// Sets the time that the guest may wait for the body, in all. The time in which the guest does
    /// not wait does not count.
    pub(crate) fn within(mut self, left: Option<Duration>) -> Self {
        self.left = left;
        self
    }

    /// Whether the guest has waited for too long.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let Some(left) = self.left else {
            return false;
        };
        let begin = || (Instant::now(), Box::pin(sleep(left)));
        let (_, end) = self.wait.get_or_insert_with(begin);
        end.as_mut().poll(context).is_ready()
    }

    /// Counts the wait that has ended.
    fn end_wait(&mut self) {
        if let (Some(left), Some((begin, _))) = (&mut self.left, self.wait.take()) {
            *left = left.saturating_sub(begin.elapsed());
        }
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

impl Drop for GuestBody {
    /// A client that still sends its body would lose the answer if the connection closed. So the
    /// server reads the rest of the body of a CGI guest, within its limits. A client that kept the
    /// guest waiting loses its connection.
    fn drop(&mut self) {
        if self.arrival.is_awaited() {
            return;
        }
        if let (Some(left), Some(rest)) = (self.left, self.rest.take())
            && !rest.is_end_stream()
            && let Ok(runtime) = Handle::try_current()
        {
            let rest = Limited::new(rest, self.bytes_max as usize);
            runtime.spawn(timeout(left, async move {
                let mut rest = rest;
                while let Some(Ok(_)) = rest.frame().await {}
            }));
        }
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
        if polled.is_ready() {
            self.end_wait();
        }
        match polled {
            Poll::Pending if self.is_late(context) => {
                self.fail(Unread::Slow, ErrorCode::ConnectionReadTimeout)
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.rest = None;
                Poll::Ready(None)
            }
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
