//! Wasmtime with wasmtime-wasi-http, as `wasmtime serve` uses them, at the settings of `best.rs`.
//!
//! The component is linked once (`ProxyPre`). Each request has a store and an instance of its own,
//! in slots of the pool. Guest code yields to other tasks by epochs unless `--no-epochs` is given.

use crate::message::{Ask, Ended, Response, SERVER};
use crate::{Engine, Options, best};
use anyhow::{Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::{Error, WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// Instances at a time.
const SLOTS: u32 = 64;

/// Core instances, memories and tables of one component: guest, adapter, shim and fixup, and as
/// many again.
const PARTS: u32 = 8;

const MEMORY_BYTES_MAX: usize = 128 << 20;
const TABLE_ELEMENTS_MAX: usize = 100_000;
const STACK_BYTES: usize = 1 << 20;

/// Stack for host functions, which run on the guest's stack.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Bytes of a memory that stay resident after a request. Heaps of language runtimes are larger than
/// those of the other guests here, which `best.rs` is for.
const RESIDENT_BYTES: usize = 32 << 20;

/// Bytes of a stack that stay resident after a request.
const STACK_RESIDENT_BYTES: usize = 64 << 10;

/// Time between two increments of the epoch.
const EPOCH: Duration = Duration::from_millis(10);

/// What the client of the server is told about a guest that did not answer.
const NO_ANSWER: &str = "no answer\n";

type Sent = Result<hyper::Response<HyperOutgoingBody>, ErrorCode>;

struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: Default::default(),
        }
    }
}

/// A guest in Wasmtime.
pub struct Wasmtime {
    pre: ProxyPre<State>,
    epochs: bool,
    runtime: Runtime,
    /// A server that the guest can call.
    callee: SocketAddr,
}

impl Wasmtime {
    pub fn new(wasm: &[u8], options: &Options) -> Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(SLOTS)
            .total_core_instances(SLOTS * PARTS)
            .total_memories(SLOTS)
            .total_tables(SLOTS * PARTS)
            .total_stacks(SLOTS)
            .max_memory_size(MEMORY_BYTES_MAX)
            .table_elements(TABLE_ELEMENTS_MAX);
        let mut config = Config::new();
        best::best(&mut pool, &mut config);
        pool.linear_memory_keep_resident(RESIDENT_BYTES)
            .async_stack_keep_resident(STACK_RESIDENT_BYTES);
        config
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
            .epoch_interruption(!options.no_epochs)
            .max_wasm_stack(STACK_BYTES)
            .async_stack_size(STACK_BYTES + HOST_STACK_BYTES);
        let engine = wasmtime::Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
        let component = Component::new(&engine, wasm)?;
        let pre = ProxyPre::new(linker.instantiate_pre(&component)?)?;
        let ticking = engine.weak();
        std::thread::spawn(move || {
            while let Some(engine) = ticking.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(EPOCH);
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let callee = listener.local_addr()?;
        runtime.spawn(accept(listener, |request| async move {
            let (method, uri) = (request.method(), request.uri());
            let body = Full::from(format!("called by {method} {uri}\n"));
            let mut response = hyper::Response::new(body);
            *response.status_mut() = hyper::StatusCode::NON_AUTHORITATIVE_INFORMATION;
            Ok::<_, Infallible>(response)
        }));
        Ok(Self {
            pre,
            epochs: !options.no_epochs,
            runtime,
            callee,
        })
    }

    /// Calls a new instance. It gives its response to `sender`.
    async fn call<B>(
        pre: &ProxyPre<State>,
        epochs: bool,
        request: hyper::Request<B>,
        sender: oneshot::Sender<Sent>,
    ) -> wasmtime::Result<()>
    where
        B: Body<Data = Bytes, Error: Into<Error>> + Send + 'static,
    {
        let state = State {
            wasi: WasiCtx::builder().build(),
            http: WasiHttpCtx::new(),
            table: ResourceTable::new(),
        };
        let mut store = Store::new(pre.engine(), state);
        if epochs {
            store.set_epoch_deadline(1);
            store.epoch_deadline_async_yield_and_update(1);
        }
        let mut http = store.data_mut().http();
        let request = http.new_incoming_request(Scheme::Http, request)?;
        let out = http.new_response_outparam(sender)?;
        let proxy = pre.instantiate_async(&mut store).await?;
        let handler = proxy.wasi_http_incoming_handler();
        handler.call_handle(&mut store, request, out).await
    }

    /// Calls a new instance, and collects its response meanwhile.
    async fn ended(&self, request: hyper::Request<Full<Bytes>>) -> Ended {
        let (sender, receiver) = oneshot::channel();
        let (called, response) = tokio::join!(
            Self::call(&self.pre, self.epochs, request, sender),
            collected(receiver)
        );
        let error = called.err().map(|error| error.root_cause().to_string());
        Ended { response, error }
    }

    fn request(&self, ask: &Ask) -> hyper::Request<Full<Bytes>> {
        let callee = self.callee.to_string().replace(':', "%3A");
        let mut request = hyper::Request::builder()
            .method(ask.method)
            .uri(ask.target.replace(SERVER, &callee));
        for (name, value) in &ask.fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(ask.body.clone()));
        request.expect("a request is well-formed")
    }

