//! [`Output`]: the standard output of a CGI program becomes a response while the program runs.

use super::answer::{self, HEADER_BYTES_MAX, Malformed, Search};
use hyper::Response;
use pirn_wasi2::http::{Answer, BodyWriter, ErrorCode, OutgoingBody};
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot::Sender;

/// The standard output of a CGI program. All clones write to the same output.
///
/// The program's first bytes are the header of the response. The head of the response is sent when
/// it is complete and the program waits, yields at the end of its time slice, or succeeds. A
/// program that fails before then has sent nothing.
#[derive(Debug, Clone)]
pub struct Output(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The receiver of the response, until the head of the response is sent.
    sender: Option<Sender<Result<Response<OutgoingBody>, ErrorCode>>>,
}

#[derive(Debug)]
enum Phase {
    Header {
        bytes: Vec<u8>,
        search: Search,
    },
    Body(Box<Printed>),
    /// The header is malformed. The output is discarded.
    Malformed(Malformed),
}

/// A response whose header is complete.
#[derive(Debug)]
struct Printed {
    /// The response, until it is sent.
    response: Option<Response<OutgoingBody>>,
    body: BodyWriter,
    /// Bytes of the body that the guest has printed.
    bytes: u64,
    /// The value of `Content-Length`.
    said: Option<String>,
}

impl Printed {
    fn new(header: &[u8]) -> Result<Self, Malformed> {
        let answer::Head { response, said } = answer::head(header)?;
        let announced = said.as_deref().and_then(length);
        let (writer, body) = OutgoingBody::writer(announced);
        Ok(Self {
            response: Some(response.map(|()| body)),
            body: writer,
            bytes: 0,
            said,
        })
    }

    fn write(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.body.write(bytes);
    }

    /// Whether the head may be sent before the length of the body is known. A body that is too long
    /// already must not begin.
    fn may_begin(&self) -> bool {
        match &self.said {
            Some(said) => length(said).is_some_and(|announced| self.bytes <= announced),
            None => true,
        }
    }

    /// Checks the length of the complete body.
    fn check(&self) -> Result<(), Malformed> {
        let found = self.bytes;
        match &self.said {
            Some(said) if *said != found.to_string() => Err(Malformed::Length {
                said: said.clone(),
                found,
            }),
            _ => Ok(()),
        }
    }
}

/// The number of bytes in the value of `Content-Length`, which has only digits and no leading zero.
fn length(said: &str) -> Option<u64> {
    let number: u64 = said.parse().ok()?;
    (number.to_string() == said).then_some(number)
}

impl Output {
    /// The output of a program, and the receiver of its response.
    #[must_use]
    pub fn new() -> (Self, Answer) {
        let (sender, answer) = tokio::sync::oneshot::channel();
        let state = State {
            phase: Phase::Header {
                bytes: vec![],
                search: Search::default(),
            },
            sender: Some(sender),
        };
        (Self(Arc::new(Mutex::new(state))), answer)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the program. Sends the head of the response as soon as the program waits or yields
    /// after it has printed the header.
    pub async fn sent_while<R>(&self, program: impl Future<Output = R>) -> R {
        let mut program = pin!(program);
        poll_fn(|context| {
            let polled = program.as_mut().poll(context);
            if polled.is_pending() {
                self.state().send();
            }
            polled
        })
        .await
    }

    /// Completes the response of a program that has succeeded.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the output is no response. The response is then sent only if its head was
    /// sent before, and its body fails.
    pub fn finish(self) -> Result<(), Malformed> {
        let mut state = self.state();
        state.check()?;
        state.send();
        if let Phase::Body(printed) = &mut state.phase {
            // `check` has compared the lengths.
            let _ = printed.body.finish();
        }
        Ok(())
    }
}

impl State {
    fn check(&self) -> Result<(), Malformed> {
        match &self.phase {
            Phase::Header { bytes, .. } => answer::head(bytes).map(drop),
            Phase::Body(printed) => printed.check(),
            Phase::Malformed(malformed) => Err(malformed.clone()),
        }
    }

