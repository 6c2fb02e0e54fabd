//! Compiles valid and invalid modules: see `pirn_fuzz_checks::compile`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::{canary, compile};

fuzz_target!(|data: &[u8]| {
    compile::check(data, canary()).unwrap();
});
