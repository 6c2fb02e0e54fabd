//! [`Target`]: the host and port that a request names. The client parses them once, so the check,
//! the connection and the certificate cannot mean different servers.

use crate::network::port;
use crate::resolver::is_name;
use http::Uri;
use std::net::{IpAddr, Ipv6Addr};

/// The host and port that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

/// A host in a request or in a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    /// A domain name, in lower case.
    Name(String),
    /// An address, never an IPv4-mapped IPv6 address.
    Address(IpAddr),
}

impl Target {
    /// Reads the scheme and the authority of a URI. Returns `None` for schemes other than `http`
    /// and `https`, for user information, and for an ambiguous host or port, which programs read in
    /// different ways.
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        // User information ends with `@`, so the text does not begin with the host.
        let after = authority.as_str().strip_prefix(authority.host())?;
        let port = match after.strip_prefix(':') {
            Some(digits) => port(digits)?,
            None if after.is_empty() => {
                if is_tls {
                    443
                } else {
                    80
                }
            }
            None => return None,
        };
        Some(Self {
            host: Host::of(authority.host())?,
            port,
            is_tls,
        })
    }
}

impl Host {
    /// Reads a domain name, an IPv4 address of four decimal numbers, or an IPv6 address in
    /// brackets. Returns `None` for other spellings of an address, such as `127.1`.
    pub(super) fn of(text: &str) -> Option<Self> {
        if let Some(text) = text.strip_prefix('[') {
            let address: Ipv6Addr = text.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(address.to_canonical()));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        is_host_name(text).then(|| Self::Name(text.to_ascii_lowercase()))
    }
}

/// Whether a text is a domain name that no program reads as an address.
pub(super) fn is_host_name(text: &str) -> bool {
    is_name(text) && !ends_in_number(text)
}

/// Whether the last label of a name is a decimal, octal or hexadecimal number. getaddrinfo(3) and
/// browsers read such a name as an IPv4 address.
fn ends_in_number(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let last = name.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(uri: &str) -> Option<Target> {
        Target::of(&uri.parse().expect("a URI"))
    }

    #[test]
    fn a_host_is_a_name_or_an_address() {
        let name = |text: &str| Host::Name(text.to_owned());
        let address = |text: &str| Host::Address(text.parse().expect("an address"));
        for (uri, host, port) in [
            ("http://example.com/a", name("example.com"), 80),
            ("https://EXAMPLE.com", name("example.com"), 443),
            ("http://example.com.:8080/", name("example.com."), 8080),
            ("http://a1/", name("a1"), 80),
            ("http://0xg/", name("0xg"), 80),
            ("http://192.0.2.1:1/", address("192.0.2.1"), 1),
            ("http://[2001:db8::1]:0/", address("2001:db8::1"), 0),
            ("https://[::ffff:192.0.2.1]/", address("192.0.2.1"), 443),
        ] {
            let found = target(uri).expect(uri);
            assert_eq!((found.host, found.port), (host, port), "{uri}");
            assert_eq!(found.is_tls, uri.starts_with("https"), "{uri}");
        }
    }

    #[test]
    fn no_target_has_two_readings() {
        for uri in [
            "/path",
            "ftp://example.com/",
            "http://user@example.com/",
            "http://example.com@evil/",
            "http://example.com:80@evil/",
            "http://example.com:/",
            "http://example.com:+80/",
            "http://example.com:65536/",
            "http://example.com:080000/",
            "http://[localhost]/",
            "http://[127.0.0.1]/",
            "http://[fe80::1%25lo]/",
            "http://a..b/",
            "http://a%2eb/",
            "http://a,b/",
            // Spellings of 127.0.0.1.
            "http://127.1/",
            "http://127.0.1/",
            "http://127.0.0.1./",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0X7F.1/",
            "http://0x7f.0x0.0x0.0x1/",
            "http://017700000001/",
            "http://0177.0.0.1/",
            "http://127.0.0.01/",
            "http://0/",
            "http://0x/",
        ] {
            // The parser of URIs may already refuse the text.
            let found = uri.parse().ok().and_then(|uri: Uri| Target::of(&uri));
            assert_eq!(found, None, "{uri}");
        }
    }
}
