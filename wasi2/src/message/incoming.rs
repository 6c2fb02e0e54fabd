//! Bodies that a guest reads.

use super::error_code::ErrorCode;
use crate::io::{Input, IoError, StreamFailure};
use crate::quota::Counted;
use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// A body that a guest can read.
pub struct IncomingBody {
    body: UnsyncBoxBody<Bytes, ErrorCode>,
    /// Longest time between two frames.
    between_bytes: Option<Duration>,
    /// Counts the body's connection against the guest's limit.
    connection: Option<Counted>,
}

impl IncomingBody {
    /// Wraps the body of a message.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Error + 'static,
    {
        Self {
            body: body.map_err(|error| ErrorCode::of(&error)).boxed_unsync(),
            between_bytes: None,
            connection: None,
        }
    }

    /// Sets the longest time between two frames. After it, the body fails.
    #[must_use]
    pub fn between_bytes(mut self, limit: Option<Duration>) -> Self {
        self.between_bytes = limit;
        self
    }

    /// Counts a connection while the body exists.
    pub(crate) fn counted(mut self, connection: Counted) -> Self {
        self.connection = Some(connection);
        self
    }
}

impl std::fmt::Debug for IncomingBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IncomingBody").finish_non_exhaustive()
    }
}

/// The end of a body: its trailers, if it has any.
pub(crate) type Received = Result<Option<HeaderMap>, ErrorCode>;

/// A body with the bytes that have arrived and that the guest has not read.
pub(crate) struct Receiving {
    body: IncomingBody,
    timer: Option<Pin<Box<Sleep>>>,
    buffer: Bytes,
    end: Option<Received>,
}

impl Receiving {
    pub(crate) fn new(body: IncomingBody) -> Self {
        Self {
            body,
            timer: None,
            buffer: Bytes::new(),
            end: None,
        }
    }

    /// Waits for bytes, or for the end.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.buffer.is_empty() && self.end.is_none() {
            let Poll::Ready(frame) = Pin::new(&mut self.body.body).poll_frame(context) else {
                return self.poll_timer(context);
            };
            self.timer = None;
            match frame {
                None => self.end = Some(Ok(None)),
                Some(Err(error)) => self.end = Some(Err(error)),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.buffer = bytes,
                    Err(frame) => self.end = frame.into_trailers().ok().map(Some).map(Ok),
                },
            }
        }
        Poll::Ready(())
    }

    /// Ends the body if nothing has arrived for too long.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(limit) = self.body.between_bytes else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        match timer.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                self.end = Some(Err(ErrorCode::ConnectionReadTimeout));
                Poll::Ready(())
            }
        }
    }

    /// Waits for the end. Discards the bytes that arrive before the end.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.buffer = Bytes::new();
            if self.poll_bytes(context).is_pending() {
                return Poll::Pending;
            }
            if self.end.is_some() {
                return Poll::Ready(());
            }
        }
    }

    /// The end, if it has arrived.
    pub(crate) fn end(&self) -> Option<&Received> {
        self.end.as_ref()
    }
}

impl Input for Receiving {
    fn read(&mut self, max: usize) -> Result<Bytes, StreamFailure> {
        let _ = self.poll_bytes(&mut Context::from_waker(Waker::noop()));
        match (self.buffer.len(), &self.end) {
            (0, None) => Ok(Bytes::new()),
            (0, Some(Ok(_))) => Err(StreamFailure::Closed),
            (0, Some(Err(error))) => Err(StreamFailure::Failed(IoError::new(error.clone()))),
            (len, _) => Ok(self.buffer.split_to(len.min(max))),
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_bytes(context)
    }
}
