//! Resources that a hostile client or guest can consume: each limit, at it and one past it.

use crate::common;

use common::{Answer, HOUR, TestServer, WAITS, limits, module, prints, rest, soon, status, until};
use hyper::Request;
use hyper::body::Body as _;
use pirn_server::cgi::Output;
use pirn_server::program::runtime;
use pirn_server::{Begun, End, Engine, Exchange, Limits, Pirn, Server, Settings, Slots};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::sleep;

fn settings() -> Settings {
    Settings {
        slots: 4,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

/// Sends raw text, and reads until the server closes the connection.
async fn raw(server: &TestServer, text: &str) -> String {
    let mut stream = server.open().await;
    // If the client sends more than the server reads, the connection may be reset after the
    // response.
    let _ = stream.write_all(text.as_bytes()).await;
    rest(&mut stream).await
}

/// Bytes of the body that [`MUCH`] prints.
const MUCH_BYTES: usize = 16 << 20;

/// A guest that prints more than socket buffers hold.
const MUCH: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\10\00\00\00\11\00\00\00")
  (data (i32.const 16) "Content-Type: a\n\n")
  (func (export "_start") (local $left i32)
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
    (i32.store (i32.const 0) (i32.const 65536)) (i32.store (i32.const 4) (i32.const 65536))
    (local.set $left (i32.const 256))
    (loop $again
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;

fn much() -> Settings {
    Settings {
        output_max: MUCH_BYTES + 100,
        ..settings()
    }
}

/// A client with a small receive buffer.
async fn small(server: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("the system has a socket");
    socket.set_recv_buffer_size(4096).expect("it is a size");
    socket.connect(server.address).await.expect("it listens")
}

/// A slow reader may hold a response only until the write timeout.
#[tokio::test]
async fn a_client_that_takes_its_answer_slowly_is_given_up() {
    let server = TestServer::new(&[("/much", MUCH)], much(), limits()).await;
    let quick = server.get("/much").await;
    assert_eq!((quick.status, quick.body.len()), (200, MUCH_BYTES));
    server.stop().await;
    let limits = Limits {
        write_timeout: Duration::from_millis(300),
        ..limits()
    };
    let server = TestServer::new(&[("/much", MUCH)], much(), limits).await;
    let mut slow = small(&server).await;
    let request = b"GET /much HTTP/1.1\r\nHost: a\r\n\r\n";
    slow.write_all(request).await.expect("it listens");
    let mut taken = slow.read(&mut [0; 1024]).await.expect("an answer");
    // The client keeps reading a little.
    while server.metric("pirn_connections").await > 1.0 {
        taken += slow.read(&mut [0; 1024]).await.unwrap_or(0);
        // Slows the client down: the whole body would take 16 seconds or more.
        sleep(Duration::from_millis(1)).await;
        assert!(taken < MUCH_BYTES, "it had time for all of its answer");
    }
    // Bytes in the system's buffers still arrive.
    let mut last = vec![];
    let _ = soon("the end", slow.read_to_end(&mut last)).await;
    assert!(taken + last.len() < MUCH_BYTES);
    server.stop().await;
}

/// Pipelined requests start one by one, so that a client cannot make the server buffer many
/// responses.
#[tokio::test]
async fn a_request_is_begun_when_the_answer_before_it_is_taken() {
    let server = TestServer::new(&[("/much", MUCH)], much(), limits()).await;
    let mut client = small(&server).await;
    let requests = "GET /much HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    client
        .write_all(requests.as_bytes())
        .await
        .expect("it listens");
    const GUESTS: &str = "pirn_guest_seconds_count{route=\"/much\"}";
    while server.metric(GUESTS).await < 1.0 {}
    // Other requests are served, but only one of the hundred pipelined ones.
    for _ in 0..20 {
        server.metric("pirn_slots").await;
    }
    assert_eq!(server.metric(GUESTS).await, 1.0);
    assert_eq!(server.engine.slots().free, 4);
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn headers_up_to_their_limits_are_taken() {
    const BYTES_MAX: usize = 32 << 10;
    let hello = prints("Status: 200\n\nhello\n");
    let server = TestServer::new(&[("/", &hello)], settings(), limits()).await;
    let end = "\r\nHost: a\r\nConnection: close\r\n\r\n";
    for (bytes, expected) in [
        (BYTES_MAX - 1, "200"),
        (BYTES_MAX, "200"),
        (BYTES_MAX + 1, "431"),
    ] {
        for start in ["GET / HTTP/1.1\r\nX: ", "GET /?"] {
            let line = if start.ends_with('?') {
                " HTTP/1.1"
            } else {
                ""
            };
            let filled = bytes - start.len() - line.len() - end.len();
            let request = format!("{start}{}{line}{end}", "x".repeat(filled));
            assert_eq!(request.len(), bytes);
            assert_eq!(status(&raw(&server, &request).await), expected, "{bytes}");
        }
    }
    for (fields, expected) in [(99, "200"), (100, "200"), (101, "431")] {
        let all: String = (2..fields).map(|n| format!("X-{n}: y\r\n")).collect();
        let request = format!("GET / HTTP/1.1\r\n{all}Host: a\r\nConnection: close\r\n\r\n");
        assert_eq!(status(&raw(&server, &request).await), expected, "{fields}");
    }
    server.stop().await;
}

#[tokio::test]
async fn connections_that_idle_or_drip_are_closed() {
    let limits = Limits {
        header_timeout: Duration::from_millis(200),
        ..limits()
    };
    let hello = prints("Status: 200\n\nhello\n");
    let server = TestServer::new(&[("/", &hello)], settings(), limits).await;
    // The timeout applies after a response as before the first request. On a busy machine it may
    // pass before the server reads the request. In that case, send the request again.
    let answered = async {
        loop {
            let mut idle = server.open().await;
            let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
            idle.write_all(request).await.expect("it listens");
            let answer = rest(&mut idle).await;
            if !answer.is_empty() && !answer.starts_with("HTTP/1.1 408 ") {
                break answer;
            }
        }
    };
    let answer = soon("an answer before the header timeout", answered).await;
    assert!(answer.ends_with("hello\n"), "{answer}");
    // The timeout applies to the whole header, not to its parts.
    let mut drip = server.open().await;
    drip.write_all(b"GET / HTTP/1.1\r\nX: ")
        .await
        .expect("it listens");
    let closed = async {
        while drip.write_all(b"x").await.is_ok() {
            // Slows the client down: the largest header would take minutes.
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the end of who drips", closed).await;
    // Line feeds before a request are not part of it.
    let mut feeds = server.open().await;
    let closed = async {
        while feeds.write_all(b"\r\n").await.is_ok() {
            // Without the pause, the loop would fill the buffers of the connection.
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon("the end of who feeds lines", closed).await;
    server.stop().await;
}

#[tokio::test]
async fn where_a_body_ends_is_not_ambiguous() {
    let server = TestServer::new(&[("/web", "web-rust.wasm")], settings(), limits()).await;
    let hidden = "GET /web/missing HTTP/1.1\r\nHost: a\r\n\r\n";
    for (fields, expected) in [
        ("Content-Length: 4\r\nContent-Length: 5\r\n", "400"),
        ("Content-Length: 4, 5\r\n", "400"),
        ("Content-Length: +4\r\n", "400"),
        ("Content-Length: -1\r\n", "400"),
        ("Content-Length: 99999999999999999999\r\n", "400"),
        ("Transfer-Encoding: chunked, gzip\r\n", "400"),
        ("Transfer-Encoding: identity\r\n", "400"),
        ("Transfer-Encoding : chunked\r\n", "400"),
        ("Content-Length: 18446744073709551000\r\n", "413"),
        ("Content-Length: 9223372036854775807\r\n", "413"),
    ] {
        let request =
            format!("POST /web/request HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n{hidden}");
        let answer = raw(&server, &request).await;
        assert_eq!(status(&answer), expected, "{fields}");
        assert!(!answer.contains("no /missing here"), "{fields}: {answer}");
    }
    // If both are present, the chunks decide, and nothing is read after them.
    for fields in [
        "Content-Length: 100\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 100\r\n",
    ] {
        let request =
            format!("POST /web/request HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n{hidden}");
        let answer = raw(&server, &request).await;
        assert!(answer.contains("body: 0 bytes"), "{answer}");
        assert!(!answer.contains("no /missing here"), "{answer}");
    }
    let old = "POST /web/request HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(status(&raw(&server, old).await), "400");
    let old = "POST /web/request HTTP/1.0\r\nContent-Length: 4\r\n\r\nfour";
    assert!(raw(&server, old).await.ends_with("body: 4 bytes\n"));
    // Trailers and chunk extensions are ignored, and their size is bounded.
    let chunked = "POST /web/request HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    let trailers = format!("{chunked}4\r\nfour\r\n0\r\nX-Trailer: y\r\n\r\n");
    assert!(raw(&server, &trailers).await.ends_with("body: 4 bytes\n"));
    let many = "X: y\r\n".repeat(20_000);
    let trailers = format!("{chunked}4\r\nfour\r\n0\r\n{many}\r\n");
    assert_eq!(status(&raw(&server, &trailers).await), "400");
    let extension = format!("{chunked}4;{}\r\nfour\r\n0\r\n\r\n", "x".repeat(20_000));
    assert_eq!(status(&raw(&server, &extension).await), "400");
    server.stop().await;
}

/// Requests that match no route are refused without an instance.
#[tokio::test]
async fn what_is_no_request_for_a_route_has_no_guest() {
    let guests = [("/web", "web-rust.wasm"), ("/", "trap.wat")];
    let server = TestServer::new(&guests[..1], settings(), limits()).await;
    for (line, expected) in [
        ("OPTIONS * HTTP/1.1", "404"),
        ("GET http://elsewhere/ HTTP/1.1", "404"),
        ("GET elsewhere:80 HTTP/1.1", "400"),
        ("GET //web HTTP/1.1", "404"),
        ("GET /%77eb HTTP/1.1", "404"),
        ("GET /WEB HTTP/1.1", "404"),
        ("CONNECT /web HTTP/1.1", "405"),
        ("GET /web HTTP/3.0", "400"),
        ("G\u{e4}T /web HTTP/1.1", "400"),
        ("GET /web\0 HTTP/1.1", "400"),
    ] {
        let request = format!("{line}\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = raw(&server, &request).await;
        assert_eq!(status(&answer), expected, "{line}: {answer}");
    }
    let preface = raw(
        &server,
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    )
    .await;
    assert!(!preface.contains("200"), "{preface}");
    // The server ignores an upgrade.
    let upgrade =
        "GET /web HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n";
    assert_eq!(status(&raw(&server, upgrade).await), "200");
    // The server does not interpret dots in paths: the guest does.
    for path in ["/web/../missing", "/web/%2e%2e/missing"] {
        let answer = server.get(path).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (404, "no /../missing here\n")
        );
    }
    let ran: f64 = server
        .metric("pirn_guest_seconds_count{route=\"/web\"}")
        .await;
    assert_eq!(ran, 3.0, "the upgrade and the dots");
    server.stop().await;
}

/// An engine whose guests make the server panic.
struct Panics;

impl Engine for Panics {
    fn begin(&self, exchange: Exchange) -> Result<Begun, End> {
        let (output, answer) = Output::new();
        let run = Box::pin(async move {
            let body = exchange.request.body();
            assert!(body.is_end_stream(), "a body that nobody expects");
            drop(output);
            None
        });
        Ok(Begun { answer, run })
    }

    fn slots(&self) -> Slots {
        Slots {
            all: 1,
            free: 1,
            lost: 0,
        }
    }
}

#[tokio::test]
async fn a_panic_ends_its_connection_alone_and_leaves_nothing_behind() {
    let address = ([127, 0, 0, 1], 0).into();
    let limits = Limits {
        connections: 2,
        client_connections: 2,
        waiting_max: 1,
        ..limits()
    };
    let server = Server::bind(address, Arc::new(Panics), vec!["/".to_owned()], limits);
    let server = server.await.expect("it listens");
    let address = server.address().expect("it listens");
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let ask = async |text: &str| {
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(text.as_bytes()).await.expect("it listens");
        rest(&mut client).await
    };
    let end = "Host: a\r\nConnection: close\r\n";
    // More panics than there are connections and slots.
    for _ in 0..4 {
        let panicked = ask(&format!(
            "PUT / HTTP/1.1\r\n{end}Content-Length: 1\r\n\r\nx"
        ))
        .await;
        assert_eq!(panicked, "");
        let other = ask(&format!("GET / HTTP/1.1\r\n{end}\r\n")).await;
        assert_eq!(status(&other), "503", "{other}");
    }
    let metrics = async || ask(&format!("GET /metrics HTTP/1.1\r\n{end}\r\n")).await;
    let connections = async || {
        let text = metrics().await;
        pirn_server::load::metric(&text, "pirn_connections")
    };
    let alone = async { while connections().await != Some(1.0) {} };
    soon("the end of all other connections", alone).await;
    let text = metrics().await;
    assert!(text.contains("pirn_requests_waiting 0\n"), "{text}");
    assert!(text.contains("outcome=\"gone\"} 4\n"), "{text}");
    drop(stop);
    soon("the end", served).await.expect("no panic");
}

#[tokio::test]
async fn a_client_has_so_many_connections_and_no_more() {
    let limits = Limits {
        client_connections: 2,
        ..limits()
    };
    let hello = prints("Status: 200\n\nhello\n");
    let server = TestServer::new(&[("/", &hello)], settings(), limits).await;
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let answered = async |client: &mut TcpStream| {
        client.write_all(request).await.expect("it is open");
        let mut start = [0; 12];
        let read = soon("an answer", client.read_exact(&mut start)).await;
        read.is_ok_and(|_| &start == b"HTTP/1.1 200")
    };
    let (mut one, mut two) = (server.open().await, server.open().await);
    assert!(answered(&mut one).await && answered(&mut two).await);
    let mut three = server.open().await;
    let closed = soon("the end", three.read(&mut [0])).await;
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    // Open connections are still served.
    assert!(two.write_all(request).await.is_ok());
    drop(one);
    // There is room again when the server notices that one connection is closed.
    let mut refused = 1.0;
    let again = async {
        loop {
            let mut next = server.open().await;
            let sent = next.write_all(request).await;
            let mut start = [0; 12];
            if sent.is_ok() && next.read_exact(&mut start).await.is_ok() {
                break;
            }
            refused += 1.0;
        }
    };
    soon("room for a connection", again).await;
    drop(two);
    let told = async {
        loop {
            let Ok(mut client) = pirn_server::load::connect(server.address).await else {
                continue;
            };
            let request = Request::get("/metrics").header("host", "a");
            let request = request.body(String::new().into()).expect("a request");
            if let Ok(answer) = client.send_request(request).await {
                break common::read(answer).await;
            }
            refused += 1.0;
        }
    };
    let Answer { body, .. } = soon("the metrics", told).await;
    let counted = pirn_server::load::metric(&body, "pirn_connections_refused_total");
    assert_eq!(counted, Some(refused));
    server.stop().await;
}

/// A guest that waits for another thread, which does not exist.
const WAITS_FOR_NOBODY: &str = r#"(module (memory (export "memory") 1 1 shared)
  (func (export "_start")
    (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))))"#;

/// A guest that blocks for ever is suspended, so the only thread serves other requests.
#[test]
fn a_guest_that_waits_for_nobody_holds_no_thread() {
    let with = |deadline| Settings {
        deadline,
        ..settings()
    };
    let runtime = runtime(NonZero::new(1)).expect("the system has a thread");
    runtime.block_on(async {
        let hello = prints("Status: 200\n\nhello\n");
        let guests = [("/wait", WAITS_FOR_NOBODY), ("/hello", hello.as_str())];
        let request = "GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        // No deadline passes before the other guest has responded.
        let server = TestServer::new(&guests, with(HOUR), limits()).await;
        let mut waiting = server.open().await;
        let sent = waiting.write_all(request.as_bytes()).await;
        sent.expect("it listens");
        let slots = || server.engine.slots();
        until("the guest waits", || slots().free < slots().all).await;
        for _ in 0..3 {
            assert_eq!(server.get("/hello").await.status, 200);
        }
        drop(waiting);
        server.stop().await;
        let server = TestServer::new(&guests, with(Duration::from_millis(200)), limits()).await;
        assert_eq!(status(&raw(&server, request).await), "504");
        server.stop().await;
    });
}

/// With pipelined requests the server does not notice a closed connection at once. The deadline
/// then frees the slot.
#[tokio::test]
async fn a_client_that_hangs_up_behind_another_request_is_noticed_by_the_deadline() {
    // Its other requests do not run, except those that started before the server noticed. On a busy
    // machine, the deadlines of several may pass before the client hangs up.
    let mut deadline = Duration::from_millis(200);
    while requests_after_hanging_up(deadline).await > 3.0 {
        deadline *= 2;
        assert!(deadline < Duration::from_secs(20), "all requests run");
    }
}

/// Sends ten requests to an endless guest, and hangs up when the first one runs. Returns the number
/// of requests whose deadline passed.
async fn requests_after_hanging_up(deadline: Duration) -> f64 {
    let settings = Settings {
        deadline,
        slots: 1,
        ..settings()
    };
    let server = TestServer::new(&[("/loop", "loop.wat")], settings, limits()).await;
    let mut client = server.open().await;
    let request = b"GET /loop HTTP/1.1\r\nHost: a\r\n\r\n";
    client
        .write_all(&request.repeat(10))
        .await
        .expect("it listens");
    until("the guest runs", || server.engine.slots().free == 0).await;
    drop(client);
    until("the slot is free", || server.engine.slots().free == 1).await;
    while server.metric("pirn_connections").await > 1.0 {}
    let ran = server.count("/loop", "deadline").await;
    server.stop().await;
    ran
}

/// Limits of zero would refuse every request, so they are configuration errors.
#[tokio::test]
async fn limits_that_let_nobody_in_are_refused() {
    let engine = Pirn::new(settings(), &[module("trap.wat")], |_| Ok(())).expect("it fits");
    let engine = Arc::new(engine);
    let none = [
        (
            "connections",
            Limits {
                connections: 0,
                ..limits()
            },
        ),
        (
            "client-connections",
            Limits {
                client_connections: 0,
                ..limits()
            },
        ),
        (
            "waiting-max",
            Limits {
                waiting_max: 0,
                ..limits()
            },
        ),
        (
            "route-requests",
            Limits {
                route_requests: 0,
                ..limits()
            },
        ),
    ];
    for (name, limits) in none {
        let address = ([127, 0, 0, 1], 0).into();
        let routes = vec!["/".to_owned()];
        let server = Server::bind(address, Arc::<Pirn>::clone(&engine), routes, limits).await;
        let error = server.err().expect("it is refused").to_string();
        assert!(error.starts_with(&format!("--{name} is 0, ")), "{error}");
    }
}

#[tokio::test]
async fn limits_without_end_serve() {
    let limits = Limits {
        waiting_max: usize::MAX,
        route_requests: usize::MAX,
        wait: Duration::MAX,
        body_ahead: usize::MAX,
        body_max: usize::MAX,
        buffered_max: usize::MAX,
        header_timeout: Duration::MAX,
        body_timeout: Duration::MAX,
        write_timeout: Duration::MAX,
        connections: usize::MAX,
        client_connections: usize::MAX,
        log_max: usize::MAX,
        grace: Duration::MAX,
    };
    let guests = [("/web", "web-rust.wasm"), ("/trap", "trap.wat")];
    let server = TestServer::new(&guests, settings(), limits).await;
    let answer = server.ask(Request::post("/web/request"), "four").await;
    assert!(answer.body.ends_with("body: 4 bytes\n"), "{answer:?}");
    assert_eq!(server.get("/trap").await.status, 502);
    server.stop().await;
}

#[tokio::test]
async fn no_part_of_a_request_makes_a_metric() {
    let server = TestServer::new(&[("/web", "web-rust.wasm")], settings(), limits()).await;
    let names = async || {
        let text = server.get("/metrics").await.body;
        let names = text.lines().filter(|line| !line.starts_with('#'));
        let mut names: Vec<_> = names
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
            .collect();
        names.sort();
        names
    };
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("x-one", path).header("user-agent", path);
        server.ask(request, "").await
    };
    ask("GET", "/web").await;
    ask("GET", "/nothing").await;
    let before = names().await;
    for (method, path) in [
        ("GET", "/web/a?b"),
        ("BREW", "/web/pot"),
        ("GET", "/a"),
        ("DELETE", "/metrics/b"),
        ("GET", "/web/%00"),
        ("CONNECT", "a:1"),
    ] {
        ask(method, path).await;
    }
    assert_eq!(names().await, before);
    server.stop().await;
}

/// The limit of a route keeps slots free for other routes.
#[tokio::test]
async fn a_route_has_so_many_requests_and_leaves_the_other_slots_to_others() {
    let limits = Limits {
        route_requests: 2,
        ..limits()
    };
    let settings = Settings {
        slots: 3,
        ..settings()
    };
    let hello = prints("Status: 200\n\nhello\n");
    let guests = [("/wait", WAITS), ("/hello", hello.as_str())];
    let server = TestServer::new(&guests, settings, limits).await;
    let begin = async || {
        let mut client = server.open().await;
        let request = b"GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.expect("it listens");
        client
    };
    let (one, mut two) = (begin().await, begin().await);
    until("both wait", || server.door.came() == 2).await;
    let three = server.get("/wait").await;
    assert_eq!(three.status, 503);
    assert_eq!(three.headers["retry-after"], "1");
    assert_eq!(server.get("/hello").await.status, 200);
    // There is room again when one of them has ended, for any reason.
    drop(one);
    while server.count("/wait", "gone").await < 1.0 {}
    let mut four = begin().await;
    until("it waits", || server.door.came() == 3).await;
    server.door.open();
    for client in [&mut two, &mut four] {
        assert_eq!(status(&rest(client).await), "200");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_start_function_has_its_own_deadline() {
    let start = |last: &str| {
        format!(
            r#"(module
              (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
              (memory (export "memory") 1)
              (data (i32.const 0) "\10\00\00\00\0d\00\00\00")
              (data (i32.const 16) "Status: 200\0a\0a")
              (func $start (local $left i32)
                (local.set $left (i32.const 1000000))
                (loop $again
                  (br_if $again
                    (local.tee $left (i32.sub (local.get $left) (i32.const 1))))
                  ({last})))
              (start $start)
              (func (export "_start")
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
        )
    };
    let (never, soon) = (start("br $again"), start("nop"));
    let guests = [("/never", never.as_str()), ("/soon", soon.as_str())];
    let with = |start_deadline| Settings {
        start_deadline,
        ..settings()
    };
    let server = TestServer::new(&guests, with(Duration::from_millis(10)), limits()).await;
    assert_eq!(server.get("/never").await.status, 504);
    server.stop().await;
    let server = TestServer::new(&guests[1..], with(HOUR), limits()).await;
    assert_eq!(server.get("/soon").await.status, 200);
    server.stop().await;
}
