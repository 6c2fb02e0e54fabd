//! [`Allowed`]: the servers that guests may send requests to.

use super::target::{Host, Target, is_host_name};
use crate::network::{Access, Network, networks, port};
use http::Uri;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::str::FromStr;
use thiserror::Error;

/// The servers that guests may send requests to. No server by default.
///
/// A request is allowed by its host and port, and each address to which the host resolves must be
/// allowed, too. A rule for a name allows only public addresses: the addresses that a rule of
/// [`Network`] for all networks covers. So a request fails if the owner of the name lets it resolve
/// to `127.0.0.1` or to a cloud's metadata service. A rule for an address or a network allows its
/// addresses, also for the names that other rules allow. `localhost` allows loopback addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(Vec<Server>);

/// A rule: hosts, ports and addresses of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Server {
    hosts: Hosts,
    ports: Ports,
    /// The addresses and ports that requests to these hosts may connect to.
    addresses: Network,
}

/// The hosts that requests may name.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// All names and addresses.
    All,
    /// All names that end with this text, which begins with a dot.
    Below(String),
    Name(String),
    /// The addresses of the rule, and no name.
    Addresses,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    /// The ports 80 (HTTP) and 443 (HTTPS).
    Default,
    All,
    One(u16),
}

/// The text of a server is malformed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no server; write HOST, HOST:PORT, HOST:*, *.HOST or *, where HOST is a name, an \
     address such as 127.0.0.1, or a network such as 10.0.0.0/8; put an IPv6 address in brackets"
)]
pub struct AllowedError(String);

impl Allowed {
    /// Allows a server: `HOST` for ports 80 and 443, `HOST:PORT`, or `HOST:*` for all ports.
    ///
    /// A host is a name, `*.NAME` for all names below a name, `*` for every host, an IP address, an
    /// IP network such as `10.0.0.0/8`, or `loopback` for all loopback addresses. Brackets enclose
    /// an IPv6 address or network.
    ///
    /// ```
    /// use pirn_wasi2::http::Allowed;
    ///
    /// let mut allowed = Allowed::default();
    /// allowed.add("*")?.add("10.1.0.0/16:8080")?;
    /// let uri = "http://backend.example:8080/".parse()?;
    /// assert!(!allowed.allows(&uri));
    /// allowed.add("backend.example:8080")?;
    /// assert!(allowed.allows(&uri));
    /// assert!(allowed.allows_connect(&uri, "10.1.0.7:8080".parse()?));
    /// assert!(!allowed.allows_connect(&uri, "127.0.0.1:8080".parse()?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AllowedError`] if the text has another form.
    pub fn add(&mut self, text: &str) -> Result<&mut Self, AllowedError> {
        self.0.push(text.parse()?);
        Ok(self)
    }

    /// Whether requests to this URI are allowed. If its host is a name, also check each address of
    /// the name by [`allows_connect`](Self::allows_connect).
    #[must_use]
    pub fn allows(&self, uri: &Uri) -> bool {
        Target::of(uri).is_some_and(|target| self.allows_target(&target))
    }

    /// Whether a request to this URI may connect to an address of its host.
    #[must_use]
    pub fn allows_connect(&self, uri: &Uri, address: SocketAddr) -> bool {
        let target = Target::of(uri);
        target.is_some_and(|target| {
            self.allows_target(&target) && self.allows_address(&target, address)
        })
    }

    pub(super) fn allows_target(&self, target: &Target) -> bool {
        match target.host {
            Host::Address(ip) => self.allows_address(target, SocketAddr::new(ip, target.port)),
            Host::Name(_) => {
                let mut servers = self.0.iter();
                servers.any(|server| server.is(&target.host) && server.has_port(target.port))
            }
        }
    }

    /// Whether a request may connect to an address. A rule for addresses also applies to each
    /// target that [`allows_target`](Self::allows_target) allows, because the guest could name the
    /// address itself.
    pub(super) fn allows_address(&self, target: &Target, address: SocketAddr) -> bool {
        self.0.iter().any(|server| {
            let is_for = server.hosts == Hosts::Addresses || server.is(&target.host);
            is_for && server.addresses.allows_connect(address)
        })
    }
}

