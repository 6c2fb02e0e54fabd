//! Runs what threads of the runtime share in all orders that there are, with what each thread may see of
//! the others': the files of the runtime itself, with loom in the place of the standard library.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path runtime/loom/Cargo.toml`

#![cfg(loom)]
#![allow(
    dead_code,
    unused_imports,
    reason = "what only the runtime uses"
)]

#[path = "../../src/region/free.rs"]
mod free;

#[path = "../../src/stop/word.rs"]
mod word;

#[path = "../../src/sys"]
mod sys {
    pub(crate) mod thread;
}
