//! [`Server`]: accepts and serves connections.

use crate::admin::Admin;
use crate::front::{Front, RESERVED};
use crate::guest::engine::Engine;
use crate::http::Addresses;
use crate::http::buffered::Buffered;
use crate::http::clients::{Clients, Counted};
use crate::http::stream::Stream;
use crate::limits::Limits;
use crate::operations::access::AccessLog;
use crate::operations::metrics::Gauge;
use crate::operations::traces::Traces;
use crate::site::Mount;
use anyhow::{Context as _, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Most bytes of a request's header, including the request line.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// Most fields of a request's header.
const FIELDS_MAX: usize = 100;

/// Most bytes that a connection reads at a time. An idle connection keeps a buffer of this size.
const READ_BYTES_MAX: usize = 64 << 10;

/// Longest time for a request's header. hyper adds it to an `Instant`, which panics on overflow.
const HEADER_TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Pause after the system refuses a connection, for example for lack of a descriptor. A descriptor
/// may be free soon.
const PAUSE: Duration = Duration::from_millis(50);

/// The optional parts of a server: logs, traces and the admin socket.
#[derive(Debug, Default)]
pub struct Extras {
    /// The log of requests.
    pub access: Option<AccessLog>,
    /// The spans of requests.
    pub traces: Option<Traces>,
    /// A socket for the metrics and the health pages, which then are not on the public socket.
    pub admin: Option<TcpListener>,
    /// Time between the order to stop and the stop. In this time the server is not ready, but still
    /// serves.
    pub stop_delay: Duration,
}

/// A listening server.
pub struct Server {
    listener: TcpListener,
    admin: Option<TcpListener>,
    stop_delay: Duration,
    front: Arc<Front>,
}

impl Server {
    /// A server on a socket that listens. `routes` has one route for each guest of the engine.
    ///
    /// # Errors
    ///
    /// If a route is invalid or appears twice, a limit is 0, or [`Limits::buffered_max`] is less
    /// than [`Limits::body_max`].
    pub fn new(
        listener: TcpListener,
        engine: Arc<dyn Engine>,
        routes: impl IntoIterator<Item = impl Into<Mount>>,
        limits: Limits,
        extras: Extras,
    ) -> Result<Self> {
        let mounts = routes.into_iter().map(Into::into).collect();
        let reserved: &[&str] = if extras.admin.is_some() {
            &[]
        } else {
            &RESERVED
        };
        let Extras { access, traces, .. } = extras;
        let front = Front::new(engine, mounts, limits, access, traces, reserved)?;
        Ok(Self {
            listener,
            admin: extras.admin,
            stop_delay: extras.stop_delay,
            front: Arc::new(front),
        })
    }

    /// Starts to listen. `routes` has one route for each guest of the engine.
    ///
    /// # Errors
    ///
    /// If a route is invalid or appears twice, a limit is 0, [`Limits::buffered_max`] is less than
    /// [`Limits::body_max`], or the system refuses the address.
    pub async fn bind(
        address: SocketAddr,
        engine: Arc<dyn Engine>,
        routes: impl IntoIterator<Item = impl Into<Mount>>,
        limits: Limits,
    ) -> Result<Self> {
        let listener = listen(address).await?;
        Self::new(listener, engine, routes, limits, Extras::default())
    }

    /// A handle that replaces the routes of the server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.front))
    }

    /// The address of the server's own pages, if these pages have a separate address.
    ///
    /// # Errors
    ///
    /// If the system does not report the address.
    pub fn admin_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.admin.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// The address that the server listens on.
    ///
    /// # Errors
    ///
    /// If the system does not report the address.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is ready. Then, for [`Extras::stop_delay`], the server reports that it
    /// is not ready, but still serves. After this delay it accepts no more connections, lets
    /// running requests finish, and ends the rest after [`Limits::grace`].
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self {
            listener,
            admin,
            stop_delay,
            front,
        } = self;
        let limits = front.site().limits.clone();
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        let permits = Arc::new(Semaphore::new(limits.connections));
        let clients = Clients::new(limits.client_connections);
        // Serves until the end of this function, so that clients learn that the server stops.
        let mut pages = JoinSet::new();
        if let Some(listener) = admin {
            let admin = Admin {
                listener,
                front: Arc::clone(&front),
                http: http(limits.header_timeout),
                write_timeout: limits.write_timeout,
                pause: PAUSE,
            };
            pages.spawn(admin.run());
        }
        let stop = async {
            stop.await;
            front.stop();
            sleep(stop_delay).await;
        };
        let mut stop = pin!(stop);
        loop {
            let accepted = async {
                let permit = Arc::clone(&permits).acquire_owned().await;
                (listener.accept().await, permit)
            };
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                (accepted, permit) = accepted => match accepted {
                    Ok((stream, remote)) => {
                        let Some(counted) = clients.count(remote.ip()) else {
                            front.metrics.connections_refused.add(1);
                            tracing::debug!(%remote, "client has as many connections as it may");
                            continue;
                        };
                        let open = Open::new(&front, permit, counted);
                        let buffered = open.counted.buffered.clone();
                        let (front, watcher) = (Arc::clone(&front), graceful.watcher());
                        let connection = serve(front, stream, remote, buffered, watcher);
                        connections.spawn(async move {
                            let _open = open;
                            connection.await;
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "no connection accepted");
                        sleep(PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        tracing::info!(connections = connections.len(), "stopping");
        let grace = front.site().limits.grace;
        let all = async {
            graceful.shutdown().await;
            // Some guests continue after their responses.
            front.guests.ended().await;
        };
        if timeout(grace, all).await.is_err() {
            tracing::warn!(?grace, "ending what has not ended by itself");
        }
        // Dropping a request ends its guest.
        connections.shutdown().await;
        // End the guests before closing the access log, which gets a line for each guest.
        front.guests.shutdown().await;
        if let Some(access) = &front.access {
            access.close().await;
        }
        if let Some(traces) = &front.traces {
            traces.close().await;
        }
    }
}

/// Starts to listen on an address.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.with_context(|| format!("cannot listen on {address}"))
}

/// Changes a running server.
#[derive(Clone)]
pub struct Handle(Arc<Front>);

impl Handle {
    /// Replaces routes, engine and limits. New requests use the new values. Requests that have
    /// begun keep the old routes, engine and limits until they end.
    ///
    /// Limits of connections and of the log stay as they were when the server was made.
    ///
    /// # Errors
    ///
    /// If a route is invalid or appears twice, a limit is 0, or [`Limits::buffered_max`] is less
    /// than [`Limits::body_max`]. Then the old routes stay.
    pub fn replace(
        &self,
        engine: Arc<dyn Engine>,
        routes: impl IntoIterator<Item = impl Into<Mount>>,
        limits: Limits,
    ) -> Result<()> {
        let mounts = routes.into_iter().map(Into::into).collect();
        self.0.replace(engine, mounts, limits)
    }

    /// Opens the access log again, because something has renamed it.
    pub fn reopen_logs(&self) {
        if let Some(access) = &self.0.access {
            access.reopen();
        }
    }

    /// Counts a reload in the metrics.
    pub(crate) fn count_reload(&self, is_ok: bool) {
        self.0.metrics.count_reload(is_ok);
    }
}

/// An open connection. The connection counts until this value is dropped, even if its task panics.
struct Open {
    gauge: Arc<Gauge>,
    _permit: Result<OwnedSemaphorePermit, AcquireError>,
    counted: Counted,
}

impl Open {
    fn new(
        front: &Front,
        permit: Result<OwnedSemaphorePermit, AcquireError>,
        counted: Counted,
    ) -> Self {
        let gauge = Arc::clone(&front.metrics.connections);
        gauge.increment();
        Self {
            gauge,
            _permit: permit,
            counted,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.gauge.decrement();
    }
}

/// Serves one connection until it ends. `buffered` counts the bytes of the bodies of its client.
async fn serve(
    front: Arc<Front>,
    stream: TcpStream,
    remote: SocketAddr,
    buffered: Buffered,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let Ok(local) = stream.local_addr() else {
        return; // it is closed already
    };
    // An answer is written in pieces that are sent at once, so Nagle's algorithm would only delay
    // them.
    let _ = stream.set_nodelay(true);
    let (write_timeout, header_timeout) = {
        let site = front.site();
        (site.limits.write_timeout, site.limits.header_timeout)
    };
    let socket = socket2::SockRef::from(&stream);
    if let Err(error) = socket.set_tcp_user_timeout(Some(write_timeout)) {
        tracing::debug!(%error, "no limit to how long an answer is not taken");
    }
    let stream = Stream::new(stream, write_timeout);
    let http = http(header_timeout);
    let addresses = Addresses { local, remote };
    let service = service_fn(move |request| {
        let (front, buffered) = (Arc::clone(&front), buffered.clone());
        async move { Ok::<_, Infallible>(front.answer(request, addresses, &buffered).await) }
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%remote, %error, "connection ended");
    }
}

/// The settings of HTTP connections, with their limits.
fn http(header_timeout: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(header_timeout.min(HEADER_TIMEOUT_MAX))
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(FIELDS_MAX)
        // hyper's buffers grow to twice this size.
        .max_buf_size(READ_BYTES_MAX / 2);
    http
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Empty};
    use hyper::body::Incoming;
    use hyper::{Request, Response};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    const HOUR: Duration = Duration::from_secs(3600);

    /// The largest piece of a body that a connection reads at a time.
    async fn largest_piece(http: http1::Builder) -> usize {
        const BODY: usize = 8 << 20;
        let largest = AtomicUsize::new(0);
        let service = service_fn(|request: Request<Incoming>| {
            let largest = &largest;
            async move {
                let mut body = request.into_body();
                while let Some(frame) = body.frame().await {
                    let data = frame?.into_data().unwrap_or_default();
                    largest.fetch_max(data.len(), Ordering::Relaxed);
                }
                Ok::<_, hyper::Error>(Response::new(Empty::<Bytes>::new()))
            }
        });
        let (server, mut client) = duplex(1 << 20);
        let served = http.serve_connection(TokioIo::new(server), service);
        let asked = async {
            let head =
                format!("PUT / HTTP/1.1\r\nConnection: close\r\nContent-Length: {BODY}\r\n\r\n");
            client.write_all(head.as_bytes()).await.unwrap();
            client.write_all(&vec![0; BODY]).await.unwrap();
            client.read_to_end(&mut vec![]).await.unwrap();
        };
        let (served, ()) = tokio::join!(served, asked);
        served.expect("it is served");
        largest.into_inner()
    }

    #[tokio::test]
    async fn a_connection_reads_so_much_at_a_time_and_no_more() {
        let largest = largest_piece(http(HOUR)).await;
        assert!(largest <= READ_BYTES_MAX, "{largest}");
        let mut unbounded = http1::Builder::new();
        unbounded.timer(TokioTimer::new());
        assert!(
            largest_piece(unbounded).await > READ_BYTES_MAX,
            "the bound is hyper's own, and the test shows nothing"
        );
    }
}
