//! Guests with several memories. Each access must use the named memory, and no memory may keep data
//! for the slot's next instance.

use crate::common;

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
