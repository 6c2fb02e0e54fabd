//! Serves the pages of the server itself on an address of its own.

use crate::front::Front;
use crate::stream::Stream;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Most connections to the admin address at a time. Further ones wait to be accepted.
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

impl Admin {
    /// Serves until the future is dropped, also while the server stops.
    pub(crate) async fn run(self) {
        let permits = Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            // The semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await;
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let connection = self.serve(stream);
                    connections.spawn(async move {
                        let _permit = permit;
                        connection.await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "no admin connection accepted");
                    sleep(self.pause).await;
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream) -> impl Future<Output = ()> + use<> {
        let front = Arc::clone(&self.front);
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let reply = front.own_or_missing(request.uri().path());
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
