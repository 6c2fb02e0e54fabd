//! Runs libsodium's test programs, or another set, under pirn, other engines, and natively, one
//! after another on one processor. Prints a table of ratios.
//!
//! Each program computes many times and prints the time of a pass by its own clock. Compilation and
//! startup do not count for any engine. Before that, each program runs once and prints its results.
//! They must match those that libsodium's authors expect, or known results of the other programs.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml --bin sodium -- --help`

#![forbid(unsafe_code)]

mod source;
mod tool;
mod set;
mod wasm2c;
mod guests;
mod engines;
mod measure;
mod compile;
mod report;
mod plot;
mod guest;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use guests::{Flags, Guests};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use report::Table;
use set::{Kind, Name, Set};
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs libsodium's test programs, or a set of others, under pirn, its peers, and natively.
#[derive(Debug, Parser)]
struct SodiumArgs {
    #[command(subcommand)]
    command: Option<What>,
    /// What is run: libsodium, its test programs; programs, which are interpreters, parsers,
    /// regular expressions, compression, a database, hashes, maps, numbers and others
    #[arg(long, default_value = "libsodium")]
    set: String,
    /// Only these engines; the native programs are always run
    #[arg(long, value_delimiter = ',', default_values = engines::NAMES)]
    engines: Vec<String>,
    /// Only programs whose name holds one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds, each with the programs' data elsewhere; 0 looks at what the programs print, and
    /// measures nothing
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Milliseconds that each program is to take natively
    #[arg(long, default_value_t = 50)]
    ms: u64,
    /// The processor to run on
    #[arg(long, default_value_t = 1)]
    cpu: usize,
    /// Compilers that run at once while the guests are built
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Builds the programs for all rounds, and runs none
    #[arg(long)]
    build: bool,
    /// Measures without looking at what the programs print
    #[arg(long)]
    unchecked: bool,
    /// A flag for clang when it compiles for WebAssembly, as in --wasm-flag=-msimd128
    #[arg(long, allow_hyphen_values = true)]
    wasm_flag: Vec<String>,
    /// Has libsodium compute with 128-bit integers, natively and for WebAssembly, where each of
    /// their products is a call
    #[arg(long)]
    int128: bool,
    /// Takes each engine's fastest run, not the median; for machines that are busy
    #[arg(long)]
    least: bool,
    /// Also measures how long pirn and Wasmtime compile each program
    #[arg(long)]
    compile_times: bool,
    /// Where the graph goes
    #[arg(long)]
    svg: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The table and graph of samples that were noted
    Report {
        /// What an earlier run has named
        notes: PathBuf,
    },
    /// One guest in this process
    #[command(hide = true)]
    Guest {
        /// The engine
        engine: String,
        /// The module
        file: PathBuf,
        /// The guest's argument
        passes: Option<String>,
    },
    /// Compiles a module in this process, and prints the time
    #[command(hide = true)]
    Compile {
        /// The compiler
        compiler: String,
        /// The module
        file: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(&SodiumArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sodium: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &SodiumArgs) -> Result<()> {
    // Check the arguments before anything is fetched or compiled.
    let name = Name::of(&args.set)?;
    match &args.command {
        Some(What::Guest {
            engine,
            file,
            passes,
        }) => return guest::run(engine, file, passes.as_deref()),
        Some(What::Compile { compiler, file }) => return compile::run(compiler, file),
        Some(What::Report { notes }) => return tell(args, name, &measure::read(notes)?),
        None => {}
    }
    engines::check(&args.engines)?;
    ensure!(
        !args.int128 || name == Name::Libsodium,
        "--int128 is libsodium's, not of the set {:?}; leave one of them out",
        args.set
    );
    let out = std::env::current_exe()?;
    let out = out.parent().context("a folder")?.join("sodium-built");
    let packages = source::Packages::find()?;
    let mut set = Set::find(name, &packages, &out)?;
    set.only(&args.only)?;
    let programs = set.programs.clone();
    for line in &set.about {
        println!("{line}");
    }
    let int128 = args.int128.then(|| set::INT128.to_owned());
    let flags = Flags {
        both: int128.into_iter().collect(),
        wasm: args.wasm_flag.clone(),
    };
    let wasm2c = args.engines.iter().any(|name| name == "wasm2c");
    let guests = Guests::new(set, &out, flags, wasm2c, args.jobs)?;
    guests.ahead(&programs, args.rounds, args.jobs)?;
    if args.build {
        return Ok(());
    }
    let engines = engines::find(&args.engines, &packages, &out)?;
    let native = &engines[0];

    let mut cpu = CpuSet::new();
    cpu.set(args.cpu)?;
    sched_setaffinity(Pid::from_raw(0), &cpu)
        .with_context(|| format!("--cpu {}: there is no such processor", args.cpu))?;

    let wrong = match args.unchecked {
        true => measure::Wrong::new(),
        false => measure::check(&guests, &programs, &engines)?,
    };
    if args.rounds == 0 {
        ensure!(wrong.is_empty(), "{} runs were wrong", wrong.len());
        return Ok(());
    }
    let mut timed = vec![];
    for program in programs.iter().filter(|program| program.timed) {
        let count = measure::calibrate(&guests, native, program, args.ms)?;
        let places = (0..guests::PLACES.len()).take(args.rounds);
        let built = places.map(|place| guests.program(program, Kind::Timed(count), place));
        timed.push((program.name.clone(), built.collect::<Result<_>>()?));
    }
    let notes = out.join(name.notes());
    println!("samples: {}", notes.display());
    let mut samples = measure::measure(&timed, &engines, &wrong, args.rounds, &notes)?;
    if args.compile_times {
        for (program, by) in compile::measure(&timed, &notes)? {
            samples.entry(program).or_default().extend(by);
        }
    }
    tell(args, name, &samples)
}

fn tell(args: &SodiumArgs, name: Name, samples: &measure::Samples) -> Result<()> {
    let table = Table::new(samples, args.least);
    print!("{}{}", table.text(), table.lost());
    if let Some(spreads) = report::spreads(samples) {
        print!("{spreads}");
    }
    if let Some(times) = compile::text(samples) {
        print!("{times}");
    }
    match &args.svg {
        Some(svg) => plot::draw(&table, name.title(), svg),
        None => Ok(()),
    }
}
