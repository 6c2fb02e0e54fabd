//! All suites of the runtime that need no process of their own: one program, because a program
//! links the whole compiler. A case that changes its process runs in a child process of its own
//! (`common::child`).
//!
//! Under an emulator, another program compiles, and has no cache and no listings: see
//! `compiler/client`.

mod common;

mod address;
mod api;
mod attacks;
mod backtraces;
mod branches;
mod bulk;
mod cycles;
mod events;
#[cfg(not(pirn_emulated))]
mod exceptions;
mod exhaustion;
mod extents;
mod floats;
mod forks;
mod freshness;
mod fuel;
mod fuel_steps;
mod futures;
mod gc;
mod group_calls;
mod groups;
mod hints;
mod host_bytes;
mod imports;
#[cfg(not(pirn_emulated))]
mod inlined;
mod instances;
mod intrinsics;
#[cfg(not(pirn_emulated))]
mod known;
mod known_functions;
mod limiter;
mod memories;
mod memory64;
mod modules;
mod multiply;
mod nested;
mod nested_attacks;
mod numbers;
mod operands;
mod processes;
mod races;
mod references;
mod relaxed;
mod resident;
mod schedule;
mod signals;
mod signed;
mod snapshots;
mod steps;
mod stop;
mod suspended;
mod tail_calls;
mod tenants;
mod threading;
mod threads;
mod throwing;
mod touch;
mod traps;
mod turns;
mod usage;
mod wide;

use pirn_testing::allocator::Counting;

/// Suites compare what a thread allocates with limits.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
