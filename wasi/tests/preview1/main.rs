//! Preview 1, function by function, against its text and POSIX. docs/reference/wasi.md lists what is
//! guaranteed and what differs.

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
