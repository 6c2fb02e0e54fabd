//! Shared by the server's tests: a server with guests, and clients of all kinds.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../wasi2/tests/common/handler.rs"]
mod handler;
pub(crate) mod serving;
#[path = "../../../wasi2/tests/common/wit.rs"]
mod wit;

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{LinkError, Linker, Module};
use pirn_server::load::connect;
use pirn_server::{AccessLog, Engine as _, Extras, Handle, Limits, Pirn, Server, Settings};
use pirn_wasi::WasiCtx;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A timeout that no successful operation reaches, also on a busy machine. It ends what hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// A limit that no test reaches.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Settings without a deadline that a guest could reach.
pub(crate) fn settings() -> Settings {
    Settings {
        deadline: HOUR,
        start_deadline: HOUR,
        ..Settings::default()
    }
}

/// Limits without a timeout that a client or a request could reach.
pub(crate) fn limits() -> Limits {
    Limits {
        wait: HOUR,
        header_timeout: HOUR,
        body_timeout: HOUR,
        write_timeout: HOUR,
        grace: HOUR,
        ..Limits::default()
    }
}

/// Waits for an event; panics if it does not happen in time.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let came = timeout(PATIENCE, future).await;
    came.unwrap_or_else(|_| panic!("{what} did not come within {PATIENCE:?}"))
}

/// Waits until a condition holds. Nothing tells of its change, so it is checked again and again.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < PATIENCE, "{what} within {PATIENCE:?}");
        tokio::task::yield_now().await;
    }
}

/// Number of complete lines of a file.
pub(crate) fn newlines(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("it is there");
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Path of a guest.
pub(crate) fn guest(name: &str) -> PathBuf {
    let server = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = server.join("guests").join(name);
    if own.exists() {
        return own;
    }
    server.join("../examples/guests").join(name)
}

/// A module from its text, or from a file with this name. A file is compiled once in a process.
pub(crate) fn module(source: &str) -> Module {
    static FILES: Mutex<BTreeMap<String, Arc<OnceLock<Module>>>> = Mutex::new(BTreeMap::new());
    if source.contains("(module") {
        return compiled(source.as_bytes(), &Options::default());
    }
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let file = Arc::clone(files.entry(source.to_owned()).or_default());
    // Other files are compiled meanwhile.
    drop(files);
    let module = file.get_or_init(|| {
        let mut options = Options::default();
        // Engines of other languages have 15,000 functions. The suites of WASI compile programs in
        // Go, Java and JavaScript with optimisation.
        if source.starts_with("built/") {
            options.opt_level = OptLevel::None;
        }
        let bytes = std::fs::read(guest(source)).expect("the guest is there");
        compiled(&bytes, &options)
    });
    module.clone()
}

/// A handler: a component of the text of its core module.
pub(crate) fn component(core: &str) -> Module {
    let so = pirn_compiler::compile(&handler::handler(core), &Options::default());
    Module::from_bytes(&so.expect("it is valid")).expect("it opens")
}

/// A module from its text or its bytes.
fn compiled(bytes: &[u8], options: &Options) -> Module {
    let wasm = pirn_compiler::parse_text(bytes).expect("it is well-formed");
    let so = pirn_compiler::compile(&wasm, options).expect("it is valid");
    Module::from_bytes(&so).expect("it opens")
}

/// The text of a guest that prints this output.
pub(crate) fn prints(output: &str) -> String {
    let escaped: String = output.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let len = output.len();
    format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write"
            (func $write (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 16)
          (data (i32.const 0) "\10\00\00\00")
          (data (i32.const 16) "{escaped}")
          (func (export "_start")
            (i32.store (i32.const 4) (i32.const {len}))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    )
}

/// A guest whose host function panics.
pub(crate) const PANICS: &str = r#"(module
  (import "test" "panic" (func $panic)) (memory (export "memory") 1)
  (func (export "_start") (call $panic)))"#;

/// A guest that prints its environment.
pub(crate) const ENVIRONMENT: &str = r#"(module
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 16) "\40\00\00\00\0d\00\00\00\00\40\00\00")
  (data (i32.const 64) "Status: 200\n\n")
  (func (export "_start")
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (drop (call $get (i32.const 1024) (i32.const 16384)))
    (i32.store (i32.const 28) (i32.load (i32.const 4)))
    (drop (call $write (i32.const 1) (i32.const 16) (i32.const 2) (i32.const 8)))))"#;

