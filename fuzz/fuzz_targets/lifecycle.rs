//! Instances come, end in every way, and go: see `pirn_fuzz_checks::lifecycle`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::{canary, lifecycle};

fuzz_target!(|data: &[u8]| {
    lifecycle::check(data, canary()).unwrap();
});
