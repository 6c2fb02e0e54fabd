//! [`Network`]: the addresses that guests may use. Only this file and `network/special.rs` decide
//! about addresses.

mod special;
mod text;

pub use text::NetworkError;
pub(crate) use text::{networks, port};

use crate::limits::SOCKETS_MAX;
use ipnet::IpNet;
use special::{LOOPBACK_V4, LOOPBACK_V6, covers};
use std::net::SocketAddr;
use std::ops::{Bound, RangeBounds, RangeInclusive};

/// A use of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Connect to the address by TCP.
    TcpConnect,
    /// Bind a TCP socket to the address, and listen there.
    TcpListen,
    /// Send datagrams to the address. The socket must also be bound, which needs a rule for
    /// [`UdpBind`](Self::UdpBind).
    UdpSend,
    /// Bind a UDP socket to the address, and receive datagrams there.
    UdpBind,
}

/// The addresses that guests may use. The default allows no address.
///
/// ```
/// use pirn_wasi2::{Access, Network};
///
/// let network = Network::none()
///     .allow(Access::TcpConnect, "192.0.2.0/24".parse()?, 443..=443)
///     .allow_loopback(Access::TcpListen, 8000..9000)
///     .allow_lookups();
/// assert!(network.allows_connect("192.0.2.7:443".parse()?));
/// assert!(!network.allows_connect("192.0.2.7:80".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A rule covers the addresses of its IP network, with these exceptions:
///
/// * Only a rule for a network inside a special network covers the addresses of that special
///   network. Thus `0.0.0.0/0` covers neither services of the host on loopback addresses, nor
///   servers of the host's own network, nor the metadata service of a cloud. The special networks
///   are loopback (`127.0.0.0/8`, `::1`), private (`10.0.0.0/8`, `172.16.0.0/12`, `192.168.0.0/16`,
///   `100.64.0.0/10`, `198.18.0.0/15`, `fc00::/7`, `fec0::/10`), link-local (`169.254.0.0/16`,
///   `fe80::/10`), multicast (`224.0.0.0/4`, `ff00::/8`), broadcast (`255.255.255.255`), and
///   networks without servers of the internet (`0.0.0.0/8`, `192.0.0.0/24`, `240.0.0.0/4`,
///   `168.63.129.16`, `100::/64`, `2001::/32`, `64:ff9b:1::/48`).
/// * An IPv6 address that leads to an IPv4 address of a special network needs a rule for the IPv6
///   form of that network. Such addresses are NAT64 (`64:ff9b::/96`), 6to4 (`2002::/16`),
///   IPv4-compatible (`::/96`) and IPv4-translated (`::ffff:0:0:0/96`) addresses. `::/0` covers the
///   other NAT64 addresses.
/// * The unspecified address (`0.0.0.0`, `::`) stands for all interfaces. A guest may bind to it by
///   a rule for this address alone, or for the network of all addresses. No rule allows a guest to
///   connect or send to the unspecified address.
/// * No rule covers an IPv4-mapped IPv6 address (`::ffff:192.0.2.1`).
///
/// If a rule for [`TcpListen`](Access::TcpListen) or [`UdpBind`](Access::UdpBind) includes port 0,
/// the guest may bind to a free port, which the system chooses. UDP clients usually bind to port 0
/// of the unspecified address. The local address of a TCP connection needs no rule. A listening
/// socket accepts connections from all addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    rules: Vec<Rule>,
    lookups: bool,
    sockets_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    access: Access,
    network: IpNet,
    ports: RangeInclusive<u16>,
}

impl Default for Network {
    fn default() -> Self {
        Self::none()
    }
}

impl Network {
    /// Allows no address and no lookups.
    #[must_use]
    pub fn none() -> Self {
        Self {
            rules: vec![],
            lookups: false,
            sockets_max: SOCKETS_MAX,
        }
    }

