//! Short runs of all fuzz checks, with canaries.

mod artifact;
mod compile;
mod component;
mod cost;
mod differential;
mod lifecycle;
mod wasi;
mod wasi2;

use pirn_testing::allocator::Counting;
use pirn_testing::campaign::every;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number that a check must exceed. `all` is that number if all seeds run. If one seed of
/// `sample` runs, as by default, the number is half of the share, because the counts of few seeds
/// vary more.
fn least(all: usize, sample: usize) -> usize {
    match every(sample) {
        1 => all,
        every => all / every / 2,
    }
}
