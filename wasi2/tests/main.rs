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

// Each test has a limit of its run time.
use pirn_testing as _;
