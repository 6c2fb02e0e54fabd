//! Responses of guests that answer while they run: [`ReplyBody`] and [`Exchanged`].

use crate::guest::engine::{End, Ended};
use crate::http::body::Unread;
use crate::http::buffered::NoRoom;
use crate::http::guest_body::Arrival;
use crate::limits::Limits;
use crate::operations::journal::Journal;
use crate::operations::metrics::Outcome;
use crate::record::Record;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use pirn_wasi2::http::{ErrorCode, OutgoingBody};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::task::{AbortHandle, JoinSet};

/// The body of a response.
pub(crate) enum ReplyBody {
    /// The whole body is in memory.
    Whole(Full<Bytes>),
    /// The guest may still write the body.
    Stream(Stream),
}

impl Default for ReplyBody {
    fn default() -> Self {
        Self::Whole(Full::default())
    }
}

/// The body that a guest writes while it runs.
pub(crate) struct Stream {
    body: OutgoingBody,
    exchanged: Arc<Exchanged>,
    /// Bytes of `Content-Length` that the connection has not taken yet. The connection takes no
    /// more bytes than these.
    left: Option<u64>,
    /// The task of the guest, if it has not ended.
    guest: Option<AbortHandle>,
}

/// Collects the outcome of a request whose guest answers while it runs. The guest's task and the
/// response share it. The last drop records the request.
pub(crate) struct Exchanged {
    record: Mutex<Option<Record>>,
    journal: Arc<Journal>,
    status: u16,
    bytes_out: AtomicU64,
    /// The outcome and the reason, if the guest failed.
    failure: Mutex<Option<(Outcome, String)>>,
    sent: Mutex<Sent>,
    /// The time at which the guest ended.
    ended: OnceLock<Instant>,
    /// Longest time that the client may take to receive its answer after the guest has ended.
    write_timeout: Duration,
}

/// The part of a response that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The body is not complete yet. If the response is dropped in this state, the client is gone.
    Begun,
    /// The connection has taken the whole body, or the answer has none.
    All,
    /// The body ended early, because the guest did not complete it.
    Broken,
}

/// The tasks of guests that still run after the heads of their responses.
#[derive(Default)]
pub(crate) struct Guests(Mutex<JoinSet<()>>);

