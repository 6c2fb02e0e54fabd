//! Files and directories of the host, through cap-std.

mod convert;
mod file;
mod entries;
mod directory;

pub(crate) use directory::HostDirectory;