    /// Sends the head of the response, if it is complete and was not sent. A head whose
    /// `Content-Length` is no number, or less than the bytes printed so far, is not sent.
    fn send(&mut self) {
        if let Phase::Body(printed) = &mut self.phase
            && printed.may_begin()
            && let Some(response) = printed.response.take()
            && let Some(sender) = self.sender.take()
        {
            // The receiver may be gone, because the client has hung up.
            let _ = sender.send(Ok(response));
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match &mut self.phase {
            Phase::Header {
                bytes: header,
                search,
            } => {
                // One byte more than fits shows that the header is too long.
                let room = HEADER_BYTES_MAX + 1 - header.len();
                let (some, rest) = bytes.split_at(bytes.len().min(room));
                header.extend_from_slice(some);
                let Some(end) = search.end(header) else {
                    if header.len() > HEADER_BYTES_MAX {
                        let error = answer::head(header).err();
                        self.phase = Phase::Malformed(error.unwrap_or(Malformed::NoEnd));
                    }
                    return;
                };
                let header = mem::take(header);
                self.phase = match Printed::new(&header[..end]) {
                    Ok(mut printed) => {
                        printed.write(&header[end..]);
                        printed.write(rest);
                        Phase::Body(Box::new(printed))
                    }
                    Err(malformed) => Phase::Malformed(malformed),
                };
            }
            Phase::Body(printed) => printed.write(bytes),
            Phase::Malformed(_) => {}
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.state().write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{FIELDS_MAX, NOT_A_GUESTS};
    use super::*;
    use bytes::Bytes;
    use futures::FutureExt as _;
    use http_body_util::BodyExt as _;
    use hyper::StatusCode;

    /// The response of a program that prints this output in pieces of some size.
    fn printed(output: &str, size: usize) -> Result<Response<Bytes>, Malformed> {
        let (mut writer, mut answer) = Output::new();
        for piece in output.as_bytes().chunks(size) {
            writer.write_all(piece).expect("it takes all");
        }
        writer.finish()?;
        let response = answer.try_recv().expect("it is sent").expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().now_or_never().expect("it is complete");
        let body = body.expect("it is complete").to_bytes();
        Ok(Response::from_parts(head, body))
    }

    /// The response, which is the same whatever the size of the pieces.
    fn good(output: &str) -> Response<Bytes> {
        let response = |size| {
            let printed = printed(output, size);
            printed.unwrap_or_else(|error| panic!("{output:?}: {error}"))
        };
        let whole = response(usize::MAX);
        for size in [1, 2, 1000] {
            let pieces = response(size);
            assert_eq!(pieces.body(), whole.body(), "{output:?}");
            assert_eq!(pieces.headers(), whole.headers(), "{output:?}");
            assert_eq!(pieces.status(), whole.status(), "{output:?}");
        }
        whole
    }

    fn bad(output: &str) -> Malformed {
        let whole = printed(output, usize::MAX).expect_err(output);
        for size in [1, 2, 1000] {
            assert_eq!(printed(output, size).expect_err(output), whole);
        }
        whole
    }

    /// The head of the response arrives when the program waits, and pieces of the body after it.
    #[test]
    fn a_program_that_waits_has_sent_what_it_has_printed() {
        let (mut writer, mut answer) = Output::new();
        let output = writer.clone();
        let (go_on, waits) = tokio::sync::oneshot::channel::<()>();
        let mut program = pin!(output.sent_while(async {
            writer
                .write_all(b"Content-Type: a\n")
                .expect("it takes all");
            futures::pending!();
            writer.write_all(b"\none").expect("it takes all");
            waits.await.expect("it goes on");
            writer.write_all(b"two").expect("it takes all");
        }));
        assert!(program.as_mut().now_or_never().is_none());
        assert!(answer.try_recv().is_err(), "the header is not complete");
        assert!(program.as_mut().now_or_never().is_none());
        let response = answer.try_recv().expect("it is sent").expect("a response");
        let mut body = response.into_body();
        let mut frame = || body.frame().now_or_never();
        let piece = frame().expect("it is there").expect("a frame");
        assert_eq!(piece.expect("no error").into_data().expect("bytes"), "one");
        assert!(frame().is_none(), "the program waits");
        go_on.send(()).expect("it waits");
        program.now_or_never().expect("it has ended");
        let piece = frame().expect("it is there").expect("a frame");
        assert_eq!(piece.expect("no error").into_data().expect("bytes"), "two");
        assert!(frame().is_none(), "the end is not known yet");
        output.clone().finish().expect("no length was announced");
        assert!(frame().expect("it is there").is_none(), "the end");
    }

    /// A program that fails before its head is sent leaves no response. After that, the body fails.
    #[test]
    fn a_program_that_fails_completes_no_response() {
        let (mut writer, mut answer) = Output::new();
        writer.write_all(b"Status: 200\n\nx").expect("it takes all");
        drop(writer);
        assert!(answer.try_recv().is_err());
        let (mut writer, mut answer) = Output::new();
        writer.write_all(b"Status: 200\n\nx").expect("it takes all");
        writer.state().send();
        let response = answer.try_recv().expect("it is sent").expect("a response");
        drop(writer);
        let body = response.into_body().collect().now_or_never();
        assert!(body.expect("it has ended").is_err());
    }

    /// The client gets the announced length and no other.
    #[test]
    fn a_body_of_another_length_than_announced_fails() {
        for (body, is_wrong) in [("abc", true), ("abcde", true), ("abcd", false)] {
            let (mut writer, mut answer) = Output::new();
            let header = b"Content-Length: 4\nStatus: 200\n\n";
            writer.write_all(header).expect("it takes all");
            writer.state().send();
            let response = answer.try_recv().expect("it is sent").expect("a response");
            writer.write_all(body.as_bytes()).expect("it takes all");
            assert_eq!(writer.finish().is_err(), is_wrong, "{body}");
            let body = response.into_body().collect().now_or_never();
            assert_eq!(body.expect("it has ended").is_err(), is_wrong);
        }
        let (mut writer, mut answer) = Output::new();
        let header = b"Content-Length: 04\nStatus: 200\n\nabcd";
        writer.write_all(header).expect("it takes all");
        writer.state().send();
        assert!(answer.try_recv().is_err(), "no length to announce");
        assert!(writer.finish().is_err());
        let (mut writer, mut answer) = Output::new();
        let header = b"Content-Length: 4\nStatus: 200\n\nabcde";
        writer.write_all(header).expect("it takes all");
        writer.state().send();
        assert!(answer.try_recv().is_err(), "too long already");
        assert!(writer.finish().is_err());
    }

    #[test]
    fn documents_and_redirects() {
        let plain = good("Content-Type: text/plain\n\nhello\n");
        assert_eq!(
            (plain.status(), &plain.body()[..]),
            (StatusCode::OK, &b"hello\n"[..])
        );
        assert_eq!(plain.headers()["content-type"], "text/plain");
        let full =
            good("Status: 404 Not Here\r\nX-A:  1 \r\nX-A: 2\r\nContent-Length: 3\r\n\r\n\r\nx");
        assert_eq!(
            (full.status().as_u16(), &full.body()[..]),
            (404, &b"\r\nx"[..])
        );
        assert_eq!(
            full.headers().get_all("x-a").iter().collect::<Vec<_>>(),
            ["1", "2"]
        );
        assert!(
            !full.headers().contains_key("status")
                && !full.headers().contains_key("content-length")
        );
        assert_eq!(good("Location: /there\n\n").status(), StatusCode::FOUND);
        assert_eq!(
            good("Status: 301\nLocation: /there\n\n").status().as_u16(),
            301
        );
        assert_eq!(good("content-type:a\n\n").headers()["content-type"], "a");
    }

    #[test]
    fn what_would_break_into_the_connection_is_refused() {
        assert_eq!(
            bad("Content-Type: a\rX: b\n\n"),
            Malformed::Value("content-type".into())
        );
        assert_eq!(
            bad("Content-Type: a\0\n\n"),
            Malformed::Value("content-type".into())
        );
        assert_eq!(bad("X Y: b\n\n"), Malformed::Name("X Y".into()));
        assert_eq!(bad("X : b\n\n"), Malformed::Name("X ".into()));
        assert_eq!(bad(": b\n\n"), Malformed::Name(String::new()));
        assert_eq!(bad("X\rY: b\n\n"), Malformed::Name("X\rY".into()));
        assert_eq!(
            bad("Content-Type: a\n folded: b\n\n"),
            Malformed::Name(" folded".into())
        );
        assert_eq!(
            bad("HTTP/1.1 200 OK\n\n"),
            Malformed::Line("HTTP/1.1 200 OK".into())
        );
        for name in NOT_A_GUESTS {
            let output = format!("Content-Type: a\n{}: x\n\n", name.to_uppercase());
            assert_eq!(bad(&output), Malformed::Connection(name.into()));
        }
        let length = |said: &str, found| Malformed::Length {
            said: said.into(),
            found,
        };
        assert_eq!(bad("Status: 200\nContent-Length: 4\n\nabc"), length("4", 3));
        assert_eq!(
            bad("Status: 200\nContent-Length: +3\n\nabc"),
            length("+3", 3)
        );
        for name in ["Content-Length", "Content-Type", "Location", "Status"] {
            let output = format!("{name}: 200\n{name}: 200\n\n");
            assert_eq!(bad(&output), Malformed::Twice(name.to_lowercase()));
        }
    }

    #[test]
    fn statuses_up_to_the_limits() {
        assert_eq!(good("Status: 200\n\n").status().as_u16(), 200);
        assert_eq!(good("Status: 599 Odd\n\n").status().as_u16(), 599);
        for status in [
            "",
            "20",
            "199",
            "100 Continue",
            "600",
            "2000",
            "abc",
            "-200",
        ] {
            assert_eq!(
                bad(&format!("Status: {status}\n\n")),
                Malformed::Status(status.into())
            );
        }
    }

    #[test]
    fn headers_up_to_the_limits() {
        assert_eq!(bad(""), Malformed::NoEnd);
        assert_eq!(bad("Content-Type: a\n"), Malformed::NoEnd);
        assert_eq!(bad("\nbody"), Malformed::Nothing);
        assert_eq!(bad("X-A: a\n\nbody"), Malformed::Nothing);
        let fields = |count: usize| "X: y\n".repeat(count - 1) + "Status: 200\n\n";
        assert_eq!(good(&fields(FIELDS_MAX)).headers().len(), FIELDS_MAX - 1);
        assert_eq!(bad(&fields(FIELDS_MAX + 1)), Malformed::Fields);
        let long = |bytes: usize| format!("Content-Type: {}\n\n", "a".repeat(bytes - 16));
        assert_eq!(long(100).len(), 100);
        assert_eq!(good(&long(HEADER_BYTES_MAX)).headers().len(), 1);
        assert_eq!(bad(&long(HEADER_BYTES_MAX + 1)), Malformed::NoEnd);
        assert_eq!(
            good(&(long(200) + &"b".repeat(1 << 20))).body().len(),
            1 << 20
        );
    }
}
