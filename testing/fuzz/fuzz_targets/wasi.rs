//! Hostile WASI calls stay within their bounds: see `pirn_fuzz_checks::wasi`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::canary;
use pirn_fuzz_checks::wasi::{Canary, Meter, check};
use pirn_testing::allocator::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what a thread allocates.
const METER: Meter = Meter {
    start: allocator::start,
    peak: || allocator::peak_bytes().cast_unsigned(),
};

fuzz_target!(|data: &[u8]| {
    check(data, METER, canary().then_some(Canary::Memory)).unwrap();
});
