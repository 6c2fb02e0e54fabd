//! The C header, and programs in C, C++, Python and Go.

mod header;
mod programs;

// Each test has a limit of its run time.
use pirn_testing as _;
