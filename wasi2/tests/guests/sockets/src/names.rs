//! Names.

use crate::net::*;
use std::net::IpAddr;
use wasip2::sockets::ip_name_lookup::{ResolveAddressStream, resolve_addresses};
use wasip2::sockets::network::IpAddress;

fn all(stream: &ResolveAddressStream) -> Result<Vec<IpAddr>, ErrorCode> {
    let mut found = vec![];
    while let Some(address) = finish(&stream.subscribe(), || stream.resolve_next_address())? {
        found.push(match address {
            IpAddress::Ipv4(ip) => <[u8; 4]>::from(ip).into(),
            IpAddress::Ipv6(ip) => <[u16; 8]>::from(ip).into(),
        });
    }
    assert!(matches!(stream.resolve_next_address(), Ok(None)));
    Ok(found)
}

pub fn look_up(name: &str) -> Result<Vec<IpAddr>, ErrorCode> {
    all(&resolve_addresses(&instance_network(), name)?)
}

pub fn localhost() {
    let found = look_up("localhost").expect("there are addresses");
    let own = ["127.0.0.1", "::1"].map(|ip| ip.parse().expect("an address"));
    assert!(!found.is_empty());
    assert!(found.iter().all(|one| own.contains(one)), "{found:?}");
    literals();
    for bad in [
        "",
        "a b",
        "a..b",
        "127.0.0.1:80",
        "[::1]",
        "a\0b",
        &"a".repeat(64),
    ] {
        let result = look_up(bad);
        assert!(
            matches!(result, Err(ErrorCode::InvalidArgument)),
            "{bad:?} {result:?}"
        );
    }
    assert!(matches!(
        look_up("b\u{fc}cher.invalid"),
        Err(ErrorCode::NotSupported)
    ));
    assert!(look_up("no-such-host.invalid").is_err());
}

pub fn literals() {
    let own = IpAddr::from([127, 0, 0, 1]);
    assert_eq!(look_up("127.0.0.1").expect("an address"), [own]);
    assert_eq!(look_up("::ffff:127.0.0.1").expect("an address"), [own]);
    let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1u16]);
    assert_eq!(look_up("2001:db8::1").expect("an address"), [v6]);
}

/// Lookups that nobody waits for, until there are too many.
pub fn many() {
    let network = instance_network();
    let lookups: Vec<_> = (0..4)
        .map(|_| resolve_addresses(&network, "localhost"))
        .collect();
    for lookup in lookups {
        assert!(
            !all(&lookup.expect("it begins"))
                .expect("it is known")
                .is_empty()
        );
    }
    for _ in 0..1_000 {
        match resolve_addresses(&network, "localhost") {
            Ok(dropped) => drop(dropped),
            Err(code) => {
                assert_eq!(code, ErrorCode::TemporaryResolverFailure);
                say("too many");
                return;
            }
        }
    }
}
