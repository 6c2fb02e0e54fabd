//! [`Stream`]: a client's socket with a time limit for answers.

use std::future::Future as _;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A socket on which a write fails if the client does not receive what was written in time.
///
/// The time starts when the socket first accepts no more bytes, and ends when everything that hyper
/// has is written. The time for a whole answer is limited apart, from the end of its guest.
pub(crate) struct Stream<S> {
    socket: S,
    write_max: Duration,
    /// The timer. It runs since the socket accepted no more bytes.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> Stream<S> {
    pub(crate) fn new(socket: S, write_max: Duration) -> Self {
        Self {
            socket,
            write_max,
            late: None,
        }
    }

    /// Fails a write that has waited too long.
    fn in_time(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            return written;
        }
        let write_max = self.write_max;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(write_max)));
        ready!(late.as_mut().poll(context));
        let why = format!("client did not take its answer within {write_max:?}");
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, why)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.in_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.in_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    /// hyper flushes after it has written all that it has of an answer.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.late = None;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (server, _client) = duplex(10);
        let mut server = Stream::new(server, SHORT);
        server.write_all(&[1; 10]).await.expect("it fits");
        let late = server.write_all(&[1]).await.expect_err("it does not fit");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        assert_eq!(
            late.to_string(),
            "client did not take its answer within 50ms"
        );
    }

    #[tokio::test]
    async fn a_client_that_takes_a_byte_now_and_then_is_given_up() {
        let (server, mut client) = duplex(10);
        let mut server = Stream::new(server, SHORT);
        let slow = async {
            let mut taken = 0;
            while client.read_u8().await.is_ok() {
                taken += 1;
                sleep(SHORT / 10).await;
            }
            taken
        };
        let answer = async {
            let written = server.write_all(&[1; 1000]).await;
            drop(server);
            written
        };
        let (written, taken) = tokio::join!(answer, slow);
        assert_eq!(written.expect_err("1 s").kind(), ErrorKind::TimedOut);
        assert!(taken > 0 && taken < 1000, "{taken}");
    }

    /// Polls a future once.
    async fn once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
    }

    #[tokio::test]
    async fn each_answer_has_its_own_time() {
        let (server, mut client) = duplex(10);
        let mut server = Stream::new(server, SHORT);
        {
            let mut answer = pin!(server.write_all(&[1; 20]));
            assert!(once(answer.as_mut()).await.is_pending());
            // The client reads after the answer's time limit, but before the server writes again.
            sleep(2 * SHORT).await;
            client.read_exact(&mut [0; 10]).await.expect("an answer");
            answer.await.expect("it is taken");
        }
        server.flush().await.expect("it is taken");
        client.read_exact(&mut [0; 10]).await.expect("an answer");
        // The old timer would end the next answer at its first wait.
        server.write_max = Duration::from_secs(3600);
        let mut answer = pin!(server.write_all(&[1; 20]));
        assert!(once(answer.as_mut()).await.is_pending());
        client.read_exact(&mut [0; 10]).await.expect("an answer");
        answer.await.expect("it is taken");
    }
}
