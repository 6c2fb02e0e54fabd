//! Values through components, and damaged components: see `pirn_fuzz_checks::component`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::{canary, component};

fuzz_target!(|data: &[u8]| {
    component::check(data, &[], canary()).unwrap();
});
