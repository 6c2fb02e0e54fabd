//! The values that the operations of file systems take and return.

use crate::errno::Errno;
use std::time::{Duration, SystemTime};

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A type that the file system does not tell.
    Unknown,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharacterDevice,
    /// A directory.
    Directory,
    /// A named pipe.
    Fifo,
    /// A symbolic link.
    SymbolicLink,
    /// A regular file.
    RegularFile,
    /// A socket.
    Socket,
}

/// The metadata of a file, a directory or a symbolic link.
///
/// A time is the distance from 1970-01-01. `None` stands for an earlier time, which no interface
/// can express.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The type.
    pub kind: FileKind,
    /// The number of the file system.
    pub device: u64,
    /// The number of the file in its file system.
    pub inode: u64,
    /// The number of names.
    pub links: u64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last read.
    pub accessed: Option<Duration>,
    /// The time of the last write.
    pub modified: Option<Duration>,
    /// The time of the last change of the metadata.
    pub changed: Option<Duration>,
}

impl Metadata {
    /// The numbers of the file system and of the inode, which no other file has.
    #[must_use]
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// The same file, with 1970-01-01 as all of its times.
    pub(crate) fn without_times(self) -> Self {
        let start = Some(Duration::ZERO);
        Self {
            accessed: start,
            modified: start,
            changed: start,
            ..self
        }
    }
}

/// The distance of a time from 1970-01-01; `None` for an earlier time.
pub(crate) fn since_epoch(time: SystemTime) -> Option<Duration> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewTime {
    /// The time does not change.
    NoChange,
    /// The current time.
    Now,
    /// A distance from 1970-01-01.
    At(Duration),
}

/// The times to set.
#[derive(Debug, Clone, Copy)]
pub struct NewTimes {
    /// The time of the last read.
    pub accessed: NewTime,
    /// The time of the last write.
    pub modified: NewTime,
}

/// The use that a guest will make of a part of a file (posix_fadvise(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// No special use.
    Normal,
    /// From the start to the end.
    Sequential,
    /// In any order.
    Random,
    /// Soon.
    WillNeed,
    /// Not soon.
    DontNeed,
    /// Once.
    NoReuse,
}

/// Which writes and reads wait for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Synchronous {
    /// Writes, with all metadata (`O_SYNC`).
    pub file: bool,
    /// Writes, with the metadata that reads need (`O_DSYNC`).
    pub data: bool,
    /// Reads (`O_RSYNC`).
    pub reads: bool,
}

/// How a guest opens a path.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenHow {
    /// Whether a symbolic link at the end of the path is followed.
    pub follow: bool,
    /// Whether the file is made if it does not exist (`O_CREAT`).
    pub create: bool,
    /// With `create`: whether an existing file is an error (`O_EXCL`).
    pub exclusive: bool,
    /// Whether the file loses its content (`O_TRUNC`).
    pub truncate: bool,
    /// Whether anything but a directory is an error (`O_DIRECTORY`).
    pub directory: bool,
    /// Whether the guest reads the file.
    pub read: bool,
    /// Whether the guest writes the file.
    pub write: bool,
    /// Which writes and reads wait for the disk.
    pub synchronous: Synchronous,
}

/// The operations that a guest may perform on a directory and everything below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// All operations.
    Full,
    /// Only operations that change nothing. Other operations fail with [`Errno::ROFS`], as on a
    /// file system that is mounted read-only.
    ReadOnly,
}

impl Access {
    /// Checks that the guest may change the directory and everything below it.
    pub(super) fn check_change(self) -> Result<(), Errno> {
        match self {
            Self::Full => Ok(()),
            Self::ReadOnly => Err(Errno::ROFS),
        }
    }
}

/// An entry of a directory.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The type, as far as the directory tells it.
    pub kind: FileKind,
    /// The number of the file in its file system.
    pub inode: u64,
    /// The name.
    pub name: String,
    /// The position after the entry.
    pub next: u64,
}
