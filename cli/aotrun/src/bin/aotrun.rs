//! The program `aotrun`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pirn_aotrun::main()
}
