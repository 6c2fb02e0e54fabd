//! Connections.

use crate::sockets::guest::Guest;
use crate::sockets::loopback;
use pirn_wasi2::{Access, Network};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

const BOTH: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

async fn listener(address: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind(address).await.expect("it binds");
    let address = listener.local_addr().expect("it is bound").to_string();
    (listener, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_sends_back_what_it_receives() {
    for address in BOTH {
        let guest = Guest::new(loopback(), &["serve", address]).start();
        let peer = TcpStream::connect(guest.line().await).await;
        let (mut input, mut output) = peer.expect("it listens").into_split();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
        let sent = bytes.clone();
        let sends = tokio::spawn(async move { output.write_all(&sent).await });
        let mut received = vec![];
        input.read_to_end(&mut received).await.expect("it is open");
        sends.await.expect("no panic").expect("it is open");
        assert!(received == bytes, "{} bytes came back", received.len());
        guest.end().await;
    }
}

#[tokio::test]
async fn a_client_sends_and_receives_and_closes_one_half() {
    for address in BOTH {
        let (listener, address) = listener(address).await;
        let guest = Guest::new(loopback(), &["echo", &address]).start();
        let (mut peer, _) = listener.accept().await.expect("a connection");
        let (mut input, mut output) = peer.split();
        copy(&mut input, &mut output).await.expect("it is open");
        drop(peer);
        guest.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_read_stops_the_guest() {
    let (listener, address) = listener(BOTH[0]).await;
    let guest = Guest::new(loopback(), &["full", &address]).start();
    let (mut peer, _) = listener.accept().await.expect("a connection");
    let written: usize = guest.line().await.parse().expect("a number");
    let mut received = vec![];
    peer.read_to_end(&mut received).await.expect("it is open");
    assert_eq!(received.len(), written + 3);
    assert_eq!(received.split_off(written), b"end");
    // The guest writes as many bytes each time, in order.
    let byte = |at: usize| (at ^ (at >> 8)) as u8;
    let is_in_order = (0..)
        .zip(&received)
        .all(|(at, found)| *found == byte(at & 0xffff));
    assert!(is_in_order);
    guest.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_arrives_after_its_stream_is_dropped() {
    let (listener, address) = listener(BOTH[1]).await;
    let guest = Guest::new(loopback(), &["dropped-rest", &address]).start();
    let (mut peer, _) = listener.accept().await.expect("a connection");
    let written: usize = guest.line().await.parse().expect("a number");
    let mut received = vec![];
    peer.read_to_end(&mut received).await.expect("it is open");
    assert_eq!(received.len(), written);
    peer.write_all(b"all").await.expect("it is open");
    drop(peer);
    guest.end().await;
}

#[tokio::test]
async fn socket_and_streams_are_dropped_in_any_order() {
    let (listener, address) = listener(BOTH[0]).await;
    let guest = Guest::new(loopback(), &["drops", &address]).start();
    for _ in 0..6 {
        let (mut peer, _) = listener.accept().await.expect("a connection");
        let mut received = vec![];
        peer.read_to_end(&mut received).await.expect("it is closed");
        assert_eq!(received, b"hello");
        // The guest may be gone.
        let _ = peer.write_all(b"bye").await;
    }
    guest.end().await;
}

#[tokio::test]
async fn a_connection_is_refused() {
    let (listener, address) = listener(BOTH[0]).await;
    drop(listener);
    Guest::new(loopback(), &["refused", &address])
        .start()
        .end()
        .await;
}

#[tokio::test]
async fn a_connection_is_reset() {
    let (listener, address) = listener(BOTH[0]).await;
    let guest = Guest::new(loopback(), &["reset", &address]).start();
    let (peer, _) = listener.accept().await.expect("a connection");
    guest.line().await;
    let linger = socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO));
    linger.expect("it is a socket");
    drop(peer);
    guest.end().await;
}

/// A full backlog answers no more connections.
#[tokio::test]
async fn pollables_wait_for_sockets_and_clocks() {
    let silent = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let silent = silent.expect("a socket");
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    silent.bind(&any.into()).expect("it binds");
    silent.listen(0).expect("it listens");
    let at = silent.local_addr().expect("it is bound").as_socket();
    let at = at.expect("it is an IP address");
    let _first = TcpStream::connect(at).await.expect("one is accepted");
    let guest = Guest::new(loopback(), &["timeouts", &at.to_string()]);
    guest.start().end().await;
}

#[tokio::test]
async fn shutdown_closes_streams() {
    let (listener, address) = listener(BOTH[0]).await;
    let guest = Guest::new(loopback(), &["shut", &address]).start();
    let (mut peer, _) = listener.accept().await.expect("a connection");
    let mut received = vec![];
    peer.read_to_end(&mut received).await.expect("it is closed");
    assert_eq!(received, b"still open");
    guest.end().await;
}

#[tokio::test]
async fn states_and_options_are_those_of_the_interface() {
    // An address that the host does not have is no matter of the policy here.
    let foreign = "192.0.2.0/24".parse().expect("a network");
    let network = loopback().allow(Access::TcpListen, foreign, ..);
    Guest::new(network, &["states"]).start().end().await;
    Guest::new(loopback(), &["options"]).start().end().await;
}

#[test]
fn without_a_runtime_the_guest_ends() {
    // The guest does not wait before it listens.
    let network = Network::none().allow_loopback(Access::TcpListen, ..);
    let mut guest = Guest::new(network, &["serve", "127.0.0.1:0"]);
    let ended = guest.instance.call_typed(&guest.run, ());
    let message = ended.expect_err("it cannot listen").to_string();
    assert!(message.contains("runtime"), "{message}");
    drop(guest);
}
