//! Converts a request to the environment of a CGI program (RFC 3875, section 4.1).

use crate::http::{Addresses, authority};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use std::borrow::Cow;
use std::net::SocketAddr;
use thiserror::Error;

/// The environment variables of a guest.
pub type Environment = Vec<(Cow<'static, str>, String)>;

const SOFTWARE: &str = concat!("pirn-serve/", env!("CARGO_PKG_VERSION"));

/// Header fields that guests do not get as `HTTP_` variables: they belong to the connection, or
/// have a variable of their own. `Proxy` is excluded because many programs take `HTTP_PROXY` as the
/// proxy for their own requests.
const NOT_PASSED: [&str; 11] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "keep-alive",
    "proxy",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The reason for which a request has no environment. The fault is always the client's.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum BadRequest {
    #[error("path is not percent-encoded UTF-8, or has a NUL; correct it")]
    Path,
}

/// The environment of the guest at a prefix of the request's path, for a body of `body_bytes`
/// bytes. [`authority::read`] has accepted the request.
pub(crate) fn environment(
    request: &Parts,
    prefix: &str,
    body_bytes: u64,
    addresses: Addresses,
) -> Result<Environment, BadRequest> {
    let path = request.uri.path();
    let prefix = prefix.trim_end_matches('/');
    let rest = path.strip_prefix(prefix).unwrap_or(path);
    let mut all: Environment = vec![];
    let mut set = |name: &'static str, value: &str| all.push((name.into(), value.to_owned()));
    set("GATEWAY_INTERFACE", "CGI/1.1");
    set("SERVER_SOFTWARE", SOFTWARE);
    set("SERVER_PROTOCOL", "HTTP/1.1");
    set("REQUEST_METHOD", request.method.as_str());
    set(
        "REQUEST_URI",
        request
            .uri
            .path_and_query()
            .map_or(path, |uri| uri.as_str()),
    );
    set("SCRIPT_NAME", prefix);
    set("PATH_INFO", &decoded(rest)?);
    set("QUERY_STRING", request.uri.query().unwrap_or_default());
    set(
        "SERVER_NAME",
        &server_name(&request.headers, addresses.local),
    );
    set("SERVER_PORT", &addresses.local.port().to_string());
    set("REMOTE_ADDR", &addresses.remote.ip().to_string());
    set("REMOTE_HOST", &addresses.remote.ip().to_string());
    set("REMOTE_PORT", &addresses.remote.port().to_string());
    // A chunked request does not declare the length.
    if body_bytes > 0 || request.headers.contains_key(CONTENT_LENGTH) {
        set("CONTENT_LENGTH", &body_bytes.to_string());
    }
    if let Some(kind) = text(&request.headers, &CONTENT_TYPE) {
        set("CONTENT_TYPE", &kind);
    }
    all.extend(fields(&request.headers));
    Ok(all)
}

/// The header fields as `HTTP_` variables.
fn fields(headers: &HeaderMap) -> impl Iterator<Item = (Cow<'static, str>, String)> {
    let passed = |name: &&HeaderName| {
        // `a_b` and `a-b` would become one variable, and a proxy in front may have checked only one
        // of these fields.
        !NOT_PASSED.contains(&name.as_str()) && !name.as_str().contains('_')
    };
    headers.keys().filter(passed).filter_map(|name| {
        let upper = name.as_str().to_ascii_uppercase().replace('-', "_");
        Some((format!("HTTP_{upper}").into(), text(headers, name)?))
    })
}

/// All values of a field, joined. Returns `None` if the field is missing, or if a value is not
/// UTF-8.
fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut all: Option<String> = None;
    for value in headers.get_all(name) {
        let value = std::str::from_utf8(value.as_bytes()).ok()?;
        match &mut all {
            None => all = Some(value.to_owned()),
            // RFC 9110, section 5.3, and for cookies RFC 6265, section 5.4.
            Some(all) => {
                all.push_str(if name.as_str() == "cookie" {
                    "; "
                } else {
                    ", "
                });
                all.push_str(value);
            }
        }
    }
    all
}

