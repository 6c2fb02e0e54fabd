//! `metadata-hash`: numbers that tell files apart, and do not tell which files they are.
//!
//! The hash is keyed by a random number of the process (SipHash). Therefore a guest does not learn
//! device and inode numbers, which could tell it what other guests do with the file system.

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
    /// A hash of device and inode. C libraries take this half for the inode number, which must not
    /// change when the file does.
    lower: u64,
    /// A hash of those and of what changes when the file does: times and size.
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
