//! Bodies that a guest reads.

use super::error_code::ErrorCode;
use crate::io::{Input, IoError, StreamFailure, split};
use crate::limits::CONNECTION_BUFFER_MAX;
use crate::quota::Counted;
use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use pirn_component::{AbiError, HeldBytes, HostBytes};
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
    /// Counts the memory of the bytes that have arrived and that the guest has not read.
    held: Option<HeldBytes>,
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
            held: None,
        }
    }

    /// Counts the memory of one read buffer while the body exists.
    pub(crate) fn held(mut self, host_bytes: &HostBytes) -> Result<Self, AbiError> {
        self.held = Some(host_bytes.hold(CONNECTION_BUFFER_MAX)?);
        Ok(self)
    }

    /// Sets the longest time between two frames. If no frame arrives within this time, the body
    /// fails.
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

/// The end of a body: the trailers, if the body has trailers.
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
            // The buffer is a part of the connection's read buffer.
            _ => Ok(split(&mut self.buffer, max)),
        }
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_bytes(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A read buffer of a connection. Counts the live buffers.
    struct Buffer(Vec<u8>, Arc<AtomicUsize>);

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Relaxed);
        }
    }

    /// A body whose frames have `.0` bytes. Each frame is a part of its own buffer of 64 KiB.
    struct Frames(usize, Arc<AtomicUsize>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.1.fetch_add(1, Relaxed);
            let buffer = Buffer(vec![b'x'; CONNECTION_BUFFER_MAX], Arc::clone(&self.1));
            let bytes = Bytes::from_owner(buffer).slice(..self.0);
            Poll::Ready(Some(Ok(Frame::data(bytes))))
        }
    }

    #[test]
    fn bytes_that_were_read_keep_at_most_twice_their_length() {
        for (frame, max) in [
            (1, 100),
            (1000, 1),
            (CONNECTION_BUFFER_MAX, 100),
            (65_535, 65_534),
        ] {
            let alive = Arc::default();
            let body = IncomingBody::new(Frames(frame, Arc::clone(&alive)));
            let mut body = Receiving::new(body);
            let mut read = vec![];
            for _ in 0..1000 {
                read.push(body.read(max).expect("it has no end"));
            }
            let kept: usize = read.iter().map(Bytes::len).sum();
            let buffers = alive.load(Relaxed) * CONNECTION_BUFFER_MAX;
            // The body itself keeps one buffer.
            assert!(
                buffers <= 2 * kept + CONNECTION_BUFFER_MAX,
                "{frame} {max}: {buffers}"
            );
        }
    }

    #[test]
    fn a_body_counts_one_read_buffer_while_it_exists() {
        let account = HostBytes::new(CONNECTION_BUFFER_MAX);
        let body = || IncomingBody::new(Frames(1, Arc::default()));
        let one = body().held(&account).expect("it fits");
        assert_eq!(account.held(), CONNECTION_BUFFER_MAX);
        assert!(body().held(&account).is_err());
        drop(Receiving::new(one));
        assert_eq!(account.held(), 0);
    }
}
