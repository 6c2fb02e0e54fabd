//! Good requests among bad ones: every good one gets the right response, every bad one its status,
//! no slot is lost, and memory does not grow.
//!
//! The default run is small; `PIRN_LOAD=200000 cargo test --release -p pirn-server --test
//! server load::` is large.

use crate::common;

use bytes::Bytes;
use common::{PANICS, PATIENCE, TestServer, limits, module};
use pirn_server::load::{Load, Report, Shot};
use pirn_server::{Extras, Pirn, Settings};
use std::time::Duration;

const CONNECTIONS: usize = 8;

/// The permitted growth of memory from the middle of the load to its end: memory that is not the
/// server's, such as this client's records and the allocator's arenas.
const GROWTH_BYTES_MAX: f64 = (8 << 20) as f64;

/// The deadline of endless guests.
const LOOP_TIME: Duration = Duration::from_millis(200);

/// Number of requests in a default run.
const REQUESTS: usize = 3_000;

/// Route, guest, expected status, weight.
const GUESTS: [(&str, &str, u16, usize); 9] = [
    ("/hello", "web-hello.wasm", 200, 600),
    ("/web", "web-rust.wasm", 200, 300),
    ("/trap", "trap.wat", 502, 40),
    ("/exit", "exit.wat", 502, 20),
    (FLOOD, "flood.wat", 502, 10),
    ("/overflow", "overflow.wat", 502, 10),
    ("/memory", "memory.wat", 502, 10),
    ("/panic", PANICS, 500, 10),
    // Few, because each takes its whole deadline.
    ("/loop", "loop.wat", 504, 1),
];

fn shots() -> Vec<Shot> {
    let shot = |(path, _, status, weight): (&str, &str, u16, usize)| {
        let (path, body, answer) = match path {
            "/hello" => (
                path.to_owned(),
                Bytes::new(),
                Some("hello from a slot\n".into()),
            ),
            "/web" => {
                let body = Bytes::from("what is sent comes back\n".repeat(50));
                ("/web/echo".to_owned(), body.clone(), Some(body))
            }
            other => (other.to_owned(), Bytes::new(), None),
        };
        Shot {
            path,
            body,
            status,
            answer,
            weight,
        }
    };
    GUESTS.map(shot).into()
}

/// Prints too much. The server has often sent the head of its response before it knows that.
const FLOOD: &str = "/flood";

/// Whether the answer of [`FLOOD`] began and was not completed.
fn is_cut(wrong: &str) -> bool {
    let cause = wrong.strip_prefix(FLOOD);
    cause.is_some_and(|cause| cause.starts_with(": error reading a body"))
}

async fn load(server: &TestServer, requests: usize, shots: Vec<Shot>) -> Report {
    let load = Load {
        address: server.address,
        connections: CONNECTIONS,
        requests,
        patience: PATIENCE,
        shots,
    };
    let report = load.run().await.expect("it listens");
    let wrong = report.wrong().filter(|wrong| !is_cut(wrong));
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{report}\n{wrong:#?}");
    let right = report.shots.iter().map(|hits| match hits.path.as_str() {
        FLOOD => hits.right + hits.wrong_count,
        _ => hits.right,
    });
    assert_eq!(right.sum::<usize>(), requests);
    server.rests().await;
    report
}

/// Alone in its process, because it measures resident memory and replaces the panic hook.
#[test]
fn good_requests_among_bad_ones_are_answered() {
    pirn_testing::process::alone(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime.expect("threads").block_on(good_among_bad());
    });
}

async fn good_among_bad() {
    // These panics are expected; do not print their backtraces.
    std::panic::set_hook(Box::new(|panic| {
        let wanted = panic.payload_as_str() == Some("as the test wants it");
        if !wanted {
            eprintln!("{panic}");
        }
    }));
    let requests = std::env::var("PIRN_LOAD")
        .ok()
        .and_then(|text| text.parse().ok());
    let requests: usize = requests.unwrap_or(REQUESTS);
    let settings = Settings {
        slots: CONNECTIONS as u32,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    };
    let guests = GUESTS.map(|(path, source, _, _)| (path, module(source)));
    // Only endless guests have a deadline that passes.
    let change = |engine: &mut Pirn| engine.set_deadline(guests.len() - 1, LOOP_TIME);
    let extras = Extras::default();
    let server = TestServer::changed(&guests, settings, limits(), extras, change).await;
    // Without endless guests, which would double the time of the test.
    let mut ending = shots();
    ending.retain(|shot| shot.path != "/loop");
    load(&server, requests / 2, ending).await;
    let resident = "process_resident_memory_bytes";
    let before = server.metric(resident).await;
    let report = load(&server, requests, shots()).await;
    let after = server.metric(resident).await;
    println!(
        "{report}\nresident: {:.0} KiB, then {:.0} KiB",
        before / 1024.0,
        after / 1024.0
    );
    assert!(
        after < before + GROWTH_BYTES_MAX,
        "{before} bytes resident before {requests} requests, {after} after"
    );
    for (route, outcome) in [
        ("/hello", "ok"),
        ("/panic", "failed"),
        ("/loop", "deadline"),
    ] {
        assert!(server.count(route, outcome).await > 0.0, "{route}");
        assert_eq!(server.count(route, "full").await, 0.0, "{route}");
    }
    server.stop().await;
}
