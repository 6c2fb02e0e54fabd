//! Components that answer HTTP requests (`wasi:http/incoming-handler`), a fresh instance a request.
//!
//! In `benches/peers`, after `examples/guests/build.sh`:
//!
//!     cargo run --release --bin components-http -- answers GUEST.wasm...
//!     cargo run --release --bin components-http -- measure GUEST.wasm... --rounds 21
//!     cargo run --release --bin components-http -- memory GUEST.wasm
//!     cargo run --release --bin components-http -- load GUEST.wasm --connections 4
//!     cargo run --release --bin components-http -- serve GUEST.wasm --engine pirn
//!
//! `answers` prints the answers to the requests that the guests know, and fails if the engines
//! differ where no difference is listed. `measure` prints the time of a request without sockets:
//! make an instance and the request, call the guest, collect the response, drop the instance.
//! "pirn, reused" calls one instance of pirn again and again, which no server should do. `memory`
//! prints the memory of many instances that have answered a request, and of their slots when they
//! are dropped. `load` sends requests to servers with one thread each: to both engines behind the
//! same server, and to `pirn-serve`. `serve` only runs one server.
//!
//! An engine is one implementation of [`HttpEngine`] and one line in [`engines`].

#![forbid(unsafe_code)]

mod exchange;
mod load;
mod memory;
mod message;
mod pirn;
mod wasmtime;

use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use memory::Held;
use message::{Ask, Ended};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use pirn_peers::row::Run;
use pirn_peers::turns;
use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

/// Time of the processor that is enough to measure it, in microseconds.
const PROCESSOR_US_MIN: f64 = 200e3;

/// Instances at a time.
const SLOTS: u32 = 64;

/// Largest memory of a guest.
const MEMORY_BYTES_MAX: usize = 128 << 20;

/// Stack of a guest.
const STACK_BYTES: usize = 1 << 20;

/// A guest in an engine.
trait HttpEngine: Send {
    fn name(&self) -> &'static str;

    /// The answer to a request.
    fn answer(&self, ask: &Ask) -> Ended;

    /// Answers the same request `count` times, and panics unless each answer has the status 200.
    fn repeat(&self, ask: &Ask, count: u64);

    /// Answers the same request in one instance. None if the guest or the engine cannot.
    fn reused(&self, _: &Ask) -> Option<Run<'_>> {
        None
    }

    /// So many live instances that have answered a request each.
    fn live(&self, ask: &Ask, count: u32) -> Box<dyn Any>;

    /// Serves the guest on this thread.
    fn serve(self: Box<Self>, listener: TcpListener) -> Result<()>;
}

/// The names of the engines.
const ENGINES: [&str; 2] = ["pirn", "wasmtime"];

/// The names of the servers. The first two are the engines behind the same server.
const SERVERS: [&str; 3] = ["pirn", "wasmtime", "pirn-serve"];

/// The guest in an engine.
fn engine(name: &str, wasm: &[u8], slots: u32, options: &Options) -> Result<Box<dyn HttpEngine>> {
    Ok(match name {
        "pirn" => Box::new(pirn::HttpPirn::new(wasm, slots, false)?),
        "pirn-serve" => Box::new(pirn::HttpPirn::new(wasm, slots, true)?),
        "wasmtime" => Box::new(wasmtime::HttpWasmtime::new(wasm, slots, options)?),
        other => bail!("{other:?} is no engine; these are: {SERVERS:?}"),
    })
}

/// The guest in each of these engines, or only in the engine that the options name.
fn engines(names: &[&str], wasm: &[u8], options: &Options) -> Result<Vec<Box<dyn HttpEngine>>> {
    let wanted = options.engine.as_deref();
    let names = wanted.map_or(names.to_vec(), |name| vec![name]);
    let names = names.into_iter();
    names
        .map(|name| engine(name, wasm, SLOTS, options))
        .collect()
}

