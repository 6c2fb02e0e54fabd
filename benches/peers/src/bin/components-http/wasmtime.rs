//! Wasmtime with wasmtime-wasi-http, as `wasmtime serve` uses them, at the settings of `best.rs`.
//!
//! The component is linked once (`ProxyPre`). Each request has a store and an instance of its own,
//! in slots of the pool. Guest code yields to other tasks by epochs unless `--no-epochs` is given.

use crate::exchange::{self, collected};
use crate::message::{Ask, Ended};
use crate::{HttpEngine, MEMORY_BYTES_MAX, Options, STACK_BYTES};
use anyhow::{Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use pirn_peers::best::best;
use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::{Error, WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// Core instances, memories and tables of one component: guest, adapter, shim and fixup, and as
/// many again.
const PARTS: u32 = 8;

const TABLE_ELEMENTS_MAX: usize = 100_000;

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

struct HttpState {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    table: ResourceTable,
}

impl WasiView for HttpState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for HttpState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            ctx: &mut self.http,
            table: &mut self.table,
            hooks: Default::default(),
        }
    }
}

/// A guest in Wasmtime.
pub struct HttpWasmtime {
    pre: ProxyPre<HttpState>,
    slots: u32,
    epochs: bool,
    runtime: Runtime,
    /// A server that the guest can call.
    callee: SocketAddr,
}

impl HttpWasmtime {
    pub fn new(wasm: &[u8], slots: u32, options: &Options) -> Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(slots)
            .total_core_instances(slots * PARTS)
            .total_memories(slots)
            .total_tables(slots * PARTS)
            .total_stacks(slots)
            .max_memory_size(MEMORY_BYTES_MAX)
            .table_elements(TABLE_ELEMENTS_MAX);
        let mut config = Config::new();
        best(&mut pool, &mut config);
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
        let callee = exchange::callee(&runtime)?;
        Ok(Self {
            pre,
            slots,
            epochs: !options.no_epochs,
            runtime,
            callee,
        })
    }

    /// Calls a new instance, and returns its store. It gives its response to `sender`.
    async fn call<B>(
        pre: &ProxyPre<HttpState>,
        epochs: bool,
        request: hyper::Request<B>,
        sender: oneshot::Sender<Sent>,
    ) -> wasmtime::Result<Store<HttpState>>
    where
        B: Body<Data = Bytes, Error: Into<Error>> + Send + 'static,
    {
        let state = HttpState {
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
        handler.call_handle(&mut store, request, out).await?;
        Ok(store)
    }

    /// Calls a new instance, and collects its response meanwhile.
    async fn ended(&self, request: hyper::Request<Full<Bytes>>) -> Ended {
        let (sender, receiver) = oneshot::channel();
        let (called, response) = tokio::join!(
            async {
                let called = Self::call(&self.pre, self.epochs, request, sender);
                called.await.map(drop)
            },
            collected(receiver)
        );
        let error = called.err().map(|error| error.root_cause().to_string());
        Ended { response, error }
    }
}

impl HttpEngine for HttpWasmtime {
    fn name(&self) -> &'static str {
        "wasmtime"
    }

    fn answer(&self, ask: &Ask) -> Ended {
        self.runtime
            .block_on(self.ended(exchange::request(ask, self.callee)))
    }

    fn repeat(&self, ask: &Ask, count: u64) {
        let request = exchange::request(ask, self.callee);
        self.runtime.block_on(async {
            for _ in 0..count {
                let ended = self.ended(request.clone()).await;
                assert_eq!(ended.status(), Some(200), "{ended}");
            }
        });
    }

    fn live(&self, ask: &Ask, count: u32) -> Box<dyn Any> {
        let request = exchange::request(ask, self.callee);
        let live: Vec<_> = (0..count)
            .map(|_| {
                let (sender, receiver) = oneshot::channel();
                let (store, response) = self.runtime.block_on(async {
                    let call = Self::call(&self.pre, self.epochs, request.clone(), sender);
                    tokio::join!(call, collected(receiver))
                });
                assert_eq!(response.expect("it answers").status, 200);
                store.expect("it returns")
            })
            .collect();
        Box::new(live)
    }

    fn serve(self: Box<Self>, listener: std::net::TcpListener) -> Result<()> {
        let Self {
            pre,
            slots,
            epochs,
            runtime,
            ..
        } = *self;
        // The pool fails when it is full, and does not wait.
        let slots = Arc::new(Semaphore::new(slots as usize));
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener)?;
            exchange::accept(listener, move |request| {
                served(pre.clone(), epochs, slots.clone(), request)
            })
            .await
        })
    }
}

/// Answers a request of the server. The guest may go on after its response has begun.
async fn served(
    pre: ProxyPre<HttpState>,
    epochs: bool,
    slots: Arc<Semaphore>,
    request: hyper::Request<hyper::body::Incoming>,
) -> Result<hyper::Response<HyperOutgoingBody>> {
    let slot = slots.acquire_owned().await?;
    let (sender, receiver) = oneshot::channel();
    let guest = tokio::spawn(async move {
        let called = HttpWasmtime::call(&pre, epochs, request, sender).await;
        let called = called.map(drop);
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
