//! The rules of a [`Network`] as text, for command lines and configuration files.

use super::special::{LOOPBACK_V4, LOOPBACK_V6};
use super::{Access, Network};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use thiserror::Error;

/// The text of a rule is malformed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no rule; write lookup or USE=ADDRESS[:PORT], where USE is tcp-connect, tcp-listen, \
     udp-send or udp-bind, as in tcp-connect=192.0.2.0/24:443, tcp-listen=loopback:8000-8999 or \
     udp-send=[2001:db8::1]:53"
)]
pub struct NetworkError(String);

impl Network {
    /// Adds a rule: `lookup` to look up names, or `USE=ADDRESS` for all ports, `USE=ADDRESS:PORT`
    /// or `USE=ADDRESS:FIRST-LAST`.
    ///
    /// USE is `tcp-connect`, `tcp-listen`, `udp-send` or `udp-bind`. ADDRESS is an IP address, an
    /// IP network such as `192.0.2.0/24`, `loopback`, or `*` for all networks. Brackets enclose an
    /// IPv6 address or network before a port.
    ///
    /// ```
    /// use pirn_wasi2::Network;
    ///
    /// let network = Network::none().allow_text("tcp-connect=[2001:db8::/32]:443")?;
    /// assert!(network.allows_connect("[2001:db8::1]:443".parse()?));
    /// assert!(Network::none().allow_text("tcp-connect=example.com:443").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`NetworkError`] if the text has another form.
    pub fn allow_text(self, text: &str) -> Result<Self, NetworkError> {
        if text == "lookup" {
            return Ok(self.allow_lookups());
        }
        let rule = rule(text).ok_or_else(|| NetworkError(text.to_owned()))?;
        let (access, networks, ports) = rule;
        let networks = networks.into_iter();
        Ok(networks.fold(self, |all, network| {
            all.allow(access, network, ports.clone())
        }))
    }
}

type Parsed = (Access, Vec<IpNet>, RangeInclusive<u16>);

fn rule(text: &str) -> Option<Parsed> {
    let (access, rest) = text.split_once('=')?;
    let access = match access {
        "tcp-connect" => Access::TcpConnect,
        "tcp-listen" => Access::TcpListen,
        "udp-send" => Access::UdpSend,
        "udp-bind" => Access::UdpBind,
        _ => return None,
    };
    let (address, ports) = split(rest)?;
    Some((access, networks(address)?, ports))
}

/// The address, and the ports after it.
fn split(text: &str) -> Option<(&str, RangeInclusive<u16>)> {
    const ALL: RangeInclusive<u16> = 0..=u16::MAX;
    let (address, after) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']')?;
            // Brackets are only for IPv6 addresses.
            address.contains(':').then_some((address, after))?
        }
        // An IPv6 address without brackets has no port.
        None if text.matches(':').count() > 1 => (text, ""),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    match after.strip_prefix(':') {
        Some(after) => Some((address, ports(after)?)),
        None => after.is_empty().then_some((address, ALL)),
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(first..=last)
}

/// A port in decimal digits. Unlike `u16::from_str`, refuses a sign.
pub(crate) fn port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// The networks of an address, a network, `loopback` or `*`.
pub(crate) fn networks(text: &str) -> Option<Vec<IpNet>> {
    let all = |address: IpAddr| IpNet::new_assert(address, 0);
    match text {
        "*" => Some(vec![
            all(Ipv4Addr::UNSPECIFIED.into()),
            all(Ipv6Addr::UNSPECIFIED.into()),
        ]),
        "loopback" => Some(vec![LOOPBACK_V4, LOOPBACK_V6]),
        _ => {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            Some(vec![address.or_else(|_| text.parse()).ok()?])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(rules: &[&str], access: Access, address: &str) -> bool {
        let network = rules
            .iter()
            .try_fold(Network::none(), |network, rule| network.allow_text(rule));
        let address = address.parse().expect("an address");
        network.expect("rules").allows(access, address)
    }

    #[test]
    fn rules_have_a_use_an_address_and_ports() {
        let tcp = Access::TcpConnect;
        assert!(!allows(&[], tcp, "192.0.2.1:80"));
        assert!(allows(&["tcp-connect=192.0.2.1"], tcp, "192.0.2.1:80"));
        assert!(!allows(&["tcp-connect=192.0.2.1"], tcp, "192.0.2.2:80"));
        assert!(allows(
            &["tcp-connect=192.0.2.0/24:80"],
            tcp,
            "192.0.2.9:80"
        ));
        assert!(!allows(
            &["tcp-connect=192.0.2.0/24:80"],
            tcp,
            "192.0.2.9:81"
        ));
        assert!(allows(&["tcp-connect=*:80"], tcp, "[2001:db8::1]:80"));
        assert!(!allows(&["tcp-connect=*:80"], tcp, "127.0.0.1:80"));
        assert!(allows(&["tcp-connect=loopback"], tcp, "127.0.0.1:80"));
        assert!(allows(
            &["tcp-connect=2001:db8::1"],
            tcp,
            "[2001:db8::1]:80"
        ));
        assert!(allows(&["tcp-connect=[::1]:80"], tcp, "[::1]:80"));
        let range = ["udp-bind=[::1/128]:8000-8001"];
        assert!(allows(&range, Access::UdpBind, "[::1]:8001"));
        assert!(!allows(&range, Access::UdpBind, "[::1]:8002"));
        assert!(!allows(&range, Access::UdpSend, "[::1]:8001"));
        assert!(allows(
            &["udp-send=192.0.2.1"],
            Access::UdpSend,
            "192.0.2.1:53"
        ));
        let listen = ["lookup", "tcp-listen=0.0.0.0:80"];
        assert!(allows(&listen, Access::TcpListen, "0.0.0.0:80"));
    }

    #[test]
    fn only_a_rule_for_lookups_allows_lookups() {
        let network = Network::none().allow_text("tcp-connect=*").expect("a rule");
        assert!(!network.allows_lookups());
        let network = network.allow_text("lookup").expect("a rule");
        assert!(network.allows_lookups());
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "lookups",
            "192.0.2.1:80",
            "tcp-connect",
            "tcp-connect=",
            "tcp-connect=:80",
            "tcp-connect=example.com:80",
            "tcp-connect=192.0.2.1:",
            "tcp-connect=192.0.2.1:0x50",
            "tcp-connect=192.0.2.1:+80",
            "tcp-connect=192.0.2.1:65536",
            "tcp-connect=192.0.2.1:90-80",
            "tcp-connect=192.0.2.1:80-",
            "tcp-connect=192.0.2.1:-80",
            "tcp-connect=192.0.2.0/33",
            "tcp-connect=[192.0.2.1]:80",
            "tcp-connect=[::1]80",
            "tcp-connect=[::1",
            "tcp-connect=[]:80",
            "tcp-connect=**",
            "TCP-CONNECT=192.0.2.1",
            "connect=192.0.2.1",
            " tcp-connect=192.0.2.1",
            "tcp-connect= 192.0.2.1",
        ] {
            let error = Network::none().allow_text(text).expect_err(text);
            let message = error.to_string();
            assert!(message.contains(&format!("{text:?}")) && !message.contains('\n'));
        }
    }
}
