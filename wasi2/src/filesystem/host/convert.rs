//! Conversions between values of `wasi:filesystem` and values of cap-std and Linux.

use crate::clocks::Datetime;
use crate::filesystem::error::ErrorCode;
use crate::filesystem::metadata::Metadata;
use crate::filesystem::types::{Advice, FileKind, NewTimestamp};
use cap_fs_ext::{FileTypeExt, OsMetadataExt, SystemTimeSpec};
use cap_std::fs::FileType;
use cap_std::time::SystemTime as CapTime;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::time::{Duration, SystemTime};

impl From<&cap_std::fs::Metadata> for Metadata {
    fn from(found: &cap_std::fs::Metadata) -> Self {
        Self {
            kind: found.file_type().into(),
            identity: (found.dev(), found.ino()),
            links: found.nlink(),
            size: found.len(),
            accessed: datetime(found.atime(), found.atime_nsec()),
            modified: datetime(found.mtime(), found.mtime_nsec()),
            changed: datetime(found.ctime(), found.ctime_nsec()),
        }
    }
}

/// A time since 1970. `None` for a time before 1970.
fn datetime(seconds: i64, nanoseconds: i64) -> Option<Datetime> {
    Some(Datetime {
        seconds: u64::try_from(seconds).ok()?,
        nanoseconds: u32::try_from(nanoseconds).ok()?,
    })
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

/// The times for utimensat(2).
pub(super) fn timestamps(
    accessed: NewTimestamp,
    modified: NewTimestamp,
) -> Result<Timestamps, ErrorCode> {
    Ok(Timestamps {
        last_access: timespec(accessed)?,
        last_modification: timespec(modified)?,
    })
}

fn timespec(time: NewTimestamp) -> Result<Timespec, ErrorCode> {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        NewTimestamp::NoChange => Ok(special(UTIME_OMIT)),
        NewTimestamp::Now => Ok(special(UTIME_NOW)),
        NewTimestamp::Timestamp(time) => Ok(Timespec {
            tv_sec: i64::try_from(time.seconds).map_err(|_| ErrorCode::Overflow)?,
            tv_nsec: time.nanoseconds.into(),
        }),
    }
}

/// The time for cap-std. `None` if the time does not change.
pub(super) fn time_spec(time: NewTimestamp) -> Result<Option<SystemTimeSpec>, ErrorCode> {
    match time {
        NewTimestamp::NoChange => Ok(None),
        NewTimestamp::Now => Ok(Some(SystemTimeSpec::SymbolicNow)),
        NewTimestamp::Timestamp(time) => {
            let since = Duration::new(time.seconds, time.nanoseconds);
            let time = SystemTime::UNIX_EPOCH.checked_add(since);
            let time = CapTime::from_std(time.ok_or(ErrorCode::Overflow)?);
            Ok(Some(SystemTimeSpec::Absolute(time)))
        }
    }
}
