//! Files and directories in memory, through `pirn_memory_files`, which confines guests.

use super::backend::{Directory, EntryReader, OpenHow, Opened, RegularFile};
use super::error::ErrorCode;
use super::metadata::Metadata;
use super::types::{Advice, DirectoryEntry, FileKind, NewTimestamp};
use crate::clocks::Datetime;
use crate::io::exact;
use crate::limits::READ_MAX;
use bytes::Bytes;
use pirn_memory_files as memory;
use pirn_memory_files::{FileError, MemoryDir, MemoryFile, NewTimes, OpenOptions, Stat};
use rustix::io::Errno;
use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime};

/// Number of entries that the host reads at once.
const ENTRIES: usize = 64;

/// A directory in memory.
#[derive(Clone)]
pub(crate) struct MemoryDirectory {
    pub(crate) dir: MemoryDir,
    /// Distinguishes the tree from the guest's other trees and from file systems of the host.
    pub(crate) tree: u64,
}

struct OpenedFile {
    file: MemoryFile,
    tree: u64,
}

struct Entries {
    dir: MemoryDir,
    /// The entries that were read and not yet returned.
    next: VecDeque<memory::DirEntry>,
    /// The position after the last entry that was read.
    cookie: u64,
    /// The position after the last entry that existed when the listing began.
    end: u64,
}

/// The error number of POSIX. Streams keep errors in this form, too.
fn errno(error: FileError) -> Errno {
    match error {
        FileError::NotFound => Errno::NOENT,
        FileError::Exists => Errno::EXIST,
        FileError::NotDirectory => Errno::NOTDIR,
        FileError::IsDirectory => Errno::ISDIR,
        FileError::NotEmpty => Errno::NOTEMPTY,
        FileError::Loop => Errno::LOOP,
        FileError::NameTooLong => Errno::NAMETOOLONG,
        FileError::NoSpace => Errno::NOSPC,
        FileError::TooLarge => Errno::FBIG,
        FileError::Invalid => Errno::INVAL,
        FileError::Busy => Errno::BUSY,
        FileError::ReadOnly => Errno::ROFS,
        FileError::NotPermitted => Errno::PERM,
        FileError::BadDescriptor => Errno::BADF,
        FileError::CrossDevice => Errno::XDEV,
        _ => Errno::IO,
    }
}

impl From<FileError> for ErrorCode {
    fn from(error: FileError) -> Self {
        errno(error).into()
    }
}

impl From<memory::FileKind> for FileKind {
    fn from(kind: memory::FileKind) -> Self {
        match kind {
            memory::FileKind::File => Self::RegularFile,
            memory::FileKind::Directory => Self::Directory,
            memory::FileKind::Symlink => Self::SymbolicLink,
        }
    }
}

/// A time since 1970. `None` for a time before 1970.
fn datetime(time: SystemTime) -> Option<Datetime> {
    let is_after = time >= SystemTime::UNIX_EPOCH;
    is_after.then(|| Datetime::from(time))
}

/// The metadata of a file in a tree.
fn metadata(tree: u64, found: Stat) -> Metadata {
    Metadata {
        kind: found.kind.into(),
        identity: (tree, found.inode),
        links: found.links,
        size: found.size_bytes,
        accessed: datetime(found.accessed),
        modified: datetime(found.modified),
        changed: datetime(found.changed),
    }
}

fn new_time(time: NewTimestamp) -> Result<Option<SystemTime>, ErrorCode> {
    match time {
        NewTimestamp::NoChange => Ok(None),
        NewTimestamp::Now => Ok(Some(memory::now())),
        NewTimestamp::Timestamp(time) => {
            let since = Duration::new(time.seconds, time.nanoseconds);
            let time = SystemTime::UNIX_EPOCH.checked_add(since);
            time.map(Some).ok_or(ErrorCode::Overflow)
        }
    }
}

fn new_times(accessed: NewTimestamp, modified: NewTimestamp) -> Result<NewTimes, ErrorCode> {
    Ok(NewTimes {
        accessed: new_time(accessed)?,
        modified: new_time(modified)?,
    })
}

impl MemoryDirectory {
    fn open_with(&self, path: &str, how: OpenHow, create: bool) -> Result<Opened, ErrorCode> {
        let options = OpenOptions {
            read: how.flags.read,
            write: how.flags.write || create || how.open.truncate,
            create,
            exclusive: how.open.exclusive,
            truncate: how.open.truncate,
            directory: how.open.directory,
            no_follow: !how.follow,
        };
        let tree = self.tree;
        Ok(match self.dir.open(path, &options)? {
            memory::Opened::File(file) => Opened::File(Box::new(OpenedFile { file, tree })),
            memory::Opened::Dir(dir) => Opened::Directory(Box::new(Self { dir, tree })),
        })
    }
}

