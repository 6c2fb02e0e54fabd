//! [`each`], [`run`], [`program`] and [`long`]: run a check on many inputs without a fuzzer.

use crate::random::Random;
use std::env;
use std::fmt::Debug;
use std::ops::AddAssign;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Environment variable: the run time of [`run`] in seconds. With 0 it checks one seed.
pub const SECONDS: &str = "PIRN_FUZZ_SECONDS";
/// Environment variable: the first seed of [`run`].
pub const SEED: &str = "PIRN_FUZZ_SEED";
/// Environment variable: a folder. A check that fails writes the guest to `guest.wasm` or
/// `guest.wat` there, and its calls to `guest.txt`.
pub const KEEP: &str = "PIRN_FUZZ_KEEP";

/// The input for a seed. Most inputs are long enough for a whole module; some are short.
#[must_use]
pub fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let len = match random.below(8) {
        0 => random.below(200),
        _ => 200 + random.below(6000),
    };
    random.bytes(len)
}

/// Runs a check on the input of each seed, and adds up the results.
///
/// # Panics
///
/// With the seed and the error, if the check fails.
pub fn each<T: Default + AddAssign>(
    seeds: impl Iterator<Item = u64>,
    check: impl Fn(&[u8]) -> Result<T, String>,
) -> T {
    let mut sum = T::default();
    for seed in seeds {
        match check(&bytes(seed)) {
            Ok(found) => sum += found,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    sum
}

/// The sum of the results of a check on many seeds.
#[derive(Debug, Default)]
pub struct Sum<T> {
    /// The sum of the results.
    pub tally: T,
    /// Number of seeds.
    pub cases: u64,
    /// Number of seeds for which the check failed.
    pub failures: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Runs a check on seeds for [`SECONDS`], from [`SEED`] on, or from `first` without it. Reports
/// every failure on stderr, and calls `progress` after each seed.
pub fn run<T: Default + AddAssign>(
    first: u64,
    check: impl Fn(u64) -> Result<T, String>,
    mut progress: impl FnMut(&Sum<T>),
) -> Sum<T> {
    let number = |name| env::var(name).ok()?.parse().ok();
    let limit = Duration::from_secs(number(SECONDS).unwrap_or(60));
    let first = number(SEED).unwrap_or(first);
    let (started, mut sum) = (Instant::now(), Sum::default());
    while sum.cases == 0 || sum.elapsed < limit {
        let seed = first + sum.cases;
        match check(seed) {
            Ok(found) => sum.tally += found,
            Err(error) => {
                eprintln!("seed {seed}: {error}");
                sum.failures += 1;
            }
        }
        sum.cases += 1;
        sum.elapsed = started.elapsed();
        progress(&sum);
    }
    sum
}

/// Runs a check on seeds as [`run`], and prints the counts every minute and at the end. Fails if
/// the check failed.
pub fn program<T: Default + AddAssign + Debug>(
    check: impl Fn(u64) -> Result<T, String>,
) -> ExitCode {
    let mut printed = Duration::ZERO;
    let sum = run(1, check, |sum| {
        if printed + Duration::from_mins(1) < sum.elapsed {
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

fn print<T: Debug>(sum: &Sum<T>) {
    println!(
        "{} s, {} inputs, {} failures: {:?}",
        sum.elapsed.as_secs(),
        sum.cases,
        sum.failures,
        sum.tally
    );
}

/// Runs a check on the inputs of seeds for [`SECONDS`], as [`run`]. Returns the sum of the results
/// and the number of seeds.
///
/// # Panics
///
/// At the end, if a seed failed.
pub fn long<T: Default + AddAssign>(check: impl Fn(&[u8]) -> Result<T, String>) -> (T, u64) {
    let sum = run(1 << 32, |seed| check(&bytes(seed)), |_| {});
    assert_eq!(sum.failures, 0, "failures of {} cases", sum.cases);
    (sum.tally, sum.cases)
}
