//! Handlers in several languages, from their toolchains, each asked the same things.
//!
//! Those of Rust and C are committed. `examples/guests/build.sh http-go http-js http-python` makes
//! the others; the suite names those that are not there.

use crate::common;

use bytes::Bytes;
use common::{Answer, TestServer, guest, module, soon};
use http_body_util::Full;
use hyper::{Request, StatusCode};
use pirn_runtime::Module;
use pirn_server::grants::Grants;
use pirn_server::load::connect;
use pirn_server::{Limits, Pirn, Server, Settings};
use pirn_testing::campaign::every;
use pirn_testing::process::not_run;
use std::net::SocketAddr;
use std::sync::Arc;

/// Whether a handler was built. If not, says so.
fn is_there(file: &str) -> bool {
    let is_there = guest(file).exists();
    if !is_there {
        let made_by = "build it with examples/guests/build.sh components";
        not_run(format_args!("{file} is not there; {made_by}"));
    }
    is_there
}

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 128 << 20,
        ..common::settings()
    }
}

fn limits() -> Limits {
    Limits {
        body_max: 4 << 20,
        ..common::limits()
    }
}

async fn ask(
    address: SocketAddr,
    path: &str,
    body: Bytes,
) -> (StatusCode, hyper::HeaderMap, Bytes) {
    use http_body_util::BodyExt as _;
    let mut client = connect(address).await.expect("it listens");
    let request = Request::post(path)
        .header("host", "a")
        .body(Full::new(body));
    let answer = client.send_request(request.expect("a request"));
    let (head, body) = soon("an answer", answer)
        .await
        .expect("an answer")
        .into_parts();
    let body = soon("a body", body.collect()).await.expect("a body");
    (head.status, head.headers, body.to_bytes())
}

/// What every handler answers.
async fn answers(file: &str, language: &str) {
    if !is_there(file) {
        return;
    }
    let module = module(file);
    let server = TestServer::of(&[("/", module.clone())], settings(), limits()).await;
    let ok = |answer: Answer| {
        assert_eq!(answer.status, 200, "{language}: {answer:?}");
        answer.body
    };
    assert_eq!(
        ok(server.get("/hello").await),
        format!("hello from {language}\n")
    );
    for _ in 0..3 {
        assert_eq!(ok(server.get("/keep").await).trim(), "1", "nothing is kept");
    }
    let request = Request::get("/headers")
        .header("x-one", "1")
        .header("connection", "close");
    assert_eq!(ok(server.ask(request, "").await), "x-one: 1\n");
    assert_eq!(ok(server.get("/slow").await), "slept\n");
    assert_eq!(ok(server.get("/big?n=300000").await).len(), 300_000);
    let body = Bytes::from((0..200_000u32).map(|n| (n % 251) as u8).collect::<Vec<_>>());
    let (status, headers, echoed) = ask(server.address, "/echo?a=%20", body.clone()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["x-method"], "POST");
    assert_eq!(headers["x-path"], "/echo?a=%20");
    assert_eq!(echoed, body, "{language}");
    let (_, _, count) = ask(server.address, "/count", body).await;
    assert_eq!(count, "200000\n");
    for path in ["/fail", "/never"] {
        let answer = server.get(path).await;
        assert!(answer.status >= 500, "{language} {path}: {answer:?}");
    }
    // Nothing is allowed.
    let url = format!("http://{}/hello", server.address);
    let denied = server.get(&format!("/call?url={url}")).await;
    assert_eq!(denied.status, 502, "{language}: {denied:?}");
    assert_eq!(server.get("/nowhere").await.status, 404);
    server.stop().await;
    calls(&module, language).await;
}

/// A handler asks a server that it may ask.
async fn calls(module: &Module, language: &str) {
    let other = TestServer::new(&[("/", "http-c.wasm")], settings(), limits()).await;
    let modules = [module.clone()];
    let mut engine = Pirn::new(settings(), &modules, |_| Ok(())).expect("it fits");
    let mut grants = Grants::default();
    let added = grants.servers.add(&other.address.to_string());
    added.expect("a server");
    engine.allow(0, &grants);
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(any, Arc::new(engine), ["/"], limits()).await;
    let server = server.expect("it listens");
    let address = server.address().expect("it listens");
    let served = tokio::spawn(server.run(std::future::pending()));
    let url = format!("http://{}/hello", other.address);
    let (status, _, body) = ask(address, &format!("/call?url={url}"), Bytes::new()).await;
    assert_eq!(
        (status.as_u16(), &body[..]),
        (200, &b"hello from C\n"[..]),
        "{language}"
    );
    served.abort();
    other.stop().await;
}

#[tokio::test]
async fn rust_answers() {
    answers("http-rust.wasm", "Rust").await;
}

#[tokio::test]
async fn c_answers() {
    answers("http-c.wasm", "C").await;
}

#[tokio::test]
async fn go_answers() {
    answers("built/http-go.wasm", "Go").await;
}

#[tokio::test]
async fn javascript_answers() {
    answers("built/http-js.wasm", "JavaScript").await;
}

/// A JavaScript guest that calls the functions of `wasi:http`, and does not use `fetch` events. It
/// has the engine of the other one, which takes long to compile: only a whole campaign runs it.
#[tokio::test]
async fn javascript_answers_by_the_functions_of_the_interface() {
    let file = "built/http-js-hello.wasm";
    if every(2) != 1 || !is_there(file) {
        return;
    }
    let module = module(file);
    let server = TestServer::of(&[("/", module)], settings(), limits()).await;
    for _ in 0..3 {
        let answer = server.get("/any").await;
        assert_eq!((answer.status, &*answer.body), (200, "hello"));
    }
    server.stop().await;
}

#[tokio::test]
async fn python_answers() {
    answers("built/http-python.wasm", "Python").await;
}
