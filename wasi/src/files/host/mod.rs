//! Directories and files of the host.

mod convert;
mod entries;
mod file;
mod directory;

pub use directory::HostDirectory;
pub(crate) use file::fd_times;
