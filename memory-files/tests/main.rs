//! All suites of files in memory.

mod accounting;
mod archives;
mod directories;
mod instances;
mod model;
mod slashes;

use pirn_testing::allocator::Counting;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
