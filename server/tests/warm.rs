//! Guests that are initialised once, before the first request.

use crate::common;
use pirn_testing::campaign;
use pirn_testing::process::not_run;

use common::{HOUR, TestServer, limits, module};
use hyper::Request;
use pirn_runtime::Module;
use pirn_server::grants::{GrantedDir, Grants};
use pirn_server::pirn::warm;
use pirn_server::{Extras, Pirn, Settings};
use pirn_wasi2::{MemoryBase, MemoryLimits};
use std::time::Duration;

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 32 << 20,
        ..common::settings()
    }
}

/// A reactor that prints how often it was initialised, restored and called, a digit each.
const COUNTS: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\11\00\00\00")
  (data (i32.const 16) "Status: 200\n\n000\n")
  (func $count (param $at i32)
    (i32.store8 (local.get $at) (i32.add (i32.load8_u (local.get $at)) (i32.const 1))))
  (func (export "_initialize") (call $count (i32.const 29)))
  (func (export "after_restore") (call $count (i32.const 30)))
  (func (export "handle")
    (call $count (i32.const 31))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// A command that wizer would initialise.
const COMMAND: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\12\00\00\00")
  (data (i32.const 16) "Status: 200\n\ncold\n")
  (func (export "wizer-initialize") (i32.store (i32.const 29) (i32.const 0x6d726177)))
  (func (export "_start")
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

fn warmed(module: &Module) -> anyhow::Result<Module> {
    warm(module, &settings(), &Grants::default(), HOUR, |_| Ok(()))
}

#[tokio::test]
async fn each_request_begins_after_the_initialisation() {
    let (counts, command) = (module(COUNTS), module(COMMAND));
    let again = warmed(&counts).expect("it is initialised");
    let plain = module("web-hello.wasm");
    let guests = [
        ("/cold", counts.clone()),
        ("/warm", warmed(&counts).expect("it is initialised")),
        // A snapshot, and a module without initialisation, are as they were.
        ("/again", warmed(&again).expect("it is one already")),
        ("/command", command.clone()),
        (
            "/warm-command",
            warmed(&command).expect("it is initialised"),
        ),
        ("/hello", warmed(&plain).expect("there is nothing to do")),
    ];
    let server = TestServer::of(&guests, settings(), limits()).await;
    for _ in 0..3 {
        for (path, body) in [
            ("/cold", "101\n"),
            ("/warm", "111\n"),
            ("/again", "111\n"),
            ("/command", "cold\n"),
            ("/warm-command", "warm\n"),
            ("/hello", "hello from a slot\n"),
        ] {
            let answer = server.get(path).await;
            assert_eq!((answer.status, answer.body.as_str()), (200, body), "{path}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_reactor_ends_as_a_command_does() {
    let guest = |body: &str| module(&format!(r#"(module (memory (export "memory") 1) {body})"#));
    let fails = r#"(func (export "_initialize") unreachable) (func (export "handle"))"#;
    let late = r#"(func (export "_initialize") (loop (br 0))) (func (export "handle"))"#;
    let guests = [
        (
            "/exit",
            guest(r#"(func (export "handle") (result i32) (i32.const 3))"#),
        ),
        (
            "/nothing",
            guest(r#"(func (export "handle") (result i32) (i32.const 0))"#),
        ),
        ("/trap", guest(r#"(func (export "handle") unreachable)"#)),
        ("/fails", guest(fails)),
        ("/late", guest(late)),
    ];
    // Only the last guest has a deadline that passes.
    let change = |engine: &mut Pirn| engine.set_deadline(4, Duration::from_millis(300));
    let extras = Extras::default();
    let server = TestServer::changed(&guests, settings(), limits(), extras, change).await;
    for (path, status, outcome) in [
        ("/exit", 502, "exit"),
        ("/nothing", 502, "malformed"),
        ("/trap", 502, "trap"),
        ("/fails", 502, "trap"),
        ("/late", 504, "deadline"),
    ] {
        assert_eq!(server.get(path).await.status, status, "{path}");
        assert!(server.count(path, outcome).await > 0.0, "{path}");
    }
    server.stop().await;
}

#[test]
fn a_guest_that_cannot_be_served_or_initialised_is_named() {
    let refused_within = |limit: Duration, body: &str, part: &str| {
        let guest = module(&format!(r#"(module (memory (export "memory") 1) {body})"#));
        let made = warm(&guest, &settings(), &Grants::default(), limit, |_| Ok(()));
        let made = made.and_then(|warm| Pirn::new(settings(), &[warm], |_| Ok(())).map(drop));
        let error = format!("{:#}", made.expect_err(body));
        assert!(
            error.contains(part) && !error.contains('\n'),
            "{body}: {error}"
        );
    };
    let refused = |body: &str, part: &str| refused_within(HOUR, body, part);
    refused("", "it exports neither _start nor handle");
    refused(r#"(func (export "handle") (param i32))"#, "handle");
    refused(
        r#"(func (export "handle") (result i64) (i64.const 0))"#,
        "handle",
    );
    refused(
        r#"(func (export "_initialize") (param i32)) (func (export "handle"))"#,
        "\"_initialize\" has the type (i32) -> ()",
    );
    let with =
        |body: &str| format!(r#"(func (export "_initialize") {body}) (func (export "handle"))"#);
    refused(&with("unreachable"), "its initialisation _initialize: ");
    refused_within(
        Duration::from_millis(200),
        &with("(loop (br 0))"),
        "deadline",
    );
    refused(
        r#"(func (export "_initialize")) (func (export "handle"))
           (func (export "after_restore") (param i32))"#,
        "after_restore",
    );
}

/// A guest can give a number that it was given to a file that it has opened. As many descriptors
/// are open then as before.
#[test]
fn an_initialisation_that_replaces_a_descriptor_is_refused() {
    let guest = |body: &str| {
        module(&format!(
            r#"(module
                 (import "wasi_snapshot_preview1" "path_open"
                   (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
                 (import "wasi_snapshot_preview1" "fd_renumber"
                   (func $renumber (param i32 i32) (result i32)))
                 (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
                 (memory (export "memory") 1)
                 (data (i32.const 0) "file")
                 (func (export "_initialize")
                   (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4)
                         (i32.const 1) (i64.const 66) (i64.const 0) (i32.const 0) (i32.const 64))
                     (then unreachable))
                   {body})
                 (func (export "handle")))"#
        ))
    };
    let mut grants = Grants::default();
    grants.memory_dirs.push(GrantedDir {
        path: "/tmp".into(),
        base: MemoryBase::empty(),
        limits: MemoryLimits::default(),
    });
    let warmed = |body: &str| warm(&guest(body), &settings(), &grants, HOUR, |_| Ok(()));
    let renumbered = "(if (call $renumber (i32.load (i32.const 64)) (i32.const REPLACED)) \
                      (then unreachable))";
    let left = "";
    for body in [
        left,
        &renumbered.replace("REPLACED", "0"),
        &renumbered.replace("REPLACED", "3"),
    ] {
        let error = warmed(body).map(drop).expect_err(body).to_string();
        assert!(error.contains("descriptors"), "{body}: {error}");
    }
    let closed = "(if (call $close (i32.load (i32.const 64))) (then unreachable))";
    warmed(closed).expect("the descriptors are as they were");
}

/// Number of requests of the whole campaign.
const REQUESTS: u64 = 10_000;

/// A Go program whose init has run once. No request sees another one.
#[tokio::test]
async fn go_answers_each_request_from_a_snapshot() {
    let path = common::guest("built/web-go-reactor.wasm");
    if !path.exists() {
        not_run("web-go-reactor.wasm is not built; run examples/guests/build.sh go");
        return;
    }
    let guest = warmed(&module("built/web-go-reactor.wasm")).expect("it is initialised");
    let server = TestServer::of(&[("/go", guest)], settings(), limits()).await;
    for n in 0..campaign::share(REQUESTS, 100) {
        let own = format!("request {n}");
        let request = Request::post(format!("/go/request?{n}")).header("x-number", n);
        let answer = server.ask(request, &own).await;
        let bytes = own.len();
        let wanted = format!(
            "language: Go\nmethod: POST\npath: /go/request\nquery: {n}\nx-number: {n}\n\
             body: {bytes} bytes\n"
        );
        assert_eq!((answer.status, answer.body), (200, wanted), "{n}");
    }
    let answer = server.get("/go/nothing").await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (404, "no /nothing here\n")
    );
    server.stop().await;
}
