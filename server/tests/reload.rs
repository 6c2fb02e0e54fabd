//! Reloads: requests without a pause during many of them, requests that span one, and reloads that
//! fail.

use crate::common;
use crate::common::serving;

use common::{TestServer, WAITS, module, prints, soon, until};
use hyper::Request;
use pirn_server::load::{connect, metric};
use pirn_server::{Limits, Pirn, Settings};
use serving::{Serving, serve};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// Replaces a file as a deployment does: readers find the old one or the new one.
fn publish(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).expect("room");
    fs::rename(&new, path).expect("the same folder");
}

fn compiled(source: &str) -> Vec<u8> {
    let wasm = pirn_compiler::parse_text(source.as_bytes()).expect("it is well-formed");
    let options = pirn_compiler::Options::default();
    pirn_compiler::compile(&wasm, &options).expect("it is valid")
}

/// The server that a test reloads, with its files.
struct Reloaded {
    serving: Serving,
    folder: tempfile::TempDir,
}

impl Reloaded {
    fn start(config: &str, modules: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("serve.toml");
        fs::write(&path, config).expect("room");
        for (name, bytes) in modules {
            publish(&folder.path().join(name), bytes);
        }
        let mut command = serve();
        let log = fs::File::create(folder.path().join("log")).expect("room");
        command.arg("--config").arg(&path).stderr(log);
        let serving = Serving::start(command);
        Self { serving, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("text")
    }

    /// Number of reloads with this result.
    fn reloads(&self, result: &str) -> usize {
        let text = self.serving.get("/metrics");
        let name = format!("pirn_reloads_total{{result=\"{result}\"}}");
        metric(&text, &name).expect("the metric is there") as usize
    }

    /// Sends SIGHUP, and waits for its result.
    fn reload(&self, result: &str) {
        let before = self.reloads(result);
        self.serving.signal("HUP");
        let start = Instant::now();
        while self.reloads(result) == before {
            assert!(start.elapsed() < common::PATIENCE, "{}", self.log());
            std::thread::yield_now();
        }
    }
}

/// Number of reloads during which requests are sent.
const RELOADS: usize = 30;

/// A configuration in which equal paths have other numbers in every second version.
fn config(version: usize) -> String {
    let mut routes = ["v", "w"].map(|name| {
        format!(
            "[[route]]\npath = '/{name}'\nmodule = '{name}.so'\nwarm = {}\n",
            version.is_multiple_of(3)
        )
    });
    if version % 2 == 1 {
        routes.reverse();
    }
    // Other slots are a new region; otherwise new guests share the slots of old ones.
    let slots = if version.is_multiple_of(5) { 8 } else { 6 };
    let set = "listen = '127.0.0.1:0'\nlog = 'info'";
    let limits = ["deadline", "warm_deadline", "wait", "header_timeout"];
    let limits = limits.map(|name| format!("{name} = '3600s'\n")).concat();
    format!("{set}\n{limits}slots = {slots}\n{}", routes.concat())
}

fn answer(name: &str, version: usize) -> Vec<u8> {
    compiled(&prints(&format!("Status: 200\n\n{name} {version}")))
}

/// What the reloads and the clients share.
#[derive(Default)]
struct Shared {
    /// The version that is served, or an older one.
    served: AtomicUsize,
    /// The newest version that may be served.
    published: AtomicUsize,
    /// Number of answers of each client.
    answers: [AtomicUsize; 4],
    /// Whether all reloads are done, or a client has panicked.
    over: AtomicBool,
}

/// Ends the test when it is dropped.
struct Ends<'a>(&'a Shared);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}

