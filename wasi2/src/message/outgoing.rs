//! Bodies that a guest writes: a queue between the guest and the connection, with backpressure.

use super::error_code::ErrorCode;
use crate::io::{IoError, Output, StreamFailure};
use crate::limits::BODY_QUEUE_MAX;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pirn_component::{AbiError, HeldBytes, HostBytes};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The state that the guest and the connection share.
#[derive(Default)]
struct Queue {
    pieces: VecDeque<Bytes>,
    /// Small pieces after `pieces`, in one buffer.
    tail: BytesMut,
    /// Bytes of `pieces` and `tail`.
    queued: usize,
    /// Number of bytes that the guest has written.
    written: u64,
    /// The value of `Content-Length`.
    announced: Option<u64>,
    end: End,
    /// The connection takes no more bytes.
    is_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Counts the bytes that may be queued.
    _held: Option<HeldBytes>,
}

/// Pieces below this number of bytes are copied to one shared buffer. A guest may write each byte
/// by itself, and an entry of the queue with an allocation takes more memory than a byte.
const SMALL_BYTES: usize = 1 << 10;

/// Most bytes of a buffer for small pieces.
const TAIL_BYTES: usize = 8 << 10;

/// The trailers of a body, and the count of their memory.
pub(crate) type Trailers = (HeaderMap, HeldBytes);

/// The end of the body, if the guest has set it.
#[derive(Default)]
enum End {
    #[default]
    Open,
    Finished(Option<Trailers>),
    /// The connection has taken the end.
    Taken,
    Failed(ErrorCode),
}

/// The message to which the body belongs. It selects the error code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// The guest's end of a body. All clones write to the same body.
#[derive(Clone)]
pub(crate) struct Writer {
    queue: Arc<Mutex<Queue>>,
    side: Side,
}

/// The connection's end of a body that a guest writes.
pub struct OutgoingBody(Arc<Mutex<Queue>>);

/// Makes a body: the end that the guest writes, and the end that the connection reads. `announced`
/// is the value of `Content-Length`.
///
/// # Errors
///
/// [`AbiError::HostBytes`] if the host may keep no more memory for the guest.
pub(crate) fn channel(
    announced: Option<u64>,
    is_request: bool,
    host_bytes: &HostBytes,
) -> Result<(Writer, OutgoingBody), AbiError> {
    let held = host_bytes.hold(BODY_QUEUE_MAX)?;
    let side = match is_request {
        true => Side::Request,
        false => Side::Response,
    };
    Ok(of(announced, side, Some(held)))
}