#[derive(Parser)]
struct HttpArgs {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
struct Options {
    /// Only this engine
    #[arg(long, global = true)]
    engine: Option<String>,
    /// No epoch checks in guest code of Wasmtime: a guest cannot be stopped
    #[arg(long, global = true)]
    no_epochs: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Print and compare the answers to all requests that the guests know
    Answers {
        #[arg(required = true)]
        guests: Vec<PathBuf>,
    },
    /// Print the time of a request
    Measure {
        #[arg(required = true)]
        guests: Vec<PathBuf>,
        #[arg(long, default_value_t = 21)]
        rounds: usize,
        /// Only rows whose name contains this
        #[arg(long, default_value = "")]
        row: String,
    },
    /// Print the memory of instances and of their slots, each engine in a process of its own
    Memory {
        guest: PathBuf,
        #[arg(long, default_value_t = 1000)]
        slots: u32,
    },
    /// Send requests to a server with one thread
    Load {
        guest: PathBuf,
        #[arg(long, default_value = "/hello")]
        path: String,
        #[arg(long, default_value_t = 4)]
        connections: usize,
        #[arg(long, default_value_t = 5000)]
        requests: usize,
        #[arg(long, default_value_t = 7)]
        rounds: usize,
    },
    /// Serve a guest on one thread
    Serve {
        guest: PathBuf,
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
    },
}

fn main() -> Result<()> {
    let HttpArgs { command, options } = HttpArgs::parse();
    match command {
        Command::Answers { guests } => answers(&guests, &options),
        Command::Measure {
            guests,
            rounds,
            row,
        } => measure(&guests, rounds, &row, &options),
        Command::Memory { guest, slots } => memories(&guest, slots, &options),
        Command::Load {
            guest,
            path,
            connections,
            requests,
            rounds,
        } => {
            let load = load::Load {
                path,
                connections,
                requests,
            };
            load::compare(engines(&SERVERS, &read(&guest)?, &options)?, &load, rounds)
        }
        Command::Serve { guest, listen } => {
            let listener = TcpListener::bind(listen)?;
            listener.set_nonblocking(true)?;
            let name = options.engine.as_deref().unwrap_or("wasmtime");
            let engine = engine(name, &read(&guest)?, SLOTS, &options)?;
            println!("listening on {}", listener.local_addr()?);
            engine.serve(listener)
        }
    }
}

fn read(guest: &Path) -> Result<Vec<u8>> {
    std::fs::read(guest).with_context(|| guest.display().to_string())
}

fn answers(guests: &[PathBuf], options: &Options) -> Result<()> {
    let mut differing = 0;
    for guest in guests {
        println!("=== {}", guest.display());
        let engines = engines(&ENGINES, &read(guest)?, options)?;
        for ask in message::known() {
            let answers = engines.iter().map(|engine| {
                let answer = engine.answer(&ask);
                println!("--- {}: {ask}\n{answer}", engine.name());
                answer
            });
            let answers: Vec<_> = answers.collect();
            for two in answers.windows(2) {
                if let Some(how) = message::difference(&ask, &two[0], &two[1]) {
                    println!("DIFFERS: {}: {ask}: {how}", guest.display());
                    differing += 1;
                }
            }
        }
    }
    match differing {
        0 => Ok(()),
        _ => bail!("{differing} answers differ"),
    }
}

fn measure(guests: &[PathBuf], rounds: usize, row: &str, options: &Options) -> Result<()> {
    println!(
        "microseconds a request, one thread: medians of {rounds} rounds, and the time of the \
         processor, which other programs disturb less"
    );
    for guest in guests {
        let engines = engines(&ENGINES, &read(guest)?, options)?;
        println!("{}", guest.display());
        for (name, ask) in message::measured() {
            // A guest need not know all of them.
            if !name.contains(row)
                || engines
                    .iter()
                    .any(|engine| engine.answer(&ask).status() != Some(200))
            {
                continue;
            }
            let ask = &ask;
            let mut names = vec![];
            let mut runs: Vec<Run<'_>> = vec![];
            for engine in &engines {
                names.push(engine.name().to_owned());
                runs.push(Box::new(move |count| engine.repeat(ask, count)));
                if let Some(reused) = engine.reused(ask) {
                    names.push(format!("{}, reused", engine.name()));
                    runs.push(reused);
                }
            }
            let ns = turns::measure(&mut runs.iter_mut().collect::<Vec<_>>(), rounds);
            for ((engine, run), ns) in names.iter().zip(&mut runs).zip(ns) {
                let us = ns / 1e3;
                println!(
                    "    {name:<24} {engine:<16} {us:>10.1} {:>10.1}",
                    processor_us(run)
                );
            }
        }
    }
    Ok(())
}

fn memories(guest: &Path, slots: u32, options: &Options) -> Result<()> {
    let ask = &message::measured()[0].1;
    if let Some(name) = &options.engine {
        let engine = engine(name, &read(guest)?, slots, options)?;
        // What the first instance alone needs is not an instance's.
        engine.repeat(ask, 3);
        let before = Held::now()?;
        let live = engine.live(ask, slots);
        println!("{name:<10} {:<8} {}", "live", Held::now()? - before);
        drop(live);
        println!("{name:<10} {:<8} {}", "idle", Held::now()? - before);
        return Ok(());
    }
    println!("{slots} instances of {}, KiB", guest.display());
    println!(
        "{:<19} {:>14} {:>14} {:>14}",
        "", "share (PSS)", "resident", "page tables"
    );
    for name in ENGINES {
        let mut program = std::process::Command::new(std::env::current_exe()?);
        program.arg("memory").arg(guest).args(["--engine", name]);
        program.args(["--slots", &slots.to_string()]);
        if options.no_epochs {
            program.arg("--no-epochs");
        }
        if !program.status()?.success() {
            bail!("{name} failed");
        }
    }
    Ok(())
}

/// Microseconds that this thread has used a processor, for each operation.
fn processor_us(run: &mut Run<'_>) -> f64 {
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("a thread has usage");
        let used = usage.user_time() + usage.system_time();
        used.num_microseconds() as f64
    };
    let (start, mut count) = (used(), 0);
    while used() - start < PROCESSOR_US_MIN {
        run(10);
        count += 10;
    }
    (used() - start) / f64::from(count)
}
