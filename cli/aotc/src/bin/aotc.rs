//! The program `aotc`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pirn_aotc::main()
}
