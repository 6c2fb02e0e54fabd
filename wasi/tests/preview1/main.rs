//! Preview 1, function by function, against its text and POSIX: what docs/WASI.md promises, and what it lists as different.

#[path = "../common/mod.rs"]
mod common;
mod driver;
mod errno;
mod inherited;
mod read_only;
mod waiting;
