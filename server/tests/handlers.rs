//! Component routes whose guests answer in unusual ways and at unusual times.

use crate::common;

use common::{HOUR, TestServer, component, limits, soon};
use pirn_server::access::Format;
use pirn_server::{AccessLog, Extras, Limits, Settings};
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 16 << 20,
        ..common::settings()
    }
}

async fn server(core: &str, limits: Limits) -> TestServer {
    TestServer::of(&[("/", component(core))], settings(), limits).await
}

/// A handler that gives a response with the body `abc`. Its text runs between the head of the
/// response, the body, its end, and the end of the guest.
fn answers(status: u16, announced: &str, before: &str, middle: &str, after: &str) -> String {
    let announce = match announced {
        "" => String::new(),
        text => format!(
            r#"(call $append (local.get $fields) (i32.const 100) (i32.const 14)
              (i32.const 130) (i32.const {}) (i32.const 0))"#,
            text.len()
        ),
    };
    format!(
        r#"(data (i32.const 100) "content-length")
        (data (i32.const 130) "{announced}")
        (data (i32.const 140) "abc")
        (func (export "wasi:http/incoming-handler@0.2.12#handle") (param i32) (param $out i32)
          (local $fields i32) (local $response i32) (local $body i32) (local $stream i32)
          (local.set $fields (call $fields))
          {announce}
          (local.set $response (call $response (local.get $fields)))
          (drop (call $status (local.get $response) (i32.const {status})))
          (call $body (local.get $response) (i32.const 0))
          (local.set $body (call $ok))
          (call $stream (local.get $body) (i32.const 0))
          (local.set $stream (call $ok))
          (call $sent (local.get $out) (local.get $response))
          {before}
          (call $write (local.get $stream) (i32.const 140) (i32.const 3) (i32.const 0))
          {middle}
          (call $drop-stream (local.get $stream))
          (call $finish (local.get $body) (i32.const 0) (i32.const 0) (i32.const 0))
          {after})"#
    )
}

/// Sleeps for 50 ms, so that most clients have the response before the guest's end. The outcome is
/// the same if one does not.
const NAP: &str = "(call $sleep (i64.const 50000000))";

/// All bytes that a server sends for these of a client, which then sends no more.
async fn exchange(server: &TestServer, request: &str) -> String {
    let mut client = server.begin(request.as_bytes()).await;
    let mut answer = String::new();
    let read = soon("the end", client.read_to_string(&mut answer)).await;
    read.expect("text");
    answer
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// The connection takes no more than the announced bytes, while the guest has not finished yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_with_an_announced_body_may_finish_late() {
    let core = answers(200, "3", "", NAP, NAP);
    let server = server(&core, limits()).await;
    for number in 1..=3 {
        let answer = exchange(&server, GET).await;
        assert!(answer.ends_with("\r\n\r\nabc"), "{answer}");
        server.counted("/", "ok", f64::from(number)).await;
    }
    assert_eq!(server.count("/", "gone").await, 0.0);
    server.stop().await;
}

/// A response to HEAD, and those with status 204 and 304, have no body, whatever the guest writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_without_a_body_is_whole() {
    let head = "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for (status, request, length) in [(200, head, true), (204, GET, false), (304, GET, true)] {
        for announced in ["3", ""] {
            let core = answers(status, announced, NAP, "", "");
            let server = server(&core, limits()).await;
            let answer = exchange(&server, request).await;
            assert!(answer.ends_with("\r\n\r\n"), "{answer}");
            let has_length = answer.contains("content-length: 3");
            assert_eq!(has_length, length && announced == "3", "{answer}");
            server.counted("/", "ok", 1.0).await;
            assert_eq!(server.count("/", "gone").await, 0.0);
            server.stop().await;
        }
    }
}
/// Whatever length a guest announces, a client never takes other bytes for the body, and never
/// finds two lengths.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_announced_length_disagrees_with_the_body() {
    let lengths = [
        "0",
        "2",
        "4",
        "+3",
        "-3",
        "3x",
        "3,3",
        "3, 3",
        "0x3",
        " 3",
        "9999999999",
    ];
    let mut cores = lengths
        .map(|announced| answers(200, announced, "", "", ""))
        .to_vec();
    // Two fields that disagree, and two that agree.
    for bytes in [1, 2] {
        let response = "(local.set $response (call $response";
        let again = format!(
            "(call $append (local.get $fields) (i32.const 100) (i32.const 14) (i32.const 130)
               (i32.const {bytes}) (i32.const 0)) {response}"
        );
        cores.push(answers(200, "33", "", "", "").replacen(response, &again, 1));
    }
    for core in cores {
        let server = server(&core, limits()).await;
        let answer = exchange(&server, GET).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let head = head.to_lowercase();
        let lengths: Vec<_> = head
            .lines()
            .filter_map(|line| line.strip_prefix("content-length: "))
            .collect();
        assert!(lengths.len() <= 1, "{answer}");
        if head.starts_with("http/1.1 200") && !head.contains("transfer-encoding") {
            let length: usize = lengths.concat().parse().expect("a number");
            assert!(body.len() <= length, "{answer}");
        }
        assert!(
            !head.contains("transfer-encoding") || lengths.is_empty(),
            "{answer}"
        );
        assert_eq!(server.count("/", "failed").await, 0.0);
        server.stop().await;
    }
}

