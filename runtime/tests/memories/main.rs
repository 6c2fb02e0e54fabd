//! Guests with several memories: each access uses the named memory, and no data survives in any.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod bytes;
mod random;
mod regions;

/// Not a test: the child processes run this function.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    attacks::case(&common::case());
}