fn of(announced: Option<u64>, side: Side, held: Option<HeldBytes>) -> (Writer, OutgoingBody) {
    let queue = Arc::new(Mutex::new(Queue {
        announced,
        _held: held,
        ..Queue::default()
    }));
    let body = OutgoingBody(Arc::clone(&queue));
    (Writer { queue, side }, body)
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Adds bytes at the end. The memory of the queue stays below twice its bytes.
    fn push(&mut self, bytes: Bytes) {
        self.queued += bytes.len();
        let is_small = bytes.len() < SMALL_BYTES;
        if !is_small || self.tail.len() + bytes.len() > TAIL_BYTES {
            let tail = std::mem::take(&mut self.tail);
            self.pieces
                .extend((!tail.is_empty()).then(|| tail.freeze()));
        }
        match is_small {
            true => self.tail.extend_from_slice(&bytes),
            false => self.pieces.push_back(bytes),
        }
    }

    /// Removes the first piece. `None` if the queue is empty.
    fn pop(&mut self) -> Option<Bytes> {
        let bytes = match self.pieces.pop_front() {
            Some(bytes) => bytes,
            None => std::mem::take(&mut self.tail).freeze(),
        };
        self.queued -= bytes.len();
        (!bytes.is_empty()).then_some(bytes)
    }

    fn end(&mut self, end: End) {
        self.end = end;
        self.wake_reader();
    }

    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

impl Writer {
    /// Marks the body as complete. Fails if its length differs from `Content-Length`.
    pub(crate) fn finish(&self, trailers: Option<Trailers>) -> Result<(), ErrorCode> {
        let mut queue = lock(&self.queue);
        match queue.announced {
            Some(announced) if announced != queue.written => {
                let error = self.wrong_size(queue.written);
                queue.end(End::Failed(error.clone()));
                Err(error)
            }
            _ => {
                queue.end(End::Finished(trailers));
                Ok(())
            }
        }
    }

    /// Marks the body as failed. Has no effect after [`finish`](Self::finish).
    pub(crate) fn fail(&self, error: ErrorCode) {
        let mut queue = lock(&self.queue);
        if matches!(queue.end, End::Open) {
            queue.end(End::Failed(error));
        }
    }

    fn wrong_size(&self, bytes: u64) -> ErrorCode {
        match self.side {
            Side::Request => ErrorCode::HttpRequestBodySize(Some(bytes)),
            Side::Response => ErrorCode::HttpResponseBodySize(Some(bytes)),
        }
    }
}

impl Output for Writer {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        let queue = lock(&self.queue);
        match queue.is_gone || !matches!(queue.end, End::Open) {
            true => Err(StreamFailure::Closed),
            false => Ok(BODY_QUEUE_MAX.saturating_sub(queue.queued)),
        }
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        let mut queue = lock(&self.queue);
        if queue.is_gone || !matches!(queue.end, End::Open) {
            return Err(StreamFailure::Closed);
        }
        queue.written += bytes.len() as u64;
        if queue
            .announced
            .is_some_and(|announced| queue.written > announced)
        {
            let error = self.wrong_size(queue.written);
            queue.end(End::Failed(error.clone()));
            return Err(StreamFailure::Failed(IoError::new(error)));
        }
        queue.push(bytes);
        queue.wake_reader();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamFailure> {
        // The connection sends pieces as soon as it can.
        Ok(())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = lock(&self.queue);
        let is_open = !queue.is_gone && matches!(queue.end, End::Open);
        if is_open && queue.queued >= BODY_QUEUE_MAX {
            queue.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// The host's end of a body that the host writes. If it is dropped before
/// [`finish`](Self::finish), the body fails.
pub struct BodyWriter(Writer);

impl BodyWriter {
    /// Adds bytes. The caller limits their number, because this writer never waits for the
    /// connection. Bytes of a body that the connection has dropped are lost.
    pub fn write(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            // A body that is longer than announced has failed. `finish` reports it.
            let _ = self.0.write(Bytes::copy_from_slice(bytes));
        }
    }

    /// Marks the body as complete.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::HttpResponseBodySize`] if the length differs from the announced length.
    pub fn finish(&mut self) -> Result<(), ErrorCode> {
        self.0.finish(None)
    }
}

impl Drop for BodyWriter {
    fn drop(&mut self) {
        self.0.fail(ErrorCode::internal("the body is incomplete"));
    }
}

impl std::fmt::Debug for BodyWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyWriter").finish_non_exhaustive()
    }
}

impl OutgoingBody {
    /// A body of a response that the host writes. `announced` is the value of `Content-Length`.
    #[must_use]
    pub fn writer(announced: Option<u64>) -> (BodyWriter, Self) {
        let (writer, body) = of(announced, Side::Response, None);
        (BodyWriter(writer), body)
    }

    /// The error of a failed body, if no bytes of the body wait to be sent.
    #[must_use]
    pub fn error(&self) -> Option<ErrorCode> {
        let queue = lock(&self.0);
        match &queue.end {
            End::Failed(error) if queue.queued == 0 => Some(error.clone()),
            _ => None,
        }
    }

    /// A body without bytes.
    pub(crate) fn empty() -> Self {
        let queue = Queue {
            end: End::Finished(None),
            ..Queue::default()
        };
        Self(Arc::new(Mutex::new(queue)))
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = ErrorCode;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ErrorCode>>> {
        let mut queue = lock(&self.0);
        if let Some(bytes) = queue.pop() {
            queue.wake_writer();
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match std::mem::replace(&mut queue.end, End::Taken) {
            End::Open => {
                queue.end = End::Open;
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
            End::Finished(Some((trailers, _))) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            End::Finished(None) | End::Taken => Poll::Ready(None),
            End::Failed(error) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let queue = lock(&self.0);
        queue.queued == 0 && matches!(queue.end, End::Finished(None) | End::Taken)
    }

    fn size_hint(&self) -> SizeHint {
        let queue = lock(&self.0);
        match queue.end {
            End::Finished(None) | End::Taken => SizeHint::with_exact(queue.queued as u64),
            // `write` and `finish` compare the length with `Content-Length`.
            _ => match queue.announced {
                Some(announced) => SizeHint::with_exact(announced),
                None => SizeHint::default(),
            },
        }
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.is_gone = true;
        // The guest may keep its writer, so free the memory now.
        (queue.pieces, queue.tail, queue.queued) = (VecDeque::new(), BytesMut::new(), 0);
        queue.wake_writer();
    }
}

impl std::fmt::Debug for OutgoingBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutgoingBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a queue's entries and buffers, with spare capacity.
    fn capacity(queue: &Queue) -> usize {
        let entries = queue.pieces.capacity() * size_of::<Bytes>();
        // The capacity of a buffer of small pieces is not visible once it is frozen.
        let pieces = queue.pieces.iter().map(Bytes::len);
        entries + pieces.sum::<usize>() + queue.tail.capacity()
    }

    #[test]
    fn pieces_of_any_size_take_memory_in_proportion_and_keep_their_order() {
        for size in [1, 2, 127, 1023, 1024, 4096, 65_536] {
            let account = HostBytes::new(usize::MAX);
            let (mut writer, mut body) = channel(None, false, &account).expect("there is room");
            // A guest may write this number of bytes after one `check-write`.
            let permitted = writer.check_write().expect("it is open");
            let all: Vec<u8> = (0..permitted).map(|n| (n % 251) as u8).collect();
            for piece in all.chunks(size) {
                let written = writer.write(Bytes::copy_from_slice(piece));
                written.expect("it is open");
            }
            let used = capacity(&lock(&writer.queue));
            assert!(used <= 2 * permitted, "{used} bytes for pieces of {size}");
            assert!(matches!(writer.check_write(), Ok(0)), "pieces of {size}");
            writer.finish(None).expect("it is open");
            assert_eq!(body.size_hint().exact(), Some(permitted as u64));
            let mut read = vec![];
            let mut context = Context::from_waker(Waker::noop());
            while !body.is_end_stream() {
                match Pin::new(&mut body).poll_frame(&mut context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        read.extend(frame.into_data().expect("bytes"));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(read == all, "pieces of {size}");
        }
    }

    #[test]
    fn pieces_of_mixed_sizes_keep_their_order() {
        let account = HostBytes::new(usize::MAX);
        let (mut writer, mut body) = channel(None, false, &account).expect("there is room");
        let mut expected = vec![];
        let mut read = vec![];
        let mut context = Context::from_waker(Waker::noop());
        for (n, size) in [1, 2000, 5, 1023, 1024, 8191, 3, 3].into_iter().enumerate() {
            let piece = vec![n as u8; size];
            expected.extend_from_slice(&piece);
            writer.write(piece.into()).expect("it is open");
            if n % 3 == 2 {
                let frame = Pin::new(&mut body).poll_frame(&mut context);
                let Poll::Ready(Some(Ok(frame))) = frame else {
                    panic!("{frame:?}");
                };
                read.extend(frame.into_data().expect("bytes"));
            }
        }
        drop(writer.finish(None));
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            read.extend(frame.into_data().expect("bytes"));
        }
        assert!(read == expected);
    }

    #[test]
    fn a_body_that_nobody_reads_keeps_no_memory() {
        let account = HostBytes::new(usize::MAX);
        let (mut writer, body) = channel(None, false, &account).expect("there is room");
        for _ in 0..100 {
            writer
                .write(Bytes::from_static(&[0; 100]))
                .expect("it is open");
        }
        drop(body);
        assert_eq!(capacity(&lock(&writer.queue)), 0);
    }
}
