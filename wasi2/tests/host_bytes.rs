//! What the host keeps for a guest counts by capacity, up to one limit, and goes when it is used.

use crate::common;

use bytes::Bytes;
use common::http::{NoReply, Server};
use http::{HeaderValue, Request};
use http_body_util::Full;
use pirn_component::HostBytes;
use pirn_wasi2::http::begin;
use pirn_wasi2::{Input, Output, StreamFailure, Wasi};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const HANDLE: &str = r#"(export "wasi:http/incoming-handler@0.2.12#handle")
  (param i32) (param $out i32)"#;

fn get() -> Request<Full<Bytes>> {
    Request::get("/").body(Full::default()).expect("a request")
}

/// Runs a guest that gives no response and returns. Returns its account.
async fn run(server: &Server) -> HostBytes {
    match server.reply(get()).await {
        Err(NoReply::Ended(None)) => server.account(),
        other => panic!("{other:?}"),
    }
}

/// Runs a guest to the limit of its account.
async fn refused(core: &str, bytes_max: usize) {
    let server = Server::with_host_bytes(core, bytes_max);
    match server.reply(get()).await {
        Err(NoReply::Ended(Some(error))) => {
            let error = error.to_string();
            assert!(
                error.contains(&format!("at most {bytes_max} for it")),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
    let account = server.account();
    assert!(account.peak() <= bytes_max);
    assert_eq!(account.held(), 0, "the guest has ended");
}

#[tokio::test]
async fn random_bytes_take_no_memory_of_the_host() {
    // The guest allocates at 4096 and has 256 KiB.
    let core = format!(
        r#"(func {HANDLE}
          (call $random (i64.const 200000) (i32.const 0))
          (if (i32.ne (i32.load (i32.const 4)) (i32.const 200000)) (then unreachable))
          (if (i64.eqz (i64.or (i64.load (i32.const 4096)) (i64.load (i32.const 204088))))
            (then unreachable)))"#
    );
    let account = run(&Server::with_host_bytes(&core, 64 << 10)).await;
    assert!(account.peak() < 8 << 10, "{}", account.peak());
    let core = format!("(func {HANDLE} (call $random (i64.const 67108865) (i32.const 0)))");
    match Server::of_text(&core).reply(get()).await {
        Err(NoReply::Ended(Some(error))) => {
            assert!(error.to_string().contains("at most 67108864"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn resources_count_until_they_are_dropped() {
    refused(
        &format!("(func {HANDLE} (loop $again (drop (call $fields)) (br $again)))"),
        1 << 20,
    )
    .await;
    refused(
        &format!(
            "(func {HANDLE} (loop $again
              (drop (call $timer (i64.const 1000000000000))) (br $again)))"
        ),
        1 << 20,
    )
    .await;
    let core = format!(
        r#"(func {HANDLE} (local $left i32)
          (local.set $left (i32.const 5000))
          (loop $more
            (call $drop-fields (call $fields))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $more (local.get $left))))"#
    );
    let account = run(&Server::with_host_bytes(&core, 64 << 10)).await;
    assert!(account.peak() < 8 << 10, "{}", account.peak());
}

#[tokio::test]
async fn trailers_of_finished_bodies_count() {
    let core = format!(
        r#"(func {HANDLE} (local $fields i32) (local $left i32)
          (memory.fill (i32.const 8192) (i32.const 97) (i32.const 60000))
          (local.set $left (i32.const 10))
          (loop $more
            (local.set $fields (call $fields))
            (call $append (local.get $fields) (i32.const 8192) (i32.const 10)
              (i32.const 8192) (i32.const 60000) (i32.const 0))
            (call $body (call $response (call $fields)) (i32.const 0))
            (call $finish (call $ok) (i32.const 1) (local.get $fields) (i32.const 0))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $more (local.get $left))))"#
    );
    let account = run(&Server::of_text(&core)).await;
    assert!(
        account.peak() > 10 * (60_000 + (64 << 10)),
        "{}",
        account.peak()
    );
    refused(&core, 10 * (60_000 + (64 << 10))).await;
}

/// A large buffer that bytes are a part of. Counts those that are alive.
struct Buffer {
    bytes: Vec<u8>,
    alive: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Relaxed);
    }
}

/// One byte of a new buffer of 64 KiB.
fn byte(alive: &Arc<AtomicUsize>) -> Bytes {
    alive.fetch_add(1, Relaxed);
    let buffer = Buffer {
        bytes: vec![b'x'; 64 << 10],
        alive: Arc::clone(alive),
    };
    Bytes::from_owner(buffer).slice(7..8)
}

/// A source of single bytes, each in its own buffer.
struct Drip(Arc<AtomicUsize>);

impl Input for Drip {
    fn read(&mut self, _: usize) -> Result<Bytes, StreamFailure> {
        Ok(byte(&self.0))
    }
}

/// A sink that keeps what it gets, as it is.
struct Keeps(Arc<Mutex<Vec<Bytes>>>);

impl Output for Keeps {
    fn check_write(&mut self) -> Result<usize, StreamFailure> {
        Ok(1 << 20)
    }

    fn write(&mut self, bytes: Bytes) -> Result<(), StreamFailure> {
        self.0.lock().expect("it is whole").push(bytes);
        Ok(())
    }
}

#[tokio::test]
async fn spliced_bytes_do_not_keep_the_buffers_of_their_source() {
    let core = format!(
        r#"(func {HANDLE} (local $left i32) (local $from i32) (local $to i32)
          (local.set $from (call $stdin))
          (local.set $to (call $stdout))
          (local.set $left (i32.const 1000))
          (loop $more
            (call $splice (local.get $to) (local.get $from) (i64.const 65536) (i32.const 16))
            (if (i32.load8_u (i32.const 16)) (then unreachable))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $more (local.get $left))))"#
    );
    let (alive, kept) = (Arc::default(), Arc::default());
    let (input, output) = (Drip(Arc::clone(&alive)), Keeps(Arc::clone(&kept)));
    let set = |wasi: &mut Wasi| {
        wasi.set_stdin(input);
        wasi.set_stdout(output);
    };
    let reply = Server::of_text(&core).reply_with(get(), set).await;
    assert!(matches!(reply, Err(NoReply::Ended(None))), "{reply:?}");
    assert_eq!(kept.lock().expect("it is whole").len(), 1000);
    assert_eq!(alive.load(Relaxed), 0, "buffers of the source");
}

#[test]
fn received_fields_do_not_keep_the_buffers_of_the_connection() {
    let alive = Arc::default();
    let mut request = get();
    for name in ["a", "b", "c"] {
        let value = HeaderValue::from_maybe_shared(byte(&alive)).expect("a value");
        request.headers_mut().append(name, value);
    }
    assert_eq!(alive.load(Relaxed), 3);
    let mut wasi = Wasi::new(&Arc::default());
    let before = wasi.host_bytes().held();
    let begun = begin(&mut wasi, request).expect("it fits");
    assert_eq!(alive.load(Relaxed), 0, "buffers of the connection");
    // An entry of a map has some 128 bytes.
    assert!(wasi.host_bytes().held() - before > 3 * 128);
    drop(begun);
    let account = wasi.host_bytes().clone();
    drop(wasi);
    assert_eq!(account.held(), 0);
}
