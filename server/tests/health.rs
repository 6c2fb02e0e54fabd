//! The pages about health, on the public address or on an address of their own, until the end.

use crate::common;
use crate::common::serving;

use common::{TestServer, WAITS, connect_from, guest, module, prints, soon, until};
use hyper::Request;
use pirn_server::admin::ADMIN_CONNECTIONS_MAX;
use pirn_server::load::connect;
use pirn_server::{Extras, Limits, Settings};
use serving::{PATIENT, get, refusal, serve};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const PAGES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// A server with an admin address.
async fn server(guests: &[(&str, &str)], stop_delay: Duration) -> (TestServer, SocketAddr) {
    let settings = Settings {
        slots: 2,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    };
    let limits = common::limits();
    let modules = guests.iter().map(|(path, source)| (*path, module(source)));
    let admin = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = admin.local_addr().expect("it listens");
    let extras = Extras {
        admin: Some(admin),
        stop_delay,
        ..Extras::default()
    };
    let modules: Vec<_> = modules.collect();
    (
        TestServer::with(&modules, settings, limits, extras).await,
        address,
    )
}

async fn page(address: SocketAddr, path: &str) -> (u16, String) {
    let mut client = connect(address).await.expect("it listens");
    let request = Request::get(path)
        .header("host", "a")
        .body(Default::default());
    let answer = client.send_request(request.expect("it is a request"));
    let answer = common::read(soon("an answer", answer).await.expect("an answer")).await;
    (answer.status, answer.body)
}

