//! Answers HTTP requests by path. `../../README.md` lists the paths.

use std::cell::Cell;
use std::io::Write;
use wasip2::clocks::monotonic_clock;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::outgoing_handler;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingRequest, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, OutgoingResponse, ResponseOutparam, Scheme,
};

thread_local! {
    static KEPT: Cell<u32> = const { Cell::new(0) };
}

struct Handler;

impl Guest for Handler {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let target = request.path_with_query().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        match path {
            "/hello" => text(out, 200, "hello from Rust\n"),
            "/echo" => echo(&request, &target, out),
            "/headers" => text(out, 200, &headers(&request)),
            "/count" => {
                let mut bytes = 0;
                let body = request.consume().expect("it is taken once");
                each_piece(body, |piece| bytes += piece.len());
                text(out, 200, &format!("{bytes}\n"));
            }
            "/call" => call(&decoded(parameter(query, "url")), out),
            "/keep" => {
                KEPT.set(KEPT.get() + 1);
                text(out, 200, &format!("{}\n", KEPT.get()));
            }
            "/fail" => panic!("asked to fail"),
            "/slow" => {
                monotonic_clock::subscribe_duration(50_000_000).block();
                text(out, 200, "slept\n");
            }
            "/big" => big(parameter(query, "n").parse().unwrap_or(0), out),
            "/never" => {}
            "/trailers" => {
                let trailers = Fields::new();
                trailers.append("x-trailer", b"last").expect("it is a name");
                let content = |body: &mut dyn Write| body.write_all(b"body\n");
                answer(out, 200, &TEXT, Some(trailers), content);
            }
            _ => text(out, 404, "not found\n"),
        }
    }
}

wasip2::http::proxy::export!(Handler);

const TEXT: [(&str, &str); 1] = [("content-type", "text/plain")];

/// Answers with fields, a body that `content` writes, and trailers.
fn answer(
    out: ResponseOutparam,
    status: u16,
    fields: &[(&str, &str)],
    trailers: Option<Fields>,
    content: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) {
    let headers = Fields::new();
    for (name, value) in fields {
        headers
            .append(name, value.as_bytes())
            .expect("it is a field");
    }
    let response = OutgoingResponse::new(headers);
    response.set_status_code(status).expect("it is a status");
    let body = response.body().expect("it is taken once");
    ResponseOutparam::set(out, Ok(response));
    let mut stream = body.write().expect("it is taken once");
    // The client may leave before the end.
    let written = content(&mut stream);
    drop(stream);
    if written.is_ok() {
        let _ = OutgoingBody::finish(body, trailers);
    }
}

fn text(out: ResponseOutparam, status: u16, content: &str) {
    answer(out, status, &TEXT, None, |body| {
        body.write_all(content.as_bytes())
    });
}

/// Calls `each` with the pieces of a body, as they arrive.
fn each_piece(body: IncomingBody, mut each: impl FnMut(&[u8])) {
    let stream = body.stream().expect("it is taken once");
    while let Ok(piece) = stream.blocking_read(16384) {
        each(&piece);
    }
}

fn echo(request: &IncomingRequest, target: &str, out: ResponseOutparam) {
    let method = match request.method() {
        Method::Get => "GET".to_owned(),
        Method::Head => "HEAD".to_owned(),
        Method::Post => "POST".to_owned(),
        Method::Put => "PUT".to_owned(),
        Method::Delete => "DELETE".to_owned(),
        Method::Connect => "CONNECT".to_owned(),
        Method::Options => "OPTIONS".to_owned(),
        Method::Trace => "TRACE".to_owned(),
        Method::Patch => "PATCH".to_owned(),
        Method::Other(name) => name,
    };
    let fields = [("x-method", &method[..]), ("x-path", target)];
    let body = request.consume().expect("it is taken once");
    answer(out, 200, &fields, None, |to| {
        let mut sent = Ok(());
        each_piece(body, |piece| {
            if sent.is_ok() {
                sent = to.write_all(piece).and_then(|()| to.flush());
            }
        });
        sent
    });
}

/// The fields of a request, sorted, one a line.
fn headers(request: &IncomingRequest) -> String {
    let fields = request.headers().entries();
    let lines = fields
        .iter()
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value)));
    let mut lines: Vec<_> = lines.collect();
    lines.sort();
    lines.concat()
}

fn call(url: &str, out: ResponseOutparam) {
    match fetch(url) {
        Ok(response) => {
            let body = response.consume().expect("it is taken once");
            answer(out, response.status(), &TEXT, None, |to| {
                let mut sent = Ok(());
                each_piece(body, |piece| {
                    if sent.is_ok() {
                        sent = to.write_all(piece);
                    }
                });
                sent
            });
        }
        Err(_) => text(out, 502, "no answer\n"),
    }
}

fn fetch(url: &str) -> Result<IncomingResponse, ErrorCode> {
    let (scheme, rest) = match url.split_once("://") {
        Some(("http", rest)) => (Scheme::Http, rest),
        Some(("https", rest)) => (Scheme::Https, rest),
        _ => return Err(ErrorCode::HttpRequestUriInvalid),
    };
    let (authority, target) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let target = if target.is_empty() { "/" } else { target };
    let invalid = |()| ErrorCode::HttpRequestUriInvalid;
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&scheme)).map_err(invalid)?;
    request.set_authority(Some(authority)).map_err(invalid)?;
    request.set_path_with_query(Some(target)).map_err(invalid)?;
    let future = outgoing_handler::handle(request, None)?;
    future.subscribe().block();
    let response = future.get().expect("it is ready");
    response.expect("it is taken once")
}

/// Writes `bytes` bytes in pieces.
fn big(mut bytes: u64, out: ResponseOutparam) {
    answer(out, 200, &[], None, |to| {
        let piece = [b'x'; 16384];
        while bytes > 0 {
            let next = bytes.min(piece.len() as u64);
            to.write_all(&piece[..next as usize])?;
            bytes -= next;
        }
        Ok(())
    });
}

/// The value of a parameter in a query, or an empty string.
fn parameter<'a>(query: &'a str, name: &str) -> &'a str {
    let mut parameters = query.split('&').filter_map(|each| each.split_once('='));
    let found = parameters.find(|(found, _)| *found == name);
    found.map_or("", |(_, value)| value)
}

/// Replaces `%XX` by bytes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let byte = text_of(rest).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The two digits after a percent sign at the start of `rest`.
fn text_of(rest: &[u8]) -> Option<&str> {
    let digits = rest.strip_prefix(b"%")?.get(..2)?;
    std::str::from_utf8(digits).ok()
}
