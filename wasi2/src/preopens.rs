//! The preopened directories of guests, and the limits of their use of the file system.

use cap_std::fs::Dir;
use pirn_memory_files::{Limits as MemoryLimits, MemoryBase};
use pirn_wasi::FileQuotaMax;
use pirn_wasi::files::Access;
use std::sync::Arc;

/// The place of a preopened directory.
#[derive(Debug)]
pub(crate) enum Source {
    /// A directory of the host.
    Host(Arc<Dir>),
    /// A directory in memory. Each guest gets its own directory, with the content of the base.
    Memory(MemoryBase, MemoryLimits),
}

/// A preopened directory.
#[derive(Debug)]
pub(crate) struct Preopen {
    pub(crate) source: Source,
    /// The path at which guests see the directory.
    pub(crate) path: String,
    pub(crate) access: Access,
}

/// The part of the host's file system that guests may use.
#[derive(Debug, Default)]
pub(crate) struct FilesConfig {
    pub(crate) preopens: Vec<Preopen>,
    pub(crate) max: FileQuotaMax,
}
