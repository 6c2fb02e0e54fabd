//! Damaged compiled modules: see `pirn_fuzz_checks::artifact`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::{artifact, canary};

fuzz_target!(|data: &[u8]| {
    artifact::check(data, canary()).unwrap();
});
