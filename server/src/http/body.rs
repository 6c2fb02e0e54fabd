//! Reads the start of a request's body, with limits of size and time.

use super::buffered::{NoRoom, Reserved};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Body;
use std::fmt::Display;
use std::time::Instant;
use tokio::time::timeout_at;

/// The reason for which a body could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The body is larger than its limit.
    TooLarge,
    /// The body did not arrive in time.
    Slow,
    /// The body is malformed or incomplete.
    Malformed(String),
    /// The bodies of all requests together would exceed a limit.
    NoRoom(NoRoom),
    /// The system refused memory for the body.
    NoMemory(String),
}

/// Bytes that have arrived. They count as buffered until they are dropped.
struct Whole {
    bytes: Vec<u8>,
    _reserved: Reserved,
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The start of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) bytes: Bytes,
    /// Whether the body has no more bytes.
    pub(crate) is_whole: bool,
}

/// Reads the start of a body until `until`. Of a body with a declared length, the start is
/// `ahead_max` bytes, to the end of a frame. Any other body is read whole. Fails if the length,
/// declared or found, exceeds `bytes_max`. The capacity of the buffer counts in `reserved`, which
/// must be empty, until the bytes are dropped.
pub(crate) async fn read_ahead<B>(
    body: &mut B,
    (bytes_max, ahead_max): (usize, usize),
    until: Option<Instant>,
    reserved: Reserved,
) -> Result<Ahead, Unread>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let is_whole = body.is_end_stream();
    // Refuse a declared length before the client sends the bytes.
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Unread::TooLarge);
    }
    if is_whole {
        let bytes = Bytes::new();
        return Ok(Ahead { bytes, is_whole });
    }
    let read = copied(body, (bytes_max, ahead_max), reserved);
    match until {
        Some(until) => timeout_at(until.into(), read)
            .await
            .unwrap_or(Err(Unread::Slow)),
        None => read.await,
    }
}

/// Copies the start of a body to a buffer of its own.
///
/// `BodyExt::collect` keeps the frames. Each frame keeps the connection's read buffer alive. If a
/// client sends single bytes, the server would hold 8 KiB for each byte.
async fn copied<B>(
    body: &mut B,
    (bytes_max, ahead_max): (usize, usize),
    mut reserved: Reserved,
) -> Result<Ahead, Unread>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    // At most the declared length arrives, so the buffer needs no larger capacity.
    let (enough, capacity_max) = match body.size_hint().exact() {
        Some(declared) => (ahead_max, declared.min(ahead_max as u64) as usize),
        None => (usize::MAX, bytes_max),
    };
    let mut all = vec![];
    let mut is_whole = false;
    while !is_whole && all.len() < enough {
        let Some(frame) = body.frame().await else {
            is_whole = true;
            break;
        };
        let frame = frame.map_err(|error| Unread::Malformed(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue; // trailers, which CGI does not have
        };
        if data.len() > bytes_max - all.len() {
            return Err(Unread::TooLarge);
        }
        make_room(&mut all, data.len(), capacity_max, &mut reserved)?;
        all.extend_from_slice(&data);
        is_whole = body.is_end_stream();
    }
    let bytes = Bytes::from_owner(Whole {
        bytes: all,
        _reserved: reserved,
    });
    Ok(Ahead { bytes, is_whole })
}