/// Sends requests until the end. Each gets an answer of its route, of a version between the one
/// that was served before it and the one that was published after it.
async fn client(address: SocketAddr, name: &str, number: usize, shared: &Shared) {
    let Shared {
        served,
        published,
        answers,
        over,
    } = shared;
    let _ends = Ends(shared);
    let mut connection = connect(address).await.expect("it listens");
    while !over.load(Ordering::SeqCst) {
        let earliest = served.load(Ordering::SeqCst);
        connection.ready().await.expect("the connection stays");
        let request = Request::get(format!("/{name}")).header("host", "a");
        let answer = connection.send_request(request.body(Default::default()).unwrap());
        let answer = soon("an answer", answer).await.expect("no request is lost");
        let answer = common::read(answer).await;
        let latest = published.load(Ordering::SeqCst);
        let version = answer.body.strip_prefix(&format!("{name} "));
        let version = version.and_then(|version| version.parse::<usize>().ok());
        let version = version.unwrap_or_else(|| panic!("{name}: {answer:?}"));
        assert_eq!(answer.status, 200);
        assert!(
            (earliest..=latest).contains(&version),
            "{earliest} {version} {latest}"
        );
        answers[number].fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_or_mixes_during_many_reloads() {
    let (v, w) = (answer("v", 0), answer("w", 0));
    let server = Reloaded::start(&config(0), &[("v.so", &v), ("w.so", &w)]);
    let server = Arc::new(server);
    let address = server.serving.address.parse().expect("an address");
    let shared = Arc::<Shared>::default();
    let clients = [(0, "v"), (1, "w"), (2, "v"), (3, "w")].map(|(number, name)| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { client(address, name, number, &shared).await })
    });
    let (reloading, counts) = (Arc::clone(&server), Arc::clone(&shared));
    let reloads = tokio::task::spawn_blocking(move || {
        for version in 1..=RELOADS {
            counts.published.store(version, Ordering::SeqCst);
            publish(&reloading.path("v.so"), &answer("v", version));
            publish(&reloading.path("w.so"), &answer("w", version));
            publish(&reloading.path("serve.toml"), config(version).as_bytes());
            reloading.reload("ok");
            counts.served.store(version, Ordering::SeqCst);
            // Each client has an answer for each version.
            let is_slow = |count: &AtomicUsize| count.load(Ordering::SeqCst) <= version;
            while counts.answers.iter().any(is_slow) && !counts.over.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    });
    let reloads = reloads.await;
    drop(Ends(&shared));
    reloads.unwrap_or_else(|error| panic!("{error}: {}", server.log()));
    for client in clients {
        client.await.expect("each request was answered");
    }
    for requests in &shared.answers {
        let requests = requests.load(Ordering::SeqCst);
        assert!(requests > RELOADS, "{requests}");
    }
    let metrics = server.serving.get("/metrics");
    assert_eq!(metric(&metrics, "pirn_slots"), Some(8.0), "{metrics}");
    assert_eq!(metric(&metrics, "pirn_slots_used"), Some(0.0), "{metrics}");
    assert_eq!(server.log().matches(" reloaded").count(), RELOADS);
}

#[test]
fn a_reload_that_fails_leaves_everything_as_it_was() {
    let good = config(0);
    let (v, w) = (answer("v", 0), answer("w", 0));
    let server = Reloaded::start(&good, &[("v.so", &v), ("w.so", &w)]);
    let imports = compiled(r#"(module (import "a" "b" (func)) (func (export "_start")))"#);
    let bad_configs = [
        ("slots = 'x'", "serve.toml:1: \"x\" is not a count"),
        ("", "there is no route"),
        (
            "[[route]]\npath = '/v'\nmodule = 'none.so'",
            "none.so: No such file",
        ),
        (
            "[[route]]\npath = '/v'\nmodule = 'serve.toml'",
            "serve.toml:1: ",
        ),
        (
            "[[route]]\npath = '/metrics'\nmodule = 'v.so'",
            "a path of the server itself",
        ),
        (
            "slots = 4294967295\n[[route]]\npath = '/v'\nmodule = 'v.so'",
            "slots",
        ),
    ];
    let bad_modules = [
        (&imports[..], "which is not provided; remove the import"),
        (b"\x7fELF", "v.so: "),
        (b"", "v.so: "),
    ];
    let mut failed = 0;
    let mut fails = |why: &str| {
        server.reload("failed");
        failed += 1;
        let log = server.log();
        // The log escapes quotes.
        let line = log.lines().last().unwrap_or_default().replace('\\', "");
        assert!(
            line.contains("not reloaded") && line.contains(why),
            "{why}: {line}"
        );
        assert_eq!(log.matches("not reloaded").count(), failed);
        assert!(server.serving.get("/v").ends_with("\r\nv 0"));
        assert!(server.serving.get("/w").ends_with("\r\nw 0"));
    };
    for (config, why) in bad_configs {
        publish(&server.path("serve.toml"), config.as_bytes());
        fails(why);
    }
    fs::remove_file(server.path("serve.toml")).expect("it is there");
    fails("serve.toml: No such file");
    publish(&server.path("serve.toml"), good.as_bytes());
    for (module, why) in bad_modules {
        publish(&server.path("v.so"), module);
        fails(why);
    }
    publish(&server.path("v.so"), &answer("v", 7));
    server.reload("ok");
    assert!(server.serving.get("/v").ends_with("\r\nv 7"));
}

#[test]
fn what_needs_a_restart_is_named() {
    let w = answer("w", 0);
    let server = Reloaded::start(&config(0), &[("v.so", &w), ("w.so", &w)]);
    let other = config(1).replace("127.0.0.1:0", "127.0.0.1:1");
    let other = format!("workers = 1\nconnections = 7\n{other}");
    publish(&server.path("serve.toml"), other.as_bytes());
    server.reload("ok");
    let log = server.log();
    let named = "changed options take effect at the next start only \
                 options=\"listen workers connections\"";
    assert!(log.contains(named), "{log}");
    let metrics = server.serving.get("/metrics");
    assert!(
        metrics.contains("\npirn_slots 6\n"),
        "slots do not: {metrics}"
    );
}

fn settings() -> Settings {
    Settings {
        slots: 2,
        memory_bytes_max: 4 << 20,
        ..common::settings()
    }
}

fn limits() -> Limits {
    Limits {
        route_requests: 1,
        ..common::limits()
    }
}

#[tokio::test]
async fn a_request_that_runs_ends_with_the_guest_that_it_has() {
    let server = TestServer::new(
        &[("/wait", WAITS), ("/v", "exit.wat")],
        settings(),
        limits(),
    )
    .await;
    let server = Arc::new(server);
    let waiting = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.get("/wait").await }
    });
    until("the guest waits", || server.door.came() == 1).await;
    let hello = prints("Status: 200\n\nhello");
    let modules = [module(&hello), module(&hello)];
    let next = server.engine.renewed(settings(), &modules, |_| Ok(()));
    let next = Arc::new(next.expect("they fit"));
    let handle = server.handle.as_ref().expect("it runs");
    let engine = Arc::<Pirn>::clone(&next);
    let routes = ["/v", "/wait"];
    handle
        .replace(engine, routes, limits())
        .expect("they are good");
    assert_eq!(server.get("/v").await.body, "hello");
    // Both guests share the slots, and requests of the route before and after count together.
    assert_eq!(server.metric("pirn_slots_used").await, 1.0);
    assert_eq!(server.get("/wait").await.status, 503);
    // A replacement that is refused changes nothing.
    let engine = Arc::<Pirn>::clone(&next);
    let refused = handle.replace(engine, ["/a", "/a"], limits());
    assert!(refused.is_err());
    server.door.open();
    let answer = soon("the first answer", waiting).await.expect("no panic");
    assert_eq!((answer.status, answer.body.trim_end()), (200, "waited"));
    assert_eq!(server.get("/wait").await.body, "hello");
    // The task of the connection has the old engine until it ends.
    until("nobody has the old engine", || {
        Arc::strong_count(&server.engine) == 1
    })
    .await;
    assert_eq!(server.count("/wait", "ok").await, 2.0);
}
