//! Instances are made, end in every way, and are dropped: see `pirn_fuzz_checks::lifecycle`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::{canary, lifecycle};

fuzz_target!(|data: &[u8]| {
    lifecycle::check(data, canary()).unwrap();
});
