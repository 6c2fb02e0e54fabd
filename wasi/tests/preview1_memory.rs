//! Preview 1 on files in memory: the tests of files, paths and read-only directories that run on
//! real directories in the suite `preview1`.

#[path = "preview1/driver.rs"]
mod driver;
#[path = "preview1/errno.rs"]
mod errno;
#[path = "preview1/files.rs"]
mod files;
#[path = "preview1/paths.rs"]
mod paths;
#[path = "preview1/read_only.rs"]
mod read_only;

/// Guests get copies of directories in memory.
const IN_MEMORY: bool = true;
