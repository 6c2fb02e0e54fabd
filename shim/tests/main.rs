//! All suites of the shim that need no containerd.

mod cache;
mod images;
mod policy;
mod program;

// Each test has a limit of its run time.
use pirn_testing as _;