/// The other directory of an operation on two directories. Fails with `cross-device` if it is not
/// in memory.
fn in_memory(directory: &dyn Directory) -> Result<&MemoryDir, ErrorCode> {
    let directory: &dyn Any = directory;
    let directory = directory.downcast_ref::<MemoryDirectory>();
    Ok(&directory.ok_or(ErrorCode::CrossDevice)?.dir)
}

impl Directory for MemoryDirectory {
    fn is_on_disk(&self) -> bool {
        false
    }

    fn metadata(&self) -> Result<Metadata, ErrorCode> {
        Ok(metadata(self.tree, self.dir.stat()))
    }

    fn find(&self, path: &str, follow: bool) -> Result<Metadata, ErrorCode> {
        Ok(metadata(self.tree, self.dir.stat_path(path, follow)?))
    }

    fn open(&self, path: &str, how: OpenHow) -> Result<Opened, ErrorCode> {
        self.open_with(path, how, false)
    }

    fn create(&self, path: &str, how: OpenHow) -> Result<Opened, ErrorCode> {
        self.open_with(path, how, true)
    }

    fn entries(&self) -> Result<Box<dyn EntryReader>, ErrorCode> {
        Ok(Box::new(Entries {
            dir: self.dir.clone(),
            next: VecDeque::new(),
            cookie: 0,
            end: self.dir.end_cookie(),
        }))
    }

    fn set_times(&self, accessed: NewTimestamp, modified: NewTimestamp) -> Result<(), ErrorCode> {
        Ok(self.dir.set_times(new_times(accessed, modified)?)?)
    }

    fn set_times_at(
        &self,
        follow: bool,
        path: &str,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        let times = new_times(accessed, modified)?;
        Ok(self.dir.set_path_times(path, follow, times)?)
    }

    fn create_directory(&self, path: &str) -> Result<(), ErrorCode> {
        Ok(self.dir.create_dir(path)?)
    }

    fn remove_directory(&self, path: &str) -> Result<(), ErrorCode> {
        Ok(self.dir.remove_dir(path)?)
    }

    fn unlink_file(&self, path: &str) -> Result<(), ErrorCode> {
        Ok(self.dir.unlink(path)?)
    }

    fn symlink(&self, to: &str, path: &str) -> Result<(), ErrorCode> {
        Ok(self.dir.create_symlink(to, path)?)
    }

    fn read_link(&self, path: &str) -> Result<String, ErrorCode> {
        Ok(self.dir.read_link(path)?)
    }

    fn link(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), ErrorCode> {
        Ok(self.dir.link(old, in_memory(to)?, new)?)
    }

    fn rename(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), ErrorCode> {
        Ok(self.dir.rename(old, in_memory(to)?, new)?)
    }

    fn sync(&self, _only_data: bool) -> Result<(), ErrorCode> {
        Ok(())
    }
}

impl RegularFile for OpenedFile {
    fn is_on_disk(&self) -> bool {
        false
    }

    fn metadata(&self) -> Result<Metadata, ErrorCode> {
        Ok(metadata(self.tree, self.file.stat()))
    }

    fn read(&self, max: usize, offset: u64) -> io::Result<Bytes> {
        // pread(2) refuses these offsets.
        if i64::try_from(offset).is_err() {
            return Err(Errno::INVAL.into());
        }
        let left = self.file.size().saturating_sub(offset);
        let max = left.min(max.min(READ_MAX) as u64) as usize;
        let mut bytes = Vec::with_capacity(max);
        let read = self.file.read_pieces_at(offset, max, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, FileError>(())
        });
        read.map_err(errno)?;
        Ok(exact(bytes))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(self.file.write_at(offset, bytes).map_err(errno)?)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let (_, written) = self.file.append(bytes).map_err(errno)?;
        Ok(written)
    }

    fn set_size(&self, size: u64) -> Result<(), ErrorCode> {
        Ok(self.file.set_size(size)?)
    }

    fn set_times(&self, accessed: NewTimestamp, modified: NewTimestamp) -> Result<(), ErrorCode> {
        Ok(self.file.set_times(new_times(accessed, modified)?)?)
    }

    fn advise(&self, _offset: u64, _len: u64, _advice: Advice) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn sync(&self, _only_data: bool) -> Result<(), ErrorCode> {
        Ok(())
    }
}

impl EntryReader for Entries {
    fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        loop {
            let Some(entry) = self.next.pop_front() else {
                let more = self.dir.read_dir_before(self.cookie, self.end, ENTRIES);
                let Some(last) = more.last() else {
                    return Ok(None);
                };
                self.cookie = last.cookie;
                self.next = more.into();
                continue;
            };
            if !matches!(&*entry.name, "." | "..") {
                return Ok(Some(DirectoryEntry {
                    kind: entry.kind.into(),
                    name: entry.name,
                }));
            }
        }
    }
}
