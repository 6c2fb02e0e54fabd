//! [`read`]: finds the host of a request, once for all users of the host.
//!
//! A request can name its host twice: in its target and in `Host`. After [`read`], the target is
//! only a path, and only `Host` names the host. Routes, guests of both kinds, the access log and
//! traces get the request after [`read`], so all of them see the same host.

use super::text;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::uri::{Parts, PathAndQuery};
use hyper::{Method, Request, Uri, Version};
use std::net::{Ipv6Addr, SocketAddr};
use thiserror::Error;

/// The reason for which a request has no host. The fault is always the client's.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum BadTarget {
    /// The request has no `Host` (RFC 9112, section 3.2).
    #[error("request has no Host field; send one")]
    NoHost,
    /// A proxy could have routed the request by the other `Host` (RFC 9112, section 3.2).
    #[error("request has more than one Host field; send one")]
    Hosts,
    /// `Host` is no host with an optional port (RFC 9110, section 7.2).
    #[error("Host is {0:?}, which is no host with an optional port; correct it")]
    Host(String),
    /// The authority of the target is no host with an optional port. A user or password in the
    /// authority is an error (RFC 9110, section 4.2.4).
    #[error("target is for {0:?}, which is no host with an optional port; correct it")]
    Authority(String),
    /// The target has a scheme that is not HTTP's.
    #[error("target has the scheme {0:?}; use http or https")]
    Scheme(String),
    /// The target is neither a path nor a URI with a scheme (RFC 9112, section 3.2).
    #[error("target of {0} is {1:?}; send a path or a URI with a scheme")]
    Form(Method, String),
}

/// Reads the host of a request, and makes `Host` the only field that names the host.
///
/// The authority of the target replaces `Host` (RFC 9112, section 3.2.2). A request of HTTP/1.0
/// that names no host is for `local`, the address that its client connected to (RFC 9112, section
/// 3.3).
pub(crate) fn read<B>(request: &mut Request<B>, local: SocketAddr) -> Result<(), BadTarget> {
    let has_host = has_host(request.headers())?;
    if !has_host && request.version() > Version::HTTP_10 {
        return Err(BadTarget::NoHost);
    }
    if request.method() == Method::CONNECT {
        return Ok(()); // No guest gets it.
    }
    let uri = request.uri();
    let form = || BadTarget::Form(request.method().clone(), text(uri.to_string().as_bytes()));
    let host = match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) => {
            let bad = || BadTarget::Authority(text(authority.as_str().as_bytes()));
            let host = HeaderValue::from_str(authority.as_str()).map_err(|_| bad())?;
            name(host.as_bytes()).ok_or_else(bad)?;
            let path = path(uri).ok_or_else(form)?;
            *request.uri_mut() = path;
            Some(host)
        }
        (Some(scheme), _) => return Err(BadTarget::Scheme(text(scheme.as_bytes()))),
        (None, Some(_)) => return Err(form()),
        (None, None) if uri.path().starts_with('/') => None,
        // `OPTIONS *` asks for the server itself, which `Host` names.
        (None, None) if uri.path() == "*" && request.method() == Method::OPTIONS => None,
        (None, None) => return Err(form()),
    };
    let host = match host {
        Some(host) => host,
        None if has_host => return Ok(()),
        None => {
            // Without the scope of a link-local address, which is no part of a host.
            let local = SocketAddr::new(local.ip().to_canonical(), local.port());
            HeaderValue::from_str(&local.to_string()).map_err(|_| BadTarget::NoHost)?
        }
    };
    request.headers_mut().insert(HOST, host);
    Ok(())
}

/// Whether there is `Host`. An invalid value and a second field are errors.
fn has_host(headers: &HeaderMap) -> Result<bool, BadTarget> {
    let mut all = headers.get_all(HOST).iter();
    let Some(host) = all.next() else {
        return Ok(false);
    };
    if all.next().is_some() {
        return Err(BadTarget::Hosts);
    }
    match name(host.as_bytes()) {
        Some(_) => Ok(true),
        None => Err(BadTarget::Host(text(host.as_bytes()))),
    }
}

/// The path and query of a URI, as a URI. `http://host?query` has the path `/`.
fn path(uri: &Uri) -> Option<Uri> {
    let path = uri.path_and_query()?;
    let path = match path.as_str().starts_with('/') {
        true => path.clone(),
        false => PathAndQuery::try_from(format!("/{}", path.as_str())).ok()?,
    };
    let mut parts = Parts::default();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).ok()
}

/// The host of a request that [`read`] has accepted, without its port.
pub(crate) fn host(headers: &HeaderMap) -> Option<&str> {
    name(headers.get(HOST)?.as_bytes())
}

/// The name in `uri-host [ ":" port ]` (RFC 9110, section 7.2). `None` if the text is something
/// else, or if the name is empty, which no host of HTTP has (RFC 9110, section 4.2.1).
fn name(text: &[u8]) -> Option<&str> {
    let text = str::from_utf8(text).ok()?;
    let (name, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (address, _) = inner.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            text.split_at(address.len() + 2)
        }
        None => {
            let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            is_name(name).then_some((name, rest))?
        }
    };
    let is_port = |port: &str| {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        is_number && (port.is_empty() || port.parse::<u16>().is_ok())
    };
    match rest.strip_prefix(':') {
        Some(port) => is_port(port).then_some(name),
        None => rest.is_empty().then_some(name),
    }
}

/// Whether a text is a `reg-name`, which includes IPv4 addresses, and not empty (RFC 3986, section
/// 3.2.2).
fn is_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let mut is_good = !name.is_empty();
    while let Some(byte) = bytes.next() {
        is_good &= match byte {
            b'%' => {
                let mut is_digit = || bytes.next().is_some_and(|byte| byte.is_ascii_hexdigit());
                is_digit() && is_digit()
            }
            b'-' | b'.' | b'_' | b'~' => true,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => true,
            other => other.is_ascii_alphanumeric(),
        };
    }
    is_good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_and_without_ports_are_read() {
        for (text, expected) in [
            ("a", "a"),
            ("EXAMPLE.org", "EXAMPLE.org"),
            ("example.org:80", "example.org"),
            ("example.org:", "example.org"),
            ("example.org:00080", "example.org"),
            ("example.org:65535", "example.org"),
            ("127.0.0.1:8080", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("[::ffff:10.0.0.1]:8080", "[::ffff:10.0.0.1]"),
            ("a_b-c~d", "a_b-c~d"),
            ("%C3%bc.example", "%C3%bc.example"),
            ("a!$&'()*+,;=b", "a!$&'()*+,;=b"),
        ] {
            assert_eq!(name(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_hosts() {
        for text in [
            "",
            ":",
            ":80",
            "a:b",
            "a:-1",
            "a:+80",
            "a:65536",
            "a:99999",
            "a:80:80",
            "a: 80",
            "a b",
            " a",
            "a\t",
            "a/b",
            "a?b",
            "a#b",
            "a\\b",
            "a@b",
            "u:p@b",
            "\"a\"",
            "<a>",
            "a|b",
            "a^b",
            "a`b",
            "{a}",
            "%",
            "%4",
            "%4g",
            "a%",
            "::1",
            "[]",
            "[::1",
            "::1]",
            "[::1]a",
            "[::1]:a",
            "[::1]]",
            "[[::1]]",
            "[::1%25lo]",
            "[v1.a]",
            "[127.0.0.1]",
            "[a]",
            "http://a",
            "a\0",
            "a\x7f",
            "\u{fc}.example",
        ] {
            assert_eq!(name(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(name(b"a\xff"), None);
    }
}
