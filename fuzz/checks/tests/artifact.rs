//! Damaged modules are refused. The canary shows that an undamaged module would be accepted.

use pirn_fuzz_checks::artifact::{Tally, check};
use pirn_fuzz_checks::campaign;

fn damage(data: &[u8]) -> Result<Tally, String> {
    check(data, false)
}

#[test]
fn damaged_modules_are_refused() {
    let tally = campaign::each(0..6000, damage);
    assert!(
        tally.refused > 2000 && tally.sealed_refused > 500,
        "{tally:?}"
    );
}

#[test]
fn a_whole_module_is_no_damaged_one() {
    assert!(check(&campaign::bytes(1), true).is_err());
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_damaged_modules_are_refused() {
    let (tally, cases) = campaign::long(damage);
    println!("{cases} cases: {tally:?}");
}
