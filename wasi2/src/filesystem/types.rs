//! Records, flags and enums of `wasi:filesystem`, and the host's values for them.

use super::error::ErrorCode;
use crate::clocks::Datetime;
use cap_fs_ext::{FileTypeExt, OsMetadataExt, SystemTimeSpec};
use cap_std::fs::{FileType, Metadata};
use cap_std::time::SystemTime as CapTime;
use pirn_component::Typed;
use rustix::fs::{Timespec, UTIME_NOW, UTIME_OMIT};
use std::time::{Duration, SystemTime};

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

impl From<FileType> for FileKind {
    fn from(ty: FileType) -> Self {
        if ty.is_file() {
            Self::RegularFile
        } else if ty.is_dir() {
            Self::Directory
        } else if ty.is_symlink() {
            Self::SymbolicLink
        } else if ty.is_fifo() {
            Self::Fifo
        } else if ty.is_socket() {
            Self::Socket
        } else if ty.is_char_device() {
            Self::CharacterDevice
        } else if ty.is_block_device() {
            Self::BlockDevice
        } else {
            Self::Unknown
        }
    }
}

impl From<rustix::fs::FileType> for FileKind {
    fn from(ty: rustix::fs::FileType) -> Self {
        use rustix::fs::FileType as Os;
        match ty {
            Os::RegularFile => Self::RegularFile,
            Os::Directory => Self::Directory,
            Os::Symlink => Self::SymbolicLink,
            Os::Fifo => Self::Fifo,
            Os::Socket => Self::Socket,
            Os::CharacterDevice => Self::CharacterDevice,
            Os::BlockDevice => Self::BlockDevice,
            Os::Unknown => Self::Unknown,
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
            kind: found.file_type().into(),
            link_count: found.nlink(),
            size: found.len(),
            data_access_timestamp: datetime(found.atime(), found.atime_nsec()),
            data_modification_timestamp: datetime(found.mtime(), found.mtime_nsec()),
            status_change_timestamp: datetime(found.ctime(), found.ctime_nsec()),
        }
    }
}

/// A time since 1970. None if it lies before, which `datetime` cannot express.
fn datetime(seconds: i64, nanoseconds: i64) -> Option<Datetime> {
    Some(Datetime {
        seconds: u64::try_from(seconds).ok()?,
        nanoseconds: u32::try_from(nanoseconds).ok()?,
    })
}

/// `new-timestamp`
#[derive(Debug, Clone, Copy, Typed)]
pub(crate) enum NewTimestamp {
    NoChange,
    Now,
    Timestamp(Datetime),
}

impl NewTimestamp {
    /// The time for utimensat(2).
    pub(crate) fn timespec(self) -> Result<Timespec, ErrorCode> {
        let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
        match self {
            Self::NoChange => Ok(special(UTIME_OMIT)),
            Self::Now => Ok(special(UTIME_NOW)),
            Self::Timestamp(time) => {
                check(time)?;
                Ok(Timespec {
                    tv_sec: i64::try_from(time.seconds).map_err(|_| ErrorCode::Overflow)?,
                    tv_nsec: time.nanoseconds.into(),
                })
            }
        }
    }

    /// The time for cap-std. None if it does not change.
    pub(crate) fn spec(self) -> Result<Option<SystemTimeSpec>, ErrorCode> {
        match self {
            Self::NoChange => Ok(None),
            Self::Now => Ok(Some(SystemTimeSpec::SymbolicNow)),
            Self::Timestamp(time) => {
                check(time)?;
                let since = Duration::new(time.seconds, time.nanoseconds);
                let time = SystemTime::UNIX_EPOCH.checked_add(since);
                let time = CapTime::from_std(time.ok_or(ErrorCode::Overflow)?);
                Ok(Some(SystemTimeSpec::Absolute(time)))
            }
        }
    }
}

/// Checks that a time has fewer nanoseconds than a second has.
fn check(time: Datetime) -> Result<(), ErrorCode> {
    match time.nanoseconds {
        0..1_000_000_000 => Ok(()),
        _ => Err(ErrorCode::Invalid),
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

impl From<Advice> for rustix::fs::Advice {
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
