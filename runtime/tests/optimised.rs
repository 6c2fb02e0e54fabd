//! The suites that depend on the switch between stacks once more, optimised: only there is the
//! switch inlined in its callers. The callers are generic, so the compiler makes them with this
//! program, which must be optimised as the runtime is. It is part of the package of
//! `runtime/hosts`, because the runtime's own program has six times as many tests.
//!
//! Under an emulator, this program also has the suites of operators, and of the routines that
//! restore memory: their code differs by architecture, too (`.ci/aarch64`).
//!
//!     cargo test --config runtime/tests/optimised.toml --test optimised

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

#[cfg(pirn_emulated)]
mod address;
#[cfg(pirn_emulated)]
mod bulk;
#[cfg(pirn_emulated)]
mod floats;
#[cfg(pirn_emulated)]
mod freshness;
#[cfg(pirn_emulated)]
mod intrinsics;
#[cfg(pirn_emulated)]
mod memory64;
#[cfg(pirn_emulated)]
mod multiply;
#[cfg(pirn_emulated)]
mod operands;
#[cfg(pirn_emulated)]
mod relaxed;
#[cfg(pirn_emulated)]
mod signals;
#[cfg(pirn_emulated)]
mod snapshots;
#[cfg(pirn_emulated)]
mod stop;
#[cfg(pirn_emulated)]
mod tail_calls;
#[cfg(pirn_emulated)]
mod threads;
#[cfg(pirn_emulated)]
mod throwing;
#[cfg(pirn_emulated)]
mod touch;
#[cfg(pirn_emulated)]
mod wide;

use pirn_testing::allocator::Counting;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
