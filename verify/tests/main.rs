//! All suites of the verifier except `executed`, which handles the signals of its process.

mod attacks;
mod common;
mod damaged;
mod modules;
mod mutations;
mod mutations_aarch64;
mod opened;

// Each test has a limit of its run time.
use pirn_testing as _;
