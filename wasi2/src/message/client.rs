//! [`Client`]: sends requests with hyper, each request on its own connection.
//!
//! This file keeps guests from servers that are not allowed. The client looks up a name once for
//! each request, and connects to an address only after a check of that address. It follows no
//! redirect, and ignores the environment variables for proxies.

#[cfg(test)]
mod tests;

use super::allowed::Allowed;
use super::error_code::{DnsErrorPayload, ErrorCode};
use super::incoming::IncomingBody;
use super::outgoing::OutgoingBody;
use super::send::{RequestTimeouts, SendRequest, Sending};
use super::target::{Host, Target};
use crate::limits::CONNECTION_BUFFER_MAX;
use crate::resolver::Lookups;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Sends requests to servers that are allowed, each request on its own connection.
#[derive(Clone, Default)]
pub struct Client {
    allowed: Arc<Allowed>,
    /// Upper bounds of the timeouts. They are also the timeouts of guests that set no timeout.
    timeouts_max: Timeouts,
    tls: Tls,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Client");
        shown.field("allowed", &self.allowed);
        shown.finish_non_exhaustive()
    }
}

/// The timeouts of a request.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(60),
            between_bytes: Duration::from_secs(60),
        }
    }
}

impl Timeouts {
    /// The timeouts of a guest's request, bounded by `self`.
    fn limit(self, guest: RequestTimeouts) -> Self {
        let within = |max: Duration, asked: Option<Duration>| asked.map_or(max, |t| t.min(max));
        Self {
            connect: within(self.connect, guest.connect),
            first_byte: within(self.first_byte, guest.first_byte),
            between_bytes: within(self.between_bytes, guest.between_bytes),
        }
    }
}

impl Client {
    /// A client for these servers.
    #[must_use]
    pub fn new(allowed: Allowed) -> Self {
        Self {
            allowed: Arc::new(allowed),
            timeouts_max: Timeouts::default(),
            tls: Tls::default(),
        }
    }

    /// Sets the TLS configuration. The default trusts the certificate authorities of browsers only.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<tokio_rustls::rustls::ClientConfig>) -> Self {
        self.tls.config = Some(config);
        self
    }
}

impl SendRequest for Client {
    fn send(
        &self,
        request: Request<OutgoingBody>,
        timeouts: RequestTimeouts,
    ) -> Result<Sending, ErrorCode> {
        let target = Target::of(request.uri()).ok_or(ErrorCode::HttpRequestUriInvalid)?;
        if !self.allowed.allows_target(&target) {
            return Err(ErrorCode::HttpRequestDenied);
        }
        if target.is_tls && !cfg!(feature = "tls") {
            return Err(ErrorCode::TlsProtocolError);
        }
        let timeouts = self.timeouts_max.limit(timeouts);
        Ok(Box::pin(exchange(self.clone(), target, request, timeouts)))
    }
}

/// Ends a connection when it is dropped.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A new connection, before its request.
struct Connected {
    sender: http1::SendRequest<OutgoingBody>,
    connection: Connection,
}

/// Sends a request, and returns the response.
async fn exchange(
    client: Client,
    target: Target,
    mut request: Request<OutgoingBody>,
    timeouts: Timeouts,
) -> Result<Response<IncomingBody>, ErrorCode> {
    let uri = request.uri().clone();
    let authority = uri.authority().ok_or(ErrorCode::HttpRequestUriInvalid)?;
    let host = HeaderValue::from_str(authority.as_str()).map_err(ErrorCode::internal)?;
    let lookups = request.extensions_mut().remove::<Lookups>();
    let connecting = client.connect(&target, lookups.unwrap_or_default());
    let connected = timeout(timeouts.connect, connecting).await;
    let mut connected = connected.map_err(|_| ErrorCode::ConnectionTimeout)??;
    request.headers_mut().insert(HOST, host);
    // A client sends only the path and query to the server (RFC 9112, section 3.2.1).
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| ErrorCode::HttpRequestUriInvalid)?;
    let exchanged = timeout(timeouts.first_byte, connected.sender.send_request(request)).await;
    let exchanged = exchanged.map_err(|_| ErrorCode::ConnectionReadTimeout)?;
    let response = exchanged.map_err(|error| ErrorCode::of(&error))?;
    let connection = connected.connection;
    Ok(response.map(|body| {
        let body = Connecting {
            body,
            _connection: connection,
        };
        IncomingBody::new(body).between_bytes(Some(timeouts.between_bytes))
    }))
}

