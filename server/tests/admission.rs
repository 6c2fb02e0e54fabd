//! Requests whose bodies arrive: what they hold before and while the server reads them, and who
//! waits for them. Each request is raw bytes, so that a body can stay incomplete.

use crate::common;

use common::{TestServer, WAITS, connect_from, limits, module, rest, soon, until};
use pirn_server::{Limits, Pirn, Server, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Bytes of the bodies of these tests.
const BODY: usize = 1000;

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

/// Two routes with CGI guests. The one at `/wait` waits for the door.
async fn server(limits: Limits) -> TestServer {
    let guests = [("/web", "web-rust.wasm"), ("/wait", WAITS)];
    TestServer::new(&guests, settings(), limits).await
}

/// How a body declares its length.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Length,
    Chunks,
}

use Framing::{Chunks, Length};

const FRAMINGS: [Framing; 2] = [Length, Chunks];

/// A request whose body of [`BODY`] bytes is sent but for its end.
fn unfinished(path: &str, framing: Framing) -> String {
    let body = "x".repeat(BODY - 1);
    let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
    match framing {
        Length => format!("{head}Content-Length: {BODY}\r\n\r\n{body}"),
        Chunks => format!("{head}Transfer-Encoding: chunked\r\n\r\n{BODY:x}\r\n{body}"),
    }
}

/// The end of such a request.
fn end(framing: Framing) -> &'static str {
    match framing {
        Length => "x",
        Chunks => "x\r\n0\r\n\r\n",
    }
}

/// A request whose body is announced and not sent.
fn announced(path: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n")
}

async fn send(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).await.expect("it is open");
}

/// Waits until the bodies of requests take at least this number of bytes.
async fn buffered(server: &TestServer, bytes: usize) {
    let enough = async { while server.metric("pirn_buffered_bytes").await < bytes as f64 {} };
    soon("the bytes of a body", enough).await;
}

/// Waits until no bodies of requests take memory.
async fn unbuffered(server: &TestServer) {
    let none = async { while server.metric("pirn_buffered_bytes").await > 0.0 {} };
    soon("the end of all bodies", none).await;
}

/// A route, or the queue, has room for one request.
fn for_one() -> [Limits; 2] {
    let route = Limits {
        route_requests: 1,
        ..limits()
    };
    let queue = Limits {
        waiting_max: 1,
        ..limits()
    };
    [route, queue]
}

/// One client could otherwise stop a route for all others, with bodies that never end.
#[tokio::test]
async fn a_body_that_comes_slowly_holds_no_place() {
    for limits in for_one() {
        for framing in FRAMINGS {
            let server = server(limits.clone()).await;
            let mut slow = vec![];
            for count in 1..4 {
                let half = unfinished("/web/request", framing);
                slow.push(server.begin(half.as_bytes()).await);
                buffered(&server, count * (BODY - 1)).await;
            }
            assert_eq!(server.metric("pirn_requests_waiting").await, 0.0);
            assert_eq!(server.get("/web").await.status, 200);
            for client in &mut slow {
                send(client, end(framing)).await;
                let answered = rest(client).await;
                assert!(answered.ends_with("body: 1000 bytes\n"), "{answered}");
            }
            assert_eq!(server.metric("pirn_buffered_bytes").await, 0.0);
            server.stop().await;
        }
    }
}

