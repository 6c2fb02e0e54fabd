//! Compiles modules with pirn, with Wasmtime, and with pirn without its optimiser, in turn, each
//! time in a new process. Reports wall time, CPU time, peak memory, and bytes of code; then the
//! ratios of pirn's wall times to Wasmtime's, with their geometric mean.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin compile -- MODULE.wasm...
//! --rounds 5`
//!
//! Both use the same code generator, built with the same settings, and the same allocator. They
//! differ in the code that they pass to it.

#![forbid(unsafe_code)]

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use object::{Object as _, ObjectSection as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The compilers. Wasmtime compiles with its defaults.
const COMPILERS: [&str; 3] = ["pirn", "wasmtime", "pirn --opt-level none"];

/// The command line.
#[derive(Parser)]
struct CompileArgs {
    /// WebAssembly modules, in binary.
    #[arg(required = true)]
    modules: Vec<PathBuf>,
    /// How often each compiles a module.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Compiles the first module once and prints what that took: what the processes do.
    #[arg(long, hide = true)]
    by: Option<String>,
}

/// The measurements of one compilation.
#[derive(Clone, Copy)]
struct Sample {
    wall_us: u64,
    cpu_us: u64,
    peak_kib: u64,
    /// Bytes of the artifact, and bytes of the machine code in it.
    bytes: u64,
    text_bytes: u64,
}

fn main() -> Result<()> {
    let args = CompileArgs::parse();
    if let Some(by) = &args.by {
        let sample = compile(by, &args.modules[0])?;
        let Sample {
            wall_us,
            cpu_us,
            peak_kib,
            bytes,
            text_bytes,
        } = sample;
        println!("{wall_us} {cpu_us} {peak_kib} {bytes} {text_bytes}");
        return Ok(());
    }
    ensure!(
        args.rounds > 0,
        "0 rounds measure nothing; ask for 1 at least"
    );
    println!(
        "| medians of {} | | wall, ms | processor, ms | peak, MiB | file, bytes | code, bytes |",
        args.rounds
    );
    println!("|---|---|---|---|---|---|---|");
    let mut programs = vec![];
    for module in &args.modules {
        programs.push(CompiledProgram::measure(module, args.rounds)?);
    }
    ratios(&programs);
    Ok(())
}

/// The medians of one module.
struct CompiledProgram {
    name: String,
    bytes: u64,
    /// Wall time of each compiler, in milliseconds.
    wall_ms: [f64; COMPILERS.len()],
}

impl CompiledProgram {
    /// Compiles a module with all compilers in turn, and prints a row for each.
    fn measure(module: &Path, rounds: usize) -> Result<Self> {
        let about = std::fs::metadata(module).with_context(|| module.display().to_string())?;
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let mut samples = COMPILERS.map(|_| vec![]);
        for _ in 0..rounds {
            for (by, samples) in COMPILERS.iter().zip(&mut samples) {
                samples.push(apart(by, module)?);
            }
        }
        let mut wall_ms = [0.0; COMPILERS.len()];
        for ((by, samples), wall_ms) in COMPILERS.iter().zip(&samples).zip(&mut wall_ms) {
            let of = |field: fn(&Sample) -> u64| median(samples.iter().map(field).collect());
            *wall_ms = of(|s| s.wall_us) as f64 / 1e3;
            println!(
                "| {name} | {by} | {wall_ms:.1} | {:.1} | {} | {} | {} |",
                of(|s| s.cpu_us) as f64 / 1e3,
                of(|s| s.peak_kib) >> 10,
                of(|s| s.bytes),
                of(|s| s.text_bytes)
            );
        }
        Ok(Self {
            name: name.into_owned(),
            bytes: about.len(),
            wall_ms,
        })
    }
}

/// Prints wall times and their ratios to Wasmtime's, and the geometric means of the ratios.
fn ratios(programs: &[CompiledProgram]) {
    println!();
    println!("| program | bytes | pirn, ms | Wasmtime, ms | ratio | `none`, ms | ratio |");
    println!("|---|---|---|---|---|---|---|");
    let mut logs = [0.0; 2];
    for program in programs {
        let CompiledProgram {
            name,
            bytes,
            wall_ms: [pirn, wasmtime, none],
        } = program;
        let of = [pirn / wasmtime, none / wasmtime];
        for (log, ratio) in logs.iter_mut().zip(of) {
            *log += ratio.ln();
        }
        println!(
            "| {name} | {bytes} | {pirn:.1} | {wasmtime:.1} | {:.2} | {none:.1} | {:.2} |",
            of[0], of[1]
        );
    }
    let means = logs.map(|log: f64| (log / programs.len() as f64).exp());
    println!(
        "| geometric mean | | | | {:.2} | | {:.2} |",
        means[0], means[1]
    );
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
        [wall_us, cpu_us, peak_kib, bytes, text_bytes] => Ok(Sample {
            wall_us,
            cpu_us,
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
    let mut options = pirn_compiler::Options::default();
    let begin = Instant::now();
    let made = match by {
        "pirn" => pirn_compiler::compile(&wasm, &options)?,
        "pirn --opt-level none" => {
            options.opt_level = pirn_compiler::OptLevel::None;
            pirn_compiler::compile(&wasm, &options)?
        }
        "wasmtime" => wasmtime::Engine::default().precompile_module(&wasm)?,
        other => bail!("\"{other}\" compiles nothing; there are {COMPILERS:?}"),
    };
    let wall = begin.elapsed();
    let used = getrusage(UsageWho::RUSAGE_SELF)?;
    let cpu = used.user_time() + used.system_time();
    let file = object::File::parse(&made[..])?;
    let text = file.section_by_name(".text").context("it has no .text")?;
    Ok(Sample {
        wall_us: u64::try_from(wall.as_micros())?,
        cpu_us: u64::try_from(cpu.num_microseconds())?,
        peak_kib: u64::try_from(used.max_rss())?,
        bytes: u64::try_from(made.len())?,
        text_bytes: text.size(),
    })
}
