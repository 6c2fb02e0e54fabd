//! Threads: atomic accesses, shared memories, `memory.atomic.wait` and `memory.atomic.notify`.

#[path = "../common/mod.rs"]
mod common;

mod accesses;
mod attacks;
mod linking;
mod parallel;
mod waiting;

use pirn_runtime::{AddrType, MemoryType, PageSize, SharedMemory};

/// A shared memory with 32-bit addresses.
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

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    attacks::case(&common::case());
}
