//! [`Allowed`]: the servers that guests may send requests to.

use http::Uri;
use std::str::FromStr;
use thiserror::Error;

/// The servers that guests may send requests to. None by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(Vec<Server>);

/// A server, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    /// A name in lower case, `*.` and a name for all names below it, or `*` for all servers.
    host: String,
    /// `None` for the ports of HTTP and HTTPS.
    port: Option<Port>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Any,
    One(u16),
}

/// The text of a server is malformed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no server; write HOST, HOST:PORT, HOST:*, *.HOST or *; \
     put an IPv6 address in brackets"
)]
pub struct AllowedError(String);

impl Allowed {
    /// Allows a server: `HOST` for ports 80 and 443, `HOST:PORT`, or `HOST:*` for all ports. A host
    /// is a name, an address, `*.NAME` for all names below a name, or `*` for every host.
    ///
    /// # Errors
    ///
    /// [`AllowedError`] if the text is none of these.
    pub fn add(&mut self, text: &str) -> Result<&mut Self, AllowedError> {
        self.0.push(text.parse()?);
        Ok(self)
    }

    /// Whether requests to this URI are allowed.
    #[must_use]
    pub fn allows(&self, uri: &Uri) -> bool {
        let Some(host) = uri.host() else {
            return false;
        };
        let host = host.to_ascii_lowercase();
        let default = match uri.scheme_str() {
            Some("https") => 443,
            _ => 80,
        };
        let port = uri.port_u16().unwrap_or(default);
        self.0.iter().any(|server| server.is(&host, port))
    }
}

impl Server {
    fn is(&self, host: &str, port: u16) -> bool {
        let is_host = match self.host.strip_prefix('*') {
            Some("") => true,
            // `parent` begins with a dot.
            Some(parent) => host.len() > parent.len() && host.ends_with(parent),
            None => host == self.host,
        };
        is_host
            && match self.port {
                None => port == 80 || port == 443,
                Some(Port::Any) => true,
                Some(Port::One(one)) => port == one,
            }
    }
}

impl FromStr for Server {
    type Err = AllowedError;

    fn from_str(text: &str) -> Result<Self, AllowedError> {
        let wrong = || AllowedError(text.to_owned());
        // The colons of an IPv6 address are in brackets.
        let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
        let colon = text[after_brackets..]
            .rfind(':')
            .map(|at| at + after_brackets);
        let (host, port) = match colon {
            None => (text, None),
            Some(at) if &text[at + 1..] == "*" => (&text[..at], Some(Port::Any)),
            Some(at) => {
                let port = text[at + 1..].parse().map_err(|_| wrong())?;
                (&text[..at], Some(Port::One(port)))
            }
        };
        let parent = host.strip_prefix("*.");
        let name = parent.unwrap_or(host);
        // Addresses have no hierarchy, so `*.` needs a name.
        let is_number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        if parent.is_some() && name.rsplit('.').next().is_some_and(is_number) {
            return Err(wrong());
        }
        let is_name = |name: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            !name.is_empty() && name.chars().all(allowed) && !name.starts_with('.')
        };
        let is_address = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
        match host == "*" || is_name(name) || is_address {
            true => Ok(Self {
                host: host.to_ascii_lowercase(),
                port,
            }),
            false => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(servers: &[&str], uri: &str) -> bool {
        let mut allowed = Allowed::default();
        for server in servers {
            allowed.add(server).expect("it is a server");
        }
        allowed.allows(&uri.parse().expect("a URI"))
    }

    #[test]
    fn servers_match_by_host_and_port() {
        assert!(!allows(&[], "http://example.com/"));
        assert!(allows(&["example.com"], "http://example.com/a"));
        assert!(allows(&["example.com"], "https://EXAMPLE.com/"));
        assert!(!allows(&["example.com"], "http://example.com:8080/"));
        assert!(allows(&["example.com:8080"], "http://example.com:8080/"));
        assert!(!allows(&["example.com:8080"], "http://example.com/"));
        assert!(allows(&["example.com:*"], "http://example.com:1/"));
        assert!(!allows(&["example.com"], "http://an.example.com/"));
        assert!(!allows(&["example.com"], "http://example.com.evil/"));
        assert!(allows(&["*.example.com"], "http://an.example.com/"));
        assert!(!allows(&["*.example.com"], "http://example.com/"));
        assert!(!allows(&["*.example.com"], "http://notexample.com/"));
        assert!(allows(&["*"], "http://1.2.3.4/"));
        assert!(!allows(&["*"], "http://1.2.3.4:22/"));
        assert!(allows(&["[::1]:80"], "http://[::1]/"));
        assert!(!allows(&["example.com"], "http://example.com@evil/"));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "http://a", "a:b", "a:99999", ":80", "*.", "a b", "[::1", "**", "*a", "*.0.0.1",
        ] {
            let mut allowed = Allowed::default();
            let error = allowed.add(text).expect_err(text);
            assert!(!error.to_string().contains('\n'));
        }
    }
}
