//! Components that answer HTTP requests (`wasi:http/incoming-handler`), a fresh instance a request.
//!
//! In `benches/compare`, after `examples/guests/build.sh`:
//!
//!     cargo run --release --bin components-http -- answers GUEST.wasm...
//!     cargo run --release --bin components-http -- measure GUEST.wasm... --rounds 21
//!     cargo run --release --bin components-http -- serve GUEST.wasm --listen 127.0.0.1:8080
//!
//! `answers` prints the answers to the requests that the guests know, to be compared. `measure`
//! prints the time of a request without sockets: make an instance and the request, call the guest,
//! collect the response, drop the instance. `serve` is a server with one worker thread.
//!
//! An engine is one implementation of [`Engine`] and one line in [`engines`].

#![forbid(unsafe_code)]

#[path = "../../best.rs"]
mod best;
mod message;
#[path = "../../row.rs"]
#[expect(dead_code, reason = "the rows of the other table have more engines")]
mod row;
#[path = "../../turns.rs"]
mod turns;
mod wasmtime;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use message::{Ask, Ended};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use row::Run;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Time of the processor that is enough to measure it, in microseconds.
const PROCESSOR_US_MIN: f64 = 200e3;

/// A guest in an engine.
trait Engine {
    fn name(&self) -> &'static str;

    /// The answer to a request.
    fn answer(&self, ask: &Ask) -> Ended;

    /// Answers the same request `count` times, and panics unless each answer has the status 200.
    fn repeat(&self, ask: &Ask, count: u64);
}

/// The guest in each engine.
fn engines(wasm: &[u8], options: &Options) -> Result<Vec<Box<dyn Engine>>> {
    Ok(vec![Box::new(wasmtime::Wasmtime::new(wasm, options)?)])
}

#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    options: Options,
}

/// Settings of Wasmtime.
#[derive(clap::Args)]
struct Options {
    /// No epoch checks in guest code: a guest cannot be stopped
    #[arg(long, global = true)]
    no_epochs: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Print the answers to all requests that the guests know
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
    },
    /// Serve a guest by Wasmtime, on one thread
    Serve {
        guest: PathBuf,
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
    },
}

fn main() -> Result<()> {
    let Args { command, options } = Args::parse();
    match command {
        Command::Answers { guests } => {
            for guest in guests {
                println!("=== {}", guest.display());
                for engine in engines(&read(&guest)?, &options)? {
                    for ask in message::known() {
                        println!("--- {}: {ask}\n{}", engine.name(), engine.answer(&ask));
                    }
                }
            }
            Ok(())
        }
        Command::Measure { guests, rounds } => measure(&guests, rounds, &options),
        Command::Serve { guest, listen } => {
            wasmtime::Wasmtime::new(&read(&guest)?, &options)?.serve(listen)
        }
    }
}

fn read(guest: &Path) -> Result<Vec<u8>> {
    std::fs::read(guest).with_context(|| guest.display().to_string())
}

fn measure(guests: &[PathBuf], rounds: usize, options: &Options) -> Result<()> {
    println!(
        "microseconds a request, one thread: medians of {rounds} rounds, and the time of the \
         processor, which other programs disturb less"
    );
    for guest in guests {
        let engines = engines(&read(guest)?, options)?;
        print!("{:<44}", guest.display());
        for engine in &engines {
            print!(" {:>10} {:>10}", engine.name(), "processor");
        }
        println!();
        for (name, ask) in message::measured() {
            // A guest need not know all of them.
            if engines
                .iter()
                .any(|engine| engine.answer(&ask).status() != Some(200))
            {
                continue;
            }
            let ask = &ask;
            let runs = engines
                .iter()
                .map(|engine| -> Run<'_> { Box::new(move |count| engine.repeat(ask, count)) });
            let mut runs: Vec<_> = runs.collect();
            print!("{name:<44}");
            let ns = turns::measure(&mut runs.iter_mut().collect::<Vec<_>>(), rounds);
            for (run, ns) in runs.iter_mut().zip(ns) {
                print!(" {:>10.1} {:>10.1}", ns / 1e3, processor_us(run));
            }
            println!();
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
