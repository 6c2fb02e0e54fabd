//! A guest that is dropped leaves no socket behind.

use crate::sockets::guest::{Guest, line};
use pirn_component::Limits;
use pirn_wasi2::{Access, Network};
use std::path::Path;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::task::yield_now;

/// Number of open descriptors but those of `/proc`, which other threads of the process open now and
/// then.
fn descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("Linux");
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|link| !link.starts_with(Path::new("/proc")))
        .count()
}

/// Waits until the process has this number of descriptors. A task of the runtime closes a socket
/// some time after its guest was dropped.
async fn descriptors_are(number: usize) {
    while descriptors() != number {
        yield_now().await;
    }
}

#[test]
fn a_dropped_guest_leaves_no_socket() {
    pirn_testing::process::alone(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.expect("threads").block_on(guests_are_dropped());
    });
}

async fn guests_are_dropped() {
    let network = Network::none()
        .allow_loopback(Access::TcpConnect, ..)
        .allow_loopback(Access::TcpListen, ..);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("it binds");
    let address = listener.local_addr().expect("it is bound").to_string();
    // The first guest starts what the process keeps, and closes all else before its end.
    let none = Guest::new(Network::none(), &["denied"]);
    none.start().end().await;
    let before = descriptors();
    for _ in 0..2 {
        // It waits with bytes that the peer does not read.
        let guest = Guest::new(network.clone(), &["stuck", &address]).start();
        let (mut peer, _) = listener.accept().await.expect("a connection");
        assert_eq!(guest.line().await, "full");
        guest.kill().await;
        let mut bytes = vec![];
        // It ends: nobody holds the other end.
        let _ = peer.read_to_end(&mut bytes).await;
        assert!(bytes.len() > 1 << 16, "{}", bytes.len());
        drop(peer);
        descriptors_are(before).await;
    }
    // Another thread, outside the runtime, drops the next one.
    let mut guest = Guest::new(network, &["stuck", &address]);
    let accepted = {
        let called = guest
            .instance
            .call_typed_async(Limits::default(), &guest.run, ());
        let full = async {
            let accepted = listener.accept().await;
            assert_eq!(line(&guest.out, || true).await, "full");
            accepted.expect("a connection")
        };
        tokio::select! {
            _ = called => panic!("the guest ends"),
            accepted = full => accepted,
        }
    };
    let dropped = std::thread::spawn(move || drop(guest)).join();
    dropped.expect("no panic");
    let _ = accepted.0.into_std().map(drop);
    descriptors_are(before).await;
}
