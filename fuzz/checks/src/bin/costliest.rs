//! Searches for the modules that cost the compiler most for their size, and prints the worst of
//! each kind. The search takes `PIRN_FUZZ_SECONDS` from the seed `PIRN_FUZZ_SEED`. If
//! `PIRN_FUZZ_WORST` is set, the program writes the modules to that folder. It fails if a module
//! exceeds the time for its size. Times are meaningful only in a release build.

#![forbid(unsafe_code)]

use pirn_fuzz_checks::cost::{Found, search, unlimited, ways};
use pirn_fuzz_checks::random::Random;
use pirn_fuzz_checks::{campaign, canary};
use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let number = |name: &str| env::var(name).ok()?.parse().ok();
    let seconds = Duration::from_secs(number(campaign::SECONDS).unwrap_or(60));
    let mut random = Random::new(number(campaign::SEED).unwrap_or(1));
    let ways = match canary() {
        true => vec![unlimited()],
        false => ways(),
    };
    let started = Instant::now();
    let mut tried = 0;
    let proceeds = |count| {
        tried = count;
        started.elapsed() < seconds
    };
    let found = match search(&mut random, &ways, proceeds, Found::time_permille) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{tried} modules; the worst of each kind, in thousandths of what a module of that size may take:"
    );
    for found in &found {
        println!("{found}");
    }
    if let Some(folder) = env::var_os("PIRN_FUZZ_WORST") {
        for (at, found) in found.iter().enumerate() {
            let path = Path::new(&folder).join(format!("{at:02}.wasm"));
            if let Err(error) = std::fs::write(&path, found.shape.module()) {
                eprintln!("{}: {error}", path.display());
                return ExitCode::FAILURE;
            }
        }
    }
    match found.first() {
        Some(worst) if worst.time_permille() >= 1000 => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}
