//! Shared by the tests of all crates: counted allocations, campaigns, guests, calls with paths and
//! what Linux answers to them, child processes, random numbers, sources of crates, repeated limits,
//! keys, and the limit of each test's run time.
//!
//! A test program that names this crate (`use pirn_testing as _;` suffices) has the limit.

pub mod allocator;
pub mod campaign;
pub mod guests;
pub mod paths;
pub mod program;
pub mod process;
pub mod random;
pub mod registry;
pub mod retry;
pub mod signing;
pub mod watch;
