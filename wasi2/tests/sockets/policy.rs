//! What guests may not do.

use crate::sockets::guest::Guest;
use crate::sockets::loopback;
use pirn_wasi2::{Access, Network};
use tokio::net::{TcpListener, UdpSocket};

#[tokio::test]
async fn nothing_is_allowed_by_default() {
    for network in [Network::none(), Network::default()] {
        Guest::new(network, &["denied"]).start().end().await;
    }
}

#[tokio::test]
async fn one_use_allows_no_other() {
    let network = Network::none().allow_loopback(Access::TcpListen, ..);
    Guest::new(network, &["bound"]).start().end().await;
}

#[tokio::test]
async fn connections_are_allowed_by_address_and_port() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("it binds");
    let address = listener.local_addr().expect("it is bound");
    let only = "127.0.0.1/32".parse().expect("a network");
    let port = address.port();
    let network = Network::none().allow(Access::TcpConnect, only, port..=port);
    let guest = Guest::new(network, &["addresses", &address.to_string()]);
    guest.start().end().await;
}

#[tokio::test]
async fn binds_are_allowed_by_address_and_port() {
    let only = "127.0.0.1/32".parse().expect("a network");
    let network = Network::none().allow(Access::TcpListen, only, 40_000..41_000);
    Guest::new(network, &["binds"]).start().end().await;
}

#[tokio::test]
async fn each_datagram_is_allowed_by_address_and_port() {
    let peer = UdpSocket::bind("127.0.0.1:0").await.expect("it binds");
    let address = peer.local_addr().expect("it is bound");
    let only = "127.0.0.1/32".parse().expect("a network");
    let all = "0.0.0.0/0".parse().expect("a network");
    let port = address.port();
    let network = Network::none()
        .allow_loopback(Access::UdpBind, ..)
        .allow(Access::UdpSend, only, port..=port)
        .allow(Access::UdpSend, all, 1..=1);
    let guest = Guest::new(network, &["datagrams", &address.to_string()]);
    guest.start().end().await;
    let mut buffer = [0; 9];
    for _ in 0..2 {
        assert_eq!(peer.recv(&mut buffer).await.expect("it is open"), 1);
    }
    assert!(
        peer.try_recv(&mut buffer).is_err(),
        "a denied datagram came"
    );
}

#[tokio::test]
async fn sockets_are_limited() {
    for max in [3, 10] {
        let network = loopback().sockets_max(max);
        let guest = Guest::new(network, &["limit", &max.to_string()]);
        guest.start().end().await;
    }
    // The default.
    let guest = Guest::new(loopback(), &["limit", "64"]);
    guest.start().end().await;
}
