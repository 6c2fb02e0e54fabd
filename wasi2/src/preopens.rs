//! The directories that guests are given, and how much they may use of the host's file system.

use crate::file_quota::FileQuotaMax;
use cap_std::fs::Dir;
use std::sync::Arc;

/// What a guest may do with a directory and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Full,
    /// Only operations that change nothing. Others fail with `read-only`.
    ReadOnly,
}

/// A directory that guests are given.
#[derive(Debug)]
pub(crate) struct Preopen {
    pub(crate) dir: Arc<Dir>,
    /// Its path, as guests see it.
    pub(crate) path: String,
    pub(crate) access: Access,
}

/// What guests may use of the host's file system.
#[derive(Debug, Default)]
pub(crate) struct FilesConfig {
    pub(crate) preopens: Vec<Preopen>,
    pub(crate) max: FileQuotaMax,
}