impl Server {
    fn is(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::All, _) => true,
            (Hosts::Below(parent), Host::Name(name)) => {
                name.len() > parent.len() && name.ends_with(parent)
            }
            (Hosts::Name(own), Host::Name(name)) => own == name,
            _ => false,
        }
    }

    fn has_port(&self, port: u16) -> bool {
        match self.ports {
            Ports::Default => port == 80 || port == 443,
            Ports::All => true,
            Ports::One(one) => port == one,
        }
    }
}

/// The rules for connections to the ports of some networks.
fn reach(networks: Vec<IpNet>, ports: Ports) -> Network {
    let all = networks.into_iter();
    all.fold(Network::none(), |all, network| {
        let allow = |all: Network, port| all.allow(Access::TcpConnect, network, port..=port);
        match ports {
            Ports::Default => allow(allow(all, 80), 443),
            Ports::All => all.allow(Access::TcpConnect, network, ..),
            Ports::One(port) => allow(all, port),
        }
    })
}

/// The hosts of a rule, and the text of the networks to which they may resolve.
fn hosts(text: &str) -> Option<(Hosts, &str)> {
    const PUBLIC: &str = "*";
    if text == "*" {
        return Some((Hosts::All, PUBLIC));
    }
    if let Some(text) = text.strip_prefix('[') {
        // Brackets are only for IPv6 addresses.
        let text = text.strip_suffix(']').filter(|text| text.contains(':'));
        return Some((Hosts::Addresses, text?));
    }
    let parent = text.strip_prefix("*.");
    let name = parent.unwrap_or(text);
    let is_host = is_host_name(name) && name != "loopback";
    Some(match parent {
        Some(_) if is_host => (Hosts::Below(text[1..].to_ascii_lowercase()), PUBLIC),
        None if is_host => {
            let name = name.to_ascii_lowercase();
            // RFC 6761, section 6.3.
            let is_local = name == "localhost";
            let networks = if is_local { "loopback" } else { PUBLIC };
            (Hosts::Name(name), networks)
        }
        None if !text.contains([':', '*']) => (Hosts::Addresses, text),
        _ => return None,
    })
}

impl FromStr for Server {
    type Err = AllowedError;