    /// Serves the guest on this thread.
    pub fn serve(self, listen: SocketAddr) -> Result<()> {
        let Self {
            pre,
            epochs,
            runtime,
            ..
        } = self;
        // The pool fails when it is full, and does not wait.
        let slots = Arc::new(Semaphore::new(SLOTS as usize));
        runtime.block_on(async move {
            let listener = TcpListener::bind(listen).await?;
            println!("listening on {}", listener.local_addr()?);
            accept(listener, move |request| {
                served(pre.clone(), epochs, slots.clone(), request)
            })
            .await
        })
    }
}

impl Engine for Wasmtime {
    fn name(&self) -> &'static str {
        "wasmtime"
    }

    fn answer(&self, ask: &Ask) -> Ended {
        self.runtime.block_on(self.ended(self.request(ask)))
    }

    fn repeat(&self, ask: &Ask, count: u64) {
        let request = self.request(ask);
        self.runtime.block_on(async {
            for _ in 0..count {
                let ended = self.ended(request.clone()).await;
                assert_eq!(ended.status(), Some(200), "{ended}");
            }
        });
    }
}

async fn collected(receiver: oneshot::Receiver<Sent>) -> Result<Response, String> {
    let response = match receiver.await {
        Ok(Ok(response)) => response,
        Ok(Err(code)) => return Err(format!("{code:?}")),
        Err(_) => return Err("the guest set none".into()),
    };
    let (parts, body) = response.into_parts();
    let mut response = Response {
        status: parts.status.as_u16(),
        fields: parts.headers,
        ..Response::default()
    };
    match body.collect().await {
        Ok(collected) => {
            response.trailers = collected.trailers().cloned();
            response.body = collected.to_bytes();
        }
        Err(error) => response.broken = Some(error.to_string()),
    }
    Ok(response)
}

/// Answers a request of the server. The guest may go on after its response has begun.
async fn served(
    pre: ProxyPre<State>,
    epochs: bool,
    slots: Arc<Semaphore>,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<HyperOutgoingBody>> {
    let slot = slots.acquire_owned().await?;
    let (sender, receiver) = oneshot::channel();
    let guest = tokio::spawn(async move {
        let called = Wasmtime::call(&pre, epochs, request, sender).await;
        drop(slot);
        called
    });
    match receiver.await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(code)) => Err(anyhow!("{code:?}")),
        Err(_) => {
            if let Err(error) = guest.await? {
                eprintln!("{error:#}");
            }
            let body = Full::from(NO_ANSWER).map_err(|never| match never {});
            let mut response = hyper::Response::new(body.boxed_unsync());
            *response.status_mut() = hyper::StatusCode::INTERNAL_SERVER_ERROR;
            Ok(response)
        }
    }
}

/// Serves each connection in a task.
async fn accept<F, A, B, E>(listener: TcpListener, answer: F) -> Result<()>
where
    F: Fn(hyper::Request<hyper::body::Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<hyper::Response<B>, E>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let service = service_fn(answer.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that leaves is no error of the server.
            let _ = connection
                .serve_connection(TokioIo::new(client), service)
                .await;
        });
    }
}
