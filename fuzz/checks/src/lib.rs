//! What the fuzz targets check, each as a function of any bytes: [`differential`], [`lifecycle`],
//! [`artifact`],
//! [`compile`] and [`wasi`]; and [`cost`], a search of its own. `cargo test` runs them for seconds
//! on bytes that are always the same; `fuzz` has them under libFuzzer, with Wasmtime as one engine
//! more.
//!
//! Each has a canary, something that is wrong on purpose, which must be found: as an argument here, and under
//! libFuzzer by the variable of [`CANARY`].

#![forbid(unsafe_code)]

pub mod artifact;
pub mod campaign;
pub mod compile;
pub mod cost;
pub mod differential;
pub mod engine;
pub mod guest;
pub mod lifecycle;
pub mod random;
pub mod setting;
pub mod value;
pub mod wasi;

/// The variable that has the fuzz targets run with their canary.
pub const CANARY: &str = "PIRN_FUZZ_CANARY";

/// Whether something shall be wrong on purpose.
#[must_use]
pub fn canary() -> bool {
    std::env::var_os(CANARY).is_some()
}
