//! [`Collector`]: the HTTP client that sends spans. It uses hyper, on the server's own threads.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// Most bytes of a collector's answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Longest time to send spans and get the answer.
const SEND_MAX: Duration = Duration::from_secs(10);

/// Sends each batch of spans over its own connection. There is a batch every five seconds.
#[derive(Debug)]
pub(super) struct Collector {
    /// The exporter runs on a thread that is not tokio's.
    runtime: Handle,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            runtime: Handle::current(),
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // A timeout can only be made on a thread of tokio.
        let sent = async { timeout(SEND_MAX, send(request)).await };
        self.runtime.spawn(sent).await??
    }
}

async fn send(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut parts, body) = request.into_parts();
    let authority = parts.uri.authority().ok_or("endpoint has no host")?.clone();
    let host = authority.host().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async {
        // Errors also reach the caller that sends a request.
        let _ = connection.await;
    });
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse()?;
    let host = HeaderValue::from_str(authority.as_str())?;
    parts.headers.insert(HOST, host);
    let request = Request::from_parts(parts, Full::new(body));
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?;
    Ok(Response::from_parts(parts, body.to_bytes()))
}
