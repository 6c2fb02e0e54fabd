//! The preopened directories of guests, and the limits of their use of the file system.

use crate::file_quota::FileQuotaMax;
use cap_std::fs::Dir;
use pirn_memory_files::{Limits as MemoryLimits, MemoryBase};
use std::sync::Arc;

/// The operations that a guest may perform on a directory and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// All operations.
    Full,
    /// Only operations that change nothing. All others fail with `read-only`.
    ReadOnly,
}

/// What a preopened directory holds.
#[derive(Debug)]
pub(crate) enum Source {
    /// A directory of the host.
    Host(Arc<Dir>),
    /// A directory in memory. Each guest gets one of its own, with the content of the base.
    Memory(MemoryBase, MemoryLimits),
}

/// A preopened directory.
#[derive(Debug)]
pub(crate) struct Preopen {
    pub(crate) source: Source,
    /// Its path, as guests see it.
    pub(crate) path: String,
    pub(crate) access: Access,
}

/// The part of the host's file system that guests may use.
#[derive(Debug, Default)]
pub(crate) struct FilesConfig {
    pub(crate) preopens: Vec<Preopen>,
    pub(crate) max: FileQuotaMax,
}
