//! Models of the data that threads of the runtime share. loom replaces the standard library in the
//! runtime's own files, and runs the threads in every order with at most three preemptions and with
//! all that the memory model lets each thread see.
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
