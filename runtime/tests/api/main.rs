//! The host uses parts of an instance between calls: memory, globals, tables and functions. The
//! tests use each part at its limit, just past its limit, and with values of wrong types.

#[path = "../common/mod.rs"]
mod common;

mod funcs;
mod globals;
mod memory;
mod tables;
