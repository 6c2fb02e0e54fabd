//! Random guests behave the same under pirn and wasmi. The canary, a flipped bit, is found.

use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::differential::{Tally, check};
use pirn_fuzz_checks::engine::Wasmi;

fn compare(data: &[u8]) -> Result<Tally, String> {
    check(data, &[&Wasmi::default()], false)
}

#[test]
fn guests_do_the_same_under_both() {
    let tally = campaign::each(0..120, compare);
    assert!(tally.guests > 90 && tally.calls > 400, "{tally:?}");
    assert!(
        tally.throwing > 10 && tally.objects > 20 && tally.threads > 20 && tally.relaxed > 15,
        "few use what is not everywhere: {tally:?}"
    );
    assert!(tally.others > 50, "few do not: {tally:?}");
    assert!(tally.seen > 1000, "little is looked at: {tally:?}");
    assert!(
        tally.returned * 4 > tally.calls,
        "few calls return: {tally:?}"
    );
    assert!(
        tally.exhausted * 10 < tally.guests,
        "little is compared: {tally:?}"
    );
}

#[test]
fn a_flipped_bit_is_found() {
    let found = |seed| check(&campaign::bytes(seed), &[], true).is_err();
    let found = (0..20).filter(|seed| found(*seed)).count();
    assert!(found >= 10, "found in {found} of 20 guests");
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_guests_do_the_same_under_both() {
    let (tally, cases) = campaign::long(compare);
    println!("{cases} cases: {tally:?}");
}
