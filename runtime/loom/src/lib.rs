//! Models of data structures that threads of the runtime share. loom replaces the standard library
//! in the runtime's own files. It runs the threads in every order with at most three preemptions,
//! and explores every value that the memory model lets a thread read.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --manifest-path runtime/loom/Cargo.toml`

#![cfg(loom)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the models use only a part of these runtime files"
)]

mod weakened;

#[path = "../../src/region/free.rs"]
mod free;

#[path = "../../src/region/reset/tracker"]
mod tracker {
    mod registry;
}

#[path = "../../src/stop"]
mod stop {
    #[path = "../../loom/src/control.rs"]
    mod control;
    mod timer {
        mod alarm;
        mod node;
        mod sync;
    }
    pub(crate) mod word;

    pub(crate) use control::Control;
}

#[path = "../../src/switch"]
mod switch {
    pub(crate) mod interrupt_flag;
}

#[path = "../../src/sys"]
mod sys {
    #[path = "../../loom/src/clock.rs"]
    pub(crate) mod clock;
    #[path = "../../loom/src/fork_lock.rs"]
    pub(crate) mod fork_lock;
    pub(crate) mod thread;
}