/// What a guest passes by value is bounded before the host reads it.
#[tokio::test]
async fn a_guest_cannot_pass_long_lists() {
    let core = r#"(func (export "wasi:http/incoming-handler@0.2.12#handle") (param i32 i32)
      (drop (memory.grow (i32.const 300)))
      (memory.fill (i32.const 8192) (i32.const 97) (i32.const 17000000))
      (call $append (call $fields) (i32.const 8192) (i32.const 17000000)
        (i32.const 8192) (i32.const 1) (i32.const 0)))"#;
    let settings = Settings {
        memory_bytes_max: 32 << 20,
        ..settings()
    };
    let server = TestServer::of(&[("/", component(core))], settings, limits()).await;
    let answer = exchange(&server, GET).await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    server.counted("/", "trap", 1.0).await;
    server.stop().await;
}

/// The outcomes in an access log.
fn outcomes(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("text");
    let outcome = |line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        line["outcome"].as_str().expect("an outcome").to_owned()
    };
    text.lines().map(outcome).collect()
}

/// Guests that go on after their response are part of the server's grace, and end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_ends_guests_after_their_response() {
    let short = Duration::from_millis(50);
    for after in [
        "(call $sleep (i64.const 3600000000000))",
        "(loop $again (br $again))",
    ] {
        assert!(stopped_after_response(after, short).await, "it never ends");
    }
    // This guest ends by itself, but it must go on when its response has come.
    let mut nap_ns: u64 = 50_000_000;
    let nap = |ns| format!("(call $sleep (i64.const {ns}))");
    while !stopped_after_response(&nap(nap_ns), HOUR).await {
        nap_ns *= 2;
        assert!(nap_ns < 100_000_000_000, "no guest goes on");
    }
}

/// Stops a server after the response of a guest that does this after it. Returns whether the guest
/// went on when the response had come.
async fn stopped_after_response(after: &str, grace: Duration) -> bool {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("log");
    let limits = Limits { grace, ..limits() };
    let log = AccessLog::open(&path, Format::Json).expect("it opens");
    let extras = Extras {
        access: Some(log),
        ..Extras::default()
    };
    let core = answers(200, "", "", "", after);
    let routes = [("/", component(&core))];
    let mut server = TestServer::with(&routes, settings(), limits, extras).await;
    exchange(&server, GET).await;
    let region = server.engine.region().clone();
    let goes_on = region.slots_free() == 1;
    server.begin_stop();
    soon("the end", &mut server.served).await.expect("no panic");
    assert_eq!(region.slots_free(), 2);
    // On a busy machine, the server may end before the line is written.
    common::until("a line", || common::newlines(&path) >= 1).await;
    assert_eq!(outcomes(&path), ["ok"]);
    goes_on
}

/// Requests that arrive together run one after another, so they need one place and one turn.
#[tokio::test]
async fn requests_that_arrive_together_take_turns() {
    let limits = Limits {
        waiting_max: 1,
        route_requests: 1,
        ..limits()
    };
    // On a busy machine, a guest may need more than the default time slice. It would then hold its
    // permit while others run.
    let settings = Settings {
        timeslice: HOUR,
        ..settings()
    };
    let guest = component(&answers(200, "3", "", "", ""));
    let server = TestServer::of(&[("/", guest)], settings, limits).await;
    let mut clients = vec![];
    for _ in 0..8 {
        clients.push(server.open().await);
    }
    // The server has accepted all of them when it has answered this.
    assert_eq!(server.get("/").await.status, 200);
    for client in &clients {
        let sent = client.try_write(GET.as_bytes());
        assert_eq!(sent.expect("there is room"), GET.len());
    }
    for mut client in clients {
        let mut answer = String::new();
        let read = soon("the end", client.read_to_string(&mut answer)).await;
        read.expect("text");
        assert!(answer.ends_with("\r\n\r\nabc"), "{answer}");
    }
    server.counted("/", "ok", 9.0).await;
    server.stop().await;
}
