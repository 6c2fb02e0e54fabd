//! [`serve`]: the life of the program, from its command line to its end.

use crate::args::Args;
use crate::config::Config;
use crate::engine::Engine;
use crate::server::Server;
use anyhow::{Context as _, Result};
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a server from its command line to its end. `make` makes the engine that runs the guests of
/// a configuration.
///
/// An error is one line on standard error.
pub fn serve<E: Engine>(program: &str, make: impl Fn(&Config) -> Result<E>) -> ExitCode {
    let args = match Args::of_process(program) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match run(&args, make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let error = format!("{error:#}").replace('\n', " ");
            eprintln!("{program}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run<E: Engine>(args: &Args, make: impl Fn(&Config) -> Result<E>) -> Result<()> {
    let config = args.config()?;
    config.log()?;
    let engine = Arc::new(make(&config)?);
    if args.is_check() {
        println!("configuration is good: {} routes", config.routes.len());
        return Ok(());
    }
    runtime(config.workers)?.block_on(until_told(&config, engine))
}

/// Serves requests until SIGTERM or SIGINT.
async fn until_told(config: &Config, engine: Arc<dyn Engine>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let limits = config.limits.clone();
    let server = Server::bind(config.listen, engine, config.mounts(), limits).await?;
    println!("listening on {}", server.address()?);
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.run(stop).await;
    Ok(())
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
