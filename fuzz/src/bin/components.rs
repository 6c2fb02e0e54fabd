//! Compares components under pirn and Wasmtime for `PIRN_FUZZ_SECONDS`, from the seed
//! `PIRN_FUZZ_SEED`. Reports each difference on stderr with its seed, and prints the counts every
//! minute. If `PIRN_FUZZ_KEEP` names a folder, writes a component for which the comparison fails
//! into it.

#![forbid(unsafe_code)]

use pirn_fuzz::Wasmtime;
use pirn_fuzz_checks::campaign::{self, Sum};
use pirn_fuzz_checks::canary;
use pirn_fuzz_checks::component::{Tally, check};
use std::process::ExitCode;
use std::time::Duration;

/// Time between two lines of counts.
const MINUTE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let (wasmtime, canary) = (Wasmtime::default(), canary());
    let mut printed = Duration::ZERO;
    let check = |seed: u64| check(&seed.to_le_bytes(), &[&wasmtime], canary);
    let sum = campaign::run(1, check, |sum| {
        if printed + MINUTE < sum.elapsed {
            printed = sum.elapsed;
            print(sum);
        }
    });
    print(&sum);
    match sum.failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn print(sum: &Sum<Tally>) {
    println!(
        "{} s, {} inputs, {} failures: {:?}",
        sum.elapsed.as_secs(),
        sum.cases,
        sum.failures,
        sum.tally
    );
}
