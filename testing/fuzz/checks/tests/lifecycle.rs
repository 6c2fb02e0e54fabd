//! Random instances start with the state that their modules define. The check must detect the
//! canary, a changed byte.

use crate::least;
use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::lifecycle::{Tally, check};
use pirn_testing::campaign::share;

/// One of this number of seeds runs by default. The sample has a region with each kind of reset.
const SAMPLE: usize = 3;

fn live(data: &[u8]) -> Result<Tally, String> {
    check(data, false)
}

#[test]
fn instances_find_their_initial_state() {
    let tally = campaign::each(0..share(60, SAMPLE), live);
    let least = |all| least(all, SAMPLE);
    assert!(
        tally.instances > least(1000) && tally.acts > least(3000),
        "{tally:?}"
    );
    assert!(
        tally.suspended > least(300) && tally.stopped > least(100),
        "{tally:?}"
    );
}

#[test]
fn the_canary_of_another_byte_is_detected() {
    let found = |seed| check(&campaign::bytes(seed), true).is_err();
    assert!((0..10).all(found));
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_instances_find_their_initial_state() {
    let (tally, cases) = campaign::long(live);
    println!("{cases} cases: {tally:?}");
}
