//! Compares components under pirn and Wasmtime for `PIRN_FUZZ_SECONDS`, from the seed
//! `PIRN_FUZZ_SEED`. Reports each difference on stderr with its seed, and prints the counts every
//! minute. If `PIRN_FUZZ_KEEP` names a folder, writes a component for which the comparison fails
//! into it.

#![forbid(unsafe_code)]

use pirn_fuzz::Wasmtime;
use pirn_fuzz_checks::component::{Tally, check};
use pirn_fuzz_checks::{campaign, canary};
use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let seconds = Duration::from_secs(number(campaign::SECONDS).unwrap_or(60));
    let first: u64 = number(campaign::SEED).unwrap_or(1);
    let (wasmtime, canary) = (Wasmtime::default(), canary());
    let (started, mut told) = (Instant::now(), Duration::ZERO);
    let (mut tally, mut failures, mut seed) = (Tally::default(), 0u64, first);
    while seed == first || started.elapsed() < seconds {
        match check(&seed.to_le_bytes(), &[&wasmtime], canary) {
            Ok(found) => tally += found,
            Err(error) => {
                eprintln!("seed {seed}: {error}");
                failures += 1;
            }
        }
        seed += 1;
        if told + Duration::from_secs(60) < started.elapsed() {
            told = started.elapsed();
            println!(
                "{} s, {} inputs, {failures} failures: {tally:?}",
                told.as_secs(),
                seed - first
            );
        }
    }
    let (elapsed, inputs) = (started.elapsed().as_secs(), seed - first);
    println!("{elapsed} s, {inputs} inputs, {failures} failures: {tally:?}");
    match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
