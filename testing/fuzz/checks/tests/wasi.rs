//! Hostile WASI calls stay within the limits of memory, time and descriptors. The check must detect
//! host functions that exceed a limit.

use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::wasi::{Canary, FUNCTIONS, Meter, Tally, check};
use pirn_testing::allocator;

/// Counts what a thread allocates.
const METER: Meter = Meter {
    start: allocator::start,
    peak: || allocator::peak_bytes().cast_unsigned(),
};

/// Checks an input. The bound of time excludes waits for a processor, but a busy disk, or a timer
/// thread that waits for a processor, can delay a call. So a seed fails for its time only if it
/// does so three times in a row.
fn call(data: &[u8]) -> Result<Tally, String> {
    let mut result = check(data, METER, None);
    for _ in 0..2 {
        match &result {
            Err(error) if error.contains("under a deadline") => {
                result = check(data, METER, None);
            }
            _ => break,
        }
    }
    result
}

/// Alone in its process, whose descriptors it counts.
#[test]
fn every_call_stays_within_its_bounds() {
    pirn_testing::process::alone(every_call);
}

fn every_call() {
    let tally = campaign::each(0..40, call);
    assert!(tally.calls > 1000 && tally.successes > 100, "{tally:?}");
    assert!(tally.traps > 10 && tally.stopped > 2, "{tally:?}");
    // The calls must reach files, and not only fail.
    for name in [
        "fd_seek",
        "fd_advise",
        "fd_filestat_set_size",
        "path_open",
        "poll_oneoff",
    ] {
        assert!(tally.answers.contains(&(name, 0)), "{name}: {tally:?}");
    }
    // All functions except `proc_exit` and `proc_raise` return an errno.
    assert!(tally.functions() > FUNCTIONS.len() - 6, "{tally:?}");
}

#[test]
fn the_canaries_that_exceed_a_bound_are_detected() {
    pirn_testing::process::alone(canaries);
}

fn canaries() {
    let found = |canary| check(&[1], METER, Some(canary)).expect_err("it has no bound");
    let error = found(Canary::Memory);
    assert!(error.contains("bytes, the bound is"), "{error}");
    let error = found(Canary::Time);
    assert!(error.contains("under a deadline"), "{error}");
    let error = found(Canary::Descriptors);
    assert!(error.contains("descriptors are open"), "{error}");
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_calls_stay_within_their_bounds() {
    let (tally, cases) = campaign::long(call);
    let (functions, answers) = (tally.functions(), tally.answers.len());
    println!("{cases} cases: {functions} functions gave {answers} different answers; {tally:?}");
}