/// A guest that runs has its route's permit. No body is read for a further request, and one whose
/// body came meanwhile is refused.
#[tokio::test]
async fn no_body_is_read_for_a_route_whose_guests_run() {
    let limits = Limits {
        route_requests: 1,
        ..limits()
    };
    let server = server(limits).await;
    let mut slow = server.begin(unfinished("/wait", Length).as_bytes()).await;
    buffered(&server, BODY - 1).await;
    let get = b"GET /wait HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let mut running = server.begin(get).await;
    until("the guest waits", || server.door.came() == 1).await;
    send(&mut slow, end(Length)).await;
    let refused = rest(&mut slow).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    let refused = rest(&mut server.begin(announced("/wait").as_bytes()).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
    server.door.open();
    let answered = rest(&mut running).await;
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    server.stop().await;
}

#[tokio::test]
async fn the_bytes_of_a_client_that_hangs_up_are_free() {
    for limits in for_one() {
        for framing in FRAMINGS {
            let server = server(limits.clone()).await;
            let half = unfinished("/web/request", framing);
            for _ in 0..3 {
                let first = server.begin(half.as_bytes()).await;
                buffered(&server, BODY - 1).await;
                drop(first);
                unbuffered(&server).await;
                assert_eq!(server.get("/web").await.status, 200);
            }
            server.stop().await;
        }
    }
}

/// The body timeout ends the request, and its bytes are free. The test waits only for that.
#[tokio::test]
async fn a_slow_client_gives_its_bytes_back_at_the_body_timeout() {
    for limits in for_one() {
        for request in [
            unfinished("/web/request", Length),
            announced("/web/request"),
        ] {
            let limits = Limits {
                body_timeout: Duration::from_millis(50),
                ..limits.clone()
            };
            let server = server(limits).await;
            let mut slow = server.begin(request.as_bytes()).await;
            let answered = rest(&mut slow).await;
            assert!(answered.starts_with("HTTP/1.1 408 "), "{answered}");
            assert_eq!(server.get("/web").await.status, 200);
            assert_eq!(server.metric("pirn_buffered_bytes").await, 0.0);
            server.stop().await;
        }
    }
}

/// Room for the bodies of two requests of one client.
fn for_two_bodies() -> Limits {
    let limits = limits();
    Limits {
        body_max: BODY,
        buffered_max: 2 * BODY,
        client_connections: limits.connections,
        ..limits
    }
}

#[tokio::test]
async fn bodies_together_take_so_many_bytes_and_no_more() {
    for framing in FRAMINGS {
        let server = server(for_two_bodies()).await;
        let half = unfinished("/web/request", framing);
        let (mut one, two) = (
            server.begin(half.as_bytes()).await,
            server.begin(half.as_bytes()).await,
        );
        buffered(&server, 2 * (BODY - 1)).await;
        for third in FRAMINGS {
            let refused = unfinished("/web/request", third);
            let refused = rest(&mut server.begin(refused.as_bytes()).await).await;
            assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
            assert!(refused.contains("\r\nretry-after: 1\r\n"), "{refused}");
        }
        assert!(server.metric("pirn_buffered_bytes").await <= 2.0 * BODY as f64);
        // A request without a body needs no memory, and nobody waits for another's bytes.
        assert_eq!(server.get("/web").await.status, 200);
        send(&mut one, end(framing)).await;
        let answered = rest(&mut one).await;
        assert!(answered.ends_with("body: 1000 bytes\n"), "{answered}");
        // The bytes of the first are free before its answer is sent.
        let mut third = server.begin(half.as_bytes()).await;
        send(&mut third, end(framing)).await;
        let answered = rest(&mut third).await;
        assert!(answered.ends_with("body: 1000 bytes\n"), "{answered}");
        drop(two);
        unbuffered(&server).await;
        assert_eq!(server.count("/web", "full").await, 2.0);
        server.stop().await;
    }
}

/// Many clients that send all but the end of their bodies: the memory is bounded, and the server
/// serves others.
#[tokio::test]
async fn many_slow_bodies_take_no_more_memory_than_a_few() {
    const CLIENTS: usize = 100;
    let limits = Limits {
        buffered_max: 10 * BODY,
        ..for_two_bodies()
    };
    let server = server(limits).await;
    let half = unfinished("/web/request", Length);
    let mut clients = vec![];
    for _ in 0..CLIENTS {
        clients.push(server.begin(half.as_bytes()).await);
    }
    let refused = (CLIENTS - 10) as f64;
    let others = async { while server.count("/web", "full").await < refused {} };
    soon("the refusals", others).await;
    assert!(server.metric("pirn_buffered_bytes").await <= 10.0 * BODY as f64);
    assert_eq!(server.get("/web").await.status, 200);
    drop(clients);
    server.stop().await;
}

#[tokio::test]
async fn the_body_of_a_guest_counts_until_the_guest_has_ended() {
    let server = server(for_two_bodies()).await;
    let mut waiting = vec![];
    for _ in 0..2 {
        let mut client = server.begin(unfinished("/wait", Length).as_bytes()).await;
        send(&mut client, end(Length)).await;
        waiting.push(client);
    }
    until("both guests wait", || server.door.came() == 2).await;
    assert_eq!(
        server.metric("pirn_buffered_bytes").await,
        2.0 * BODY as f64
    );
    let third = unfinished("/web/request", Length);
    let refused = rest(&mut server.begin(third.as_bytes()).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    server.door.open();
    for mut client in waiting {
        let answered = rest(&mut client).await;
        assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    }
    assert_eq!(server.metric("pirn_buffered_bytes").await, 0.0);
    server.stop().await;
}

/// Opens a connection from an address, and sends the beginning of a request.
async fn begin_from(client: [u8; 4], server: SocketAddr, request: &str) -> TcpStream {
    let mut stream = connect_from(client, server).await;
    send(&mut stream, request).await;
    stream
}

/// A client has half of the connections, and so half of the bytes.
#[tokio::test]
async fn a_client_leaves_room_for_the_bodies_of_others() {
    let limits = Limits {
        body_max: BODY,
        buffered_max: 4 * BODY,
        connections: 200,
        client_connections: 100,
        ..limits()
    };
    let server = server(limits).await;
    let half = unfinished("/web/request", Length);
    let (greedy, other) = ([127, 0, 0, 2], [127, 0, 0, 3]);
    let mut held = vec![];
    for _ in 0..2 {
        held.push(begin_from(greedy, server.address, &half).await);
    }
    buffered(&server, 2 * (BODY - 1)).await;
    let refused = rest(&mut begin_from(greedy, server.address, &half).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    for _ in 0..2 {
        let mut client = begin_from(other, server.address, &half).await;
        send(&mut client, end(Length)).await;
        let answered = rest(&mut client).await;
        assert!(answered.ends_with("body: 1000 bytes\n"), "{answered}");
    }
    drop(held);
    server.stop().await;
}

/// Bodies of requests to an earlier configuration count, too.
#[tokio::test]
async fn a_reload_forgets_no_bytes() {
    let server = server(for_two_bodies()).await;
    let half = unfinished("/web/request", Length);
    let mut first = server.begin(half.as_bytes()).await;
    buffered(&server, BODY - 1).await;
    let handle = server.handle.as_ref().expect("it runs");
    let engine = Arc::<Pirn>::clone(&server.engine);
    let smaller = Limits {
        buffered_max: BODY,
        ..for_two_bodies()
    };
    let replaced = handle.replace(engine, ["/web", "/wait"], smaller);
    replaced.expect("the routes are good");
    let refused = rest(&mut server.begin(half.as_bytes()).await).await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    send(&mut first, end(Length)).await;
    let answered = rest(&mut first).await;
    assert!(answered.ends_with("body: 1000 bytes\n"), "{answered}");
    server.stop().await;
}

#[tokio::test]
async fn a_limit_below_that_of_one_body_is_refused() {
    let engine = Pirn::new(settings(), &[module("trap.wat")], |_| Ok(())).expect("it fits");
    let engine = Arc::new(engine);
    for (body_max, buffered_max, is_good) in [(10, 10, true), (10, 9, false), (0, 0, true)] {
        let limits = Limits {
            body_max,
            buffered_max,
            ..limits()
        };
        let address = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(address, Arc::<Pirn>::clone(&engine), ["/"], limits).await;
        let said = server.err().map(|error| error.to_string());
        let expected = "--buffered-max is 9 bytes and --body-max 10, so the largest body could \
                        never be read; raise --buffered-max or lower --body-max";
        assert_eq!(said.as_deref(), (!is_good).then_some(expected));
    }
}
