//! Short runs of all fuzz checks, with canaries.

mod artifact;
mod compile;
mod component;
mod cost;
mod differential;
mod lifecycle;
mod wasi;

use pirn_testing::allocator::Counting;
use pirn_testing::campaign::every;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The least that a check must count. `all` is for every seed. A sample, by default one seed of
/// `sample`, must reach half of its share, because few seeds vary more.
fn least(all: usize, sample: usize) -> usize {
    match every(sample) {
        1 => all,
        every => all / every / 2,
    }
}