/// The variable of a guest that printed its environment.
pub(crate) fn variable<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    body.split('\0')
        .find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='))
}

/// A guest that waits until the test opens the door, and then responds.
pub(crate) const WAITS: &str = r#"(module
  (import "test" "wait" (func $wait))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\15\00\00\00")
  (data (i32.const 16) "Status: 200\n\nwaited\n\n\n")
  (func (export "_start")
    (call $wait)
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// A guest that sleeps for 10 ms, and then responds.
pub(crate) const NAPS: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\13\00\00\00")
  (data (i32.const 16) "Status: 200\n\nawake\n")
  (func (export "_start")
    (i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const 10000000))
    (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 8)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// A host function in which guests wait until the test opens the door.
#[derive(Default)]
pub(crate) struct Door {
    came: AtomicUsize,
    opened: watch::Sender<bool>,
}

impl Door {
    pub(crate) fn open(&self) {
        self.opened.send_replace(true);
    }

    /// Number of guests that have reached the door.
    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }

    async fn wait(&self) {
        self.came.fetch_add(1, Ordering::Relaxed);
        let opened = self.opened.subscribe().wait_for(|open| *open).await.is_ok();
        assert!(opened, "the test has the door");
    }
}

/// Host functions that the tests offer in addition to WASI.
fn hooks(linker: &mut Linker<WasiCtx>, door: &Arc<Door>) -> Result<(), LinkError> {
    let door = Arc::clone(door);
    linker.func("test", "panic", || -> () { panic!("as the test wants it") })?;
    linker.func_async("test", "wait", move |_, ()| {
        let door = Arc::clone(&door);
        Box::pin(async move { door.wait().await })
    })?;
    Ok(())
}

