//! The server over real connections: the handling of good and bad requests.

use crate::common;

use common::{HOUR, NAPS, PANICS, TestServer, WAITS, guest, limits, module, prints, soon, until};
use hyper::Request;
use pirn_server::program::runtime;
use pirn_server::{Limits, Pirn, Server, Settings};
use pirn_testing::process::not_run;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

fn settings() -> Settings {
    Settings {
        slots: 4,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

#[tokio::test]
async fn each_end_of_a_guest_has_its_status() {
    let hello = prints("Content-Type: text/plain\n\nhello\n");
    let nothing = prints("");
    let injection = prints("Content-Type: a\rSet-Cookie: b\n\n");
    let smuggled = prints("Status: 200\nTransfer-Encoding: chunked\n\n0\r\n\r\n");
    let guests = [
        ("/hello", hello.as_str(), 200, "ok"),
        ("/trap", "trap.wat", 502, "trap"),
        ("/memory", "memory.wat", 502, "trap"),
        ("/overflow", "overflow.wat", 502, "trap"),
        ("/exit", "exit.wat", 502, "exit"),
        ("/flood", "flood.wat", 502, "output"),
        ("/nothing", nothing.as_str(), 502, "malformed"),
        ("/injection", injection.as_str(), 502, "malformed"),
        ("/smuggled", smuggled.as_str(), 502, "malformed"),
        ("/panic", PANICS, 500, "failed"),
    ];
    let routes = guests.map(|(path, source, _, _)| (path, source));
    // A guest that yields after it has printed its header sends that header, even if it fails then.
    let settings = Settings {
        timeslice: HOUR,
        ..settings()
    };
    let server = TestServer::new(&routes, settings, limits()).await;
    for round in 1..=3 {
        for (path, _, status, outcome) in guests {
            let answer = server.get(path).await;
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert_eq!(
                server.count(path, outcome).await,
                f64::from(round),
                "{path}"
            );
            assert!(!answer.headers.contains_key("set-cookie"));
        }
    }
    let hello = server.get("/hello/there?x=y").await;
    assert_eq!(hello.headers["content-type"], "text/plain");
    assert_eq!(hello.body, "hello\n");
    assert_eq!(server.get("/hellothere").await.status, 404);
    assert_eq!(server.get("/hello/%00").await.status, 400);
    assert_eq!(server.count("-", "not_found").await, 1.0);
    assert_eq!(server.count("/hello", "bad").await, 1.0);
    server.stop().await;
}

#[tokio::test]
async fn a_guest_that_takes_too_long_is_ended() {
    let guests = [("/loop", "loop.wat"), ("/sleep", "sleep.wat")];
    let settings = Settings {
        deadline: Duration::from_millis(50),
        ..settings()
    };
    let server = TestServer::new(&guests, settings, limits()).await;
    for (path, _) in guests {
        assert_eq!(server.get(path).await.status, 504, "{path}");
        assert_eq!(server.count(path, "deadline").await, 1.0);
    }
    server.stop().await;
}

/// Checks that guests of all languages give the same responses.
async fn web(server: &TestServer, language: &str) {
    let hello = server.get("/web").await;
    assert_eq!(
        (hello.status, hello.body),
        (200, format!("hello from {language}\n"))
    );
    let request = Request::put("/web/request?a=b&c=%20")
        .header("x-one", "1")
        .header("x-two", "2")
        .header("proxy", "http://elsewhere");
    let told = server.ask(request, "four").await;
    let expected = format!(
        "language: {language}\nmethod: PUT\npath: /web/request\nquery: a=b&c=%20\nx-one: 1\nx-two: 2\nbody: 4 bytes\n"
    );
    assert_eq!((told.status, told.body), (200, expected));
    let long = "0123456789abcdef".repeat(20_000);
    let request = Request::post("/web/echo").header("content-type", "a/b");
    let echo = server.ask(request, &long).await;
    assert_eq!(echo.headers["content-type"], "a/b");
    assert!(echo.status == 200 && echo.body == long);
    let missing = server.get("/web/missing").await;
    assert_eq!(
        (missing.status, missing.body.as_str()),
        (404, "no /missing here\n")
    );
    let head = server.ask(Request::head("/web"), "").await;
    let length = format!("hello from {language}\n").len().to_string();
    assert_eq!(
        (
            head.body.as_str(),
            head.headers["content-length"].as_bytes()
        ),
        ("", length.as_bytes())
    );
}

#[tokio::test]
async fn a_rust_program_answers() {
    let server = TestServer::new(&[("/web", "web-rust.wasm")], settings(), limits()).await;
    web(&server, "Rust").await;
    server.stop().await;
}

#[tokio::test]
async fn a_go_handler_answers() {
    let name = "built/web-go.wasm";
    if !guest(name).exists() {
        not_run("web-go.wasm is not built; run examples/guests/build.sh go, which needs Go");
        return;
    }
    let settings = Settings {
        memory_bytes_max: 64 << 20,
        ..settings()
    };
    let server = TestServer::new(&[("/web", name)], settings, limits()).await;
    web(&server, "Go").await;
    server.stop().await;
}

/// Sends raw text, and reads until the server closes the connection.
async fn raw(server: &TestServer, text: &str) -> String {
    let mut stream = server.open().await;
    stream.write_all(text.as_bytes()).await.expect("it listens");
    let mut answer = vec![];
    let end = stream.read_to_end(&mut answer);
    // If the client sends more than the server reads, the connection may be reset after the
    // response.
    let _ = soon("the end of the connection", end).await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn bodies_up_to_their_limit_are_taken() {
    let limits = Limits {
        body_max: 1000,
        ..limits()
    };
    let server = TestServer::new(&[("/web", "web-rust.wasm")], settings(), limits).await;
    for (bytes, status) in [(0, 200), (999, 200), (1000, 200), (1001, 413), (5000, 413)] {
        let body = "x".repeat(bytes);
        let answer = server.ask(Request::post("/web/request"), &body).await;
        assert_eq!(answer.status, status, "{bytes}");
        assert_eq!(
            answer.body.contains(&format!("body: {bytes} bytes")),
            status == 200
        );
        // Without a declared length, in chunks.
        let half = bytes / 2;
        let chunks = format!("{half:x}\r\n{}\r\n", "x".repeat(half));
        let chunks = if half > 0 {
            chunks.repeat(2)
        } else {
            String::new()
        };
        let head = "POST /web/request HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
        let answer = raw(&server, &format!("{head}{chunks}0\r\n\r\n")).await;
        let status = if half * 2 > 1000 { 413 } else { 200 };
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{half} twice: {answer}"
        );
    }
    // The declared length alone is enough for a refusal: no byte of the body was sent.
    let answer = raw(
        &server,
        "POST /web HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunk = "POST /web HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    let answer = raw(&server, chunk).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(server.count("/web", "bad").await, 1.0);
    server.stop().await;
}

#[tokio::test]
async fn answers_up_to_their_limit_are_given() {
    const HEAD: &str = "Status: 200\n\n";
    let answers = [99, 100, 101].map(|bytes| prints(&(HEAD.to_owned() + &"x".repeat(bytes))));
    let [less, all, more] = &answers;
    let guests = [("/less", less.as_str()), ("/all", all), ("/more", more)];
    let settings = Settings {
        output_max: HEAD.len() + 100,
        ..settings()
    };
    let server = TestServer::new(&guests, settings, limits()).await;
    assert_eq!(server.get("/less").await.body.len(), 99);
    assert_eq!(server.get("/all").await.body.len(), 100);
    assert_eq!(server.get("/more").await.status, 502);
    assert_eq!(server.count("/more", "output").await, 1.0);
    server.stop().await;
}

/// Sends a request in its own task.
fn later(server: &Arc<TestServer>, path: &'static str) -> tokio::task::JoinHandle<common::Answer> {
    let server = Arc::clone(server);
    tokio::spawn(async move { server.get(path).await })
}

async fn stop(server: Arc<TestServer>) {
    until("no task has the server", || Arc::strong_count(&server) == 1).await;
    Arc::into_inner(server).expect("nobody has it").stop().await;
}

#[tokio::test]
async fn a_full_server_says_when_to_come_again() {
    let settings = Settings {
        slots: 1,
        ..settings()
    };
    let limits = Limits {
        wait: Duration::from_millis(30),
        ..limits()
    };
    let server = Arc::new(TestServer::new(&[("/wait", WAITS)], settings, limits).await);
    let first = later(&server, "/wait");
    until("the guest waits", || server.door.came() == 1).await;
    for _ in 0..3 {
        let full = server.get("/wait").await;
        assert_eq!(full.status, 503, "{full:?}");
        assert_eq!(full.headers["retry-after"], "1");
    }
    assert_eq!(server.count("/wait", "full").await, 3.0);
    assert_eq!(server.metric("pirn_slots_used").await, 1.0);
    assert_eq!(server.metric("pirn_requests_waiting").await, 0.0);
    server.door.open();
    let first = soon("the first answer", first).await.expect("no panic");
    assert_eq!((first.status, first.body.as_str()), (200, "waited\n\n"));
    assert_eq!(server.get("/wait").await.status, 200);
    stop(server).await;
}

/// A waiting request gets the next free slot. Requests past the queue's limit are refused at once.
#[tokio::test]
async fn who_waits_gets_the_next_place_and_no_more_wait_than_may() {
    let settings = Settings {
        slots: 1,
        ..settings()
    };
    let limits = Limits {
        waiting_max: 1,
        ..limits()
    };
    let server = Arc::new(TestServer::new(&[("/wait", WAITS)], settings, limits).await);
    let first = later(&server, "/wait");
    until("the guest waits", || server.door.came() == 1).await;
    let second = later(&server, "/wait");
    while server.metric("pirn_requests_waiting").await < 1.0 {}
    // The refusal is immediate, although other requests wait.
    assert_eq!(server.get("/wait").await.status, 503);
    server.door.open();
    for answer in [first, second] {
        assert_eq!(
            soon("an answer", answer).await.expect("no panic").status,
            200
        );
    }
    stop(server).await;
}

/// Sends a GET request without waiting for the response.
async fn begin(server: &TestServer, path: &str) -> TcpStream {
    let mut stream = server.open().await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.expect("it listens");
    stream
}

/// The response.
async fn end(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let read = soon("an answer", stream.read_to_string(&mut answer)).await;
    read.expect("text");
    answer
}

#[tokio::test]
async fn a_client_that_hangs_up_while_its_guest_loops_frees_the_slot() {
    let server = TestServer::new(&[("/loop", "loop.wat")], settings(), limits()).await;
    let mut loops = vec![];
    for _ in 0..4 {
        loops.push(begin(&server, "/loop").await);
    }
    let free = || server.engine.region().slots_free();
    until("all loop", || free() == 0).await;
    for gone in 1..=4 {
        drop(loops.pop());
        while server.count("/loop", "gone").await < gone as f64 {}
        assert_eq!(free(), gone, "the slot is free when the request is counted");
    }
    server.stop().await;
}

/// A module whose start function never ends.
const NEVER_STARTS: &str = r#"(module (memory (export "memory") 1)
  (func $start (loop $again (br $again))) (start $start) (func (export "_start")))"#;

/// Looping guests are preempted, so the only thread serves other requests.
#[test]
fn guests_that_loop_leave_their_thread_to_others() {
    let hello = prints("Status: 200\n\nhello\n");
    let guests = [
        ("/loop", "loop.wat"),
        ("/hello", hello.as_str()),
        ("/nap", NAPS),
        ("/start", NEVER_STARTS),
    ];
    let settings = Settings {
        start_deadline: Duration::from_millis(50),
        ..settings()
    };
    let runtime = runtime(NonZero::new(1)).expect("the system has a thread");
    runtime.block_on(async {
        let server = TestServer::new(&guests, settings, limits()).await;
        let loops = [begin(&server, "/loop").await, begin(&server, "/loop").await];
        until("both loop", || server.engine.region().slots_free() == 2).await;
        for _ in 0..10 {
            assert_eq!(server.get("/hello").await.status, 200);
            assert_eq!(server.get("/nap").await.body, "awake\n");
        }
        // A guest that cannot be preempted does not keep the slot past the deadline of its start.
        assert_eq!(server.get("/start").await.status, 504);
        assert_eq!(
            server.metric("pirn_slots_used").await,
            2.0,
            "both loop still"
        );
        drop(loops);
        while server.count("/loop", "gone").await < 2.0 {}
        server.stop().await;
    });
}

#[test]
fn guests_that_sleep_hold_no_thread() {
    const SLEEPERS: u32 = 8;
    let settings = Settings {
        slots: SLEEPERS + 1,
        ..settings()
    };
    let runtime = runtime(NonZero::new(1)).expect("the system has a thread");
    runtime.block_on(async {
        let guests = [("/sleep", "sleep.wat"), ("/nap", NAPS)];
        let server = TestServer::new(&guests, settings, limits()).await;
        let mut sleepers = vec![];
        for _ in 0..SLEEPERS {
            sleepers.push(begin(&server, "/sleep").await);
        }
        until("all sleep", || server.engine.region().slots_free() == 1).await;
        assert_eq!(server.get("/nap").await.body, "awake\n");
        drop(sleepers);
        while server.count("/sleep", "gone").await < f64::from(SLEEPERS) {}
        let mut naps = vec![];
        for _ in 0..SLEEPERS {
            naps.push(begin(&server, "/nap").await);
        }
        for nap in naps {
            let answer = end(nap).await;
            assert!(
                answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("awake\n"),
                "{answer}"
            );
        }
        server.stop().await;
    });
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_guest() {
    let guests = [
        ("/loop", "loop.wat"),
        ("/sleep", "sleep.wat"),
        ("/web", "web-rust.wasm"),
    ];
    let settings = Settings {
        slots: 1,
        ..settings()
    };
    let server = TestServer::new(&guests, settings, limits()).await;
    for path in ["/loop", "/sleep"] {
        let running = begin(&server, path).await;
        until("the guest runs", || {
            server.engine.region().slots_free() == 0
        })
        .await;
        let waiting = begin(&server, path).await;
        while server.metric("pirn_requests_waiting").await < 1.0 {}
        drop(waiting);
        while server.count(path, "gone").await < 1.0 {}
        assert_eq!(server.metric("pirn_requests_waiting").await, 0.0);
        let waiting = begin(&server, "/web").await;
        while server.metric("pirn_requests_waiting").await < 1.0 {}
        drop(running);
        while server.count(path, "gone").await < 2.0 {}
        // No deadline has passed, but the waiting request has the slot.
        let answer = end(waiting).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert_eq!(server.get("/web").await.status, 200);
    }
    let mut sending = server.open().await;
    let half = b"POST /web/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
    sending.write_all(half).await.expect("it listens");
    while server.metric("pirn_connections").await < 2.0 {}
    drop(sending);
    while server.count("/web", "bad").await + server.count("/web", "gone").await < 1.0 {}
    server.stop().await;
}

#[tokio::test]
async fn slow_clients_are_not_waited_for() {
    let short = Duration::from_millis(50);
    let guests = [("/web", "web-rust.wasm")];
    // A server whose header timeout is short gets only incomplete headers here. On a busy machine
    // it would close the connection before it reads a complete header.
    let impatient = Limits {
        header_timeout: short,
        ..limits()
    };
    let server = TestServer::new(&guests, settings(), impatient).await;
    for nothing in [
        "",
        "GET /web HTT",
        "GET /web HTTP/1.1\r\nHost: a\r\nX-Slow: ",
    ] {
        let answer = raw(&server, nothing).await;
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
            "{answer}"
        );
    }
    server.stop().await;
    let impatient = Limits {
        body_timeout: short,
        ..limits()
    };
    let server = TestServer::new(&guests, settings(), impatient).await;
    let body = "POST /web/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf";
    let answer = raw(&server, body).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(server.count("/web", "slow").await, 1.0);
    let long = format!(
        "GET /web HTTP/1.1\r\nX-Long: {}\r\n\r\n",
        "x".repeat(40 << 10)
    );
    let answer = raw(&server, &long).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(
        raw(&server, "nonsense\r\n\r\n").await.split(' ').nth(1),
        Some("400")
    );
    server.stop().await;
}

/// A graceful stop closes idle connections and completes running requests.
#[tokio::test]
async fn what_runs_when_the_server_stops_is_answered() {
    let server = TestServer::new(&[("/wait", WAITS)], settings(), limits()).await;
    let mut server = Arc::new(server);
    let address = server.address;
    let mut idle = TcpStream::connect(address).await.expect("it listens");
    // Not in another task, because the test changes `server`.
    let mut client = pirn_server::load::connect(address)
        .await
        .expect("it listens");
    let request = Request::get("/wait")
        .header("host", "a")
        .body(String::new().into());
    let answer = tokio::spawn(client.send_request(request.expect("a request")));
    until("the guest waits", || server.door.came() == 1).await;
    Arc::get_mut(&mut server)
        .expect("nobody else has it")
        .begin_stop();
    // The idle connection is closed, and no new one is accepted.
    let closed = soon("the end", idle.read(&mut [0])).await;
    assert!(matches!(closed, Ok(0) | Err(_)));
    TestServer::is_refused(address).await;
    assert!(!server.served.is_finished());
    server.door.open();
    let answer = soon("the answer", answer).await.expect("no panic");
    let answer = common::read(answer.expect("an answer")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "waited\n\n"));
    stop(server).await;
}

/// After the grace period, the server stops the guests that still run.
#[tokio::test]
async fn what_does_not_end_within_the_grace_is_ended() {
    let guests = [("/loop", "loop.wat"), ("/sleep", "sleep.wat")];
    let limits = Limits {
        grace: Duration::from_millis(20),
        ..limits()
    };
    let server = TestServer::new(&guests, settings(), limits).await;
    let mut clients = vec![];
    for (path, _) in guests {
        let mut client = server.open().await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        client
            .write_all(request.as_bytes())
            .await
            .expect("it listens");
        clients.push(client);
    }
    until("both run", || server.engine.region().slots_free() == 2).await;
    server.stop().await;
    for mut client in clients {
        let mut answer = vec![];
        let _ = soon("the end", client.read_to_end(&mut answer)).await;
        assert_eq!(answer, b"", "there is no answer");
    }
}

#[tokio::test]
async fn no_more_connections_than_may_are_served() {
    let limits = Limits {
        connections: 1,
        waiting_max: usize::MAX,
        ..limits()
    };
    let hello = prints("Status: 200\n\nhello\n");
    let server = TestServer::new(&[("/", &hello)], settings(), limits).await;
    let mut first = server.open().await;
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    first.write_all(request).await.expect("it listens");
    let mut start = [0; 12];
    soon("an answer", first.read_exact(&mut start))
        .await
        .expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 200");
    let mut second = TcpStream::connect(server.address)
        .await
        .expect("the system accepts it");
    second
        .write_all(request)
        .await
        .expect("the system takes it");
    // The first connection is still served; the second one only after the first is closed.
    first.write_all(request).await.expect("it is open");
    let mut rest = vec![0; 100];
    soon("an answer", first.read(&mut rest))
        .await
        .expect("an answer");
    drop(first);
    soon("an answer", second.read_exact(&mut start))
        .await
        .expect("an answer");
    assert_eq!(&start, b"HTTP/1.1 200");
    drop(second);
    server.stop().await;
}

#[tokio::test]
async fn the_longest_route_serves() {
    let texts = ["root", "a", "ab"].map(|name| prints(&format!("Status: 200\n\n{name}")));
    let guests = [
        ("/", texts[0].as_str()),
        ("/a", &texts[1]),
        ("/a/b/", &texts[2]),
    ];
    let server = TestServer::new(&guests, settings(), limits()).await;
    let paths = [
        ("/", "root"),
        ("/x", "root"),
        ("/ab", "root"),
        ("/a", "a"),
        ("/a/", "a"),
        ("/a/bc", "a"),
        ("/a/b", "ab"),
        ("/a/b/c", "ab"),
    ];
    for (path, body) in paths {
        assert_eq!(server.get(path).await.body, body, "{path}");
    }
    assert!(server.get("/metrics").await.body.contains("pirn_slots 4"));
    let tunnel = raw(
        &server,
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n",
    )
    .await;
    assert!(tunnel.starts_with("HTTP/1.1 405 "), "{tunnel}");
    server.stop().await;
}

#[tokio::test]
async fn routes_that_mean_nothing_are_refused() {
    let engine = Pirn::new(settings(), &[module("trap.wat")], |_| Ok(())).expect("it fits");
    let engine = Arc::new(engine);
    for (routes, why) in [
        (vec!["a"], "is not a path"),
        (vec!["/a b"], "is not a path"),
        (vec!["/metrics"], "is a path of the server itself"),
        (vec!["/a", "/b", "/a/"], "is given twice"),
    ] {
        let routes = routes.into_iter();
        let address = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(address, Arc::<Pirn>::clone(&engine), routes, limits()).await;
        let error = server.err().expect("it is refused").to_string();
        assert!(error.contains(why), "{error}");
    }
}

/// A sample of the metrics: name and value, without labels.
fn sample(line: &str) -> Option<(&str, f64)> {
    let (name, value) = line.rsplit_once(' ')?;
    let bare = name.split('{').next()?;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let labels = name[bare.len()..].is_empty() || name.ends_with("\"}");
    (labels && !bare.is_empty() && bare.chars().all(word)).then_some((bare, value.parse().ok()?))
}

#[tokio::test]
async fn metrics_are_text_that_counts_rightly() {
    let hello = prints("Status: 200\n\nhello\n");
    let server = TestServer::new(&[("/a", &hello), ("/b", "trap.wat")], settings(), limits()).await;
    for _ in 0..5 {
        server.get("/a").await;
    }
    server.get("/b").await;
    let text = server.get("/metrics").await;
    assert!(
        text.headers["content-type"]
            .to_str()
            .is_ok_and(|kind| kind.starts_with("text/plain"))
    );
    let mut requests = 0.0;
    for line in text.body.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            assert!(
                comment.starts_with("HELP ") || comment.starts_with("TYPE "),
                "{line}"
            );
            continue;
        }
        let (name, value) = sample(line).unwrap_or_else(|| panic!("{line:?} is no sample"));
        if name == "pirn_requests_total" {
            requests += value;
        }
    }
    assert_eq!(requests, 6.0);
    for (name, value) in [
        ("pirn_request_seconds_count{route=\"/a\"}", 5.0),
        ("pirn_guest_seconds_count{route=\"/a\"}", 5.0),
        ("pirn_guest_seconds_count{route=\"/b\"}", 1.0),
        ("pirn_slots", 4.0),
        ("pirn_slots_used", 0.0),
        ("pirn_requests_waiting", 0.0),
    ] {
        assert_eq!(server.metric(name).await, value, "{name}");
    }
    assert!(server.metric("process_resident_memory_bytes").await > 1e6);
    server.stop().await;
}
