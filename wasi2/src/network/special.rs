//! [`covers`]: whether a rule for a network covers an address. Sockets and HTTP requests decide
//! only by this function, so all spellings of an address have the same access.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const LOOPBACK_V4: IpNet = v4([127, 0, 0, 0], 8);
pub(super) const LOOPBACK_V6: IpNet = IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128));

/// Special networks: a rule for a wider network does not cover their addresses. The IANA registries
/// of special-purpose addresses list these networks, except the row of Azure.
const SPECIAL: [IpNet; 22] = [
    // "This network". The kernel sends to these addresses as to any other address.
    v4([0, 0, 0, 0], 8),
    LOOPBACK_V4,
    // Private networks, networks between providers and their customers, and test networks.
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([100, 64, 0, 0], 10),
    v4([198, 18, 0, 0], 15),
    // Link-local, with the metadata services of most clouds.
    v4([169, 254, 0, 0], 16),
    // Protocol assignments, with the metadata service of Oracle's cloud.
    v4([192, 0, 0, 0], 24),
    // The host of a virtual machine in Azure.
    v4([168, 63, 129, 16], 32),
    // Multicast, reserved, broadcast.
    v4([224, 0, 0, 0], 4),
    v4([240, 0, 0, 0], 4),
    v4([255, 255, 255, 255], 32),
    LOOPBACK_V6,
    // Unique local and site-local addresses.
    v6([0xfc00, 0, 0], 7),
    v6([0xfec0, 0, 0], 10),
    // Link-local.
    v6([0xfe80, 0, 0], 10),
    // Multicast.
    v6([0xff00, 0, 0], 8),
    // Discarded.
    v6([0x100, 0, 0], 64),
    // Teredo, which hides the IPv4 address of a client.
    v6([0x2001, 0, 0], 32),
    // Segment identifiers of a routing domain (RFC 9602).
    v6([0x5f00, 0, 0], 16),
    // NAT64 in a local network, where the place of the IPv4 address is unknown.
    v6([0x64, 0xff9b, 1], 48),
];

/// IPv6 networks whose addresses contain an IPv4 address. A gateway or the kernel may send to the
/// IPv4 address.
const FORMS: [Form; 4] = [
    // IPv4-compatible.
    Form::new([0; 6], 96),
    // IPv4-translated (RFC 2765).
    Form::new([0, 0, 0, 0, 0xffff, 0], 96),
    // NAT64.
    Form::new([0x64, 0xff9b, 0, 0, 0, 0], 96),
    // 6to4.
    Form::new([0x2002, 0, 0, 0, 0, 0], 16),
];

/// A network of IPv6 addresses that contain an IPv4 address after the bits of the network.
struct Form(Ipv6Net);

impl Form {
    const fn new([a, b, c, d, e, f]: [u16; 6], bits: u8) -> Self {
        let first = Ipv6Addr::new(a, b, c, d, e, f, 0, 0);
        Self(Ipv6Net::new_assert(first, bits))
    }

    /// The IPv4 address in an IPv6 address.
    fn address(&self, address: Ipv6Addr) -> Ipv4Addr {
        let bits_after = 96 - u32::from(self.0.prefix_len());
        Ipv4Addr::from_bits((address.to_bits() >> bits_after) as u32)
    }

    /// The IPv4 addresses in the addresses of an IPv6 network that overlaps this one.
    fn network(&self, network: &Ipv6Net) -> Ipv4Net {
        let bits = network.prefix_len().saturating_sub(self.0.prefix_len());
        Ipv4Net::new_assert(self.address(network.network()), bits.min(32))
    }
}

const fn v4([a, b, c, d]: [u8; 4], bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits))
}

const fn v6([a, b, c]: [u16; 3], bits: u8) -> IpNet {
    let first = Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0);
    IpNet::V6(Ipv6Net::new_assert(first, bits))
}

