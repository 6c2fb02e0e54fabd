//! [`each`] and [`long`]: run a check on many inputs without a fuzzer.

use crate::random::Random;
use std::env;
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Environment variable: the run time of [`long`] in seconds. With 0 it checks one seed.
pub const SECONDS: &str = "PIRN_FUZZ_SECONDS";
/// Environment variable: the first seed of [`long`].
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

/// Runs a check for [`SECONDS`], starting at [`SEED`]. Reports every failure on stderr. Returns the
/// sum of the results and the number of seeds.
///
/// # Panics
///
/// At the end, if a seed failed.
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
    assert_eq!(failures, 0, "failures of {cases} cases");
    (sum, cases)
}
