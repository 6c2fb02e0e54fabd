//! Files and directories of guests, for all interfaces: a [`Folder`] or [`File`] checks the guest's
//! access, the length of paths and the quotas; a [`Directory`] or [`RegularFile`] is the place of
//! the bytes. The places are directories of the host ([`HostDirectory`]) and trees in memory
//! ([`MemoryDirectory`]).

// In this order each module uses only modules before it.
mod types;
mod backend;
mod host;
mod memory;
mod file;
mod folder;

pub use backend::{Directory, EntryReader, Opened, RegularFile};
pub use file::{File, Place};
pub use folder::{Folder, Node};
pub use host::HostDirectory;
pub(crate) use host::fd_times;
pub use memory::MemoryDirectory;
pub(crate) use memory::{check_offset, errno as memory_errno};
pub use types::{
    Access, Advice, Entry, FileKind, Metadata, NewTime, NewTimes, OpenHow, Synchronous,
};