/// A server in this process.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Arc<Pirn>,
    pub(crate) door: Arc<Door>,
    pub(crate) handle: Option<Handle>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) served: JoinHandle<()>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl TestServer {
    /// Serves guests at their routes.
    pub(crate) async fn new(guests: &[(&str, &str)], settings: Settings, limits: Limits) -> Self {
        let guests: Vec<_> = guests
            .iter()
            .map(|(path, source)| (*path, module(source)))
            .collect();
        Self::of(&guests, settings, limits).await
    }

    /// Serves guests at their routes, and logs the requests.
    pub(crate) async fn logging(
        guests: &[(&str, &str)],
        settings: Settings,
        limits: Limits,
        access: AccessLog,
    ) -> Self {
        let guests: Vec<_> = guests
            .iter()
            .map(|(path, source)| (*path, module(source)))
            .collect();
        let access = Some(access);
        let extras = Extras {
            access,
            ..Extras::default()
        };
        Self::with(&guests, settings, limits, extras).await
    }

    /// Serves modules at their routes.
    pub(crate) async fn of(guests: &[(&str, Module)], settings: Settings, limits: Limits) -> Self {
        Self::with(guests, settings, limits, Extras::default()).await
    }

    pub(crate) async fn with(
        guests: &[(&str, Module)],
        settings: Settings,
        limits: Limits,
        extras: Extras,
    ) -> Self {
        Self::changed(guests, settings, limits, extras, |_| ()).await
    }

    /// Serves modules at their routes, after a change of the engine.
    pub(crate) async fn changed(
        guests: &[(&str, Module)],
        settings: Settings,
        limits: Limits,
        extras: Extras,
        change: impl FnOnce(&mut Pirn),
    ) -> Self {
        let modules: Vec<_> = guests.iter().map(|(_, module)| module.clone()).collect();
        let door = Arc::<Door>::default();
        let engine = Pirn::new(settings, &modules, |linker| hooks(linker, &door));
        let mut engine = engine.expect("the guests fit");
        change(&mut engine);
        let engine = Arc::new(engine);
        let routes = guests.iter().map(|(path, _)| *path);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let served = Arc::<Pirn>::clone(&engine);
        let server = Server::new(listener, served, routes, limits, extras).expect("good routes");
        let address = server.address().expect("it listens");
        let handle = Some(server.handle());
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self {
            address,
            engine,
            door,
            handle,
            stop: Some(stop),
            served,
        }
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Request::get(path), "").await
    }

    /// Sends a request with a body.
    pub(crate) async fn ask(&self, request: hyper::http::request::Builder, body: &str) -> Answer {
        let body = Full::new(Bytes::copy_from_slice(body.as_bytes()));
        let request = request.header("host", "localhost").body(body);
        let mut client = connect(self.address).await.expect("it listens");
        let answer = client.send_request(request.expect("it is a request"));
        read(soon("an answer", answer).await.expect("an answer")).await
    }

    /// Opens a connection.
    pub(crate) async fn open(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).await;
        client.expect("it listens")
    }

    /// Opens a connection, and sends the beginning of a request.
    pub(crate) async fn begin(&self, request: &[u8]) -> TcpStream {
        let mut client = self.open().await;
        client.write_all(request).await.expect("it listens");
        client
    }

    /// The value of a metric.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.body;
        pirn_server::load::metric(&text, name).unwrap_or_else(|| panic!("no {name} in\n{text}"))
    }

    /// Number of requests to a route with this outcome.
    pub(crate) async fn count(&self, route: &str, outcome: &str) -> f64 {
        let name = format!("pirn_requests_total{{route=\"{route}\",outcome=\"{outcome}\"}}");
        self.metric(&name).await
    }

    /// Waits until this number of requests to a route has this outcome, and checks that no more
    /// have. A component may run after its response, and is counted at its end.
    pub(crate) async fn counted(&self, route: &str, outcome: &str, number: f64) {
        let all = async {
            loop {
                let count = self.count(route, outcome).await;
                if count >= number {
                    break count;
                }
            }
        };
        assert_eq!(soon(outcome, all).await, number, "{route} {outcome}");
    }

    /// Waits until the system refuses connections to an address. A child that another test starts
    /// has all descriptors until its execve(2), so that a closed socket may listen for longer.
    pub(crate) async fn is_refused(address: SocketAddr) {
        let refused = async { while TcpStream::connect(address).await.is_ok() {} };
        soon("a refused connection", refused).await;
    }

    /// Waits until all slots are free, and checks that none was lost.
    pub(crate) async fn rests(&self) {
        let slots = || self.engine.slots();
        until("all slots are free", || slots().free == slots().all).await;
        assert_eq!(slots().lost, 0);
    }

    /// Tells the server to stop.
    pub(crate) fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Stops the server, and checks that it leaves nothing behind.
    pub(crate) async fn stop(mut self) {
        self.begin_stop();
        soon("the end", &mut self.served).await.expect("no panic");
        self.handle = None;
        self.rests().await;
        assert_eq!(Arc::strong_count(&self.engine), 1, "no request has it");
    }
}

/// A connection from an address of the loopback network, with a small receive buffer.
pub(crate) async fn connect_from(client: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("the system has a socket");
    let bound = socket.bind((client, 0).into());
    bound.expect("it is an address of this machine");
    socket.set_recv_buffer_size(4096).expect("it is a size");
    socket.connect(server).await.expect("it listens")
}

/// All bytes until the server closes the connection, or resets it because the client has sent more
/// than the server reads.
pub(crate) async fn rest(client: &mut TcpStream) -> String {
    let mut answer = vec![];
    let _ = soon("the end of the connection", client.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of a response.
pub(crate) fn status(answer: &str) -> &str {
    let word = answer.split(' ').nth(1);
    word.unwrap_or_else(|| panic!("{answer:?} is no answer"))
}

/// Reads a complete response.
pub(crate) async fn read(answer: Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    let body = soon("a body", body.collect()).await.expect("a body");
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: String::from_utf8(body.to_bytes().into()).expect("text"),
    }
}
