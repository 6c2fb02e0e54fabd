//! Random guests behave equally under pirn and wasmi. The check must detect the canary, a flipped
//! bit.

use crate::least;
use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::differential::{Tally, check};
use pirn_fuzz_checks::engine::Wasmi;
use pirn_testing::campaign::{every, share};

/// One of this number of seeds runs by default.
const SAMPLE: usize = 6;

fn compare(data: &[u8]) -> Result<Tally, String> {
    check(data, &[&Wasmi::default()], false)
}

#[test]
fn guests_behave_equally_under_both_engines() {
    let tally = campaign::each(0..share(240, SAMPLE), compare);
    let least = |all| least(all, SAMPLE);
    assert!(
        tally.guests > least(180) && tally.calls > least(800),
        "{tally:?}"
    );
    assert!(
        tally.throwing > least(15)
            && tally.objects > least(20)
            && tally.threads > least(20)
            && tally.relaxed > least(15),
        "few guests use features that some engines lack: {tally:?}"
    );
    assert!(
        tally.loops > least(20) && tally.alone > least(20),
        "few guests are for the optimiser's passes: {tally:?}"
    );
    assert!(
        tally.others > least(50),
        "few guests run on other engines: {tally:?}"
    );
    assert!(tally.seen > least(1000), "few calls read state: {tally:?}");
    // The share of calls that return and the share of runs that exhaust their fuel vary more among
    // few guests.
    let slack = if every(SAMPLE) == 1 { 1 } else { 2 };
    assert!(
        tally.returned * 4 * slack > tally.calls,
        "few calls return: {tally:?}"
    );
    assert!(
        tally.exhausted * 10 < tally.guests * slack,
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
