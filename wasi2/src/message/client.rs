//! [`Client`]: sends requests with hyper, each on its own connection.

use super::allowed::Allowed;
use super::error_code::{DnsErrorPayload, ErrorCode};
use super::incoming::IncomingBody;
use super::outgoing::OutgoingBody;
use super::send::{RequestTimeouts, SendRequest, Sending};
use crate::limits::CONNECTION_BUFFER_MAX;
use crate::quota::Counted;
use crate::resolver::look_up;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Sends requests to servers that are allowed, each on a connection of its own.
#[derive(Clone, Default)]
pub struct Client {
    allowed: Arc<Allowed>,
    /// Upper bounds of the timeouts, also for guests that set none.
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
    /// The timeouts that a guest has set, bounded by these.
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
        if !self.allowed.allows(request.uri()) {
            return Err(ErrorCode::HttpRequestDenied);
        }
        match request.uri().scheme_str() {
            Some("http") => {}
            Some("https") if cfg!(feature = "tls") => {}
            Some("https") => return Err(ErrorCode::TlsProtocolError),
            _ => return Err(ErrorCode::HttpRequestUriInvalid),
        }
        let timeouts = self.timeouts_max.limit(timeouts);
        Ok(Box::pin(exchange(request, timeouts, self.tls.clone())))
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
    mut request: Request<OutgoingBody>,
    timeouts: Timeouts,
    tls: Tls,
) -> Result<Response<IncomingBody>, ErrorCode> {
    let uri = request.uri().clone();
    let counted = request.extensions_mut().remove::<Counted>();
    let connected = timeout(timeouts.connect, connect(&uri, &tls, counted)).await;
    let mut connected = connected.map_err(|_| ErrorCode::ConnectionTimeout)??;
    let host = HeaderValue::from_str(authority(&uri)?).map_err(ErrorCode::internal)?;
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

/// The authority of a URI. Fails if it has a user or password.
fn authority(uri: &Uri) -> Result<&str, ErrorCode> {
    let authority = uri.authority().ok_or(ErrorCode::HttpRequestUriInvalid)?;
    match authority.as_str() {
        text if text.contains('@') => Err(ErrorCode::HttpRequestUriInvalid),
        text => Ok(text),
    }
}

/// Connects to the server of a URI.
async fn connect(uri: &Uri, tls: &Tls, counted: Option<Counted>) -> Result<Connected, ErrorCode> {
    let host = uri.host().ok_or(ErrorCode::HttpRequestUriInvalid)?;
    // An IPv6 address has brackets in a URI.
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let addresses = match name.parse::<IpAddr>() {
        Ok(address) => vec![SocketAddr::new(address, port)],
        Err(_) => {
            let found = look_up(name.to_owned(), port, counted).await;
            found.map_err(|error| {
                ErrorCode::DnsError(DnsErrorPayload {
                    rcode: Some(error.to_string()),
                    info_code: None,
                })
            })?
        }
    };
    let stream = connect_first(addresses).await?;
    match is_tls {
        true => tls.handshake(name, stream).await,
        false => handshake(stream).await,
    }
}

/// Connects to the first address that accepts.
async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream, ErrorCode> {
    let mut failed = ErrorCode::DestinationNotFound;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Pieces of a body are sent as the guest writes them.
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
    /// Begins an encrypted connection.
    async fn handshake(&self, name: &str, stream: TcpStream) -> Result<Connected, ErrorCode> {
        use tokio_rustls::TlsConnector;
        use tokio_rustls::rustls::pki_types::ServerName;
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|_| ErrorCode::HttpRequestUriInvalid)?;
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
    async fn handshake(&self, _: &str, _: TcpStream) -> Result<Connected, ErrorCode> {
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

/// The body of a response. Dropping it ends the connection.
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
