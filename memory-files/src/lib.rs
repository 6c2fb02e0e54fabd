//! Files in memory for guests: a tree of directories, files and symbolic links for each instance.
//!
//! A [`MemoryBase`] is made once, of a directory or a tar archive, and never changes. All instances
//! share a base. A [`MemoryDir`] is an open directory of one instance: the base, and the instance's
//! own changes in a layer above it. Making a layer costs the same for a base of any size. Dropping
//! a layer frees all that the instance wrote.
//!
//! ```text
//!   instance 1: layer                 instance 2: layer
//!   names and extents that it wrote   names and extents that it wrote
//!             \                               /
//!              MemoryBase: nodes, sorted names, one allocation of bytes
//! ```
//!
//! Operations have the semantics of POSIX. Operations need no system call of their own: the time of
//! changes comes from the kernel's coarse clock ([`now`]), which the vDSO reads. The allocator and
//! a contended lock may make a system call. Host memory that an instance uses is counted and
//! limited ([`Limits`]).

#![forbid(unsafe_code)]

mod error;
mod limits;
mod stat;
mod base;
mod account;
mod contents;
mod node;
mod tree;
mod walk;
mod rename;
mod file;
mod dir;

pub use base::{BaseBuilder, BaseError, MemoryBase};
pub use dir::{MemoryDir, OpenOptions, Opened};
pub use error::FileError;
pub use file::MemoryFile;
pub use limits::{
    BaseLimits, FILE_BYTES_MAX, LINKS_FOLLOWED_MAX, Limits, NAME_BYTES_MAX, PATH_BYTES_MAX,
};
pub use node::DirEntry;
pub use stat::{FileKind, NewTimes, Stat, now};