#[tokio::test]
async fn the_public_address_has_the_pages_if_no_other_has() {
    let hello = prints("Status: 200\n\nhello");
    let server = TestServer::new(&[("/", &hello)], common::settings(), common::limits()).await;
    assert_eq!(server.get("/healthz").await.body, "ok\n");
    assert_eq!(server.get("/readyz").await.body, "ready\n");
    assert!(server.get("/metrics").await.body.contains("pirn_slots 64"));
    for other in ["/healthz/", "/readyz/a", "/health", "/metricsx"] {
        assert_eq!(server.get(other).await.body, "hello", "{other}");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_admin_address_takes_the_pages_away_from_the_public_one() {
    let hello = prints("Status: 200\n\nhello");
    let guests = [("/", hello.as_str()), ("/metrics", "exit.wat")];
    let (server, admin) = server(&guests, Duration::ZERO).await;
    assert_eq!(server.get("/healthz").await.body, "hello");
    assert_eq!(server.get("/readyz").await.body, "hello");
    assert_eq!(
        server.get("/metrics").await.status,
        502,
        "a route of a guest"
    );
    for path in PAGES {
        assert_eq!(page(admin, path).await.0, 200, "{path}");
    }
    for path in ["/", "/healthz/", "/other"] {
        assert_eq!(page(admin, path).await.0, 404, "{path}");
    }
    let metrics = page(admin, "/metrics").await.1;
    let counted = "pirn_requests_total{route=\"/\",outcome=\"ok\"} 2\n";
    assert!(
        metrics.contains(counted),
        "guests do not see admin pages: {metrics}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_is_alive_and_not_ready() {
    let hello = prints("Status: 200\n\nhello");
    let (mut server, admin) = server(&[("/", &hello), ("/wait", WAITS)], Duration::ZERO).await;
    let mut client = connect(server.address).await.expect("it listens");
    let request = Request::get("/wait")
        .header("host", "a")
        .body(Default::default());
    let waiting = tokio::spawn(client.send_request(request.expect("it is a request")));
    until("the guest waits", || server.door.came() == 1).await;
    assert_eq!(page(admin, "/readyz").await, (200, "ready\n".to_owned()));
    server.begin_stop();
    let stopping = async {
        while page(admin, "/readyz").await.0 == 200 {
            tokio::task::yield_now().await;
        }
    };
    soon("the stop", stopping).await;
    assert_eq!(page(admin, "/readyz").await, (503, "stopping\n".to_owned()));
    assert_eq!(page(admin, "/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(page(admin, "/metrics").await.0, 200);
    server.door.open();
    let answer = soon("the answer", waiting).await.expect("no panic");
    assert_eq!(answer.expect("an answer").status(), 200);
    server.stop().await;
    // The admin address ends with the server.
    TestServer::is_refused(admin).await;
}

#[tokio::test]
async fn before_the_end_there_is_a_delay_in_which_requests_are_answered() {
    let hello = prints("Status: 200\n\nhello");
    // The server would not end within the test.
    let (mut server, admin) = server(&[("/", &hello)], common::HOUR).await;
    server.begin_stop();
    let stopping = async { while page(admin, "/readyz").await.0 == 200 {} };
    soon("the stop", stopping).await;
    assert_eq!(server.get("/").await.body, "hello");
    server.served.abort();
}

/// What a client sends, before it neither sends nor receives anything.
const IDLE: [(&str, &str, usize); 5] = [
    ("nothing", "", 1),
    ("a part of a header", "GET /healthz HTTP/1.1\r\nHo", 1),
    ("a request", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 1),
    (
        "no body",
        "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n",
        1,
    ),
    // The answers are more than the buffers of a socket hold.
    (
        "more requests than it takes answers",
        "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        300,
    ),
];

/// Sends a request, and checks that the connection answers.
async fn is_served(client: &mut TcpStream) {
    let request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(request).await.expect("it is open");
    let mut answer = vec![];
    while !answer.ends_with(b"\r\n\r\nok\n") {
        let read = soon("an answer", client.read_buf(&mut answer)).await;
        assert_ne!(read.expect("it is open"), 0, "{answer:?}");
    }
}

/// Waits until the server has closed a connection.
async fn is_closed(client: &mut TcpStream) {
    // The end is an error if the server has not read all that the client sent.
    let _ = soon("the end", client.read_to_end(&mut vec![])).await;
}

/// The header timeout is an hour, so only the server's choice to close connections makes room.
#[tokio::test]
async fn idle_admin_connections_keep_no_page_waiting() {
    for (what, request, times) in IDLE {
        let (server, admin) = server(&[("/", "exit.wat")], Duration::ZERO).await;
        let mut idle = vec![];
        for _ in 0..2 * ADMIN_CONNECTIONS_MAX {
            let mut client = connect_from([127, 0, 0, 1], admin).await;
            let sent = client.write_all(request.repeat(times).as_bytes()).await;
            sent.expect("it is open");
            idle.push(client);
        }
        for path in PAGES {
            assert_eq!(page(admin, path).await.0, 200, "{path} beside {what}");
        }
        // No more are open than may be: the oldest ones are closed.
        for client in &mut idle[..ADMIN_CONNECTIONS_MAX] {
            is_closed(client).await;
        }
        drop(idle);
        server.stop().await;
    }
}

#[tokio::test]
async fn an_admin_connection_that_is_used_outlives_idle_ones() {
    let (server, admin) = server(&[("/", "exit.wat")], Duration::ZERO).await;
    let mut used = TcpStream::connect(admin).await.expect("it listens");
    is_served(&mut used).await;
    let mut idle = vec![];
    for _ in 1..ADMIN_CONNECTIONS_MAX {
        let mut client = TcpStream::connect(admin).await.expect("it listens");
        is_served(&mut client).await;
        idle.push(client);
    }
    is_served(&mut used).await;
    let mut further = TcpStream::connect(admin).await.expect("it listens");
    is_served(&mut further).await;
    is_closed(&mut idle[0]).await;
    for client in [&mut used, &mut further].into_iter().chain(&mut idle[1..]) {
        is_served(client).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn a_client_with_many_admin_connections_closes_only_its_own() {
    let (server, admin) = server(&[("/", "exit.wat")], Duration::ZERO).await;
    let mut others = connect_from([127, 0, 0, 2], admin).await;
    is_served(&mut others).await;
    let mut own = vec![];
    for _ in 0..3 * ADMIN_CONNECTIONS_MAX {
        own.push(connect_from([127, 0, 0, 3], admin).await);
    }
    // The server accepts connections in their order.
    is_served(own.last_mut().expect("it has many")).await;
    is_served(&mut others).await;
    server.stop().await;
}

#[tokio::test]
async fn an_admin_client_that_sends_nothing_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let admin = listener.local_addr().expect("it listens");
    let extras = Extras {
        admin: Some(listener),
        ..Extras::default()
    };
    let limits = Limits {
        header_timeout: Duration::from_millis(20),
        ..common::limits()
    };
    let guests = [("/", module("exit.wat"))];
    let server = TestServer::with(&guests, common::settings(), limits, extras).await;
    let mut silent = TcpStream::connect(admin).await.expect("it listens");
    let mut rest = vec![];
    // hyper may answer 408 before it closes the connection.
    soon("the end", silent.read_to_end(&mut rest))
        .await
        .expect("an end");
    server.stop().await;
}

#[test]
fn the_program_says_where_its_pages_are() {
    let hello = format!("/metrics={}", guest("web-hello.wasm").display());
    let both = ["--log", "off", "--listen", "127.0.0.1:0", "--route", &hello];
    assert!(refusal(&both).contains("a path of the server itself"));
    let mut command = serve();
    command.args(both).args(["--admin", "127.0.0.1:0"]);
    command.args(PATIENT);
    let mut child = command.spawn().expect("it starts");
    let stdout = child.stdout.take().expect("a pipe was asked for");
    let lines: Vec<_> = BufReader::new(stdout)
        .lines()
        .take(2)
        .map_while(Result::ok)
        .collect();
    let admin = lines[1]
        .strip_prefix("admin pages on ")
        .expect("the address");
    let public = lines[0].strip_prefix("listening on ").expect("the address");
    assert!(get(admin, "/readyz").ends_with("\r\nready\n"));
    assert!(get(public, "/metrics").ends_with("hello from a slot\n"));
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
