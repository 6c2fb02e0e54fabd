//! Shared by the programs that run pirn beside its peers. Each program is in `src/bin`.

#![forbid(unsafe_code)]

pub mod best;
pub mod open;
pub mod row;
pub mod turns;
pub mod java;
