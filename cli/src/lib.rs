//! Code of `aotc`, `aotrun` and `pirn-serve`: error messages of one line, and output files that are
//! written completely or not at all. The interface serves these programs and can change with any
//! version.

#![forbid(unsafe_code)]

pub mod output;
pub mod usage;

pub use pirn_format::text;
