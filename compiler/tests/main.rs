//! All suites of the compiler.

mod address;
mod atomics;
mod bad_input;
mod branches;
mod cache;
mod common;
mod component_work;
mod features;
mod hints;
mod hostile;
mod idioms;
mod inlined;
mod intrinsics;
mod known_functions;
mod lines;
mod loops;
mod masks;
mod memory64;
mod operands;
mod output;
mod passes;
mod relaxed;
mod shapes;
mod source;
mod tables;
mod threading;
mod wide;
mod work;

// Each test has a limit of its run time.
use pirn_testing as _;
