//! Components that answer HTTP requests, over real connections.

use crate::common;

use bytes::Bytes;
use common::{TestServer, limits, module, read, soon};
use futures::SinkExt as _;
use futures::channel::mpsc;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::Request;
use hyper::body::Frame;
use hyper_util::rt::TokioIo;
use pirn_server::load::connect;
use pirn_server::{Limits, Settings};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const HANDLERS: [&str; 2] = ["http-rust.wasm", "http-c.wasm"];

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 16 << 20,
        ..common::settings()
    }
}

async fn server(handler: &str, settings: Settings, limits: Limits) -> TestServer {
    TestServer::new(&[("/", handler)], settings, limits).await
}

#[tokio::test]
async fn each_request_has_an_instance_of_its_own() {
    for handler in HANDLERS {
        let server = server(handler, settings(), limits()).await;
        for _ in 0..5 {
            let answer = server.get("/keep").await;
            assert_eq!((answer.status, answer.body.trim()), (200, "1"));
        }
        let answer = server.get("/hello").await;
        assert!(answer.body.starts_with("hello from"), "{answer:?}");
        assert_eq!(answer.headers["content-type"], "text/plain");
        server.counted("/", "ok", 6.0).await;
        assert_eq!(server.get("/nowhere").await.status, 404);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_guest_that_fails_is_the_guests_fault() {
    for handler in HANDLERS {
        let server = server(handler, settings(), limits()).await;
        for (path, outcome) in [("/fail", "trap"), ("/never", "malformed")] {
            let answer = server.get(path).await;
            assert_eq!(answer.status, 502, "{handler} {path}: {answer:?}");
            server.counted("/", outcome, 1.0).await;
        }
        assert_eq!(server.get("/hello").await.status, 200);
        server.stop().await;
    }
}

/// The client gets each piece back before it sends the next one.
#[tokio::test]
async fn bodies_stream_in_both_directions_at_once() {
    for handler in HANDLERS {
        let server = server(handler, settings(), limits()).await;
        let stream = server.open().await;
        let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut client, connection) = connected.expect("it listens");
        tokio::spawn(connection);
        let (mut sender, receiver) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
        let request = Request::post("/echo").header("host", "a");
        let request = request.body(StreamBody::new(receiver)).expect("a request");
        let answer = soon("the head", client.send_request(request)).await;
        let mut body = answer.expect("an answer").into_body();
        for piece in 0..20u8 {
            let piece = Bytes::from(vec![piece; 1000]);
            let sent = sender.send(Ok(Frame::data(piece.clone()))).await;
            sent.expect("the body is read");
            let mut echoed = vec![];
            while echoed.len() < piece.len() {
                let frame = soon("a piece", body.frame()).await.expect("there is more");
                echoed.extend_from_slice(&frame.expect("a frame").into_data().expect("bytes"));
            }
            assert_eq!(echoed, piece);
        }
        drop(sender);
        assert!(soon("the end", body.frame()).await.is_none());
        drop(client);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_deadline_covers_waits() {
    let settings = Settings {
        deadline: Duration::from_millis(20),
        ..settings()
    };
    for handler in HANDLERS {
        let server = server(handler, settings.clone(), limits()).await;
        // The guest sleeps for 50 ms. On a busy machine both times may be over when the server
        // looks.
        while server.get("/slow").await.status == 200 {}
        server.counted("/", "deadline", 1.0).await;
        // The guest waits for a client that takes nothing.
        let client = server
            .begin(b"GET /big?n=100000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            .await;
        server.rests().await;
        drop(client);
        server.stop().await;
    }
}

/// The guest waits for a body that does not come, so the client is the cause. On a busy machine the
/// deadline may come before the guest waits, so it is doubled until the guest waits.
#[tokio::test]
async fn a_deadline_while_the_client_is_awaited_is_the_clients_fault() {
    for handler in HANDLERS {
        let mut deadline = Duration::from_millis(20);
        loop {
            let settings = Settings {
                deadline,
                ..settings()
            };
            let server = server(handler, settings, limits()).await;
            let mut client = server
                .begin(b"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab")
                .await;
            let mut answer = vec![0; 12];
            soon("an answer", client.read_exact(&mut answer))
                .await
                .expect("an answer");
            let is_slow = answer == b"HTTP/1.1 408";
            if is_slow {
                server.counted("/", "slow", 1.0).await;
            } else {
                assert_eq!(answer, b"HTTP/1.1 504");
            }
            drop(client);
            server.stop().await;
            if is_slow {
                break;
            }
            deadline *= 2;
        }
    }
}

#[tokio::test]
async fn a_client_that_hangs_up_ends_its_guest() {
    for handler in HANDLERS {
        let server = server(handler, settings(), limits()).await;
        let mut client = server
            .begin(b"GET /big?n=100000000 HTTP/1.1\r\nHost: a\r\n\r\n")
            .await;
        let mut answer = vec![0; 1000];
        soon("an answer", client.read_exact(&mut answer))
            .await
            .expect("an answer");
        assert!(server.engine.region().slots_free() < 2, "the guest runs");
        drop(client);
        server.rests().await;
        server.counted("/", "gone", 1.0).await;
        server.stop().await;
    }
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused() {
    let limits = Limits {
        body_max: 1000,
        ..limits()
    };
    for handler in HANDLERS {
        let server = server(handler, settings(), limits.clone()).await;
        let at_limit = "x".repeat(1000);
        let answer = server.ask(Request::post("/count"), &at_limit).await;
        assert_eq!((answer.status, answer.body.trim()), (200, "1000"));
        // The header announces it.
        let over = "x".repeat(1001);
        assert_eq!(server.ask(Request::post("/count"), &over).await.status, 413);
        // Nothing announces it: the guest gets an error when it reads too far.
        let mut request = b"POST /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
            Transfer-Encoding: chunked\r\n\r\n"
            .to_vec();
        request.extend(format!("3e9\r\n{over}\r\n0\r\n\r\n").bytes());
        let mut client = server.begin(&request).await;
        let mut answer = String::new();
        soon("an answer", client.read_to_string(&mut answer))
            .await
            .expect("text");
        assert!(!answer.contains("1001"), "{answer}");
        server.stop().await;
    }
}

#[tokio::test]
async fn malformed_requests_do_not_reach_a_guest() {
    let server = server(HANDLERS[0], settings(), limits()).await;
    for head in [
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nx: a\rb\r\n\r\n",
        "GET /hello HTTP/1.1\r\n: a\r\n\r\n",
        "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n",
        "CONNECT a:80 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ] {
        let mut client = server.begin(head.as_bytes()).await;
        let mut answer = vec![];
        // The connection may be reset.
        let _ = soon("an answer", client.read_to_end(&mut answer)).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    assert_eq!(server.metric("pirn_slots_used").await, 0.0);
    server.stop().await;
}

#[tokio::test]
async fn requests_wait_for_a_slot_and_no_longer() {
    let limits = Limits {
        wait: Duration::from_millis(10),
        ..limits()
    };
    let settings = Settings {
        slots: 1,
        ..settings()
    };
    let server = server(HANDLERS[0], settings, limits).await;
    let mut client = server
        .begin(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na")
        .await;
    let mut answer = vec![0; 12];
    soon("the head", client.read_exact(&mut answer))
        .await
        .expect("an answer");
    assert_eq!(answer, b"HTTP/1.1 200");
    let refused = server.get("/hello").await;
    assert_eq!(
        (refused.status, &refused.headers["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    client.write_all(b"bcde").await.expect("it listens");
    server.rests().await;
    assert_eq!(server.get("/hello").await.status, 200);
    drop(client);
    server.stop().await;
}

#[tokio::test]
async fn components_and_programs_share_a_server() {
    let guests = [("/c", "http-c.wasm"), ("/cgi", "web-hello.wasm")];
    let server = TestServer::new(&guests, settings(), limits()).await;
    // The component sees the whole path.
    assert_eq!(server.get("/c/hello").await.status, 404);
    assert_eq!(server.get("/cgi").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn a_component_that_is_no_handler_is_refused() {
    let modules = [module("hello-p2.wasm")];
    let error = pirn_server::Pirn::new(settings(), &modules, |_| Ok(())).err();
    let error = format!("{:#}", error.expect("it answers no requests"));
    assert!(error.contains("answers no HTTP requests"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

/// A connection serves several requests one after the other, also of guests that did not read the
/// body.
#[tokio::test]
async fn a_connection_is_kept() {
    let server = server(HANDLERS[0], settings(), limits()).await;
    let mut client = connect(server.address).await.expect("it listens");
    for n in 0..10 {
        let path = if n % 2 == 0 { "/hello" } else { "/count" };
        let body = http_body_util::Full::new(Bytes::from(vec![b'x'; 10_000]));
        let request = Request::post(path).header("host", "a").body(body);
        client.ready().await.expect("the connection is kept");
        let answer = client.send_request(request.expect("a request")).await;
        let answer = read(answer.expect("an answer")).await;
        assert_eq!(answer.status, 200);
    }
    drop(client);
    server.stop().await;
}

/// A response to HEAD has no body. The guest may write one, and runs to its end.
#[tokio::test]
async fn a_response_without_a_body_is_complete() {
    for handler in HANDLERS {
        let server = server(handler, settings(), limits()).await;
        for path in ["/hello", "/big?n=1000000"] {
            let answer = server.ask(Request::head(path), "").await;
            assert_eq!((answer.status, answer.body.as_str()), (200, ""));
        }
        server.rests().await;
        server.counted("/", "ok", 2.0).await;
        server.stop().await;
    }
}
