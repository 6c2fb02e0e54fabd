//! The pages about health, on the public address or on an address of their own, until the end.

use crate::common;
use crate::common::serving;

use common::{TestServer, WAITS, guest, module, prints, soon, until};
use hyper::Request;
use pirn_server::admin::ADMIN_CONNECTIONS_MAX;
use pirn_server::load::connect;
use pirn_server::{Extras, Limits, Settings};
use serving::{PATIENT, get, refusal, serve};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
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

#[tokio::test]
async fn admin_connections_are_limited() {
    let (server, admin) = server(&[("/", "exit.wat")], Duration::ZERO).await;
    let mut idle = vec![];
    for _ in 0..ADMIN_CONNECTIONS_MAX {
        let mut client = connect(admin).await.expect("it listens");
        let request = Request::get("/healthz")
            .header("host", "a")
            .body(Default::default());
        let answer = client.send_request(request.expect("it is a request"));
        assert!(soon("an answer", answer).await.is_ok());
        idle.push(client);
    }
    let late = tokio::spawn(async move { page(admin, "/healthz").await });
    // The public address still works, and so does the next admin connection once one is closed.
    assert_eq!(server.get("/").await.status, 502);
    assert!(!late.is_finished());
    drop(idle.pop());
    assert_eq!(soon("room", late).await.expect("no panic").0, 200);
    drop(idle);
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
