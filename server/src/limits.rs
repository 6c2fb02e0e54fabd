//! [`Limits`]: what the server allows its clients.

use std::time::Duration;

/// Limits for clients. The engine has the limits for guests.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most requests that wait for a slot.
    pub waiting_max: usize,
    /// Most requests of one route that wait for a guest or have one. Set it lower than the number
    /// of slots, so that a route with slow guests leaves slots to other routes.
    pub route_requests: usize,
    /// Longest time that a request waits for a slot.
    pub wait: Duration,
    /// Most bytes of a request's body.
    pub body_max: usize,
    /// Longest time until a request's header has arrived, and longest time that a connection may
    /// idle.
    pub header_timeout: Duration,
    /// Longest time until a request's body has arrived.
    pub body_timeout: Duration,
    /// Longest time that a client may take to receive its answer.
    pub write_timeout: Duration,
    /// Most connections at the same time. Further clients wait until the server accepts them.
    pub connections: usize,
    /// Most connections of one client at the same time. The server closes further ones.
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
