//! Compares random guests under pirn, wasmi and Wasmtime for `PIRN_FUZZ_SECONDS`, from the seed
//! `PIRN_FUZZ_SEED`, as the fuzz target `differential` does. Reports each difference on stderr with
//! its seed, and prints the counts every minute. If `PIRN_FUZZ_KEEP` names a folder, writes a guest
//! for which the comparison fails into it.

#![forbid(unsafe_code)]

use pirn_fuzz::Wasmtime;
use pirn_fuzz_checks::campaign::{self, bytes};
use pirn_fuzz_checks::canary;
use pirn_fuzz_checks::differential::check;
use pirn_fuzz_checks::engine::Wasmi;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (wasmi, wasmtime, canary) = (Wasmi::default(), Wasmtime::default(), canary());
    campaign::program(|seed| check(&bytes(seed), &[&wasmi, &wasmtime], canary))
}
