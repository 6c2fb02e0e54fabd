//! The checks of the fuzz targets, each a function of arbitrary bytes: [`differential`],
//! [`lifecycle`], [`artifact`], [`compile`], [`component`], [`wasi`] and [`wasi2`]; and [`cost`], a
//! search.
//! `cargo test` runs them for seconds on fixed bytes. `fuzz` runs them under libFuzzer, with
//! Wasmtime as an additional engine.
//!
//! Each check has a canary: a deliberate error that the check must find. An argument turns it on
//! here; under libFuzzer the variable [`CANARY`] does.

#![forbid(unsafe_code)]

pub mod random;
pub mod campaign;
mod process;
mod folder;
pub mod setting;
pub mod value;
pub mod artifact;
pub mod component;
pub mod cost;
pub mod lifecycle;
pub mod wasi;
pub mod wasi2;
pub mod guest;
pub mod compile;
pub mod engine;
pub mod differential;

/// Environment variable that turns on the canary of the fuzz targets.
pub const CANARY: &str = "PIRN_FUZZ_CANARY";

/// Whether the canary is on.
#[must_use]
pub fn canary() -> bool {
    std::env::var_os(CANARY).is_some()
}
