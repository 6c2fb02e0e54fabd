//! Hostile calls of WASI 0.2 stay within their bounds: see `pirn_fuzz_checks::wasi2`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pirn_fuzz_checks::canary;
use pirn_fuzz_checks::wasi2::{Canary, Meter, check};
use pirn_testing::allocator::{self, Counting};
use pirn_testing::registry::Locked;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what a thread allocates.
const METER: Meter = Meter {
    start: allocator::start,
    live: allocator::live_bytes,
    peak: allocator::peak_bytes,
};

/// The interfaces of WASI 0.2 in the crate `wasip2`.
static WIT: LazyLock<PathBuf> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cached = Locked::of(root, "wasip2").cached();
    cached.expect("cargo has built wasip2").sources.join("wit")
});

fuzz_target!(|data: &[u8]| {
    check(data, METER, &WIT, canary().then_some(Canary::Memory)).unwrap();
});
