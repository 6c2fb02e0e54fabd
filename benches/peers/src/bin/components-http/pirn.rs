//! pirn with `pirn-wasi2`, as an embedder uses them. The guest runs behind the same server as with
//! Wasmtime, or in `pirn-serve`.

use crate::exchange::{self, collected};
use crate::message::{Ask, Ended};
use crate::{HttpEngine, MEMORY_BYTES_MAX, STACK_BYTES};
use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use pirn_compiler::{Options, compile};
use pirn_component::{CallError, Component, Instance, Limits, Linker, Prepared};
use pirn_runtime::{Module, Region};
use pirn_server::{Pirn as Slots, Server, Settings};
use pirn_wasi2::http::{Allowed, Answer, Client, HANDLE, Handle, OutgoingBody, begin, complete};
use pirn_wasi2::{Wasi, WasiBuilder, WasiConfig};
use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Limits of a request. The time slice is as long as Wasmtime's epoch.
const LIMITS: Limits = Limits {
    deadline: Some(Duration::from_secs(10)),
    timeslice: Some(Duration::from_millis(10)),
};

/// Longest time of a request to an instance that has answered before.
const REUSED: Duration = Duration::from_secs(1);

/// A guest in pirn.
pub struct HttpPirn {
    module: Module,
    slots: u32,
    /// Whether `pirn-serve` serves the guest, not the server that Wasmtime also has.
    is_server: bool,
    prepared: Prepared<Wasi>,
    handle: Handle,
    config: Arc<WasiConfig>,
    runtime: Runtime,
    /// A server that the guest can call.
    callee: SocketAddr,
}

impl HttpPirn {
    pub fn new(wasm: &[u8], slots: u32, is_server: bool) -> Result<Self> {
        let module = Module::from_bytes(&compile(wasm, &Options::default())?)?;
        let region = Region::builder()
            .slots(slots)
            .memories(module.memories().max(1))
            .memory_bytes_max(MEMORY_BYTES_MAX)
            .stack_bytes(STACK_BYTES)
            .build()?;
        let mut linker = Linker::new();
        pirn_wasi2::link(&mut linker)?;
        pirn_wasi2::http::link(&mut linker)?;
        let prepared = linker.prepare(&region, &Component::new(&module)?)?;
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        let callee = exchange::callee(&runtime)?;
        let mut allowed = Allowed::default();
        allowed.add(&callee.to_string())?;
        let config = WasiBuilder::new().outgoing(Client::new(allowed)).config();
        Ok(Self {
            handle: prepared.typed(HANDLE)?,
            module,
            slots,
            is_server,
            prepared,
            config: Arc::new(config),
            runtime,
            callee,
        })
    }

    /// Calls a new instance, and collects its response meanwhile.
    async fn ended(&self, request: hyper::Request<Full<Bytes>>) -> Ended {
        let mut wasi = Wasi::new(&self.config);
        let (params, answer) = begin(&mut wasi, request).expect("there is room");
        let called = async {
            let mut instance = self.prepared.instantiate(wasi)?;
            let called = instance.call_typed_async(LIMITS, &self.handle, params);
            Ok(called.await?)
        };
        let (called, response) = tokio::join!(called, collected(answer));
        let error = called.err().map(|error: anyhow::Error| error.to_string());
        Ended { response, error }
    }

    /// Calls an instance that may have answered before.
    async fn again(
        &self,
        instance: &mut Instance<Wasi>,
        request: hyper::Request<Full<Bytes>>,
    ) -> Ended {
        let (params, answer) = begin(instance.data_mut(), request).expect("there is room");
        let called = instance.call_typed_async(LIMITS, &self.handle, params);
        joined(called, answer).await
    }

