//! The command line of a server. It is independent of the engine that runs the guests.

use crate::engine::Engine;
use crate::limits::Limits;
use crate::pirn::Settings;
use crate::server::Server;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Parser;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;

/// Serves HTTP with WASI programs that speak CGI, each request in its own sandbox
#[derive(Debug, Parser)]
#[command(version, after_long_help = ABI)]
pub struct Args {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// The guest of all paths that begin with PATH: a .so from aotc, or a .wasm or .wat to compile
    #[arg(long = "route", value_name = "PATH=MODULE", required = true, value_parser = route)]
    routes: Vec<(String, PathBuf)>,
    /// Most guests at a time: the number of slots
    #[arg(long, value_name = "N", default_value = "64")]
    slots: u32,
    /// Threads that run guests and serve connections [default: the number of processors]
    #[arg(long, value_name = "N")]
    workers: Option<NonZero<usize>>,
    /// Longest wall time of a guest, as in 500us, 200ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time)]
    deadline: Duration,
    /// Longest time of a module's start function; its thread does nothing else in that time
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = time)]
    start_deadline: Duration,
    /// Initialises each guest once, when the server starts; every request gets an instance that
    /// begins there
    #[arg(long)]
    warm: bool,
    /// Longest time of the initialisation of a guest with --warm
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    warm_deadline: Duration,
    /// Longest time that a guest keeps a thread before others run
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = time)]
    timeslice: Duration,
    /// Most memory of a guest, as in 512KiB or 64MiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = bytes)]
    memory_max: usize,
    /// Stack size of a guest
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    stack: usize,
    /// Most bytes of a guest's answer
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    answer_max: usize,
    /// Most bytes of a guest's standard error that are logged
    #[arg(long, value_name = "BYTES", default_value = "8KiB", value_parser = bytes)]
    stderr_max: usize,
    /// Most bytes of a request's body
    #[arg(long, value_name = "BYTES", default_value = "1MiB", value_parser = bytes)]
    body_max: usize,
    /// Most requests that wait for a slot; more are refused at once
    #[arg(long, value_name = "N", default_value = "1024")]
    waiting_max: usize,
    /// Most requests of one route that have a guest or wait for a slot [default: no limit]
    #[arg(long, value_name = "N")]
    route_requests: Option<usize>,
    /// Longest time that a request waits for a slot
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time)]
    wait: Duration,
    /// Longest time to receive the header of a request
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    header_timeout: Duration,
    /// Longest time to receive the body of a request
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    body_timeout: Duration,
    /// Longest time that a client takes to receive its answer
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    write_timeout: Duration,
    /// Most connections at a time; more wait to be accepted
    #[arg(long, value_name = "N", default_value = "1024")]
    connections: usize,
    /// Most connections of one client address at a time; more are closed
    #[arg(long, value_name = "N", default_value = "256")]
    client_connections: usize,
    /// Most bytes a second that the server logs for guests
    #[arg(long, value_name = "BYTES", default_value = "256KiB", value_parser = bytes)]
    log_max: usize,
    /// Longest time for requests to end after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    grace: Duration,
    /// Level of the log on standard error: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,
}

/// The text after the options in the output of `--help`.
const ABI: &str = "\
Guests are WASI commands (export _start) or reactors (export handle) that speak CGI/1.1 (RFC 3875):
the request's meta-variables are in the environment, its body is the standard input, and the
standard output is the answer: header lines with Status, Content-Type or Location, a blank line, the
body. Standard error is logged. With --warm, and for snapshots by aotrun --snapshot, each request
gets an instance that has started already.

  413  body over --body-max                 408  body later than --body-timeout
  503  no slot within --wait                504  guest over --deadline
  502  guest trapped (also if memory or stack is used up), exited with a code other than 0, printed
       more than --answer-max, or gave a malformed answer
  404  no route    400  bad path or body    500  the server's own fault

/metrics has Prometheus text. SIGTERM and SIGINT stop the server; running requests may end within
--grace. docs/guide/server.md has the rest.";

