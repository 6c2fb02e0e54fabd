//! A small web program over CGI: it describes its request, and echoes the body.
//!
//! `go/web/main.go`, an `http.Handler`, gives the same responses; `README.md` describes them.

use std::env;
use std::io::{self, Read, Write};

const LANGUAGE: &str = "Rust";

/// A response: status, content type, body.
type Answer = (u16, String, Vec<u8>);

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn plain(status: u16, text: String) -> Answer {
    (status, "text/plain".to_owned(), text.into_bytes())
}

/// Method, path, query, the fields that start with `X-`, and the body's length.
fn request(body: &[u8]) -> String {
    let mut text = format!(
        "language: {LANGUAGE}\nmethod: {}\npath: {}{}\nquery: {}\n",
        variable("REQUEST_METHOD"),
        variable("SCRIPT_NAME"),
        variable("PATH_INFO"),
        variable("QUERY_STRING"),
    );
    let fields = env::vars().filter_map(|(name, value)| {
        let name = name.strip_prefix("HTTP_X_")?.to_lowercase();
        Some(format!("x-{}: {value}\n", name.replace('_', "-")))
    });
    let mut fields: Vec<String> = fields.collect();
    fields.sort();
    text.extend(fields);
    text + &format!("body: {} bytes\n", body.len())
}

fn answer() -> io::Result<Answer> {
    let mut body = vec![];
    io::stdin().read_to_end(&mut body)?;
    Ok(match variable("PATH_INFO").as_str() {
        "" | "/" => plain(200, format!("hello from {LANGUAGE}\n")),
        "/request" => plain(200, request(&body)),
        "/echo" => (200, variable("CONTENT_TYPE"), body),
        other => plain(404, format!("no {other} here\n")),
    })
}

fn main() -> io::Result<()> {
    let (status, kind, body) = answer()?;
    let mut out = format!("Status: {status}\nContent-Type: {kind}\n\n").into_bytes();
    out.extend(body);
    io::stdout().write_all(&out)
}
