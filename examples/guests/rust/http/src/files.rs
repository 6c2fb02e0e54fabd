//! A handler that reads and changes files: `/data/note.txt`, and `/tmp/log`, to which it adds a
//! line. It answers what the note was, and the number of lines. For the path `/environment`, it
//! answers its arguments and environment variables.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{
    Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
};

struct Files;

/// What the note was, and the lines of the log.
fn files() -> std::io::Result<String> {
    let note = fs::read_to_string("/data/note.txt")?;
    fs::write("/data/note.txt", "changed")?;
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open("/tmp/log")?;
    log.write_all(b"a request\n")?;
    let lines = fs::read_to_string("/tmp/log")?.lines().count();
    Ok(format!("note: {note}, lines: {lines}\n"))
}

/// The arguments, and each variable on a line of its own, in the order of their names.
fn environment() -> String {
    let mut lines: Vec<_> = env::vars()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    lines.sort();
    let args: Vec<_> = env::args().collect();
    format!("arguments: {args:?}\n{}", lines.concat())
}

impl Guest for Files {
    fn handle(request: IncomingRequest, out: ResponseOutparam) {
        let text = match request.path_with_query().as_deref() {
            Some("/environment") => environment(),
            _ => files().unwrap_or_else(|error| format!("{error}\n")),
        };
        let response = OutgoingResponse::new(Fields::new());
        let body = response.body().expect("it is taken once");
        ResponseOutparam::set(out, Ok(response));
        let mut stream = body.write().expect("it is taken once");
        stream.write_all(text.as_bytes()).expect("the caller reads");
        drop(stream);
        OutgoingBody::finish(body, None).expect("the body is complete");
    }
}

wasip2::http::proxy::export!(Files);
