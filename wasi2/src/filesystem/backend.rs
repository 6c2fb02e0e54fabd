//! [`Directory`] and [`RegularFile`]: the operations of a file system that guests can use.
//!
//! The callers check the guest's access, the length of paths, and the quotas. An implementation
//! confines guests. No path leads outside of the directory, even with `..` and symbolic links, and
//! even if other guests rename directories at the same time.

use super::error::ErrorCode;
use super::metadata::Metadata;
use super::types::{Advice, DescriptorFlags, DirectoryEntry, NewTimestamp, OpenFlags};
use bytes::Bytes;
use std::any::Any;
use std::io;

/// The flags with which a guest opens a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenHow {
    /// Whether a symbolic link at the end of the path is followed.
    pub(crate) follow: bool,
    pub(crate) open: OpenFlags,
    pub(crate) flags: DescriptorFlags,
}

/// An opened file or directory.
pub(crate) enum Opened {
    File(Box<dyn RegularFile>),
    Directory(Box<dyn Directory>),
}

/// A directory.
pub(crate) trait Directory: Any + Send + Sync {
    /// Whether changes go to a disk. Such changes count as bytes on disk, and a sync waits for
    /// them.
    fn is_on_disk(&self) -> bool {
        true
    }

    fn metadata(&self) -> Result<Metadata, ErrorCode>;

    /// The metadata of the file at a path. With `follow`, a symbolic link at the end is followed.
    fn find(&self, path: &str, follow: bool) -> Result<Metadata, ErrorCode>;

    /// Opens a file or directory that exists. Ignores `create`: the caller has looked for the file.
    fn open(&self, path: &str, how: OpenHow) -> Result<Opened, ErrorCode>;

    /// Opens a file, or makes the file, as `how` says.
    fn create(&self, path: &str, how: OpenHow) -> Result<Opened, ErrorCode>;

    fn entries(&self) -> Result<Box<dyn EntryReader>, ErrorCode>;

    fn set_times(&self, accessed: NewTimestamp, modified: NewTimestamp) -> Result<(), ErrorCode>;

    fn set_times_at(
        &self,
        follow: bool,
        path: &str,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode>;

    fn create_directory(&self, path: &str) -> Result<(), ErrorCode>;

    fn remove_directory(&self, path: &str) -> Result<(), ErrorCode>;

    fn unlink_file(&self, path: &str) -> Result<(), ErrorCode>;

    fn symlink(&self, to: &str, path: &str) -> Result<(), ErrorCode>;

    /// The target of a symbolic link, unless it is absolute.
    fn read_link(&self, path: &str) -> Result<String, ErrorCode>;

    /// Gives the file at `old` a second name in `to`. Fails with `cross-device` if `to` belongs to
    /// another file system.
    fn link(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), ErrorCode>;

    /// Renames a file. Fails with `cross-device` if `to` belongs to another file system.
    fn rename(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), ErrorCode>;

    /// Waits until the disk has the directory.
    fn sync(&self, only_data: bool) -> Result<(), ErrorCode>;
}

/// A regular file that is open.
pub(crate) trait RegularFile: Send + Sync {
    /// As [`Directory::is_on_disk`].
    fn is_on_disk(&self) -> bool {
        true
    }

    fn metadata(&self) -> Result<Metadata, ErrorCode>;

    /// Reads at most `max` bytes. Returns no bytes at the end of the file.
    fn read(&self, max: usize, offset: u64) -> io::Result<Bytes>;

    /// Writes bytes, perhaps not all. Returns the number of written bytes.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Writes bytes at the end of the file, perhaps not all. Returns the number of written bytes.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    fn set_size(&self, size: u64) -> Result<(), ErrorCode>;

    fn set_times(&self, accessed: NewTimestamp, modified: NewTimestamp) -> Result<(), ErrorCode>;

    fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), ErrorCode>;

    /// Waits until the disk has the file.
    fn sync(&self, only_data: bool) -> Result<(), ErrorCode>;
}

/// Reads the entries of a directory.
pub(crate) trait EntryReader: Send {
    /// The next entry, without `.` and `..`. `None` at the end.
    fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode>;
}
