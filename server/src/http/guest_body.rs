//! [`GuestBody`]: the body of a request that streams to the guest.

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use pirn_wasi2::http::ErrorCode;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// The body of a request, with a limit of its size.
#[derive(Debug)]
pub struct GuestBody {
    body: Incoming,
    bytes_max: u64,
    /// Number of bytes that have arrived.
    bytes: Arc<AtomicU64>,
}

impl GuestBody {
    /// A body that fails after more than `bytes_max` bytes. `bytes` counts the bytes that arrive.
    pub(crate) fn new(body: Incoming, bytes_max: usize, bytes: &Arc<AtomicU64>) -> Self {
        Self {
            body,
            bytes_max: bytes_max as u64,
            bytes: Arc::clone(bytes),
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
        Pin::new(&mut self.body).poll_frame(context).map(|frame| {
            let Ok(frame) = frame? else {
                return Some(Err(ErrorCode::HttpProtocolError));
            };
            let more = frame.data_ref().map_or(0, |data| data.len() as u64);
            let bytes = self.bytes.fetch_add(more, Ordering::Relaxed) + more;
            match bytes > self.bytes_max {
                true => Some(Err(ErrorCode::HttpRequestBodySize(Some(bytes)))),
                false => Some(Ok(frame)),
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
