//! Conversions between the values of [`files`](crate::files) and the values of cap-std and Linux.

use crate::errno::Errno;
use crate::files::types::{Advice, FileKind, Metadata, NewTime, NewTimes};
use cap_fs_ext::{FileTypeExt, OsMetadataExt, SystemTimeSpec};
use cap_std::fs::FileType;
use cap_std::time::SystemTime as CapTime;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use std::time::{Duration, SystemTime};

impl From<&cap_std::fs::Metadata> for Metadata {
    fn from(found: &cap_std::fs::Metadata) -> Self {
        Self {
            kind: found.file_type().into(),
            device: found.dev(),
            inode: found.ino(),
            links: found.nlink(),
            size: found.len(),
            accessed: since_epoch(found.atime(), found.atime_nsec()),
            modified: since_epoch(found.mtime(), found.mtime_nsec()),
            changed: since_epoch(found.ctime(), found.ctime_nsec()),
        }
    }
}

impl From<&rustix::fs::Stat> for Metadata {
    #[allow(
        clippy::unnecessary_cast,
        reason = "the types differ between architectures"
    )]
    fn from(found: &rustix::fs::Stat) -> Self {
        Self {
            kind: rustix::fs::FileType::from_raw_mode(found.st_mode).into(),
            device: found.st_dev as u64,
            inode: found.st_ino as u64,
            links: found.st_nlink as u64,
            size: found.st_size.cast_unsigned(),
            accessed: since_epoch(found.st_atime as i64, found.st_atime_nsec as i64),
            modified: since_epoch(found.st_mtime as i64, found.st_mtime_nsec as i64),
            changed: since_epoch(found.st_ctime as i64, found.st_ctime_nsec as i64),
        }
    }
}

/// A distance from 1970. `None` for a time before 1970.
fn since_epoch(seconds: i64, nanoseconds: i64) -> Option<Duration> {
    let nanoseconds = u32::try_from(nanoseconds).ok()?;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanoseconds))
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
pub(crate) fn timestamps(times: NewTimes) -> Result<Timestamps, Errno> {
    Ok(Timestamps {
        last_access: timespec(times.accessed)?,
        last_modification: timespec(times.modified)?,
    })
}

fn timespec(time: NewTime) -> Result<Timespec, Errno> {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match time {
        NewTime::NoChange => Ok(special(UTIME_OMIT)),
        NewTime::Now => Ok(special(UTIME_NOW)),
        NewTime::At(time) => Ok(Timespec {
            tv_sec: i64::try_from(time.as_secs()).map_err(|_| Errno::OVERFLOW)?,
            tv_nsec: time.subsec_nanos().into(),
        }),
    }
}

/// The time for cap-std. `None` if the time does not change.
pub(super) fn time_spec(time: NewTime) -> Result<Option<SystemTimeSpec>, Errno> {
    match time {
        NewTime::NoChange => Ok(None),
        NewTime::Now => Ok(Some(SystemTimeSpec::SymbolicNow)),
        NewTime::At(time) => {
            let time = SystemTime::UNIX_EPOCH.checked_add(time);
            let time = CapTime::from_std(time.ok_or(Errno::OVERFLOW)?);
            Ok(Some(SystemTimeSpec::Absolute(time)))
        }
    }
}
