//! Threads: atomic accesses, shared memories, waiting and waking.

#[path = "../common/mod.rs"]
mod common;

mod accesses;
mod attacks;
mod linking;
mod parallel;
mod waiting;

use pirn_runtime::{AddrType, MemoryType, PageSize, SharedMemory};

/// A shared memory of 32-bit addresses.
fn shared(min: u64, max: u64) -> SharedMemory {
    let ty = MemoryType {
        address: AddrType::I32,
        page: PageSize::Large,
        min,
        max: Some(max),
        shared: true,
    };
    SharedMemory::new(&ty).expect("the system has memory")
}

/// Not a test: what processes of their own do.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    attacks::case(&common::case());
}
