//! Serves the server's own pages (metrics and health) on a separate address.

use crate::front::Front;
use crate::http::clients::client;
use crate::http::stream::Stream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::cmp::Reverse;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// Most connections to the admin address at a time. A further connection replaces an open
/// connection, so clients that send nothing cannot keep a health check waiting.
pub const ADMIN_CONNECTIONS_MAX: usize = 32;

/// Serves the pages of the server itself.
pub(crate) struct Admin {
    pub(crate) listener: TcpListener,
    pub(crate) front: Arc<Front>,
    pub(crate) http: http1::Builder,
    /// Longest time that a client takes to receive an answer.
    pub(crate) write_timeout: Duration,
    /// Pause after the system refuses a connection.
    pub(crate) pause: Duration,
}

/// Counts the uses of all connections. The count at a use stands for the time of the use.
#[derive(Debug, Default, Clone)]
struct Clock(Arc<AtomicU64>);

/// The last use of a connection: its acceptance, or the begin of its last request.
#[derive(Debug, Clone)]
struct LastUse {
    clock: Clock,
    number: Arc<AtomicU64>,
}

/// An open connection.
struct Open {
    client: IpAddr,
    last_use: LastUse,
    task: AbortHandle,
}

impl Clock {
    /// The last use of a connection that begins now.
    fn begin(&self) -> LastUse {
        let last_use = LastUse {
            clock: self.clone(),
            number: Arc::default(),
        };
        last_use.renew();
        last_use
    }
}

impl LastUse {
    fn renew(&self) {
        let now = self.clock.0.fetch_add(1, Ordering::Relaxed);
        self.number.store(now, Ordering::Relaxed);
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

impl Admin {
    /// Serves until the future is dropped, also while the server stops.
    pub(crate) async fn run(self) {
        let clock = Clock::default();
        let mut connections = JoinSet::new();
        let mut open: Vec<Open> = vec![];
        loop {
            let (stream, remote) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "no admin connection accepted");
                    sleep(self.pause).await;
                    continue;
                }
            };
            let Ok(local) = stream.local_addr() else {
                continue; // it is closed already
            };
            while connections.try_join_next().is_some() {}
            open.retain(|connection| !connection.task.is_finished());
            while connections.len() >= ADMIN_CONNECTIONS_MAX {
                if let Some(at) = expendable(&open) {
                    tracing::debug!("admin connection closed for a new one");
                    open.swap_remove(at).task.abort();
                }
                // An aborted task ends without waiting for its client.
                connections.join_next().await;
            }
            let last_use = clock.begin();
            let task = connections.spawn(self.serve(stream, local, last_use.clone()));
            open.push(Open {
                client: client(remote.ip()),
                last_use,
                task,
            });
        }
    }

    fn serve(
        &self,
        stream: TcpStream,
        local: SocketAddr,
        last_use: LastUse,
    ) -> impl Future<Output = ()> + use<> {
        let front = Arc::clone(&self.front);
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            last_use.renew();
            let reply = front.answer_admin(request, local);
            async move { Ok::<_, Infallible>(reply) }
        });
        let stream = TokioIo::new(Stream::new(stream, self.write_timeout));
        let connection = self.http.serve_connection(stream, service);
        async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "admin connection ended");
            }
        }
    }
}

/// The connection to close for a new connection: the least recently used connection of the client
/// with the most connections. So a client with many connections closes only its own connections.
fn expendable(open: &[Open]) -> Option<usize> {
    let connections_of = |client| open.iter().filter(|other| other.client == client).count();
    (0..open.len()).min_by_key(|at| {
        let connection = &open[*at];
        let connections = connections_of(connection.client);
        (Reverse(connections), connection.last_use.number())
    })
}