/// Makes room for `more` bytes, and counts the capacity. The capacity doubles, as in any `Vec`, but
/// exceeds `capacity_max` only if the bytes need more room.
fn make_room(
    all: &mut Vec<u8>,
    more: usize,
    capacity_max: usize,
    reserved: &mut Reserved,
) -> Result<(), Unread> {
    let needed = all.len().saturating_add(more);
    if needed <= all.capacity() {
        return Ok(());
    }
    let capacity = needed
        .max(all.capacity().saturating_mul(2))
        .min(capacity_max.max(needed));
    reserved.grow(capacity).map_err(Unread::NoRoom)?;
    all.try_reserve_exact(capacity - all.len())
        .map_err(|error| Unread::NoMemory(error.to_string()))?;
    // The allocator may give more memory than requested.
    reserved.grow(all.capacity()).map_err(Unread::NoRoom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::buffered::Buffered;
    use hyper::body::{Frame, SizeHint};
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};
    use std::time::Duration;

    /// Reads a body that is small or has no declared length.
    async fn read<B>(
        mut body: B,
        bytes_max: usize,
        time_max: Duration,
        reserved: Reserved,
    ) -> Result<Bytes, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Display,
    {
        let until = Instant::now().checked_add(time_max);
        let ahead = read_ahead(&mut body, (bytes_max, usize::MAX), until, reserved).await?;
        assert!(ahead.is_whole);
        Ok(ahead.bytes)
    }

    /// The guest gets the rest of a large body while it runs. A body without a declared length has
    /// no rest, because its guest must know the length.
    #[tokio::test]
    async fn only_the_start_of_a_large_body_is_read_ahead() {
        const LARGE: usize = 1001;
        for (declared, ahead_max, ahead_bytes) in [
            (LARGE as u64, 1000, 1000),
            (LARGE as u64, 0, 0),
            (LARGE as u64, LARGE, LARGE),
            (0, 1000, LARGE),
        ] {
            let server = Buffered::default();
            let reserved = Reserved::new((&server, LARGE), (&Buffered::default(), LARGE));
            let mut body = Drip::new(LARGE);
            body.declared = declared;
            let ahead = read_ahead(&mut body, (LARGE, ahead_max), None, reserved).await;
            let ahead = ahead.expect("it fits");
            assert_eq!(ahead.bytes.len(), ahead_bytes);
            // A body of single bytes does not say that it has ended.
            assert_eq!(ahead.is_whole, declared == 0);
            assert_eq!(server.bytes(), ahead_bytes);
            assert_eq!(body.left, LARGE - ahead_bytes);
        }
    }

    /// A reservation of no bytes, without limits.
    fn unlimited() -> Reserved {
        let (server, client) = (Buffered::default(), Buffered::default());
        Reserved::new((&server, usize::MAX), (&client, usize::MAX))
    }

    /// A read buffer of a connection. A frame is a slice of this buffer. `alive` counts the live
    /// buffers.
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

    /// A body of single bytes, each byte in its own buffer. Records the highest number of live
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
            match self.declared {
                // As for a chunked body, the length is unknown.
                0 => {}
                declared => hint.set_exact(declared),
            }
            hint
        }
    }

    #[tokio::test]
    async fn a_body_in_small_pieces_does_not_keep_their_buffers() {
        let drip = Drip::new(1000);
        let (alive, alive_max) = (Arc::clone(&drip.alive), Arc::clone(&drip.alive_max));
        let body = read(drip, 1000, Duration::MAX, unlimited())
            .await
            .expect("it fits");
        assert_eq!(body, "x".repeat(1000));
        assert_eq!(alive_max.load(Ordering::Relaxed), 1, "buffers of frames");
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn bodies_are_bounded() {
        for (bytes, max) in [(0, 0), (1, 1), (999, 1000), (1000, 1000)] {
            let body = read(Drip::new(bytes), max, Duration::MAX, unlimited()).await;
            assert_eq!(body.map(|body| body.len()), Ok(bytes));
        }
        for (bytes, max) in [(1, 0), (1001, 1000), (usize::MAX, 1000)] {
            let body = read(Drip::new(bytes), max, Duration::MAX, unlimited()).await;
            assert_eq!(body, Err(Unread::TooLarge));
        }
        let mut declared = Drip::new(1);
        declared.declared = 1001;
        let alive_max = Arc::clone(&declared.alive_max);
        let body = read(declared, 1000, Duration::MAX, unlimited()).await;
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
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_body_has_only_so_long() {
        let body = read(Never, 1, Duration::from_millis(1), unlimited()).await;
        assert_eq!(body, Err(Unread::Slow));
    }

    #[test]
    fn room_is_made_up_to_the_limit_and_where_there_is_none_it_is_said() {
        let mut all = vec![];
        let mut capacities = vec![];
        let mut reserved = unlimited();
        for _ in 0..100 {
            make_room(&mut all, 10, 1000, &mut reserved).expect("there is memory");
            all.extend([0; 10]);
            capacities.push(all.capacity());
        }
        capacities.dedup();
        assert_eq!(capacities, [10, 20, 40, 80, 160, 320, 640, 1000]);
        for more in [isize::MAX as usize, usize::MAX] {
            let refused = make_room(&mut all, more, usize::MAX, &mut unlimited());
            assert!(matches!(refused, Err(Unread::NoMemory(_))), "{refused:?}");
        }
        assert_eq!(all.len(), 1000);
    }

    /// Bodies of this number of bytes, one after another, while the server has room for `bytes_max`
    /// bytes. Returns each result with the counted bytes after it.
    async fn read_all(
        bytes_max: usize,
        bodies: &[(usize, u64)],
    ) -> Vec<(Result<Bytes, Unread>, usize)> {
        let (server, client) = (Buffered::default(), Buffered::default());
        let mut all = vec![];
        for (bytes, declared) in bodies {
            let reserved = Reserved::new((&server, bytes_max), (&client, usize::MAX));
            let mut body = Drip::new(*bytes);
            body.declared = *declared;
            let read = read(body, 1000, Duration::MAX, reserved).await;
            all.push((read, server.bytes()));
        }
        assert_eq!(client.bytes(), server.bytes());
        all
    }

    #[tokio::test]
    async fn the_capacity_of_a_body_counts_until_the_body_is_dropped() {
        // Single bytes double the capacity: 513 bytes without a declared length take 1000.
        for (bytes, declared, counted) in [(0, 0, 0), (1, 0, 1), (513, 0, 1000), (513, 513, 513)] {
            let mut all = read_all(1000, &[(bytes, declared)]).await;
            let (body, bytes_counted) = all.remove(0);
            assert_eq!(body.map(|body| body.len()), Ok(bytes));
            assert_eq!(bytes_counted, counted, "{bytes} of {declared}");
        }
        let server = Buffered::default();
        let reserved = Reserved::new((&server, 1000), (&Buffered::default(), 1000));
        let body = read(Drip::new(1000), 1000, Duration::MAX, reserved).await;
        let part = body.expect("it fits").slice(..1);
        assert_eq!(server.bytes(), 1000, "a part keeps the whole");
        drop(part);
        assert_eq!(server.bytes(), 0);
    }

    #[tokio::test]
    async fn bodies_together_are_bounded() {
        let all = read_all(1500, &[(600, 600), (900, 900), (1, 1)]).await;
        let counted: Vec<_> = all.iter().map(|(_, counted)| *counted).collect();
        assert_eq!(counted, [600, 1500, 1500]);
        let refused = NoRoom {
            needed: 1501,
            bytes_max: 1500,
        };
        assert_eq!(all[2].0, Err(Unread::NoRoom(refused)));
        // A refused body gives its bytes back.
        let all = read_all(1500, &[(600, 600), (901, 901), (900, 900)]).await;
        let counted: Vec<_> = all.iter().map(|(_, counted)| *counted).collect();
        assert_eq!(counted, [600, 600, 1500]);
        assert!(matches!(all[1].0, Err(Unread::NoRoom(_))), "{:?}", all[1].0);
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_counts_nothing() {
        let server = Buffered::default();
        let reserved = || Reserved::new((&server, 1), (&Buffered::default(), 1));
        let body = read(Never, 1, Duration::from_millis(1), reserved()).await;
        assert_eq!((body, server.bytes()), (Err(Unread::Slow), 0));
        let mut declared = Drip::new(1);
        declared.declared = u64::MAX;
        let body = read(declared, 1, Duration::MAX, reserved()).await;
        assert_eq!((body, server.bytes()), (Err(Unread::TooLarge), 0));
    }
}