impl Client {
    /// Connects to a target that is allowed.
    async fn connect(&self, target: &Target, lookups: Lookups) -> Result<Connected, ErrorCode> {
        let addresses = addresses(target, lookups).await?;
        let stream = connect_first(self.allowed(target, &addresses)?).await?;
        match target.is_tls {
            true => self.tls.handshake(&target.host, stream).await,
            false => handshake(stream).await,
        }
    }

    /// The addresses of a target that a request may connect to. Fails if the target has addresses,
    /// and none of them is allowed.
    fn allowed(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
    ) -> Result<Vec<SocketAddr>, ErrorCode> {
        let all = addresses.iter().copied();
        let allowed = all.filter(|address| self.allowed.allows_address(target, *address));
        let allowed: Vec<_> = allowed.collect();
        match allowed.is_empty() && !addresses.is_empty() {
            true => Err(ErrorCode::DestinationIpProhibited),
            false => Ok(allowed),
        }
    }
}

/// All addresses of a target, before the check of the addresses.
async fn addresses(target: &Target, lookups: Lookups) -> Result<Vec<SocketAddr>, ErrorCode> {
    match &target.host {
        Host::Address(ip) => Ok(vec![SocketAddr::new(*ip, target.port)]),
        Host::Name(name) => {
            let Lookups {
                resolver,
                user,
                connection,
            } = lookups;
            let found = resolver.look_up(user, name.clone(), target.port, connection);
            found.await.map_err(|error| {
                ErrorCode::DnsError(DnsErrorPayload {
                    rcode: Some(error.to_string()),
                    info_code: None,
                })
            })
        }
    }
}

/// Connects to the first address that accepts.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, ErrorCode> {
    let mut failed = ErrorCode::DestinationNotFound;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Each piece of a body must leave as soon as the guest writes it.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => failed = of_connect(&error),
        }
    }
    Err(failed)
}

fn of_connect(error: &io::Error) -> ErrorCode {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
        io::ErrorKind::TimedOut => ErrorCode::ConnectionTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            ErrorCode::DestinationIpUnroutable
        }
        io::ErrorKind::ConnectionReset => ErrorCode::ConnectionTerminated,
        _ => ErrorCode::internal(error),
    }
}

async fn handshake<S>(stream: S) -> Result<Connected, ErrorCode>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.max_buf_size(CONNECTION_BUFFER_MAX);
    let begun = http.handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(|error| ErrorCode::of(&error))?;
    let task = tokio::spawn(async move {
        // An error also fails the request or the body, which reports it.
        let _ = connection.await;
    });
    let connection = Connection(task.abort_handle());
    Ok(Connected { sender, connection })
}

/// The TLS configuration of connections.
#[derive(Clone, Default)]
struct Tls {
    #[cfg(feature = "tls")]
    config: Option<Arc<tokio_rustls::rustls::ClientConfig>>,
}

#[cfg(feature = "tls")]
impl Tls {
    /// Begins an encrypted connection. The certificate must be for the host.
    async fn handshake(&self, host: &Host, stream: TcpStream) -> Result<Connected, ErrorCode> {
        use tokio_rustls::TlsConnector;
        use tokio_rustls::rustls::pki_types::ServerName;
        let name = match host {
            Host::Address(ip) => ServerName::from(*ip),
            Host::Name(name) => {
                let name = ServerName::try_from(name.clone());
                name.map_err(|_| ErrorCode::HttpRequestUriInvalid)?
            }
        };
        let config = match &self.config {
            Some(config) => Arc::clone(config),
            None => public_authorities(),
        };
        let stream = TlsConnector::from(config).connect(name, stream).await;
        handshake(stream.map_err(|error| of_tls(&error))?).await
    }
}

#[cfg(not(feature = "tls"))]
impl Tls {
    async fn handshake(&self, _: &Host, _: TcpStream) -> Result<Connected, ErrorCode> {
        Err(ErrorCode::TlsProtocolError)
    }
}

/// A TLS configuration that trusts the certificate authorities of browsers.
#[cfg(feature = "tls")]
fn public_authorities() -> Arc<tokio_rustls::rustls::ClientConfig> {
    use std::sync::OnceLock;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let made = || {
        let roots = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        let config = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(config.with_no_client_auth())
    };
    Arc::clone(CONFIG.get_or_init(made))
}

#[cfg(feature = "tls")]
fn of_tls(error: &io::Error) -> ErrorCode {
    use tokio_rustls::rustls;
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => ErrorCode::TlsCertificateError,
        Some(_) => ErrorCode::TlsProtocolError,
        None => of_connect(error),
    }
}

/// The body of a response. A drop of the body ends the connection.
struct Connecting {
    body: hyper::body::Incoming,
    _connection: Connection,
}

impl Body for Connecting {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
