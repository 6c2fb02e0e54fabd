//! Compares components under pirn and Wasmtime for `PIRN_FUZZ_SECONDS`, from the seed
//! `PIRN_FUZZ_SEED`. Reports each difference on stderr with its seed, and prints the counts every
//! minute. If `PIRN_FUZZ_KEEP` names a folder, writes a component for which the comparison fails
//! into it.

#![forbid(unsafe_code)]

use pirn_fuzz::Wasmtime;
use pirn_fuzz_checks::component::check;
use pirn_fuzz_checks::{campaign, canary};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (wasmtime, canary) = (Wasmtime::default(), canary());
    campaign::program(|seed| check(&seed.to_le_bytes(), &[&wasmtime], canary))
}
