//! Values of random types pass through components unchanged, and damaged components are refused or
//! run. The check must detect the canary, a changed word.

use crate::least;
use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::component::{Tally, check};
use pirn_testing::campaign::share;

/// One of this number of seeds runs by default.
const SAMPLE: usize = 10;

fn component(data: &[u8]) -> Result<Tally, String> {
    check(data, &[], false)
}

#[test]
fn values_pass_through_components() {
    let tally = campaign::each(0..share(600, SAMPLE), component);
    assert!(tally.values > least(300, SAMPLE), "{tally:?}");
    assert!(
        tally.refused > least(50, SAMPLE) && tally.trapped > least(100, SAMPLE),
        "{tally:?}"
    );
}

#[test]
fn the_canary_of_a_changed_word_is_detected() {
    // There are as many components of each kind. If more than half fail, both kinds detect it.
    let detected = |seed: &u64| check(&campaign::bytes(*seed), &[], true).is_err();
    let count = (0..40).filter(detected).count();
    assert!(count > 20, "{count}");
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_values_pass_through_components() {
    let (tally, cases) = campaign::long(component);
    println!("{cases} cases: {tally:?}");
}
