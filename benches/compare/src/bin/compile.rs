//! Compiles a module with pirn and with Wasmtime, in turn, each time in a new process. Reports wall
//! time, CPU time, peak memory, and bytes of code.
//!
//! `cargo run --release --manifest-path benches/compare/Cargo.toml --bin compile -- MODULE.wasm
//! --rounds 5`
//!
//! Both use the same code generator, built with the same settings. They differ in the code that
//! they pass to it.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use object::{Object as _, ObjectSection as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The compilers.
const COMPILERS: [&str; 2] = ["pirn", "wasmtime"];

/// The command line.
#[derive(Parser)]
struct Args {
    /// A WebAssembly module, in binary.
    module: PathBuf,
    /// How often each compiles it.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Compiles it once and prints what that took: what the processes do.
    #[arg(long, hide = true)]
    by: Option<String>,
}

/// The measurements of one compilation.
#[derive(Clone, Copy)]
struct Sample {
    wall_ms: u64,
    cpu_ms: u64,
    peak_kib: u64,
    /// Bytes of the artifact, and bytes of the machine code in it.
    bytes: u64,
    text_bytes: u64,
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(by) = &args.by {
        let sample = compile(by, &args.module)?;
        let Sample {
            wall_ms,
            cpu_ms,
            peak_kib,
            bytes,
            text_bytes,
        } = sample;
        println!("{wall_ms} {cpu_ms} {peak_kib} {bytes} {text_bytes}");
        return Ok(());
    }
    ensure!(
        args.rounds > 0,
        "0 rounds measure nothing; ask for 1 at least"
    );
    std::fs::File::open(&args.module).with_context(|| args.module.display().to_string())?;
    let mut samples = COMPILERS.map(|_| vec![]);
    for _ in 0..args.rounds {
        for (by, samples) in COMPILERS.iter().zip(&mut samples) {
            samples.push(apart(by, &args.module)?);
        }
    }
    println!(
        "| medians of {} | wall, ms | processor, ms | peak, MiB | file, bytes | code, bytes |",
        args.rounds
    );
    println!("|---|---|---|---|---|---|");
    for (by, samples) in COMPILERS.iter().zip(&samples) {
        let of = |field: fn(&Sample) -> u64| median(samples.iter().map(field).collect());
        println!(
            "| {by} | {} | {} | {} | {} | {} |",
            of(|s| s.wall_ms),
            of(|s| s.cpu_ms),
            of(|s| s.peak_kib) >> 10,
            of(|s| s.bytes),
            of(|s| s.text_bytes)
        );
    }
    Ok(())
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// Compiles the module in a new process, so that its peak memory is measured alone.
fn apart(by: &str, module: &Path) -> Result<Sample> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["--by", by]).arg(module).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{by}: {}", said.trim_end());
    let printed = String::from_utf8(output.stdout)?;
    let numbers: Result<Vec<u64>, _> = printed.split_whitespace().map(str::parse).collect();
    match numbers?[..] {
        [wall_ms, cpu_ms, peak_kib, bytes, text_bytes] => Ok(Sample {
            wall_ms,
            cpu_ms,
            peak_kib,
            bytes,
            text_bytes,
        }),
        _ => bail!("{by} printed \"{printed}\", not 5 numbers"),
    }
}

/// Compiles the module in this process.
fn compile(by: &str, module: &Path) -> Result<Sample> {
    let wasm = std::fs::read(module)?;
    let begin = Instant::now();
    let made = match by {
        "pirn" => pirn_compiler::compile(&wasm, &pirn_compiler::Options::default())?,
        "wasmtime" => wasmtime::Engine::default().precompile_module(&wasm)?,
        other => bail!("\"{other}\" compiles nothing; there are {COMPILERS:?}"),
    };
    let wall = begin.elapsed();
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let cpu = used.user_time() + used.system_time();
    let file = object::File::parse(&made[..])?;
    let text = file.section_by_name(".text").context("it has no .text")?;
    Ok(Sample {
        wall_ms: u64::try_from(wall.as_millis())?,
        cpu_ms: u64::try_from(cpu.num_milliseconds())?,
        peak_kib: u64::try_from(used.max_rss())?,
        bytes: u64::try_from(made.len())?,
        text_bytes: text.size(),
    })
}
