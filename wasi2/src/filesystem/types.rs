//! Records, flags and enums of `wasi:filesystem`.

use super::error::ErrorCode;
use crate::clocks::Datetime;
use pirn_component::Typed;

pub(crate) const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// `descriptor-type`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(crate) enum FileKind {
    Unknown,
    BlockDevice,
    CharacterDevice,
    Directory,
    Fifo,
    SymbolicLink,
    RegularFile,
    Socket,
}

/// `descriptor-flags`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Typed)]
#[component(flags)]
pub(crate) struct DescriptorFlags {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) file_integrity_sync: bool,
    pub(crate) data_integrity_sync: bool,
    pub(crate) requested_write_sync: bool,
    pub(crate) mutate_directory: bool,
}

/// `path-flags`
#[derive(Debug, Clone, Copy, Typed)]
#[component(flags)]
pub(crate) struct PathFlags {
    pub(crate) symlink_follow: bool,
}

/// `open-flags`
#[derive(Debug, Clone, Copy, Default, Typed)]
#[component(flags)]
pub(crate) struct OpenFlags {
    pub(crate) create: bool,
    pub(crate) directory: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
}

/// `new-timestamp`
#[derive(Debug, Clone, Copy, Typed)]
pub(crate) enum NewTimestamp {
    NoChange,
    Now,
    Timestamp(Datetime),
}

impl NewTimestamp {
    /// Checks that the nanoseconds are less than a second.
    pub(crate) fn checked(self) -> Result<Self, ErrorCode> {
        match self {
            Self::Timestamp(time) if time.nanoseconds >= 1_000_000_000 => Err(ErrorCode::Invalid),
            _ => Ok(self),
        }
    }
}

/// `directory-entry`
#[derive(Debug, Typed)]
pub(crate) struct DirectoryEntry {
    #[component(name = "type")]
    pub(crate) kind: FileKind,
    pub(crate) name: String,
}

/// `advice`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(crate) enum Advice {
    Normal,
    Sequential,
    Random,
    WillNeed,
    DontNeed,
    NoReuse,
}
