//! Signatures of compiled modules.

mod checks;
mod files;

// Each test has a limit of its run time.
use pirn_testing as _;
