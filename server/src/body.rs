//! Reads the whole body of a request, with limits of size and time.

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body;
use std::collections::TryReserveError;
use std::error::Error;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// Why a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The body is larger than its limit.
    TooLarge,
    /// The body did not arrive in time.
    Slow,
    /// The body is malformed or incomplete.
    Malformed(String),
    /// The system refused memory for the body.
    NoMemory(String),
}

/// Reads a body of at most `bytes_max` bytes within `time_max`.
pub(crate) async fn read<B>(body: B, bytes_max: usize, time_max: Duration) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Refuse a declared length before the client sends the bytes.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Unread::TooLarge);
    }
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let body = Limited::new(body, bytes_max);
    let read = timeout(time_max, copied(body, bytes_max)).await;
    read.unwrap_or(Err(Unread::Slow))
}

/// Copies a body to a buffer of its own.
///
/// `BodyExt::collect` keeps the frames. Each frame keeps the connection's read buffer alive. If a
/// client sends single bytes, the server would hold 8 KiB for each of them.
async fn copied<B>(body: Limited<B>, bytes_max: usize) -> Result<Bytes, Unread>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let mut all = vec![];
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
            true => Unread::TooLarge,
            false => Unread::Malformed(error.to_string()),
        })?;
        let Ok(data) = frame.into_data() else {
            continue; // trailers, which CGI does not have
        };
        make_room(&mut all, data.len(), bytes_max)
            .map_err(|error| Unread::NoMemory(error.to_string()))?;
        all.extend_from_slice(&data);
    }
    Ok(all.into())
}

/// Makes room for `more` bytes. The capacity doubles, as in any `Vec`, but never exceeds the limit
/// of a body.
fn make_room(all: &mut Vec<u8>, more: usize, bytes_max: usize) -> Result<(), TryReserveError> {
    let needed = all.len().saturating_add(more);
    if needed <= all.capacity() {
        return Ok(());
    }
    let capacity = needed.max(2 * all.capacity()).min(bytes_max.max(needed));
    all.try_reserve_exact(capacity - all.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::{Frame, SizeHint};
    use std::convert::Infallible;
    use std::future::pending;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};

    /// A read buffer of a connection. A frame is a slice of it. It counts the live buffers.
    struct Buffer {
        bytes: Vec<u8>,
        alive: Arc<AtomicUsize>,
    }

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.alive.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A body of single bytes, each in its own buffer. It records the highest number of live
    /// buffers.
    struct Drip {
        left: usize,
        alive: Arc<AtomicUsize>,
        alive_max: Arc<AtomicUsize>,
        declared: u64,
    }

    impl Drip {
        fn new(bytes: usize) -> Self {
            Self {
                left: bytes,
                alive: Arc::default(),
                alive_max: Arc::default(),
                declared: 0,
            }
        }
    }

    impl Body for Drip {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            self.left -= 1;
            let alive = self.alive.fetch_add(1, Ordering::Relaxed) + 1;
            self.alive_max.fetch_max(alive, Ordering::Relaxed);
            let buffer = Buffer {
                bytes: vec![b'x'; 8 << 10],
                alive: Arc::clone(&self.alive),
            };
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(buffer).slice(..1)))))
        }

        fn size_hint(&self) -> SizeHint {
            let mut hint = SizeHint::new();
            hint.set_lower(self.declared);
            hint
        }
    }

    #[tokio::test]
    async fn a_body_in_small_pieces_does_not_keep_their_buffers() {
        let drip = Drip::new(1000);
        let (alive, alive_max) = (Arc::clone(&drip.alive), Arc::clone(&drip.alive_max));
        let body = read(drip, 1000, Duration::MAX).await.expect("it fits");
        assert_eq!(body, "x".repeat(1000));
        assert_eq!(alive_max.load(Ordering::Relaxed), 1, "buffers of frames");
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn bodies_are_bounded() {
        for (bytes, max) in [(0, 0), (1, 1), (999, 1000), (1000, 1000)] {
            let body = read(Drip::new(bytes), max, Duration::MAX).await;
            assert_eq!(body.map(|body| body.len()), Ok(bytes));
        }
        for (bytes, max) in [(1, 0), (1001, 1000), (usize::MAX, 1000)] {
            let body = read(Drip::new(bytes), max, Duration::MAX).await;
            assert_eq!(body, Err(Unread::TooLarge));
        }
        let mut declared = Drip::new(1);
        declared.declared = 1001;
        let alive_max = Arc::clone(&declared.alive_max);
        let body = read(declared, 1000, Duration::MAX).await;
        assert_eq!(body, Err(Unread::TooLarge));
        assert_eq!(alive_max.load(Ordering::Relaxed), 0, "nothing is read");
    }

    /// A body that never arrives.
    struct Never;

    impl Body for Never {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            pin!(pending()).poll(context)
        }
    }

    #[tokio::test]
    async fn a_body_has_only_so_long() {
        let body = read(Never, 1, Duration::from_millis(1)).await;
        assert_eq!(body, Err(Unread::Slow));
    }

    #[test]
    fn room_is_made_up_to_the_limit_and_where_there_is_none_it_is_said() {
        let mut all = vec![];
        let mut capacities = vec![];
        for _ in 0..100 {
            make_room(&mut all, 10, 1000).expect("there is memory");
            all.extend([0; 10]);
            capacities.push(all.capacity());
        }
        capacities.dedup();
        assert_eq!(capacities, [10, 20, 40, 80, 160, 320, 640, 1000]);
        assert!(make_room(&mut all, isize::MAX as usize, usize::MAX).is_err());
        assert!(make_room(&mut all, usize::MAX, usize::MAX).is_err());
        assert_eq!(all.len(), 1000);
    }
}
