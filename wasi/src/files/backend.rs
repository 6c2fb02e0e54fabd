//! [`Directory`] and [`RegularFile`]: the operations of a file system that guests can use.
//!
//! The callers check the guest's access, the length of paths, and the quotas. An implementation
//! confines guests. No path leads outside of the directory, even with `..` and symbolic links, and
//! even if other guests rename directories at the same time.

use super::types::{Advice, Entry, Metadata, NewTimes, OpenHow};
use crate::errno::Errno;
use pirn_memory_files::MemoryFile;
use std::any::Any;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

/// An opened path.
pub enum Opened {
    /// A regular file or a block device.
    File(Box<dyn RegularFile>),
    /// A directory.
    Directory(Box<dyn Directory>),
    /// A pipe, a socket or a character device, in nonblocking mode.
    Stream(OwnedFd),
}

/// A directory.
pub trait Directory: Any + Send + Sync {
    /// Whether changes go to a disk. Such changes count as bytes on disk, and a sync waits for
    /// them.
    fn is_on_disk(&self) -> bool {
        true
    }

    /// The metadata of the directory.
    ///
    /// # Errors
    ///
    /// As fstat(2).
    fn metadata(&self) -> Result<Metadata, Errno>;

    /// The metadata of the file at a path. With `follow`, a symbolic link at the end is followed.
    ///
    /// # Errors
    ///
    /// As fstatat(2).
    fn find(&self, path: &str, follow: bool) -> Result<Metadata, Errno>;

    /// Opens a path. The host may open it for more than the guest may do.
    ///
    /// # Errors
    ///
    /// As openat(2). An implementation does not check `directory`.
    fn open(&self, path: &str, how: OpenHow) -> Result<Opened, Errno>;

    /// The entries after a position, with `.` and `..`. The first position is 0.
    ///
    /// # Errors
    ///
    /// [`Errno::INVAL`] for a position that no entry has given.
    fn entries(&self, position: u64) -> Result<Box<dyn EntryReader>, Errno>;

    /// Sets the times of the directory.
    ///
    /// # Errors
    ///
    /// As utimensat(2).
    fn set_times(&self, times: NewTimes) -> Result<(), Errno>;

    /// Sets the times of the file at a path.
    ///
    /// # Errors
    ///
    /// As utimensat(2).
    fn set_times_at(&self, path: &str, follow: bool, times: NewTimes) -> Result<(), Errno>;

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As mkdirat(2).
    fn create_directory(&self, path: &str) -> Result<(), Errno>;

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// As rmdir(2).
    fn remove_directory(&self, path: &str) -> Result<(), Errno>;

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    ///
    /// As unlinkat(2).
    fn unlink_file(&self, path: &str) -> Result<(), Errno>;

    /// Makes a symbolic link with the target `to`.
    ///
    /// # Errors
    ///
    /// As symlinkat(2); [`Errno::PERM`] for an absolute target.
    fn symlink(&self, to: &str, path: &str) -> Result<(), Errno>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// As readlinkat(2); [`Errno::PERM`] for an absolute target.
    fn read_link(&self, path: &str) -> Result<String, Errno>;

    /// Gives the file at `old` a second name in `to`.
    ///
    /// # Errors
    ///
    /// As linkat(2); [`Errno::XDEV`] if `to` belongs to another file system.
    fn link(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), Errno>;

    /// Renames a file.
    ///
    /// # Errors
    ///
    /// As renameat(2); [`Errno::XDEV`] if `to` belongs to another file system.
    fn rename(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), Errno>;

    /// Waits until the disk has the directory.
    ///
    /// # Errors
    ///
    /// As fsync(2).
    fn sync(&self, only_data: bool) -> Result<(), Errno>;
}

/// A regular file that is open. It has no position.
pub trait RegularFile: Send + Sync {
    /// As [`Directory::is_on_disk`].
    fn is_on_disk(&self) -> bool {
        true
    }

    /// The file in memory, if it is one: its bytes need no buffer on their way.
    fn in_memory(&self) -> Option<&MemoryFile> {
        None
    }

    /// The metadata.
    ///
    /// # Errors
    ///
    /// As fstat(2).
    fn metadata(&self) -> Result<Metadata, Errno>;

    /// The size in bytes. A file of proc(5) has none: 0.
    ///
    /// # Errors
    ///
    /// As fstat(2).
    fn size(&self) -> Result<u64, Errno>;

    /// Checks that a position may be set, perhaps behind the end of the file.
    ///
    /// # Errors
    ///
    /// As lseek(2).
    fn check_position(&self, position: u64) -> Result<(), Errno>;

    /// Reads bytes. Returns 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// As pread(2).
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno>;

    /// Reads at most `max` bytes into a new buffer. Returns no bytes at the end of the file.
    ///
    /// # Errors
    ///
    /// As pread(2).
    fn read(&self, max: usize, offset: u64) -> Result<Vec<u8>, Errno>;

    /// Writes bytes, perhaps not all. Returns the number of written bytes.
    ///
    /// # Errors
    ///
    /// As pwritev(2).
    fn write_at(&self, vectors: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno>;

    /// Writes bytes at the end of the file, perhaps not all. Returns the number of written bytes,
    /// and the offset after them.
    ///
    /// # Errors
    ///
    /// As writev(2) for a file with `O_APPEND`.
    fn append(&self, vectors: &[IoSlice<'_>]) -> Result<(usize, u64), Errno>;

    /// Sets the size in bytes.
    ///
    /// # Errors
    ///
    /// As ftruncate(2).
    fn set_size(&self, size: u64) -> Result<(), Errno>;

    /// Sets the times.
    ///
    /// # Errors
    ///
    /// As futimens(3).
    fn set_times(&self, times: NewTimes) -> Result<(), Errno>;

    /// Announces the use of a part of the file.
    ///
    /// # Errors
    ///
    /// As posix_fadvise(2).
    fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), Errno>;

    /// Waits until the disk has the file.
    ///
    /// # Errors
    ///
    /// As fsync(2).
    fn sync(&self, only_data: bool) -> Result<(), Errno>;
}

/// Reads the entries of a directory.
pub trait EntryReader: Send {
    /// The next entry, `None` at the end.
    ///
    /// # Errors
    ///
    /// As readdir(3); [`Errno::ILSEQ`] for a name that is not UTF-8.
    fn next(&mut self) -> Result<Option<Entry>, Errno>;
}
