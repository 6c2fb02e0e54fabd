//! Inputs compile, or get an error that names the problem. The check must detect the canary, a
//! changed byte of the output.

use crate::least;
use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::compile::{Tally, check};
use pirn_testing::campaign::share;

/// One of this number of seeds runs by default.
const SAMPLE: usize = 3;

fn compile(data: &[u8]) -> Result<Tally, String> {
    check(data, false)
}

#[test]
fn anything_compiles_or_is_refused() {
    let tally = campaign::each(0..share(250, SAMPLE), compile);
    let least = least(60, SAMPLE);
    assert!(tally.compiled > least && tally.invalid > least, "{tally:?}");
}

#[test]
fn the_canary_of_a_changed_byte_is_detected() {
    let compiled =
        |seed| check(&campaign::bytes(seed), false).is_ok_and(|tally| tally.compiled > 0);
    let seed = (0..)
        .find(|seed| compiled(*seed))
        .expect("one that compiles");
    assert!(check(&campaign::bytes(seed), true).is_err());
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_inputs_compile_or_are_refused() {
    let (tally, cases) = campaign::long(compile);
    println!("{cases} cases: {tally:?}");
}
