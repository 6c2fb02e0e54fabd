//! Short runs of all fuzz checks, with canaries.

mod artifact;
mod compile;
mod component;
mod cost;
mod differential;
mod lifecycle;
mod wasi;

use pirn_testing::allocator::Counting;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
