//! Serves HTTP with a `wasi:http` component in its container. Each request runs in its own slot.

use crate::given::Given;
use crate::outcome::unlinked;
use crate::policy::{Policy, Server as Limits};
use crate::stop::Stop;
use anyhow::{Context as _, Result, anyhow};
use pirn_runtime::Module;
use pirn_server::grants::{Grants, HostDir};
use pirn_server::{Extras, Pirn, Server, Settings, program};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use tracing::level_filters::LevelFilter;

/// Maximum number of connections of one client address. In a cluster, all requests may come from
/// the address of one proxy.
const CLIENT_CONNECTIONS: usize = 1024;

/// The ports of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// The port for requests.
    pub(crate) public: u16,
    /// The port for health pages and metrics. `None` if the public port serves them.
    pub(crate) admin: Option<u16>,
}

/// Serves until a stop signal arrives.
pub(crate) fn serve(
    module: &Module,
    limits: &Limits,
    policy: &Policy,
    ports: Ports,
    given: Given,
    stop: &Stop,
) -> Result<()> {
    stop.is_server();
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init()
        .map_err(|error| anyhow!("cannot log: {error}"))?;
    let engine = Pirn::new(settings(limits), std::slice::from_ref(module), |_| Ok(()));
    let mut engine = engine.map_err(|error| unlinked(&error))?;
    engine.allow(0, &grants(policy, given));
    tracing::info!("{}", engine.region().describe());
    let public = listen(ports.public)?;
    let admin = ports.admin.map(listen).transpose()?;
    let runtime = program::runtime(None)?;
    runtime.block_on(async {
        let extras = Extras {
            admin: admin.map(tokio::net::TcpListener::from_std).transpose()?,
            ..Extras::default()
        };
        let public = tokio::net::TcpListener::from_std(public)?;
        let defaults = pirn_server::Limits::default();
        let of_clients = pirn_server::Limits {
            wait: limits.wait,
            body_max: limits.body_max,
            buffered_max: defaults.buffered_max.max(limits.body_max),
            grace: limits.grace,
            client_connections: CLIENT_CONNECTIONS,
            ..defaults
        };
        let server = Server::new(public, Arc::new(engine), ["/"], of_clients, extras)?;
        tracing::info!("listening on {}", server.address()?);
        server.run(stop.clone().told()).await;
        Ok(())
    })
}

fn settings(limits: &Limits) -> Settings {
    let start_deadline = Settings::default().start_deadline;
    Settings {
        slots: limits.slots,
        memory_bytes_max: limits.memory_max,
        stack_bytes: limits.stack,
        deadline: limits.deadline,
        start_deadline: start_deadline.min(limits.deadline),
        ..Settings::default()
    }
}

fn grants(policy: &Policy, given: Given) -> Grants {
    let host_dirs = given.dirs.into_iter().map(|preopen| HostDir {
        path: preopen.path,
        dir: Arc::new(preopen.dir),
        is_read_only: preopen.is_read_only,
    });
    Grants {
        servers: policy.servers.clone(),
        network: policy.network.clone(),
        host_dirs: host_dirs.collect(),
        env: given.env,
        ..Grants::default()
    }
}

/// Listens on all addresses of the container: on a dual-stack IPv6 socket, or on an IPv4 socket if
/// the container has no IPv6.
fn listen(port: u16) -> Result<TcpListener> {
    let all = [
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    ];
    let listener = TcpListener::bind(all.as_slice());
    let listener = listener.with_context(|| format!("cannot listen on port {port}"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
