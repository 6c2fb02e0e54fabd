//! All suites of `aotc`.

mod cache;
mod command_line;
mod common;
mod out_of_memory;
mod signing;
mod source;
