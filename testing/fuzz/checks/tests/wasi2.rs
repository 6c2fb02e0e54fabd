//! Hostile calls of WASI 0.2 stay within the limits of memory and descriptors, end when their guest
//! is killed, and leave nothing behind. The check must detect host functions that break a bound.

use pirn_fuzz_checks::campaign;
use pirn_fuzz_checks::wasi2::{Canary, Meter, Tally, check, functions};
use pirn_testing::allocator;
use pirn_testing::registry::Locked;
use std::path::{Path, PathBuf};

/// Counts what a thread allocates.
const METER: Meter = Meter {
    start: allocator::start,
    live: allocator::live_bytes,
    peak: allocator::peak_bytes,
};

/// The interfaces of WASI 0.2 in the crate `wasip2`, which cargo downloads because the tests depend
/// on it.
fn wit() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let cached = Locked::of(&root, "wasip2").cached();
    let cached = cached.expect("cargo has built wasip2 from a folder in CARGO_HOME/registry/src");
    cached.sources.join("wit")
}

fn call(data: &[u8]) -> Result<Tally, String> {
    check(data, METER, &wit(), None)
}

/// Alone in its process, whose descriptors it counts.
#[test]
fn every_call_of_wasi_0_2_stays_within_its_bounds() {
    pirn_testing::process::alone(every_call);
}

fn every_call() {
    let tally = campaign::each(0..40, call);
    assert!(tally.calls > 1000 && tally.returned > 500, "{tally:?}");
    assert!(
        tally.traps > 20 && tally.stopped > 2 && tally.killed > 2,
        "{tally:?}"
    );
    // The calls must reach resources, and not only fail.
    assert!(tally.handles > 400, "{tally:?}");
    let all = functions(&wit()).expect("the guest is made");
    assert!(tally.functions.len() > all / 3, "{tally:?}, of {all}");
}

#[test]
fn the_canaries_of_wasi_0_2_are_detected() {
    pirn_testing::process::alone(canaries);
}

fn canaries() {
    // A backtrace would allocate more than any host function may.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    // In the order of `Canary::ALL`.
    let errors: [&str; Canary::ALL.len()] = [
        "bytes, the bound is",
        "bytes are left after the instance",
        "descriptors are open after the instance",
        "the canary",
        "after the guest was killed",
    ];
    for (canary, error) in Canary::ALL.into_iter().zip(errors) {
        let found = check(&[1], METER, &wit(), Some(canary)).expect_err("it has no bound");
        assert!(found.contains(error), "{canary:?}: {found}");
    }
}

#[test]
#[ignore = "takes as long as it is told"]
fn many_calls_of_wasi_0_2_stay_within_their_bounds() {
    pirn_testing::process::alone(|| {
        let (tally, cases) = campaign::long(call);
        let reached = tally.functions.len();
        println!("{cases} cases, {reached} functions returned: {tally:?}");
    });
}
