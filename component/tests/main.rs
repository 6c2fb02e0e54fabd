//! All suites of components but the scripts (`spec`).

mod attacks;
mod bare;
mod borrowed;
mod common;
mod compositions;
mod derived;
mod host_bytes;
mod hostile;
mod imports;
mod joined;
mod resources;
mod typed;
mod values;

// Each test has a limit of its run time.
use pirn_testing as _;
