//! Guests with several memories: each access meets its own memory, and nothing of any is left over.

#[path = "../common/mod.rs"]
mod common;

mod attacks;
mod bytes;
mod random;
mod regions;

/// Not a test: what processes of their own do.
#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn case() {
    attacks::case(&common::case());
}
