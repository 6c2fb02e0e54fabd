//! The host uses parts of an instance between calls: memory, globals, tables and functions. The
//! tests use each part at its limit, just past its limit, and with values of wrong types.

mod funcs;
mod globals;
mod memory;
mod tables;
