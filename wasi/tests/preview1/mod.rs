//! Preview 1, function by function, compared with its specification and POSIX.
//! docs/reference/wasi.md lists guarantees and differences.

mod driver;
mod errno;
mod files;
mod inherited;
mod paths;
mod process;
mod read_only;
mod waiting;

/// Guests get real directories.
const IN_MEMORY: bool = false;
