//! Preview 1, function by function, compared with its specification and POSIX.
//! docs/reference/wasi.md lists guarantees and differences.

pub(crate) mod driver;
pub(crate) mod errno;
mod files;
mod paths;
mod process;
mod read_only;
mod slashes;
mod waiting;

/// Guests get real directories.
const IN_MEMORY: bool = false;

/// Not a test: a child process runs this function.
#[test]
#[ignore = "run by another test, in a process of its own"]
fn case() {
    assert_eq!(pirn_testing::process::case(), "slashes without openat2");
    slashes::without_openat2();
}
