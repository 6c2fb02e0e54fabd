//! `aotrun`: runs a compiled module as a command, with WASI.

#![forbid(unsafe_code)]

mod args;
mod load;
mod outcome;
mod run;
mod timings;

use args::Args;
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let code = u8::from(error.use_stderr());
            // Nothing can be done if the terminal is gone.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let outcome = run::run(&args);
    // The guest's output comes before anything that is said about it.
    let _ = std::io::stdout().flush();
    outcome.tell()
}
