//! The suites that depend on the switch between stacks once more, for an optimised runtime: only
//! there is the switch inlined in its callers. The package of `runtime/hosts` has this program, so
//! that the runtime is optimised and the tests are not.
//!
//!     cargo test --config profile.dev.package.pirn-runtime.opt-level=3 --test optimised

mod common;

mod backtraces;
mod futures;
mod groups;
mod instances;
mod nested;
mod nested_attacks;
mod races;
mod steps;
mod suspended;
mod tenants;
mod traps;

use pirn_testing::allocator::Counting;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