/// The host of the request, without its port, or else the server's IP address.
fn server_name(headers: &HeaderMap, local: SocketAddr) -> String {
    let named = authority::host(headers).map(str::to_owned);
    named.unwrap_or_else(|| local.ip().to_string())
}

/// Decodes the percent-encoding of a path.
fn decoded(path: &str) -> Result<String, BadRequest> {
    let mut parts = path.split('%').map(str::as_bytes);
    let mut bytes = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (digits, rest) = part.split_first_chunk().ok_or(BadRequest::Path)?;
        let [Some(high), Some(low)] = digits.map(digit) else {
            return Err(BadRequest::Path);
        };
        bytes.push((16 * high + low) as u8);
        bytes.extend(rest);
    }
    let text = String::from_utf8(bytes).ok();
    text.filter(|text| !text.contains('\0'))
        .ok_or(BadRequest::Path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;
    use std::collections::HashMap;

    fn addresses() -> Addresses {
        Addresses {
            local: "127.0.0.1:8080".parse().unwrap(),
            remote: "10.1.2.3:4567".parse().unwrap(),
        }
    }

    fn of(
        uri: &str,
        fields: &[(&str, &[u8])],
        prefix: &str,
        body: u64,
    ) -> Result<HashMap<String, String>, BadRequest> {
        let mut request = Request::builder().method("PATCH").uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let all = environment(&parts, prefix, body, addresses())?;
        let count = all.len();
        let all: HashMap<_, _> = all.into_iter().map(|(k, v)| (k.into_owned(), v)).collect();
        assert_eq!(all.len(), count, "no variable comes twice");
        Ok(all)
    }

    #[test]
    fn a_request_becomes_variables() {
        let fields: [(&str, &[u8]); 6] = [
            ("host", b"example.org:81"),
            ("content-type", b"text/plain"),
            ("cookie", b"a=1"),
            ("cookie", b"b=2"),
            ("accept", b"x"),
            ("accept", b"y"),
        ];
        let all = of("/app/a%20b/%C3%BC?q=%20&r", &fields, "/app", 7).unwrap();
        for (name, value) in [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REQUEST_METHOD", "PATCH"),
            ("REQUEST_URI", "/app/a%20b/%C3%BC?q=%20&r"),
            ("SCRIPT_NAME", "/app"),
            ("PATH_INFO", "/a b/\u{fc}"),
            ("QUERY_STRING", "q=%20&r"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "8080"),
            ("REMOTE_ADDR", "10.1.2.3"),
            ("REMOTE_PORT", "4567"),
            ("CONTENT_LENGTH", "7"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_HOST", "example.org:81"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_ACCEPT", "x, y"),
        ] {
            assert_eq!(all.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!all.contains_key("HTTP_CONTENT_TYPE"));
    }

    #[test]
    fn what_is_no_guests_affair_is_not_passed() {
        let fields: [(&str, &[u8]); 6] = [
            ("proxy", b"http://evil"),
            ("connection", b"close"),
            ("transfer-encoding", b"chunked"),
            ("x_forwarded_for", b"127.0.0.1"),
            ("x-bytes", b"\xff\xfe"),
            ("x-good", b"1"),
        ];
        let all = of("/", &fields, "/", 0).unwrap();
        let mut http: Vec<_> = all
            .keys()
            .filter(|name| name.starts_with("HTTP_"))
            .collect();
        http.sort();
        assert_eq!(http, ["HTTP_X_GOOD"]);
        assert!(!all.contains_key("CONTENT_LENGTH"));
        assert_eq!(
            (all["SCRIPT_NAME"].as_str(), all["PATH_INFO"].as_str()),
            ("", "/")
        );
        assert_eq!(all["SERVER_NAME"], "127.0.0.1");
    }

    #[test]
    fn paths_that_mean_nothing_are_refused() {
        for path in [
            "/a/%00", "/a/%", "/a/%4", "/a/%zz", "/a/%ff", "/a/%+1", "/a/%%41", "/a/%4%41",
        ] {
            assert_eq!(of(path, &[], "/a", 0), Err(BadRequest::Path), "{path}");
        }
    }
}
