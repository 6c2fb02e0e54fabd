//! [`Limits`]: the limits for the server's clients.

use std::time::Duration;

/// Limits for clients. The engine has the limits for guests.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most requests that wait for a slot.
    pub waiting_max: usize,
    /// Most requests of one route that wait for a guest or have a guest. Set this limit lower than
    /// the number of slots, so that a route with slow guests leaves slots to other routes.
    pub route_requests: usize,
    /// Longest time that a request waits for a slot.
    pub wait: Duration,
    /// Most bytes of a request's body.
    pub body_max: usize,
    /// Most bytes of a body with a declared length that arrive before its CGI guest gets a slot.
    /// The guest gets the rest while it runs. A body without a declared length arrives whole
    /// before.
    pub body_ahead: usize,
    /// Most bytes of the bodies of all requests together that the server keeps in memory, by the
    /// capacity of their buffers: bytes of requests to CGI guests that the guests have not read.
    /// At least [`body_max`](Self::body_max). A client's part of these bytes is as large as its
    /// part of the connections.
    pub buffered_max: usize,
    /// Longest time until a request's header has arrived, and longest time that a connection may
    /// idle.
    pub header_timeout: Duration,
    /// Longest time until the body of a request to a CGI guest has arrived.
    pub body_timeout: Duration,
    /// Longest time that a client may take to receive its answer.
    pub write_timeout: Duration,
    /// Most connections at the same time. Further clients wait until the server accepts them.
    pub connections: usize,
    /// Most connections of one client at the same time. The server closes further connections.
    pub client_connections: usize,
    /// Most bytes per second that the server logs for guests.
    pub log_max: usize,
    /// Longest time that running requests have after the server is told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            waiting_max: 1024,
            route_requests: usize::MAX,
            wait: Duration::from_millis(500),
            body_max: 1 << 20,
            body_ahead: 1 << 20,
            buffered_max: 128 << 20,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            connections: 1024,
            client_connections: 256,
            log_max: 256 << 10,
            grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// Most bytes of the bodies of one client: the part of [`Limits::buffered_max`] that equals the
    /// client's part of the connections, but at least one body.
    pub(crate) fn client_buffered_max(&self) -> usize {
        let (all, part) = (self.connections.max(1), self.client_connections);
        let bytes = self.buffered_max as u128 * part as u128 / all as u128;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes.max(self.body_max).min(self.buffered_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_part_of_the_bytes_of_bodies() {
        let limits = |buffered_max, body_max, connections, client_connections| Limits {
            buffered_max,
            body_max,
            connections,
            client_connections,
            ..Limits::default()
        };
        let default = Limits::default().client_buffered_max();
        assert_eq!(default, 32 << 20, "256 of 1,024 connections");
        for (limits, part) in [
            (limits(1000, 10, 4, 1), 250),
            (limits(1000, 300, 4, 1), 300),
            (limits(1000, 10, 4, 4), 1000),
            (limits(1000, 10, 4, 5), 1000),
            (limits(1000, 1000, 4, 1), 1000),
            (limits(usize::MAX, 1, usize::MAX, usize::MAX), usize::MAX),
            (limits(usize::MAX, 1, 1, usize::MAX), usize::MAX),
        ] {
            assert_eq!(limits.client_buffered_max(), part, "{limits:?}");
        }
    }
}
