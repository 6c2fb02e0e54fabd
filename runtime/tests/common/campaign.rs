//! How much of a campaign runs: of a test that does one check at every instruction, or for
//! thousands of random guests.

/// Environment variable that says how much: one check of so many. `1` runs all of them, and without
/// it each campaign runs the sample that its test names.
const CAMPAIGN: &str = "PIRN_CAMPAIGN";

/// One of how many checks runs. `sample` is what the test names.
///
/// # Panics
///
/// If the variable is no positive number.
pub(crate) fn every(sample: u32) -> u32 {
    let Ok(told) = std::env::var(CAMPAIGN) else {
        return sample;
    };
    let every = told.parse().ok().filter(|every| *every > 0);
    every.unwrap_or_else(|| panic!("{CAMPAIGN} is {told:?}, and not a number from 1 on"))
}
