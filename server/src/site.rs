//! [`Site`]: the routes, the engine with their guests, and the limits for requests.
//!
//! A reload replaces the whole site. A request has one site from its start to its end.

use crate::guest::engine::Engine;
use crate::limits::Limits;
use crate::operations::metrics::{Metrics, RouteCounters};
use anyhow::{Result, bail};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A route: a path prefix, and the limit of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The path prefix.
    pub prefix: String,
    /// Most requests that have a guest or wait for a guest; `None` for [`Limits::route_requests`].
    pub requests: Option<usize>,
}

impl<S: Into<String>> From<S> for Mount {
    fn from(prefix: S) -> Self {
        Self {
            prefix: prefix.into(),
            requests: None,
        }
    }
}

/// Routes, their guests and their limits.
pub(crate) struct Site {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) limits: Limits,
    pub(crate) routes: Vec<Route>,
    /// One permit for each request that may wait for a slot.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) counters: RouteCounters,
}

/// A route of a site.
pub(crate) struct Route {
    pub(crate) prefix: String,
    /// One permit for each request that may wait for a guest or have a guest.
    pub(crate) turns: Arc<Semaphore>,
    turns_max: usize,
}

impl Site {
    /// A site. `reserved` are paths that belong to the server.
    ///
    /// If a limit is unchanged, requests to an earlier site also count against it. So requests to
    /// both sites together do not exceed the limit.
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        mounts: Vec<Mount>,
        mut limits: Limits,
        metrics: &Metrics,
        reserved: &[&str],
        earlier: Option<&Self>,
    ) -> Result<Self> {
        for (at, mount) in mounts.iter().enumerate() {
            let earlier = mounts[..at].iter().map(|mount| mount.prefix.as_str());
            check(&mount.prefix, reserved, earlier)?;
        }
        for (limit, name) in [
            (limits.connections, "connections"),
            (limits.client_connections, "client-connections"),
            (limits.waiting_max, "waiting-max"),
            (limits.route_requests, "route-requests"),
        ] {
            if limit == 0 {
                bail!("--{name} is 0, so no request could be answered; set it to 1 or more");
            }
        }
        if limits.buffered_max < limits.body_max {
            bail!(
                "--buffered-max is {} bytes and --body-max {}, so the largest body could never be \
                 read; raise --buffered-max or lower --body-max",
                limits.buffered_max,
                limits.body_max
            );
        }
        // `Semaphore::MAX_PERMITS` is as good as no limit.
        limits.waiting_max = limits.waiting_max.min(Semaphore::MAX_PERMITS);
        limits.connections = limits.connections.min(Semaphore::MAX_PERMITS);
        limits.route_requests = limits.route_requests.min(Semaphore::MAX_PERMITS);
        let counters = metrics.routes(mounts.iter().map(|mount| mount.prefix.as_str()));
        let routes = mounts.into_iter().map(|mount| {
            let turns_max = mount.requests.unwrap_or(limits.route_requests);
            let same =
                |route: &&Route| route.prefix == mount.prefix && route.turns_max == turns_max;
            let same = earlier.and_then(|site| site.routes.iter().find(same));
            let turns = same.map(|route| Arc::clone(&route.turns));
            Route {
                prefix: mount.prefix,
                turns: turns.unwrap_or_else(|| semaphore(turns_max)),
                turns_max,
            }
        });
        let same = earlier.filter(|site| site.limits.waiting_max == limits.waiting_max);
        let places = same.map(|site| Arc::clone(&site.places));
        Ok(Self {
            engine,
            routes: routes.collect(),
            places: places.unwrap_or_else(|| semaphore(limits.waiting_max)),
            counters,
            limits,
        })
    }

    /// The route with the longest prefix of this path.
    pub(crate) fn route(&self, path: &str) -> Option<usize> {
        let fits = |prefix: &str| {
            let rest = path.strip_prefix(prefix.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let routes = self.routes.iter().enumerate();
        let fitting = routes.filter(|(_, route)| fits(&route.prefix));
        Some(fitting.max_by_key(|(_, route)| route.prefix.len())?.0)
    }

    /// Number of requests that wait for a slot.
    pub(crate) fn waiting(&self) -> usize {
        self.limits.waiting_max - self.places.available_permits()
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}

/// Checks that a route is a path, is not the server's, and differs from all earlier routes.
pub(crate) fn check<'a>(
    route: &str,
    reserved: &[&str],
    mut earlier: impl Iterator<Item = &'a str>,
) -> Result<()> {
    if !route.starts_with('/') || route.contains(['?', '#', ' ']) {
        bail!("route {route:?} is not a path; write it as in /hello");
    }
    if reserved.contains(&route) {
        bail!("route {route:?} is a path of the server itself; choose another");
    }
    let same = |other: &str| other.trim_end_matches('/') == route.trim_end_matches('/');
    if earlier.any(same) {
        bail!("route {route:?} is given twice; remove one");
    }
    Ok(())
}
