//! Components whose guests follow scripts, under pirn and Wasmtime; values through components, and
//! damaged components, under pirn: see `pirn_fuzz_checks::component`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz::Wasmtime;
use pirn_fuzz_checks::{canary, component};
use std::sync::LazyLock;

static WASMTIME: LazyLock<Wasmtime> = LazyLock::new(Default::default);

fuzz_target!(|data: &[u8]| {
    component::check(data, &[&*WASMTIME], canary()).unwrap();
});
