//! The runtime refuses damaged modules. With the canary, an undamaged module passes for a damaged
//! one, and the check must fail.

use crate::least;
use pirn_fuzz_checks::artifact::{Tally, check};
use pirn_fuzz_checks::campaign;
use pirn_testing::campaign::share;

/// One of this number of seeds runs by default.
const SAMPLE: usize = 3;

fn damage(data: &[u8]) -> Result<Tally, String> {
    check(data, false)
}

#[test]
fn damaged_modules_are_refused() {
    let tally = campaign::each(0..share(6000, SAMPLE), damage);
    assert!(
        tally.refused > least(2000, SAMPLE) && tally.sealed_refused > least(500, SAMPLE),
        "{tally:?}"
    );
}

#[test]
fn an_undamaged_module_fails_the_check() {
    assert!(check(&campaign::bytes(1), true).is_err());
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_damaged_modules_are_refused() {
    let (tally, cases) = campaign::long(damage);
    println!("{cases} cases: {tally:?}");
}