    fn from_str(text: &str) -> Result<Self, AllowedError> {
        let read = || {
            // The colons of an IPv6 address are in brackets.
            let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
            let colon = text[after_brackets..].find(':');
            let (host, ports) = match colon.map(|at| text.split_at(after_brackets + at)) {
                None => (text, Ports::Default),
                Some((host, ":*")) => (host, Ports::All),
                Some((host, after)) => (host, Ports::One(port(&after[1..])?)),
            };
            let (hosts, addresses) = hosts(host)?;
            Some(Self {
                hosts,
                ports,
                addresses: reach(networks(addresses)?, ports),
            })
        };
        read().ok_or_else(|| AllowedError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(servers: &[&str]) -> Allowed {
        let mut allowed = Allowed::default();
        for server in servers {
            allowed.add(server).expect("it is a server");
        }
        allowed
    }

    fn allows(servers: &[&str], uri: &str) -> bool {
        allowed(servers).allows(&uri.parse().expect("a URI"))
    }

    /// Whether a request to `host:port` may connect to `address:port`.
    fn connects(servers: &[&str], host: &str, address: &str, port: u16) -> bool {
        let uri = format!("http://{host}:{port}/").parse().expect("a URI");
        let address = address.parse().expect("an address");
        allowed(servers).allows_connect(&uri, SocketAddr::new(address, port))
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
        assert!(!allows(&["example.com"], "http://example.com./"));
        assert!(allows(&["*.example.com"], "http://an.example.com/"));
        assert!(!allows(&["*.example.com"], "http://example.com/"));
        assert!(!allows(&["*.example.com"], "http://notexample.com/"));
        assert!(allows(&["*"], "http://1.2.3.4/"));
        assert!(!allows(&["*"], "http://1.2.3.4:22/"));
        assert!(allows(&["[::1]:80"], "http://[::1]/"));
        assert!(!allows(&["example.com"], "http://example.com@evil/"));
    }

    #[test]
    fn addresses_match_by_their_value() {
        let uri = "http://127.0.0.1:8080/";
        for server in [
            "127.0.0.1:8080",
            "127.0.0.1:*",
            "127.0.0.0/8:8080",
            "loopback:8080",
        ] {
            assert!(allows(&[server], uri), "{server}");
        }
        for server in [
            "127.0.0.1",
            "127.0.0.1:8081",
            "127.0.0.2:8080",
            "126.0.0.0/7:8080",
            "0.0.0.0/0:8080",
            "localhost:8080",
            "*:8080",
            "[::1]:8080",
            "[::ffff:127.0.0.1]:8080",
        ] {
            assert!(!allows(&[server], uri), "{server}");
        }
        let mapped = "http://[::ffff:7f00:1]:8080/";
        assert!(allows(&["127.0.0.1:8080"], mapped));
        assert!(!allows(&["*:*", "[::]:*", "[::/0]:*"], mapped));
        assert!(allows(&["[0:0::1]:80", "[fd00::/8]:80"], "http://[::1]/"));
        assert!(allows(&["[fd00::/8]"], "https://[fd00:1::1]/"));
        assert!(allows(&["10.0.0.0/8"], "http://10.1.2.3/"));
        // A rule for addresses allows no name, even if the name resolves to one of the addresses.
        assert!(!allows(&["127.0.0.1:*", "loopback:*"], "http://localhost/"));
        assert!(!allows(&["0.0.0.0/0:*"], "http://example.com/"));
    }

    /// Addresses that no rule for names allows.
    const SPECIAL: [&str; 16] = [
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "2002:7f00:1::1",
        "fd00:ec2::254",
        "fe80::1",
    ];

    #[test]
    fn a_rule_for_names_allows_public_addresses_alone() {
        for server in ["*:*", "*.example.com:*", "www.example.com:*"] {
            for public in ["192.0.2.1", "2001:db8::1", "64:ff9b::192.0.2.1"] {
                assert!(
                    connects(&[server], "www.example.com", public, 1),
                    "{public}"
                );
            }
            for special in SPECIAL {
                assert!(
                    !connects(&[server], "www.example.com", special, 1),
                    "{special}"
                );
            }
            assert!(!connects(&[server], "www.example.com", "192.0.2.1", 0));
        }
    }

    #[test]
    fn a_rule_for_a_network_allows_it_to_names_of_other_rules() {
        let rules = ["www.example.com:80", "10.0.0.0/8:80", "127.0.0.1:81"];
        assert!(connects(&rules, "www.example.com", "10.1.2.3", 80));
        assert!(connects(&rules, "www.example.com", "192.0.2.1", 80));
        assert!(!connects(&rules, "www.example.com", "10.1.2.3", 81));
        assert!(!connects(&rules, "www.example.com", "127.0.0.1", 80));
        assert!(!connects(&rules, "www.example.com", "127.0.0.1", 81));
        assert!(!connects(&rules, "an.example.com", "10.1.2.3", 80));
    }

    #[test]
    fn localhost_is_loopback() {
        let rules = ["localhost:80", "www.example.com:80", "*.localhost:80"];
        for (host, address, is_allowed) in [
            ("localhost", "127.0.0.1", true),
            ("LOCALHOST", "::1", true),
            ("localhost", "192.0.2.1", false),
            ("localhost", "10.0.0.1", false),
            ("a.localhost", "127.0.0.1", false),
            ("www.example.com", "127.0.0.1", false),
        ] {
            let found = connects(&rules, host, address, 80);
            assert_eq!(found, is_allowed, "{host} at {address}");
        }
        assert!(!connects(&rules, "localhost", "127.0.0.1", 81));
        assert!(!connects(&["*:*"], "localhost", "127.0.0.1", 80));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "http://a",
            "a:b",
            "a:99999",
            "a:+80",
            "a:80:80",
            ":80",
            "*.",
            "*.*",
            "a b",
            "a/b",
            "a..b",
            "[::1",
            "::1",
            "[::1]80",
            "[127.0.0.1]:80",
            "[a]",
            "[*]",
            "[]",
            "**",
            "*a",
            "*.0.0.1",
            "*.[::1]",
            "*/8",
            "127.1",
            "0x7f.1",
            "2130706433",
            "127.0.0.1.",
            "10.0.0.0/33",
            "10.0.0.0/",
            "example.com/8",
        ] {
            let mut allowed = Allowed::default();
            let error = allowed.add(text).expect_err(text);
            assert!(!error.to_string().contains('\n'));
        }
    }
}
