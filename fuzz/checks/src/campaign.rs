//! [`each`] and [`long`]: a check of many bytes, without a fuzzer.

use crate::random::Random;
use std::env;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// How long [`long`] takes, in seconds; with 0 it checks one seed.
pub const SECONDS: &str = "PIRN_FUZZ_SECONDS";
/// The first seed of [`long`].
pub const SEED: &str = "PIRN_FUZZ_SEED";

/// The bytes of a seed: mostly of a length that is a whole module, now and then few.
#[must_use]
pub fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let len = match random.below(8) {
        0 => random.below(200),
        _ => 200 + random.below(6000),
    };
    random.bytes(len)
}

/// Runs a check of the bytes of each seed, and adds up what was checked.
///
/// # Panics
///
/// With the seed, if the check fails.
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

/// Runs a check for [`SECONDS`] from [`SEED`] on, reports every failure on stderr, and gives what was checked, with
/// the number of seeds.
///
/// # Panics
///
/// At the end, if there was a failure.
pub fn long<T: Default + AddAssign>(check: impl Fn(&[u8]) -> Result<T, String>) -> (T, u64) {
    let number = |name| env::var(name).ok()?.parse().ok();
    let limit = Duration::from_secs(number(SECONDS).unwrap_or(60));
    let first = number(SEED).unwrap_or(1 << 32);
    let (started, mut sum, mut failures, mut seed) = (Instant::now(), T::default(), 0, first);
    while seed == first || started.elapsed() < limit {
        match check(&bytes(seed)) {
            Ok(found) => sum += found,
            Err(error) => {
                eprintln!("seed {seed}: {error}");
                failures += 1;
            }
        }
        seed += 1;
    }
    let cases = seed - first;
    assert_eq!(failures, 0, "of {cases} cases so many fail");
    (sum, cases)
}
