//! What both engines do in the same way: requests, responses, connections, and a server that guests
//! can call.

use crate::message::{Ask, Response, SERVER};
use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::fmt::{Debug, Display};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use wasmtime_wasi_http::io::TokioIo;

/// Starts a server that guests can call, and returns its address.
pub fn callee(runtime: &Runtime) -> Result<SocketAddr> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let callee = listener.local_addr()?;
    runtime.spawn(accept(listener, |request| async move {
        let (method, uri) = (request.method(), request.uri());
        let body = Full::from(format!("called by {method} {uri}\n"));
        let mut response = hyper::Response::new(body);
        *response.status_mut() = hyper::StatusCode::NON_AUTHORITATIVE_INFORMATION;
        Ok::<_, Infallible>(response)
    }));
    Ok(callee)
}

/// The request that is asked for.
pub fn request(ask: &Ask, callee: SocketAddr) -> hyper::Request<Full<Bytes>> {
    let callee = callee.to_string().replace(':', "%3A");
    let mut request = hyper::Request::builder()
        .method(ask.method)
        .uri(ask.target.replace(SERVER, &callee));
    for (name, value) in &ask.fields {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(ask.body.clone()));
    request.expect("a request is well-formed")
}

/// Waits for the whole response of a guest.
pub async fn collected<B, E>(
    receiver: oneshot::Receiver<Result<hyper::Response<B>, E>>,
) -> Result<Response, String>
where
    B: Body<Data = Bytes, Error: Display>,
    E: Debug,
{
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

/// Serves each connection in a task.
pub async fn accept<F, A, B, E>(listener: TcpListener, answer: F) -> Result<()>
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
