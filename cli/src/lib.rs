//! What `aotc` and `aotrun` share: error messages of one line, and output files that are written
//! as a whole. The interface serves these two programs and can change with any version.

#![forbid(unsafe_code)]

pub mod output;
pub mod usage;
