//! `aotrun`: runs a compiled module or component as a command, with WASI. The interface serves this
//! program and pirn's tools, and can change with any version.

#![forbid(unsafe_code)]

mod args;
mod memory_dir;
mod given;
mod timings;
mod load;
mod outcome;
mod pool;
mod threads;
mod used;
mod place;
#[cfg(feature = "components")]
mod component;
mod run;
mod snapshot;

use args::Args;
use clap::{Command, CommandFactory, Parser};
use pirn_cli::usage;
use std::io::Write;
use std::process::ExitCode;

/// Runs the program with the arguments of the process. Returns its exit code.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage::tell("aotrun", &error),
    };
    let outcome = match &args.snapshot {
        Some(out) => snapshot::run(&args, out),
        None => run::run(&args),
    };
    // Flush the guest's output before aotrun prints a message about the run.
    let _ = std::io::stdout().flush();
    outcome.tell()
}

/// The description of the command line.
pub fn command() -> Command {
    Args::command()
}
