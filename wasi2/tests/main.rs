//! All suites of WASI 0.2.

mod common;
mod filesystem;
mod host_bytes;
mod hostile;
mod http;
mod sockets;
mod sockets_leaks;
mod tour;
mod world;

use pirn_testing::allocator::Counting;

/// A suite compares what a thread allocates.
#[global_allocator]
static ALLOCATOR: Counting = Counting;