/// Whether a rule for a network covers an address.
pub(super) fn covers(network: &IpNet, address: IpAddr) -> bool {
    // The kernel treats an IPv4-mapped IPv6 address as the IPv4 address.
    if address.to_canonical() != address || !network.contains(&address) {
        return false;
    }
    if address.is_unspecified() {
        return network.prefix_len() == 0 || network.prefix_len() == network.max_prefix_len();
    }
    names(network, address)
        && match (network, address) {
            (IpNet::V6(network), IpAddr::V6(address)) => {
                let mut forms = FORMS.iter().filter(|form| form.0.contains(&address));
                forms.all(|form| {
                    let network = IpNet::V4(form.network(network));
                    names(&network, form.address(address).into())
                })
            }
            _ => true,
        }
}

/// Whether a rule's network is inside every special network that contains the address.
fn names(network: &IpNet, address: IpAddr) -> bool {
    let mut special = SPECIAL.iter();
    special.all(|special| !special.contains(&address) || special.contains(network))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(network: &str, address: &str, is_covered: bool) {
        let parsed = network.parse().expect("a network");
        let covered = covers(&parsed, address.parse().expect("an address"));
        assert_eq!(covered, is_covered, "{network} and {address}");
    }

    /// The first and the last address of each special network, and the addresses beside them.
    #[test]
    fn special_networks_end_where_they_end() {
        for network in [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            // Multicast, reserved and broadcast addresses.
            "224.0.0.0/3",
        ] {
            let network: Ipv4Net = network.parse().expect("a network");
            let first = network.network().to_bits();
            let last = network.broadcast().to_bits();
            // The unspecified address has a rule of its own.
            for special in [first.max(1), last].map(Ipv4Addr::from_bits) {
                check("0.0.0.0/0", &special.to_string(), false);
                check(&format!("{special}/32"), &special.to_string(), true);
            }
            for public in [first.checked_sub(1), last.checked_add(1)] {
                if let Some(public) = public.map(Ipv4Addr::from_bits) {
                    check("0.0.0.0/0", &public.to_string(), true);
                }
            }
        }
    }

    #[test]
    fn special_networks_of_ipv6_need_a_rule_of_their_own() {
        for special in [
            "::1",
            "100::1",
            "64:ff9b:1::808:808",
            "2001::1",
            "2001:0:ffff::1",
            "5f00::1",
            "5f00:ffff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
        ] {
            check("::/0", special, false);
            check(&format!("{special}/128"), special, true);
        }
        for public in [
            "100:0:0:1::1",
            "2001:1::1",
            "2001:db8::1",
            "2600::1",
            "5eff::1",
            "5f01::1",
        ] {
            check("::/0", public, true);
        }
    }

    #[test]
    fn an_ipv6_form_of_a_special_address_is_special() {
        let special = [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
        ];
        let special = special.map(|text| (text, true));
        for (text, is_special) in special.into_iter().chain([("192.0.2.1", false)]) {
            let v4: Ipv4Addr = text.parse().expect("an address");
            let [a, b, c, d] = v4.octets();
            let sixteen = |high, low| u16::from_be_bytes([high, low]);
            let six_to_four = Ipv6Addr::new(0x2002, sixteen(a, b), sixteen(c, d), 0, 0, 0, 0, 1);
            for form in [
                format!("64:ff9b::{text}"),
                format!("::ffff:0:{text}"),
                six_to_four.to_string(),
            ] {
                check("::/0", &form, !is_special);
                check("2000::/3", &form, !is_special && form.starts_with("2002"));
                check(&format!("{form}/128"), &form, true);
            }
            if !v4.is_unspecified() {
                check("::/0", &format!("::{text}"), !is_special);
            }
            // No rule covers a mapped address.
            for network in ["::/0", "::ffff:0:0/96"] {
                check(network, &format!("::ffff:{text}"), false);
            }
        }
    }

    /// A rule for the NAT64 form of a special network names that network.
    #[test]
    fn a_rule_may_name_the_form_of_a_special_network() {
        check("64:ff9b::127.0.0.0/104", "64:ff9b::127.0.0.1", true);
        check("64:ff9b::126.0.0.0/103", "64:ff9b::127.0.0.1", false);
        check("64:ff9b::/96", "64:ff9b::127.0.0.1", false);
        check("2002:7f00::/24", "2002:7f00:1::1", true);
        check("2002:7e00::/23", "2002:7f00:1::1", false);
        check("2002::/16", "2002:7f00:1::1", false);
        check("::/1", "64:ff9b::192.0.2.1", true);
    }
}
