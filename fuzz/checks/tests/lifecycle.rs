//! Random instances start with the state that their modules define. The canary, a changed byte, is
//! found.

use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::lifecycle::{Tally, check};

fn live(data: &[u8]) -> Result<Tally, String> {
    check(data, false)
}

#[test]
fn tenants_find_what_their_modules_say() {
    let tally = campaign::each(0..60, live);
    assert!(tally.instances > 1000 && tally.acts > 3000, "{tally:?}");
    assert!(tally.suspended > 300 && tally.stopped > 100, "{tally:?}");
}

#[test]
fn another_byte_is_found() {
    let found = |seed| check(&campaign::bytes(seed), true).is_err();
    assert!((0..10).all(found));
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_tenants_find_what_their_modules_say() {
    let (tally, cases) = campaign::long(live);
    println!("{cases} cases: {tally:?}");
}