    /// Serves the guest as `pirn-serve` does: with limits, metrics and a record of each request.
    fn serve_as_pirn_serve(self, listener: TcpListener) -> Result<()> {
        let settings = Settings {
            slots: self.slots,
            memory_bytes_max: MEMORY_BYTES_MAX,
            stack_bytes: STACK_BYTES,
            deadline: Duration::from_secs(10),
            ..Settings::default()
        };
        let engine = Slots::new(settings, &[self.module], |_| Ok(()))?;
        self.runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let (limits, extras) = Default::default();
            let server = Server::new(listener, Arc::new(engine), ["/"], limits, extras)?;
            server.run(std::future::pending()).await;
            Ok(())
        })
    }

    fn instance(&self) -> Instance<Wasi> {
        let wasi = Wasi::new(&self.config);
        self.prepared.instantiate(wasi).expect("a slot")
    }
}

async fn joined(called: impl Future<Output = Result<(), CallError>>, answer: Answer) -> Ended {
    let (called, response) = tokio::join!(called, collected(answer));
    let error = called.err().map(|error| error.to_string());
    Ended { response, error }
}

impl HttpEngine for HttpPirn {
    fn name(&self) -> &'static str {
        match self.is_server {
            true => "pirn-serve",
            false => "pirn",
        }
    }

    fn answer(&self, ask: &Ask) -> Ended {
        let request = exchange::request(ask, self.callee);
        self.runtime.block_on(self.ended(request))
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

    fn reused(&self, ask: &Ask) -> Option<Box<dyn FnMut(u64) + '_>> {
        let request = exchange::request(ask, self.callee);
        let mut instance = self.instance();
        let mut answers = |count| {
            self.runtime.block_on(async {
                for _ in 0..count {
                    // The response may never come, nor end.
                    let again = self.again(&mut instance, request.clone());
                    let ended = timeout(REUSED, again).await;
                    if !ended.is_ok_and(|ended| ended.status() == Some(200)) {
                        return false;
                    }
                }
                true
            })
        };
        // A guest need not be able to answer twice.
        if !answers(3) {
            return None;
        }
        let mut instance = self.instance();
        Some(Box::new(move |count| {
            self.runtime.block_on(async {
                for _ in 0..count {
                    let ended = self.again(&mut instance, request.clone()).await;
                    assert_eq!(ended.status(), Some(200), "{ended}");
                }
            });
        }))
    }

    fn live(&self, ask: &Ask, count: u32) -> Box<dyn Any> {
        let request = exchange::request(ask, self.callee);
        let live: Vec<_> = (0..count)
            .map(|_| {
                let mut instance = self.instance();
                let again = self.again(&mut instance, request.clone());
                let ended = self.runtime.block_on(again);
                assert_eq!(ended.status(), Some(200), "{ended}");
                instance
            })
            .collect();
        Box::new(live)
    }

    fn serve(self: Box<Self>, listener: TcpListener) -> Result<()> {
        if self.is_server {
            return self.serve_as_pirn_serve(listener);
        }
        let guest = Arc::new(HttpGuest {
            prepared: self.prepared,
            handle: self.handle,
            config: self.config,
        });
        self.runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            exchange::accept(listener, move |request| served(guest.clone(), request)).await
        })
    }
}

/// A guest, shared by all requests of a server.
struct HttpGuest {
    prepared: Prepared<Wasi>,
    handle: Handle,
    config: Arc<WasiConfig>,
}

/// Answers a request. The guest may continue to run after its response has begun.
async fn served(
    guest: Arc<HttpGuest>,
    request: Request<Incoming>,
) -> Result<Response<OutgoingBody>> {
    let mut wasi = Wasi::new(&guest.config);
    let begun = begin(&mut wasi, request);
    let (params, answer) = begun.map_err(|error| anyhow!("{error}"))?;
    let called = tokio::spawn(async move {
        let mut instance = guest.prepared.instantiate_async(wasi).await?;
        instance
            .call_typed_async(LIMITS, &guest.handle, params)
            .await?;
        complete(instance.data_mut());
        anyhow::Ok(())
    });
    match answer.await {
        Ok(response) => response.map_err(|code| anyhow!("{code:?}")),
        Err(_) => {
            called.await??;
            bail!("the guest set no response")
        }
    }
}
