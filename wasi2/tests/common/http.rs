//! A handler that answers requests without a network.

use super::handler::handler;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pirn_compiler::{Options, compile};
use pirn_component::{CallError, Component, HostBytes, Instance, Limits, Linker, Prepared};
use pirn_runtime::{Module, Region};
use pirn_wasi2::http::{Allowed, Client, ErrorCode, HANDLE, Handle, OutgoingBody, begin, complete};
use pirn_wasi2::{Wasi, WasiBuilder, WasiConfig};
use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why there is no response.
#[derive(Debug)]
pub(crate) enum NoReply {
    /// The guest ended without one.
    Ended(Option<CallError>),
    /// The guest gave an error.
    Error(ErrorCode),
}

/// The head of a response, its body, and its trailers.
pub(crate) type Reply =
    Result<(response::Parts, Result<Bytes, ErrorCode>, Option<HeaderMap>), NoReply>;

/// A handler in a region of one slot.
pub(crate) struct Server {
    prepared: Prepared<Wasi>,
    handle: Handle,
    config: Arc<WasiConfig>,
    region: Region,
    /// The account of the last guest.
    account: Mutex<HostBytes>,
}

fn compiled(wasm: &[u8]) -> Component {
    let so = compile(wasm, &Options::default()).expect("it compiles");
    let module = Module::from_bytes(&so).expect("it opens");
    Component::new(&module).expect("it is a component")
}

/// The component of a committed guest, compiled once in a process.
fn component(guest: &str) -> Component {
    static COMPILED: Mutex<Option<HashMap<String, Component>>> = Mutex::new(None);
    let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let made = || {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/guests");
        compiled(&std::fs::read(folder.join(guest).with_extension("wasm")).expect("the guest"))
    };
    all.get_or_insert_default()
        .entry(guest.to_owned())
        .or_insert_with(made)
        .clone()
}

impl Server {
    /// A server of a committed guest.
    pub(crate) fn new(guest: &str) -> Self {
        Self::of(&component(guest))
    }

    /// A server of a handler with these functions.
    pub(crate) fn of_text(core: &str) -> Self {
        Self::of(&compiled(&handler(core)))
    }

    /// A server whose host keeps so many bytes for a guest.
    pub(crate) fn with_host_bytes(core: &str, bytes_max: usize) -> Self {
        Self::with(&compiled(&handler(core)), |linker| {
            linker.host_bytes_max(bytes_max);
        })
    }

    fn of(component: &Component) -> Self {
        Self::with(component, |_| {})
    }

    fn with(component: &Component, set: impl FnOnce(&mut Linker<Wasi>)) -> Self {
        let region = Region::builder().slots(1).memory_bytes_max(64 << 20);
        let region = region.table_elements(10_000).build().expect("a region");
        let mut linker = Linker::<Wasi>::new();
        pirn_wasi2::link(&mut linker).expect("nothing is defined twice");
        pirn_wasi2::http::link(&mut linker).expect("nothing is defined twice");
        set(&mut linker);
        let prepared = linker.prepare(&region, component).expect("it links");
        let handle = prepared.typed(HANDLE).expect("it answers requests");
        Self {
            prepared,
            handle,
            config: Arc::default(),
            region,
            account: Mutex::default(),
        }
    }

    /// Allows requests to a server.
    pub(crate) fn allow(mut self, server: &str) -> Self {
        let mut allowed = Allowed::default();
        allowed.add(server).expect("it is a server");
        self.config = Arc::new(WasiBuilder::new().outgoing(Client::new(allowed)).config());
        self
    }

    /// Counts what the host kept for the last guest.
    pub(crate) fn account(&self) -> HostBytes {
        self.account.lock().expect("it is whole").clone()
    }

    pub(crate) fn slots_free(&self) -> usize {
        self.region.slots_free()
    }

    /// Answers a request.
    pub(crate) async fn reply<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Error + 'static,
    {
        let instance = self.instance();
        self.reply_of(instance, request).await
    }

    /// Answers a request by a guest with this standard input and output.
    pub(crate) async fn reply_with(
        &self,
        request: Request<Full<Bytes>>,
        set: impl FnOnce(&mut Wasi),
    ) -> Reply {
        let mut instance = self.instance();
        set(instance.data_mut());
        self.reply_of(instance, request).await
    }

    async fn reply_of<B>(&self, mut instance: Instance<Wasi>, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Error + 'static,
    {
        let (params, answer) = begin(instance.data_mut(), request).expect("there is room");
        let limits = Limits {
            // No guest reaches it.
            deadline: Some(Duration::from_secs(3600)),
            timeslice: None,
        };
        let response = async {
            let response = match answer.await {
                Err(_) => return Err(NoReply::Ended(None)),
                Ok(response) => response.map_err(NoReply::Error)?,
            };
            let (head, body) = response.into_parts();
            let (body, trailers) = match body.collect().await {
                Err(error) => (Err(error), None),
                Ok(body) => {
                    let trailers = body.trailers().cloned();
                    (Ok(body.to_bytes()), trailers)
                }
            };
            Ok((head, body, trailers))
        };
        let ended = async move {
            let called = instance.call_typed_async(limits, &self.handle, params);
            called.await?;
            complete(instance.data_mut());
            Ok(())
        };
        match tokio::join!(ended, response) {
            (Err(error), Err(NoReply::Ended(None))) => Err(NoReply::Ended(Some(error))),
            (_, response) => response,
        }
    }

    /// The response as soon as the guest gives its head. The call is dropped then.
    pub(crate) async fn head(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Option<Response<OutgoingBody>> {
        let mut instance = self.instance();
        let (params, answer) = begin(instance.data_mut(), request).expect("there is room");
        let call = instance.call_typed_async(Limits::default(), &self.handle, params);
        tokio::select! {
            biased;
            response = answer => response.ok()?.ok(),
            _ = call => None,
        }
    }

    fn instance(&self) -> Instance<Wasi> {
        let wasi = Wasi::new(&self.config);
        *self.account.lock().expect("it is whole") = wasi.host_bytes().clone();
        self.prepared.instantiate(wasi).expect("a slot is free")
    }
}

/// A server that answers every request with a line, and keeps its fields.
pub(crate) async fn other_server() -> (SocketAddr, Arc<Mutex<Vec<HeaderMap>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a socket");
    let address = listener.local_addr().expect("an address");
    let seen = Arc::new(Mutex::new(vec![]));
    let keep = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let keep = Arc::clone(&keep);
            let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
                keep.lock()
                    .expect("it is whole")
                    .push(request.headers().clone());
                let text = format!("other server: {}\n", request.uri());
                async move { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text)))) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
    (address, seen)
}
