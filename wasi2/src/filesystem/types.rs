//! Records, flags and enums of `wasi:filesystem`.

use super::error::ErrorCode;
use crate::clocks::Datetime;
use pirn_component::Typed;
use pirn_wasi::files;
use std::time::Duration;

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

impl From<files::FileKind> for FileKind {
    fn from(kind: files::FileKind) -> Self {
        match kind {
            files::FileKind::Unknown => Self::Unknown,
            files::FileKind::BlockDevice => Self::BlockDevice,
            files::FileKind::CharacterDevice => Self::CharacterDevice,
            files::FileKind::Directory => Self::Directory,
            files::FileKind::Fifo => Self::Fifo,
            files::FileKind::SymbolicLink => Self::SymbolicLink,
            files::FileKind::RegularFile => Self::RegularFile,
            files::FileKind::Socket => Self::Socket,
        }
    }
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
    /// The time to set.
    ///
    /// # Errors
    ///
    /// `invalid` for a second or more of nanoseconds.
    fn checked(self) -> Result<files::NewTime, ErrorCode> {
        match self {
            Self::NoChange => Ok(files::NewTime::NoChange),
            Self::Now => Ok(files::NewTime::Now),
            Self::Timestamp(time) if time.nanoseconds >= 1_000_000_000 => Err(ErrorCode::Invalid),
            Self::Timestamp(time) => {
                let since = Duration::new(time.seconds, time.nanoseconds);
                Ok(files::NewTime::At(since))
            }
        }
    }
}

/// The times to set.
///
/// # Errors
///
/// `invalid` for a second or more of nanoseconds.
pub(crate) fn new_times(
    accessed: NewTimestamp,
    modified: NewTimestamp,
) -> Result<files::NewTimes, ErrorCode> {
    Ok(files::NewTimes {
        accessed: accessed.checked()?,
        modified: modified.checked()?,
    })
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

impl From<Advice> for files::Advice {
    fn from(advice: Advice) -> Self {
        match advice {
            Advice::Normal => Self::Normal,
            Advice::Sequential => Self::Sequential,
            Advice::Random => Self::Random,
            Advice::WillNeed => Self::WillNeed,
            Advice::DontNeed => Self::DontNeed,
            Advice::NoReuse => Self::NoReuse,
        }
    }
}
