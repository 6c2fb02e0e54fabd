//! The share of a campaign that runs. A campaign is a test with one check for every instruction,
//! option or byte, or for thousands of random guests.

/// Environment variable with a number n: every n-th check of each campaign runs. Without the
/// variable, each campaign runs the sample that its test names.
const CAMPAIGN: &str = "PIRN_CAMPAIGN";

/// Returns n if one check of n runs. `sample` is the default.
///
/// # Panics
///
/// If the variable is no positive number.
pub fn every(sample: usize) -> usize {
    let Ok(told) = std::env::var(CAMPAIGN) else {
        return sample;
    };
    let every = told.parse().ok().filter(|every| *every > 0);
    every.unwrap_or_else(|| panic!("{CAMPAIGN} is {told:?}, and not a number from 1 on"))
}

/// Returns how many of `all` checks run: one of `sample` by default, and at least one check.
pub fn share(all: u64, sample: usize) -> u64 {
    (all / every(sample) as u64).max(1)
}

/// Returns every n-th check, where n is the result of [`every`]. The first returned check has the
/// number `first` modulo n.
pub fn sampled<T>(
    checks: impl IntoIterator<Item = T>,
    sample: usize,
    first: usize,
) -> impl Iterator<Item = T> {
    let every = every(sample);
    checks.into_iter().skip(first % every).step_by(every)
}
