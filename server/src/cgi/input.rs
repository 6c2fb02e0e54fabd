//! [`Input`]: the body of a request as the standard input of a CGI program.

use crate::http::guest_body::GuestBody;
use bytes::Bytes;
use hyper::body::Body as _;
use pirn_wasi::Source;
use std::io::{self, ErrorKind, Read};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

/// The body of a request as a source of bytes.
#[derive(Debug)]
pub struct Input {
    body: GuestBody,
    /// The bytes that have arrived and that the program has not read.
    piece: Bytes,
    end: Option<End>,
}

/// The end of a body.
#[derive(Debug, Clone, Copy)]
enum End {
    Complete,
    Failed,
}

impl Input {
    /// The body of a request.
    #[must_use]
    pub fn new(body: GuestBody) -> Self {
        Self {
            body,
            piece: Bytes::new(),
            end: None,
        }
    }

    /// Takes the next piece, if the program has read the last.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.piece.is_empty() && self.end.is_none() {
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                // CGI has no trailers.
                Some(Ok(frame)) => self.piece = frame.into_data().unwrap_or_default(),
                Some(Err(_)) => self.end = Some(End::Failed),
                None => self.end = Some(End::Complete),
            }
        }
        Poll::Ready(())
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // The host calls `poll_ready` with the waker of the guest before the guest waits.
        if self
            .poll_piece(&mut Context::from_waker(Waker::noop()))
            .is_pending()
        {
            return Err(ErrorKind::WouldBlock.into());
        }
        match self.end {
            Some(End::Failed) if self.piece.is_empty() => {
                Err(io::Error::other("the client did not complete the body"))
            }
            _ => {
                let some = self.piece.split_to(self.piece.len().min(into.len()));
                into[..some.len()].copy_from_slice(&some);
                Ok(some.len())
            }
        }
    }
}

impl Source for Input {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.poll_piece(context)
    }
}
