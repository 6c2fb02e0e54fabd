//! Parses the output of a CGI program as an HTTP response (RFC 3875, section 6).
//!
//! hyper's types check names, values and status codes. The split into lines is not httparse's:
//! httparse does not report which line is wrong, and [`Malformed`] must name the line.

use crate::http::text;
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use thiserror::Error;

/// Most bytes of the header in a guest's output.
pub const HEADER_BYTES_MAX: usize = 32 << 10;

/// Most header fields in a guest's output.
pub const FIELDS_MAX: usize = 100;

/// Header fields of the connection. The server manages the connection, which may also serve other
/// guests.
const NOT_A_GUESTS: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
];

/// The reason for which a guest's output is no response. The fault is always the guest's.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// The output has no blank line within the limit.
    #[error("answer has no blank line within {HEADER_BYTES_MAX} bytes; end the header with one")]
    NoEnd,
    /// The header has too many fields.
    #[error("answer has more than {FIELDS_MAX} header fields; send fewer")]
    Fields,
    /// A header line is not `name: value`.
    #[error("header line {0:?} is not `name: value`")]
    Line(String),
    /// A field name has invalid characters.
    #[error("header name {0:?} has an invalid character; use letters, digits and `-`")]
    Name(String),
    /// A field value has control characters.
    #[error("value of header {0:?} has a control character; remove it")]
    Value(String),
    /// A field belongs to the connection, so a guest may not set it.
    #[error("header {0:?} belongs to the connection; remove it, the server sets it")]
    Connection(String),
    /// A field that may appear once appears twice.
    #[error("header {0:?} is sent twice; remove one")]
    Twice(String),
    /// The guest may not set this status.
    #[error("status is {0:?}, the allowed range is 200 to 599")]
    Status(String),
    /// The header has neither `Content-Type`, nor `Location`, nor `Status`.
    #[error("answer has none of `Content-Type`, `Location` and `Status`; send one")]
    Nothing,
    /// `Content-Length` differs from the length of the body.
    #[error("`Content-Length` is {said:?}, the body has {found} bytes; send that number")]
    Length {
        /// The length in the header.
        said: String,
        /// The length of the body.
        found: usize,
    },
}

/// Parses the output of a guest.
///
/// # Errors
///
/// [`Malformed`], which names the error in the output.
pub fn parse(output: Vec<u8>) -> Result<Response<Bytes>, Malformed> {
    let output = Bytes::from(output);
    let mut headers = HeaderMap::new();
    let mut status = None;
    let (mut at, mut fields) = (0, 0);
    loop {
        let line = line(&output, at)?;
        at += line.len() + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            break;
        }
        fields += 1;
        if fields > FIELDS_MAX {
            return Err(Malformed::Fields);
        }
        let (name, value) = field(line)?;
        if name == "status" {
            let code = status_code(&value)?;
            if status.replace(code).is_some() {
                return Err(Malformed::Twice(name.to_string()));
            }
            continue;
        }
        let once = [CONTENT_LENGTH, CONTENT_TYPE, LOCATION].contains(&name);
        if headers.append(name.clone(), value) && once {
            return Err(Malformed::Twice(name.to_string()));
        }
    }
    complete(status, headers, output.slice(at..))
}

/// Builds the response from the parsed header and body.
fn complete(
    status: Option<StatusCode>,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Bytes>, Malformed> {
    if status.is_none() && !headers.contains_key(CONTENT_TYPE) && !headers.contains_key(LOCATION) {
        return Err(Malformed::Nothing);
    }
    if let Some(said) = headers.remove(CONTENT_LENGTH)
        && said.as_bytes() != body.len().to_string().as_bytes()
    {
        let said = String::from_utf8_lossy(said.as_bytes()).into_owned();
        let found = body.len();
        return Err(Malformed::Length { said, found });
    }
    let status = status.unwrap_or(match headers.contains_key(LOCATION) {
        true => StatusCode::FOUND,
        false => StatusCode::OK,
    });
    // Responses with these statuses have no body, even if the guest prints one.
    let bare = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    let mut response = Response::new(if bare { Bytes::new() } else { body });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// The line that starts at `at`, without its line feed.
fn line(output: &[u8], at: usize) -> Result<&[u8], Malformed> {
    let rest = &output[at..output.len().min(HEADER_BYTES_MAX).max(at)];
    let end = rest.iter().position(|byte| *byte == b'\n');
    Ok(&rest[..end.ok_or(Malformed::NoEnd)?])
}

/// Name and value of a header line.
fn field(line: &[u8]) -> Result<(HeaderName, HeaderValue), Malformed> {
    let colon = line.iter().position(|byte| *byte == b':');
    let (name, value) = line.split_at(colon.ok_or_else(|| Malformed::Line(text(line)))?);
    let value = value[1..].trim_ascii();
    let name = HeaderName::from_bytes(name).map_err(|_| Malformed::Name(text(name)))?;
    if NOT_A_GUESTS.contains(&name.as_str()) {
        return Err(Malformed::Connection(name.to_string()));
    }
    // `HeaderValue` refuses carriage return, line feed and NUL.
    let value =
        HeaderValue::from_bytes(value).map_err(|_| Malformed::Value(name.as_str().to_owned()))?;
    Ok((name, value))
}

/// The status code in `Status: 404 Not Found`. The server writes its own reason phrase.
fn status_code(value: &HeaderValue) -> Result<StatusCode, Malformed> {
    let bytes = value.as_bytes();
    let code = bytes.split(|byte| *byte == b' ').next();
    code.and_then(|code| StatusCode::from_bytes(code).ok())
        .filter(|code| (200..600).contains(&code.as_u16()))
        .ok_or_else(|| Malformed::Status(text(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(output: &str) -> Response<Bytes> {
        parse(output.as_bytes().to_vec()).unwrap_or_else(|error| panic!("{output:?}: {error}"))
    }

    fn bad(output: &str) -> Malformed {
        parse(output.as_bytes().to_vec()).expect_err(output)
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
        assert!(good("Status: 204\n\nnot for anybody").body().is_empty());
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