impl Guests {
    /// Runs a guest in a task.
    pub(crate) fn spawn(&self, guest: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut all = lock(&self.0);
        while all.try_join_next().is_some() {}
        all.spawn(guest)
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn ended(&self) {
        while poll_fn(|context| lock(&self.0).poll_join_next(context))
            .await
            .is_some()
        {}
    }

    /// Aborts all tasks.
    pub(crate) async fn shutdown(&self) {
        let mut all = std::mem::take(&mut *lock(&self.0));
        all.shutdown().await;
    }
}

/// The outcome and the reason of a body that has not arrived.
pub(crate) fn unread(unread: &Unread, limits: &Limits) -> (Outcome, String) {
    match unread {
        Unread::TooLarge => {
            let why = format!("body is larger than {} bytes", limits.body_max);
            (Outcome::TooLarge, why)
        }
        Unread::Slow => {
            let why = format!("body did not come within {:?}", limits.body_timeout);
            (Outcome::Slow, why)
        }
        Unread::Malformed(error) => (Outcome::Bad, format!("body: {error}")),
        Unread::NoRoom(NoRoom { needed, bytes_max }) => {
            let why = format!(
                "bodies would take {needed} bytes of {bytes_max}; raise --buffered-max, or the \
                 part of a client by --client-connections"
            );
            (Outcome::Full, why)
        }
        Unread::NoMemory(error) => (Outcome::Failed, format!("body: {error}")),
    }
}

/// The outcome and the reason, if the guest failed. If the guest failed because bytes of the body
/// did not come, the outcome names the client: a client could otherwise fill the log, which reports
/// failures of guests.
pub(crate) fn failure(end: &End, arrival: &Arrival, limits: &Limits) -> Option<(Outcome, String)> {
    let outcome = match end {
        End::Exited(0) => return None,
        End::Deadline if arrival.is_awaited() => {
            let why = "body did not come before the guest's deadline";
            return Some((Outcome::Slow, why.to_owned()));
        }
        End::Deadline => Outcome::Deadline,
        End::Output => Outcome::Output,
        End::Panic(_) | End::System(_) => Outcome::Failed,
        End::Exited(_) | End::Trap(_) | End::Malformed(_) if arrival.failure().is_some() => {
            return arrival.failure().map(|error| unread(error, limits));
        }
        End::Exited(_) => Outcome::Exit,
        End::Trap(_) => Outcome::Trap,
        End::Malformed(_) => Outcome::Malformed,
    };
    Some((outcome, end.to_string()))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchanged {
    /// Begins to collect the outcome. The guest has already set the head of its response.
    pub(crate) fn new(record: Record, journal: &Arc<Journal>, status: u16) -> Arc<Self> {
        Arc::new(Self {
            write_timeout: record.limits().write_timeout,
            ended: OnceLock::new(),
            record: Mutex::new(Some(record)),
            journal: Arc::clone(journal),
            status,
            bytes_out: AtomicU64::new(0),
            failure: Mutex::new(None),
            sent: Mutex::new(Sent::Begun),
        })
    }

    /// Records the end of the guest.
    pub(crate) fn guest_ended(&self, ended: &Ended) {
        if let Some(record) = &mut *lock(&self.record) {
            record.guest_ended(ended);
            self.journal.errors(record.route(), &ended.errors);
            *lock(&self.failure) = failure(&ended.end, &record.arrival, record.limits());
        }
        // A guest ends once.
        let _ = self.ended.set(Instant::now());
    }

    fn set_sent(&self, sent: Sent) {
        *lock(&self.sent) = sent;
    }
}

impl Drop for Exchanged {
    fn drop(&mut self) {
        let Some(record) = lock(&self.record).take() else {
            return;
        };
        let outcome = match (lock(&self.failure).take(), *lock(&self.sent)) {
            (Some((outcome, why)), _) => {
                self.journal.failure(record.route(), outcome, &why);
                outcome
            }
            (None, Sent::All) => Outcome::Ok,
            (None, Sent::Begun) => Outcome::Gone,
            (None, Sent::Broken) => {
                let why = "guest did not complete the body of its answer";
                self.journal
                    .failure(record.route(), Outcome::Malformed, why);
                Outcome::Malformed
            }
        };
        record.end(outcome, self.status, self.bytes_out.load(Ordering::Relaxed));
    }
}

impl Stream {
    /// The body of a response. If the connection drops it before its end, the guest's task is
    /// aborted. `is_sent` is false if the response has no body because of its method or status. The
    /// connection then drops the body at once, and the guest continues.
    pub(crate) fn new(
        body: OutgoingBody,
        exchanged: Arc<Exchanged>,
        guest: Option<AbortHandle>,
        is_sent: bool,
    ) -> Self {
        let left = body.size_hint().exact();
        if !is_sent || left == Some(0) || body.is_end_stream() {
            exchanged.set_sent(Sent::All);
        }
        Self {
            body,
            exchanged,
            left,
            guest,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if *lock(&self.exchanged.sent) == Sent::Begun
            && let Some(guest) = &self.guest
        {
            guest.abort();
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = ErrorCode;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ErrorCode>>> {
        let stream = match self.get_mut() {
            Self::Whole(body) => {
                let frame = Pin::new(body).poll_frame(context);
                return frame.map_err(|never| match never {});
            }
            Self::Stream(stream) => stream,
        };
        let exchanged = &stream.exchanged;
        // The socket has a limit for each pause of the client, and this limit is for all pauses.
        let ended = exchanged.ended.get();
        if ended.is_some_and(|ended| ended.elapsed() > exchanged.write_timeout) {
            return Poll::Ready(Some(Err(ErrorCode::ConnectionWriteTimeout)));
        }
        let polled = Pin::new(&mut stream.body).poll_frame(context);
        match &polled {
            Poll::Ready(None) => exchanged.set_sent(Sent::All),
            Poll::Ready(Some(Err(_))) => exchanged.set_sent(Sent::Broken),
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                exchanged.bytes_out.fetch_add(bytes, Ordering::Relaxed);
                stream.left = stream.left.map(|left| left.saturating_sub(bytes));
                // The connection does not poll again after the last frame. A guest that has written
                // all announced bytes may not have finished the body yet.
                if stream.left == Some(0) || stream.body.is_end_stream() {
                    exchanged.set_sent(Sent::All);
                }
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Stream(stream) => stream.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Stream(stream) => stream.body.size_hint(),
        }
    }
}
