//! Threads: atomic accesses, shared memories, `memory.atomic.wait` and `memory.atomic.notify`.

use crate::common;

mod accesses;
mod attacks;
mod linking;
mod parallel;
mod waiting;

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    attacks::case(&common::case());
}
