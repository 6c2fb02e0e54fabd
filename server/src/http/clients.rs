//! [`Clients`]: limits the connections of each client, so that one client cannot take all
//! connections.

use super::buffered::Buffered;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// The network part of an IPv6 address. A client can choose the remaining bits.
const NETWORK: u128 = !0 << 64;

/// The clients with open connections.
#[derive(Debug)]
pub(crate) struct Clients {
    connections_max: usize,
    /// The clients that have at least one connection.
    open: Mutex<HashMap<IpAddr, Client>>,
}

/// The connections and the buffered bytes of a client.
#[derive(Debug, Default)]
struct Client {
    connections: usize,
    /// Bytes of the bodies of its requests.
    buffered: Buffered,
}

/// Counts a connection until this value is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    clients: Arc<Clients>,
    client: IpAddr,
    /// Bytes of the bodies that come by all connections of the client.
    pub(crate) buffered: Buffered,
}

impl Clients {
    pub(crate) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            open: Mutex::default(),
        })
    }

    /// Counts a connection of the client at this address. Returns `None` if the client has reached
    /// its limit.
    pub(crate) fn count(self: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let address = client(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let client = open.entry(address).or_default();
        if client.connections >= self.connections_max {
            return None;
        }
        client.connections += 1;
        Some(Counted {
            clients: Arc::clone(self),
            client: address,
            buffered: client.buffered.clone(),
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let open = &self.clients.open;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut client) = open.entry(self.client) {
            client.get_mut().connections -= 1;
            if client.get().connections == 0 {
                client.remove();
            }
        }
    }
}

/// The address that identifies a client.
pub(crate) fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_so_many_connections_and_no_more() {
        let clients = Clients::new(2);
        let count = |address: &str| clients.count(address.parse().unwrap());
        let first = count("10.0.0.1").expect("one");
        let second = count("::ffff:10.0.0.1").expect("two");
        assert!(count("10.0.0.1").is_none(), "three");
        let other = count("10.0.0.2").expect("it is another client");
        drop(first);
        let third = count("10.0.0.1").expect("two again");
        assert!(count("10.0.0.1").is_none());
        drop((second, third, other));
        assert!(clients.open.lock().unwrap().is_empty(), "nothing is kept");
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let clients = Clients::new(1);
        let count = |address: &str| clients.count(address.parse().unwrap());
        let _one = count("2001:db8:0:1::1").expect("one");
        assert!(count("2001:db8:0:1:ffff::2").is_none());
        assert!(count("2001:db8:0:2::1").is_some());
    }
}
