//! [`Stat`]: the attributes of a file, and the clock that gives files their times.

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use std::time::SystemTime;

/// Whether a path names a file, a directory or a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// The attributes of a file, directory or symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// A number that is unique in the instance, and does not change while the instance lives.
    pub inode: u64,
    /// The kind.
    pub kind: FileKind,
    /// Names of a file or symbolic link; 2 and the number of subdirectories for a directory.
    pub links: u64,
    /// Bytes of a file or of a link's target; 4,096 for a directory.
    pub size_bytes: u64,
    /// The time of the last access. Reads do not change it, as under the mount option `noatime`.
    pub accessed: SystemTime,
    /// The time of the last change of the contents.
    pub modified: SystemTime,
    /// The time of the last change of contents or attributes.
    pub changed: SystemTime,
}

/// The reported size of a directory in bytes: the size of a block on most file systems.
pub(crate) const DIRECTORY_BYTES: u64 = 4096;

/// The three times of a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) accessed: SystemTime,
    pub(crate) modified: SystemTime,
    pub(crate) changed: SystemTime,
}

/// Times to set. `None` leaves a time unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewTimes {
    /// The time of the last access.
    pub accessed: Option<SystemTime>,
    /// The time of the last change of the contents.
    pub modified: Option<SystemTime>,
}

impl Times {
    /// All times are `time`.
    pub(crate) fn at(time: SystemTime) -> Self {
        Self {
            accessed: time,
            modified: time,
            changed: time,
        }
    }

    /// Records a change of the contents.
    pub(crate) fn touch(&mut self) {
        let now = now();
        (self.modified, self.changed) = (now, now);
    }

    /// Records a change of attributes.
    pub(crate) fn touch_attributes(&mut self) {
        self.changed = now();
    }

    /// Sets the given times.
    pub(crate) fn set(&mut self, new: NewTimes) {
        self.accessed = new.accessed.unwrap_or(self.accessed);
        self.modified = new.modified.unwrap_or(self.modified);
        self.changed = now();
    }
}

/// The time that files get, with the resolution of the kernel's tick (1 to 10 ms), which Linux's
/// own file systems use.
///
/// The kernel's vDSO answers from a page of memory. The coarse clock needs no hardware counter. So
/// reading it makes no system call, even on a virtual machine whose hardware counter needs a system
/// call.
#[must_use]
pub fn now() -> SystemTime {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}
