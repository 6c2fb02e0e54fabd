//! All suites of WASI preview 1.
#![allow(
    clippy::duplicate_mod,
    reason = "tests of preview 1 run on directories of the host and of memory"
)]

mod bounded;
mod buffers;
mod common;
mod context;
mod differential;
mod exported_memory;
mod linux_paths;
mod memory_dir;
mod preview0;
mod preview1;
mod preview1_memory;
mod quota;
mod secrets;
mod shared_context;
mod sleep;
mod source;
mod teavm;
mod vectors;
mod warm;

use pirn_testing::allocator::Counting;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
