//! Parses the header of a CGI program's output (RFC 3875, section 6).
//!
//! hyper's types check names, values and status codes. The split into lines is not httparse's:
//! httparse does not report which line is wrong, and [`Malformed`] must name the line.

use crate::http::text;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use thiserror::Error;

/// Most bytes of the header in a guest's output.
pub(super) const HEADER_BYTES_MAX: usize = 32 << 10;

/// Most header fields in a guest's output.
pub(super) const FIELDS_MAX: usize = 100;

/// Header fields of the connection. The server manages the connection, which may also serve other
/// guests.
pub(super) const NOT_A_GUESTS: [&str; 9] = [
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
#[derive(Debug, Clone, Error, PartialEq, Eq)]
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
        found: u64,
    },
}

/// The header of a guest's output.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) response: Response<()>,
    /// The value of `Content-Length`, which the response does not contain.
    pub(super) said: Option<String>,
}

/// A search for the end of a header that grows.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Where the last line starts.
    line: usize,
    /// The number of bytes that were searched.
    searched: usize,
}

impl Search {
    /// The length of the header with its blank line. `output` begins with the bytes of the last
    /// call.
    pub(super) fn end(&mut self, output: &[u8]) -> Option<usize> {
        while let Some(at) = output[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            let feed = self.searched + at;
            let line = &output[self.line..feed];
            (self.line, self.searched) = (feed + 1, feed + 1);
            if line.is_empty() || line == b"\r" {
                return Some(self.line);
            }
        }
        self.searched = output.len();
        None
    }
}

/// Parses the header at the start of a guest's output.
///
/// # Errors
///
/// [`Malformed`], which names the error in the output.
pub(super) fn head(output: &[u8]) -> Result<Head, Malformed> {
    let mut headers = HeaderMap::new();
    let mut status = None;
    let (mut at, mut fields) = (0, 0);
    loop {
        let line = line(output, at)?;
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
    if status.is_none() && !headers.contains_key(CONTENT_TYPE) && !headers.contains_key(LOCATION) {
        return Err(Malformed::Nothing);
    }
    let said = headers.remove(CONTENT_LENGTH);
    let said = said.map(|said| String::from_utf8_lossy(said.as_bytes()).into_owned());
    let mut response = Response::new(());
    *response.status_mut() = status.unwrap_or(match headers.contains_key(LOCATION) {
        true => StatusCode::FOUND,
        false => StatusCode::OK,
    });
    *response.headers_mut() = headers;
    Ok(Head { response, said })
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
