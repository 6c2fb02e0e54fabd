//! `metadata-hash`: numbers that distinguish files, but do not reveal inode numbers.
//!
//! The hash (SipHash) uses a random key of the process. So a guest learns no device and inode
//! numbers, from which it could infer what other guests do with the file system.

use cap_fs_ext::OsMetadataExt;
use cap_std::fs::Metadata;
use pirn_component::Typed;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The random key.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// `metadata-hash-value`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(crate) struct MetadataHash {
    /// A hash of device and inode. C libraries use this half as the inode number, so it must not
    /// change when the content changes.
    lower: u64,
    /// A hash of device, inode, modification time, change time and size.
    upper: u64,
}

impl From<&Metadata> for MetadataHash {
    fn from(found: &Metadata) -> Self {
        let identity = (found.dev(), found.ino());
        let modified = (found.mtime(), found.mtime_nsec());
        let changed = (found.ctime(), found.ctime_nsec());
        Self {
            lower: KEY.hash_one(identity),
            upper: KEY.hash_one((identity, modified, changed, found.len())),
        }
    }
}

/// Whether two files are the same one.
pub(crate) fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}
