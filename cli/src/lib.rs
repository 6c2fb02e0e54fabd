//! Code of `aotc` and `aotrun`: error messages of one line, and output files that are written
//! completely or not at all. The interface serves these two programs and can change with any
//! version.

#![forbid(unsafe_code)]

pub mod output;
pub mod usage;
