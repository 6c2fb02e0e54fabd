//! Datagrams, and names.

use crate::sockets::guest::Guest;
use crate::sockets::loopback;
use pirn_wasi2::Access;
use tokio::net::UdpSocket;

#[tokio::test]
async fn datagrams_go_and_come_with_and_without_a_connection() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let peer = UdpSocket::bind(address).await.expect("it binds");
        let address = peer.local_addr().expect("it is bound").to_string();
        let echo = tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            loop {
                let (bytes, from) = peer.recv_from(&mut buffer).await.expect("it is open");
                let sent = peer.send_to(&buffer[..bytes], from).await;
                sent.expect("it is open");
            }
        });
        let guest = Guest::new(loopback(), &["udp", &address]);
        guest.start().end().await;
        echo.abort();
    }
}

#[tokio::test]
async fn a_connected_socket_learns_that_nobody_is_there() {
    let peer = UdpSocket::bind("127.0.0.1:0").await.expect("it binds");
    let address = peer.local_addr().expect("it is bound").to_string();
    drop(peer);
    let guest = Guest::new(loopback(), &["udp-refused", &address]);
    guest.start().end().await;
}

#[tokio::test]
async fn a_connected_socket_receives_from_its_peer_only() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let guest = Guest::new(loopback(), &["udp-peers", address]);
        guest.start().end().await;
    }
}

#[tokio::test]
async fn datagrams_of_a_call_are_limited() {
    let guest = Guest::new(loopback(), &["udp-limits", "127.0.0.1:0"]);
    guest.start().end().await;
}

#[tokio::test]
async fn states_and_options_are_those_of_the_interface() {
    let foreign = "192.0.2.0/24".parse().expect("a network");
    let network = loopback().allow(Access::UdpBind, foreign, ..);
    Guest::new(network, &["udp-states"]).start().end().await;
}

#[tokio::test]
async fn a_send_that_was_not_permitted_ends_the_guest() {
    let ended = Guest::new(loopback(), &["unpermitted-send"]).run().await;
    let message = ended.expect_err("it is an error").to_string();
    assert!(message.contains("check-send"), "{message}");
}

#[tokio::test]
async fn names_are_looked_up() {
    Guest::new(loopback(), &["names"]).start().end().await;
}

#[tokio::test]
async fn lookups_are_limited_when_nobody_waits_for_them() {
    // How long the system takes for one decides whether this guest reaches the limit.
    Guest::new(loopback(), &["many-names"]).start().end().await;
}
