//! [`serve`]: the life of the program, from its command line to its end.

use crate::args::Args;
use crate::config::Config;
use crate::guest::engine::Engine;
use crate::operations::access::AccessLog;
use crate::operations::manager;
use crate::operations::traces::Traces;
use crate::server::{Extras, Handle, Server, listen};
use anyhow::{Context as _, Error, Result};
use pirn_cli::text::one_line;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

/// Runs a server from its command line to its end. `make` makes the engine that runs the guests of
/// a configuration; for a reload it also gets the old engine.
///
/// An error is one line on standard error.
pub fn serve<E, M>(program: &str, make: M) -> ExitCode
where
    E: Engine,
    M: Fn(&Config, Option<&E>) -> Result<E> + Send + Sync + 'static,
{
    let args = match Args::of_process(program) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(args, make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{program}: {}", one_line(format_args!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

fn run<E, M>(args: Args, make: M) -> Result<()>
where
    E: Engine,
    M: Fn(&Config, Option<&E>) -> Result<E> + Send + Sync + 'static,
{
    // Call this before any thread starts: it changes the environment.
    let socket = manager::socket()?;
    let config = args.config()?;
    config.log()?;
    let engine = Arc::new(make(&config, None)?);
    if args.is_check() {
        println!("configuration is good: {} routes", config.routes.len());
        return Ok(());
    }
    let runtime = runtime(config.workers)?;
    let ended = runtime.block_on(until_told(args, config, engine, make, socket));
    // Do not wait for a running reload.
    runtime.shutdown_background();
    ended
}

/// Serves requests until SIGTERM or SIGINT.
async fn until_told<E, M>(
    args: Args,
    config: Config,
    engine: Arc<E>,
    make: M,
    socket: Option<TcpListener>,
) -> Result<()>
where
    E: Engine,
    M: Fn(&Config, Option<&E>) -> Result<E> + Send + Sync + 'static,
{
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let listener = match socket {
        Some(socket) => tokio::net::TcpListener::from_std(socket)?,
        None => listen(config.listen).await?,
    };
    let first = Arc::<E>::clone(&engine);
    let (limits, extras) = (config.limits.clone(), extras(&config).await?);
    let server = Server::new(listener, first, config.mounts(), limits, extras)?;
    let mut reload = Reload {
        handle: server.handle(),
        args: Arc::new(args),
        make: Arc::new(make),
        config,
        engine,
    };
    say_addresses(&server)?;
    manager::ready();
    tokio::spawn(manager::watch());
    let reloads = tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            manager::reloading();
            reload.handle.reopen_logs();
            reload.now().await;
            manager::ready();
        }
    });
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        reloads.abort();
        manager::stopping();
    };
    server.run(stop).await;
    Ok(())
}

/// Opens the access log, the traces and the admin socket.
async fn extras(config: &Config) -> Result<Extras> {
    let access = config.access_log.as_deref();
    let access = access.map(|path| AccessLog::open(path, config.access_log_format));
    let traces = config.otlp.as_ref();
    let traces = traces.map(|endpoint| Traces::start(endpoint, config.otlp_ratio));
    Ok(Extras {
        access: access.transpose()?,
        traces: traces.transpose()?,
        admin: match config.admin {
            Some(address) => Some(listen(address).await?),
            None => None,
        },
        stop_delay: config.stop_delay,
    })
}

/// Prints the addresses, so that a caller that passes port 0 learns the ports.
fn say_addresses(server: &Server) -> Result<()> {
    let mut said = format!("listening on {}\n", server.address()?);
    if let Some(admin) = server.admin_address()? {
        said += &format!("admin pages on {admin}\n");
    }
    // Ignore errors: standard output may have no reader.
    let _ = io::stdout().write_all(said.as_bytes());
    Ok(())
}

/// Reloads the configuration of a running server.
struct Reload<E, M> {
    handle: Handle,
    args: Arc<Args>,
    make: Arc<M>,
    /// The configuration of the start, which has the options that only a restart changes.
    config: Config,
    /// The engine of new requests.
    engine: Arc<E>,
}

impl<E, M> Reload<E, M>
where
    E: Engine,
    M: Fn(&Config, Option<&E>) -> Result<E> + Send + Sync + 'static,
{
    /// Reads the configuration and the modules again. New requests use the new configuration and
    /// modules. After an error, the old configuration stays in use.
    async fn now(&mut self) {
        let loaded = self.load().await;
        let is_ok = loaded.is_ok();
        match loaded {
            Ok(config) => {
                let restart = self.config.needing_restart(&config);
                if !restart.is_empty() {
                    let options = restart.join(" ");
                    tracing::warn!(
                        options,
                        "changed options take effect at the next start only"
                    );
                }
                tracing::info!(routes = config.routes.len(), "reloaded");
            }
            Err(error) => {
                let error = one_line(format_args!("{error:#}"));
                tracing::error!(error, "not reloaded, the earlier configuration stays");
            }
        }
        // Count the reload after the log line, so that each counted reload is in the log.
        self.handle.count_reload(is_ok);
    }

    async fn load(&mut self) -> Result<Config> {
        let (args, make) = (Arc::clone(&self.args), Arc::clone(&self.make));
        let old = Arc::clone(&self.engine);
        let loaded = spawn_blocking(move || {
            let config = args.config()?;
            let engine = make(&config, Some(&old))?;
            Ok::<_, Error>((config, Arc::new(engine)))
        });
        let (config, engine) = loaded.await??;
        let next = Arc::<E>::clone(&engine);
        let limits = config.limits.clone();
        self.handle.replace(next, config.mounts(), limits)?;
        self.engine = engine;
        Ok(config)
    }
}

/// Starts the threads for connections and guests: `workers`, or one for each processor.
///
/// # Errors
///
/// If the system refuses to start them.
pub fn runtime(workers: Option<NonZero<usize>>) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers.get());
    }
    let runtime = builder.enable_all().build();
    runtime.context("cannot start the threads")
}
