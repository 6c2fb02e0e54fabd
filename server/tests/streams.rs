//! CGI guests whose request still arrives, or whose response has begun, while they run. The order
//! of events is forced: a guest waits for the client, or for the door of the test.

use crate::common;

use common::{HOUR, TestServer, prints, rest, soon, until};
use pirn_server::{Limits, Settings};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of a body of which a guest gets the start before the rest has arrived.
const LARGE: usize = 300_000;

/// Bytes of such a body that the client sends first.
const START: usize = 200_000;

fn limits() -> Limits {
    Limits {
        body_ahead: 64 << 10,
        ..common::limits()
    }
}

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

/// A guest that prints a header and `first`, waits for the door, and prints `second`.
const TWICE: &str = r#"(module
  (import "test" "wait" (func $wait))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\12\00\00\00\22\00\00\00\06\00\00\00")
  (data (i32.const 16) "Status: 200\n\nfirstsecond")
  (func (export "_start")
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))
    (call $wait)
    (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 64)))))"#;

/// As [`TWICE`], and then traps.
const TRAPS: &str = r#"(module
  (import "test" "wait" (func $wait))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\12\00\00\00")
  (data (i32.const 16) "Status: 200\n\nfirst")
  (func (export "_start")
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))
    (call $wait)
    unreachable))"#;

/// A guest that prints each piece of its input as soon as the guest gets it. It exits with the
/// error number of a read that fails.
const ECHO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\20\00\00\00\0d\00\00\00\00\00\01\00\00\00\01\00")
  (data (i32.const 32) "Status: 200\n\n")
  (func (export "_start") (local $errno i32)
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))
    (loop $more
      (i32.store (i32.const 12) (i32.const 65536))
      (if (local.tee $errno
            (call $read (i32.const 0) (i32.const 8) (i32.const 1) (i32.const 12)))
        (then (call $exit (local.get $errno))))
      (if (i32.load (i32.const 12)) (then
        (drop (call $write (i32.const 1) (i32.const 8) (i32.const 1) (i32.const 64)))
        (br $more))))))"#;

async fn send(client: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    client.write_all(bytes.as_ref()).await.expect("it is open");
}

fn post(path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    )
}

/// Reads until the text contains `wanted`.
async fn read_until(client: &mut TcpStream, wanted: &str) -> String {
    let mut text = vec![];
    let read = async {
        while !String::from_utf8_lossy(&text).contains(wanted) {
            let count = client.read_buf(&mut text).await.expect("it is open");
            assert_ne!(count, 0, "{}", String::from_utf8_lossy(&text));
        }
    };
    soon(wanted, read).await;
    String::from_utf8(text).expect("text")
}

#[tokio::test]
async fn the_first_bytes_are_sent_before_the_guest_ends() {
    let server = TestServer::new(&[("/", TWICE)], settings(), limits()).await;
    let get = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut client = server.begin(get).await;
    let begun = read_until(&mut client, "first").await;
    assert!(begun.starts_with("HTTP/1.1 200 OK\r\n"), "{begun}");
    assert!(
        begun.contains("\r\ntransfer-encoding: chunked\r\n"),
        "{begun}"
    );
    assert_eq!(server.door.came(), 1);
    assert_eq!(server.count("/", "ok").await, 0.0);
    server.door.open();
    let end = rest(&mut client).await;
    assert!(
        end.contains("second") && end.ends_with("0\r\n\r\n"),
        "{end}"
    );
    server.counted("/", "ok", 1.0).await;
    server.rests().await;
    server.stop().await;
}

/// The client sees that the response is incomplete, and the operator why.
#[tokio::test]
async fn a_guest_that_fails_after_its_head_ends_the_connection() {
    let server = TestServer::new(&[("/", TRAPS)], settings(), limits()).await;
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut client = server.begin(get).await;
    read_until(&mut client, "first").await;
    server.door.open();
    let end = rest(&mut client).await;
    assert!(!end.contains("0\r\n\r\n"), "{end}");
    server.counted("/", "trap", 1.0).await;
    server.rests().await;
    server.stop().await;
}

/// A client that leaves ends its guest.
#[tokio::test]
async fn a_client_that_leaves_in_the_middle_ends_its_guest() {
    let server = TestServer::new(&[("/", TWICE)], settings(), limits()).await;
    let mut client = server.begin(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    read_until(&mut client, "first").await;
    drop(client);
    server.counted("/", "gone", 1.0).await;
    server.rests().await;
    server.stop().await;
}

#[tokio::test]
async fn the_body_of_a_request_streams_to_the_guest() {
    let server = TestServer::new(&[("/", ECHO)], settings(), limits()).await;
    let mut client = server.begin(post("/", LARGE).as_bytes()).await;
    send(&mut client, vec![b'a'; START]).await;
    // The guest prints what has arrived, and waits for the rest.
    let begun = read_until(&mut client, "aaaa").await;
    assert!(begun.starts_with("HTTP/1.1 200 OK\r\n"), "{begun}");
    assert_eq!(server.count("/", "ok").await, 0.0);
    assert_eq!(server.metric("pirn_slots_used").await, 1.0);
    send(&mut client, vec![b'b'; LARGE - START]).await;
    let end = rest(&mut client).await;
    let count = |text: &str, byte| text.bytes().filter(|found| *found == byte).count();
    let digits = |text: &str| text.matches("a\r\n").count() + text.matches("b\r\n").count();
    let bytes = count(&begun, b'a') + count(&end, b'a') + count(&end, b'b');
    // Sizes of chunks have such letters, too.
    assert!(bytes >= LARGE && bytes <= LARGE + 4 * (1 + digits(&end) + digits(&begun)) + 200);
    server.counted("/", "ok", 1.0).await;
    assert_eq!(server.metric("pirn_buffered_bytes").await, 0.0);
    server.stop().await;
}

/// The client is the cause: the guest fails because it gets no input.
#[tokio::test]
async fn a_body_that_ends_early_is_the_clients_fault() {
    let server = TestServer::new(&[("/", QUIET)], settings(), limits()).await;
    let mut client = server.begin(post("/", LARGE).as_bytes()).await;
    send(&mut client, vec![b'a'; START]).await;
    until("the guest runs", || {
        server.engine.region().slots_free() == 1
    })
    .await;
    client.shutdown().await.expect("it is open");
    server.counted("/", "bad", 1.0).await;
    server.rests().await;
    server.stop().await;
}

/// A guest that reads all of its input, and then prints. It exits with the error number of a read
/// that fails.
const QUIET: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\20\00\00\00\11\00\00\00\00\00\01\00\00\00\01\00")
  (data (i32.const 32) "Status: 200\n\nread")
  (func (export "_start") (local $errno i32)
    (loop $more
      (if (local.tee $errno
            (call $read (i32.const 0) (i32.const 8) (i32.const 1) (i32.const 64)))
        (then (call $exit (local.get $errno))))
      (br_if $more (i32.load (i32.const 64))))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 64)))))"#;

