//! The records of [`Metadata`] for guests.

use super::types::FileKind;
use crate::clocks::Datetime;
use pirn_component::Typed;
use pirn_wasi::files::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

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
            kind: found.kind.into(),
            link_count: found.links,
            size: found.size,
            data_access_timestamp: found.accessed.map(Datetime::from),
            data_modification_timestamp: found.modified.map(Datetime::from),
            status_change_timestamp: found.changed.map(Datetime::from),
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
        let identity = found.identity();
        let content = (found.modified, found.changed, found.size);
        Self {
            lower: KEY.hash_one(identity),
            upper: KEY.hash_one((identity, content)),
        }
    }
}
