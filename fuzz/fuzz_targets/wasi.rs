//! Hostile WASI calls stay within their bounds: see `pirn_fuzz_checks::wasi`.
#![no_main]

#[path = "../checks/tests/meter/mod.rs"]
mod meter;

use libfuzzer_sys::fuzz_target;
use meter::METER;
use pirn_fuzz_checks::canary;
use pirn_fuzz_checks::wasi::{Canary, check};

fuzz_target!(|data: &[u8]| {
    check(data, METER, canary().then_some(Canary::Memory)).unwrap();
});