impl Args {
    /// The limits for clients.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            waiting_max: self.waiting_max,
            route_requests: self.route_requests.unwrap_or(usize::MAX),
            wait: self.wait,
            body_max: self.body_max,
            header_timeout: self.header_timeout,
            body_timeout: self.body_timeout,
            write_timeout: self.write_timeout,
            connections: self.connections,
            client_connections: self.client_connections,
            log_max: self.log_max,
            grace: self.grace,
        }
    }

    /// The limits for guests.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            slots: self.slots,
            memory_bytes_max: self.memory_max,
            stack_bytes: self.stack,
            deadline: self.deadline,
            start_deadline: self.start_deadline,
            timeslice: self.timeslice,
            output_max: self.answer_max,
            errors_max: self.stderr_max,
        }
    }

    /// The longest time of a guest's initialisation when the server starts, if it is to be
    /// initialised then.
    #[must_use]
    pub fn warm(&self) -> Option<Duration> {
        self.warm.then_some(self.warm_deadline)
    }

    /// Paths of the modules, in the order of their routes.
    pub fn modules(&self) -> impl Iterator<Item = &Path> {
        self.routes.iter().map(|(_, module)| module.as_path())
    }

    /// Serves requests with `engine` until SIGTERM or SIGINT.
    ///
    /// # Errors
    ///
    /// As [`Server::bind`], and if the system refuses threads or signals.
    pub fn serve(&self, engine: Arc<dyn Engine>) -> Result<()> {
        runtime(self.workers)?.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let routes = self.routes.iter().map(|(path, _)| path.clone()).collect();
            let server = Server::bind(self.listen, engine, routes, self.limits()).await?;
            // Printed to standard output, so that a caller that passes port 0 learns the port.
            println!("listening on {}", server.address()?);
            let stop = async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            };
            server.run(stop).await;
            Ok(())
        })
    }

    /// Starts logging to standard error.
    ///
    /// # Errors
    ///
    /// If the process has a logger already.
    pub fn log(&self) -> Result<()> {
        tracing_subscriber::fmt()
            .with_max_level(self.log)
            .with_writer(std::io::stderr)
            .with_ansi(false)
            .try_init()
            .map_err(|error| anyhow!("cannot log: {error}"))
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

/// Parses a route, as in /hello=hello.so.
fn route(text: &str) -> Result<(String, PathBuf)> {
    match text.split_once('=') {
        Some((path, module)) if path.starts_with('/') && !module.is_empty() => {
            Ok((path.to_owned(), module.into()))
        }
        _ => bail!("{text:?} is not a route; write it as in /hello=hello.so"),
    }
}

/// Parses a number of bytes: plain, or with the unit KiB, MiB or GiB.
///
/// # Errors
///
/// If the text is no number of bytes.
pub fn bytes(text: &str) -> Result<usize> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
    let (number, unit) = unit(text, &units).unwrap_or((text, 1));
    let number: Option<usize> = number.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.with_context(|| format!("{text:?} is not a size; write it as in 65536 or 64MiB"))
}

/// Parses a nonzero time with the unit us, ms or s.
///
/// # Errors
///
/// If the text is no time.
pub fn time(text: &str) -> Result<Duration> {
    let units = [("us", 1), ("ms", 1_000), ("s", 1_000_000)];
    let time = unit(text, &units).and_then(|(number, unit)| {
        let number: u64 = number.parse().ok()?;
        number.checked_mul(unit)
    });
    match time {
        Some(us) if us > 0 => Ok(Duration::from_micros(us)),
        _ => bail!("{text:?} is not a time above 0; write it as in 500us, 20ms or 2s"),
    }
}

/// Splits a number from its unit, and returns the value of the unit.
fn unit<'a, N: Copy>(text: &'a str, units: &[(&str, N)]) -> Option<(&'a str, N)> {
    let of = |(unit, worth): &(&str, N)| Some((text.strip_suffix(unit)?, *worth));
    units.iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
        let args = ["pirn-serve", "--route", "/a=b=c.so", "--deadline", "20ms"];
        let args = Args::try_parse_from(args).unwrap();
        assert_eq!(args.modules().collect::<Vec<_>>(), [Path::new("b=c.so")]);
        assert_eq!(args.settings().deadline, Duration::from_millis(20));
        let defaults = (Limits::default(), Settings::default());
        assert_eq!(format!("{:?}", args.limits()), format!("{:?}", defaults.0));
        assert_eq!(args.settings().timeslice, defaults.1.timeslice);
        assert_eq!(args.settings().start_deadline, defaults.1.start_deadline);
        assert_eq!(args.settings().output_max, defaults.1.output_max);
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for bad in ["a=b", "/a", "/a=", "", "="] {
            assert!(route(bad).is_err(), "{bad}");
        }
        for bad in [
            "",
            "-1",
            "1.5MiB",
            "99999999999999999999",
            "17179869184GiB",
            "1KB",
        ] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes("64MiB").unwrap(), 64 << 20);
        for bad in ["", "0s", "1", "-1s", "1m", "18446744073709551615s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!(time("500us").unwrap(), Duration::from_micros(500));
    }
}
