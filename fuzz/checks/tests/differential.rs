//! Random guests behave equally under pirn and wasmi. The check must detect the canary, a flipped
//! bit.

use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::differential::{Tally, check};
use pirn_fuzz_checks::engine::Wasmi;

fn compare(data: &[u8]) -> Result<Tally, String> {
    check(data, &[&Wasmi::default()], false)
}

#[test]
fn guests_behave_equally_under_both_engines() {
    let tally = campaign::each(0..240, compare);
    assert!(tally.guests > 180 && tally.calls > 800, "{tally:?}");
    assert!(
        tally.throwing > 15 && tally.objects > 20 && tally.threads > 20 && tally.relaxed > 15,
        "few guests use features that some engines lack: {tally:?}"
    );
    assert!(
        tally.loops > 20 && tally.alone > 20,
        "few guests are for the optimiser's passes: {tally:?}"
    );
    assert!(
        tally.others > 50,
        "few guests run on other engines: {tally:?}"
    );
    assert!(tally.seen > 1000, "few calls read state: {tally:?}");
    assert!(
        tally.returned * 4 > tally.calls,
        "few calls return: {tally:?}"
    );
    assert!(
        tally.exhausted * 10 < tally.guests,
        "few runs are compared: {tally:?}"
    );
}

#[test]
fn the_canary_of_a_flipped_bit_is_detected() {
    let found = |seed| check(&campaign::bytes(seed), &[], true).is_err();
    let found = (0..20).filter(|seed| found(*seed)).count();
    assert!(found >= 10, "found in {found} of 20 guests");
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_guests_behave_equally_under_both_engines() {
    let (tally, cases) = campaign::long(compare);
    println!("{cases} cases: {tally:?}");
}