    /// Allows a use of the addresses of an IP network with these ports. `..` means all ports.
    #[must_use]
    pub fn allow(mut self, access: Access, network: IpNet, ports: impl RangeBounds<u16>) -> Self {
        let first = match ports.start_bound() {
            Bound::Included(port) => Some(*port),
            Bound::Excluded(port) => port.checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let last = match ports.end_bound() {
            Bound::Included(port) => Some(*port),
            Bound::Excluded(port) => port.checked_sub(1),
            Bound::Unbounded => Some(u16::MAX),
        };
        // Otherwise the range is empty.
        if let (Some(first), Some(last)) = (first, last) {
            self.rules.push(Rule {
                access,
                network,
                ports: first..=last,
            });
        }
        self
    }

    /// Allows a use of the loopback addresses, `127.0.0.0/8` and `::1`, with these ports.
    #[must_use]
    pub fn allow_loopback(self, access: Access, ports: impl RangeBounds<u16> + Clone) -> Self {
        self.allow(access, LOOPBACK_V4, ports.clone())
            .allow(access, LOOPBACK_V6, ports)
    }

    /// Allows guests to look up names. The addresses that a lookup returns still need rules. Note
    /// that a guest can send data in a name to the name servers of a domain.
    #[must_use]
    pub fn allow_lookups(mut self) -> Self {
        self.lookups = true;
        self
    }

    /// Sets the most sockets that a guest may have at a time: 64 by default.
    #[must_use]
    pub fn sockets_max(mut self, sockets: usize) -> Self {
        self.sockets_max = sockets;
        self
    }

    /// Whether guests may connect to an address by TCP.
    #[must_use]
    pub fn allows_connect(&self, address: SocketAddr) -> bool {
        self.allows(Access::TcpConnect, address)
    }

    /// Whether guests may use an address.
    #[must_use]
    pub fn allows(&self, access: Access, address: SocketAddr) -> bool {
        let is_remote = matches!(access, Access::TcpConnect | Access::UdpSend);
        if is_remote && (address.ip().is_unspecified() || address.port() == 0) {
            return false;
        }
        let mut rules = self.rules.iter();
        rules.any(|rule| {
            rule.access == access
                && rule.ports.contains(&address.port())
                && covers(&rule.network, address.ip())
        })
    }

    /// Whether guests may look up names.
    #[must_use]
    pub fn allows_lookups(&self) -> bool {
        self.lookups
    }

    /// Whether a rule for this use exists.
    pub(crate) fn allows_some(&self, access: Access) -> bool {
        self.rules.iter().any(|rule| rule.access == access)
    }

    /// Most sockets that a guest may have at a time.
    pub(crate) fn max_sockets(&self) -> usize {
        self.sockets_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(access: Access, networks: &[&str], ports: impl RangeBounds<u16> + Clone) -> Network {
        networks.iter().fold(Network::none(), |network, text| {
            network.allow(access, text.parse().expect("a network"), ports.clone())
        })
    }

    #[track_caller]
    fn check(network: &Network, access: Access, allowed: &[&str], denied: &[&str]) {
        for (addresses, is_allowed) in [(allowed, true), (denied, false)] {
            for address in addresses {
                let parsed = address.parse().expect("an address");
                assert_eq!(network.allows(access, parsed), is_allowed, "{address}");
            }
        }
    }

    #[test]
    fn a_rule_covers_its_network_ports_and_use() {
        let rules = network(
            Access::TcpConnect,
            &["10.1.0.0/16", "2001:db8::/32"],
            80..=81,
        );
        let allowed = ["10.1.0.0:80", "10.1.255.255:81", "[2001:db8::1]:80"];
        let denied = [
            "10.2.0.0:80",
            "10.0.255.255:80",
            "10.1.0.0:79",
            "10.1.0.0:82",
        ];
        check(&rules, Access::TcpConnect, &allowed, &denied);
        check(&rules, Access::TcpConnect, &[], &["[2001:db9::1]:80"]);
        for other in [Access::TcpListen, Access::UdpBind, Access::UdpSend] {
            check(&rules, other, &[], &allowed);
        }
    }

    #[test]
    fn ranges_of_ports_may_be_half_open_or_empty() {
        let one = ["192.0.2.1/32"];
        let use_it = Access::UdpBind;
        check(
            &network(use_it, &one, ..),
            use_it,
            &["192.0.2.1:0", "192.0.2.1:65535"],
            &[],
        );
        check(
            &network(use_it, &one, 8..10),
            use_it,
            &["192.0.2.1:9"],
            &["192.0.2.1:10"],
        );
        check(&network(use_it, &one, 8..8), use_it, &[], &["192.0.2.1:8"]);
        check(&network(use_it, &one, ..0), use_it, &[], &["192.0.2.1:0"]);
        let after = (Bound::Excluded(u16::MAX), Bound::Unbounded);
        check(
            &network(use_it, &one, after),
            use_it,
            &[],
            &["192.0.2.1:65535"],
        );
    }

    #[test]
    fn all_addresses_are_not_those_of_the_host_itself() {
        let special = [
            "127.0.0.1:80",
            "127.255.255.255:80",
            "169.254.169.254:80",
            "224.0.0.1:80",
            "239.255.255.255:80",
            "255.255.255.255:80",
            "[::1]:80",
            "[fe80::1]:80",
            "[febf::1]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:192.0.2.1]:80",
        ];
        for use_it in [Access::TcpConnect, Access::TcpListen, Access::UdpSend] {
            let all = network(use_it, &["0.0.0.0/0", "::/0"], ..);
            check(
                &all,
                use_it,
                &["192.0.2.1:80", "[2001:db8::1]:80"],
                &special,
            );
            let half = network(use_it, &["64.0.0.0/2", "128.0.0.0/1", "8000::/1"], ..);
            check(&half, use_it, &["192.0.2.1:80"], &special);
            let mapped = network(use_it, &["::ffff:0:0/96", "::ffff:127.0.0.1/128"], ..);
            check(&mapped, use_it, &[], &special);
        }
        let named = network(
            Access::UdpSend,
            &["127.0.0.1/32", "224.0.0.0/4", "ff02::/16"],
            ..,
        );
        let allowed = ["127.0.0.1:80", "224.0.0.1:80", "[ff02::1]:80"];
        check(&named, Access::UdpSend, &allowed, &["127.0.0.2:80"]);
    }

    #[test]
    fn the_unspecified_address_is_for_those_that_listen_everywhere() {
        let unspecified = ["0.0.0.0:80", "[::]:80"];
        for networks in [["0.0.0.0/0", "::/0"], ["0.0.0.0/32", "::/128"]] {
            let listen = network(Access::TcpListen, &networks, ..);
            check(&listen, Access::TcpListen, &unspecified, &["127.0.0.1:80"]);
            let connect = network(Access::TcpConnect, &networks, ..);
            check(&connect, Access::TcpConnect, &[], &unspecified);
        }
        let parts = network(Access::TcpListen, &["0.0.0.0/8", "0.0.0.0/1", "::/1"], ..);
        check(&parts, Access::TcpListen, &[], &unspecified);
    }

    #[test]
    fn loopback_is_both_networks_and_nothing_else() {
        let rules = Network::none().allow_loopback(Access::TcpConnect, 80..=80);
        let allowed = ["127.0.0.1:80", "127.9.9.9:80", "[::1]:80"];
        let denied = [
            "127.0.0.1:81",
            "128.0.0.1:80",
            "[::2]:80",
            "0.0.0.0:80",
            "[::]:80",
        ];
        check(&rules, Access::TcpConnect, &allowed, &denied);
    }

    #[test]
    fn nobody_connects_to_port_0() {
        let rules = network(Access::TcpConnect, &["192.0.2.1/32"], ..);
        check(
            &rules,
            Access::TcpConnect,
            &["192.0.2.1:1"],
            &["192.0.2.1:0"],
        );
    }
}
