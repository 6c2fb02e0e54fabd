//! Checks of packages, of man pages and of release scripts.

mod packages;
mod pages;
mod scripts;

// Each test has a limit of its run time.
use pirn_testing as _;
