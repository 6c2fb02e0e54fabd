//! [`Metadata`] of a file or directory of any file system, and the records of it for guests.

use super::types::FileKind;
use crate::clocks::Datetime;
use pirn_component::Typed;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The metadata of a file, a directory or a symbolic link.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    pub(crate) kind: FileKind,
    /// Distinguishes the file from all other files: the numbers of its file system and of its
    /// inode.
    pub(crate) identity: (u64, u64),
    pub(crate) links: u64,
    /// The size in bytes.
    pub(crate) size: u64,
    /// A time before 1970 is `None`, because `datetime` cannot express it.
    pub(crate) accessed: Option<Datetime>,
    pub(crate) modified: Option<Datetime>,
    pub(crate) changed: Option<Datetime>,
}

/// `descriptor-stat`
#[derive(Debug, Typed)]
pub(crate) struct DescriptorStat {
    #[component(name = "type")]
    kind: FileKind,
    link_count: u64,
    size: u64,
    data_access_timestamp: Option<Datetime>,
    data_modification_timestamp: Option<Datetime>,
    status_change_timestamp: Option<Datetime>,
}

impl From<&Metadata> for DescriptorStat {
    fn from(found: &Metadata) -> Self {
        Self {
            kind: found.kind,
            link_count: found.links,
            size: found.size,
            data_access_timestamp: found.accessed,
            data_modification_timestamp: found.modified,
            status_change_timestamp: found.changed,
        }
    }
}

/// The random key of the process for [`MetadataHash`] (SipHash). Without the key, a guest could
/// learn device and inode numbers, and infer how other guests use the file system.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// `metadata-hash-value`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(crate) struct MetadataHash {
    /// A hash of the identity. C libraries use this half as the inode number, so it must not change
    /// when the content changes.
    lower: u64,
    /// A hash of identity, modification time, change time and size.
    upper: u64,
}

impl From<&Metadata> for MetadataHash {
    fn from(found: &Metadata) -> Self {
        let time = |time: Option<Datetime>| time.map(|time| (time.seconds, time.nanoseconds));
        let (modified, changed) = (time(found.modified), time(found.changed));
        Self {
            lower: KEY.hash_one(found.identity),
            upper: KEY.hash_one((found.identity, modified, changed, found.size)),
        }
    }
}