/// The answer to a client that sends the start of a body, and no more.
async fn stalled(server: &TestServer) -> String {
    let mut client = server.begin(post("/", LARGE).as_bytes()).await;
    send(&mut client, vec![b'a'; START]).await;
    rest(&mut client).await
}

/// The time for a body includes the waits of the guest for the rest. The answer is the same on a
/// machine that is too busy to receive the start in time.
#[tokio::test]
async fn a_guest_waits_only_so_long_for_the_rest_of_a_body() {
    let limits = Limits {
        body_timeout: Duration::from_millis(200),
        header_timeout: HOUR,
        ..limits()
    };
    let server = TestServer::new(&[("/", QUIET)], settings(), limits).await;
    let answered = stalled(&server).await;
    assert!(answered.starts_with("HTTP/1.1 408 "), "{answered}");
    server.counted("/", "slow", 1.0).await;
    server.rests().await;
    server.stop().await;
}

/// A guest that waits for its client reaches its deadline: the client is the cause. On a busy
/// machine the deadline may come before the guest waits, so it is doubled until the guest waits.
#[tokio::test]
async fn a_deadline_while_the_client_is_awaited_is_the_clients_fault() {
    let mut deadline = Duration::from_millis(50);
    loop {
        let settings = Settings {
            deadline,
            ..settings()
        };
        let server = TestServer::new(&[("/", QUIET)], settings, limits()).await;
        let answered = stalled(&server).await;
        if answered.starts_with("HTTP/1.1 408 ") {
            server.counted("/", "slow", 1.0).await;
            server.rests().await;
            return server.stop().await;
        }
        assert!(answered.starts_with("HTTP/1.1 504 "), "{answered}");
        server.stop().await;
        deadline *= 2;
    }
}

/// A guest whose head was sent is still not the cause of its client's failure.
#[tokio::test]
async fn a_client_that_stops_after_the_head_is_the_cause() {
    let server = TestServer::new(&[("/", ECHO)], settings(), limits()).await;
    let mut client = server.begin(post("/", LARGE).as_bytes()).await;
    send(&mut client, vec![b'a'; START]).await;
    read_until(&mut client, "aaaa").await;
    client.shutdown().await.expect("it is open");
    drop(rest(&mut client).await);
    server.counted("/", "bad", 1.0).await;
    server.rests().await;
    server.stop().await;
}

/// The guest does not read the body, and the connection serves the next request.
#[tokio::test]
async fn the_rest_of_a_body_that_no_guest_reads_is_discarded() {
    let hello = prints("Status: 200\n\nhello");
    let server = TestServer::new(&[("/", &hello)], settings(), limits()).await;
    let requests = [post("/", LARGE), "x".repeat(LARGE), post("/", 0)].concat();
    let requests = requests.replacen("Connection: close\r\n", "", 1);
    let mut client = server.begin(requests.as_bytes()).await;
    let answered = rest(&mut client).await;
    assert_eq!(answered.matches("HTTP/1.1 200 OK").count(), 2, "{answered}");
    server.stop().await;
}

/// A client could otherwise have many guests at the same time on one connection, and an old client
/// could not see that an answer is incomplete.
#[tokio::test]
async fn some_answers_are_sent_when_the_guest_has_ended() {
    let bare = TRAPS.replace("Status: 200", "Status: 204");
    let guests = [("/", TRAPS), ("/bare", bare.as_str())];
    let server = TestServer::new(&guests, settings(), limits()).await;
    for request in [
        "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /bare HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
    ] {
        let came = server.door.came();
        let mut client = server.begin(request.as_bytes()).await;
        until("the guest waits", || server.door.came() == came + 1).await;
        server.door.open();
        let answered = rest(&mut client).await;
        assert!(answered.contains(" 502 "), "{request} {answered}");
    }
    server.counted("/", "trap", 2.0).await;
    server.stop().await;
}

/// A server can stream every body with a length.
#[tokio::test]
async fn a_guest_starts_before_its_body_if_the_server_says_so() {
    let limits = Limits {
        body_ahead: 0,
        ..limits()
    };
    let server = TestServer::new(&[("/", ECHO)], settings(), limits).await;
    let mut client = server.begin(post("/", 6).as_bytes()).await;
    until("the guest runs", || {
        server.engine.region().slots_free() == 1
    })
    .await;
    for piece in ["one", "two"] {
        send(&mut client, piece).await;
        read_until(&mut client, piece).await;
    }
    rest(&mut client).await;
    server.counted("/", "ok", 1.0).await;
    server.stop().await;
}
