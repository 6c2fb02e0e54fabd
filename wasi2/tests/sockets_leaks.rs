//! A guest that is dropped leaves no socket behind.

use crate::sockets::guest::Guest;
use pirn_component::Limits;
use pirn_wasi2::{Access, Network};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::sleep;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux").count()
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
    let mut counts = vec![];
    for _ in 0..4 {
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
        sleep(Duration::from_millis(50)).await;
        counts.push(descriptors());
    }
    // Another thread, outside the runtime, drops the next one.
    let mut guest = Guest::new(network, &["stuck", &address]);
    let accepted = {
        let called = guest
            .instance
            .call_typed_async(Limits::default(), &guest.run, ());
        let full = async {
            let accepted = listener.accept().await;
            sleep(Duration::from_secs(2)).await;
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
    sleep(Duration::from_millis(50)).await;
    counts.push(descriptors());
    // The first one starts what the process keeps.
    assert_eq!(counts[1..], [counts[1]; 4]);
}
