//! Random guests under pirn, wasmi and Wasmtime: see `pirn_fuzz_checks::differential`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz::Wasmtime;
use pirn_fuzz_checks::{canary, differential, engine::Wasmi};
use std::sync::LazyLock;

static ENGINES: LazyLock<(Wasmi, Wasmtime)> = LazyLock::new(Default::default);

fuzz_target!(|data: &[u8]| {
    let (wasmi, wasmtime) = &*ENGINES;
    differential::check(data, &[wasmi, wasmtime], canary()).unwrap();
});
