//! Style and structure of the whole repository.

mod advisories;
mod foreign;
mod layers;
mod tidy;

// Each test has a limit of its run time.
use pirn_testing as _;
