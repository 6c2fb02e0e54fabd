//! Preview 1, function by function, against its text and POSIX: what docs/reference/wasi.md promises, and
//! what it lists as different.

#[path = "../common/mod.rs"]
mod common;
mod driver;
mod errno;
mod files;
mod inherited;
mod paths;
mod process;
mod read_only;
mod waiting;
