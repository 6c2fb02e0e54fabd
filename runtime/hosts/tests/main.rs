//! The runtime inside Go and Java programs.

mod common;
mod go;
mod java;

// Each test has a limit of its run time.
use pirn_testing as _;
