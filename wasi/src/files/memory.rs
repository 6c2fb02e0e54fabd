//! Files and directories in memory, through [`pirn_memory_files`], which confines guests.

use super::backend::{Directory, EntryReader, Opened, RegularFile};
use super::types::{Advice, Entry, FileKind, Metadata, NewTime, NewTimes, OpenHow, since_epoch};
use crate::errno::Errno;
use pirn_memory_files as memory;
use pirn_memory_files::{FileError, MemoryDir, MemoryFile, OpenOptions, Stat};
use std::any::Any;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// Number of entries that the host reads at once.
const ENTRIES: usize = 64;

/// A directory in memory.
pub struct MemoryDirectory {
    dir: MemoryDir,
    /// Distinguishes the tree from the guest's other trees and from file systems of the host.
    device: u64,
    /// The position where the current listing ends: the end of the directory when the listing
    /// began, 0 before the first listing. Without this position, a guest that renames each entry
    /// that it reads would read the renamed entries for ever.
    listing_end: AtomicU64,
}

struct OpenedFile {
    file: MemoryFile,
    device: u64,
}

/// The error number of an error of a file in memory.
pub(crate) fn errno(error: FileError) -> Errno {
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

/// The result with an error number.
fn result<R>(result: Result<R, FileError>) -> Result<R, Errno> {
    result.map_err(errno)
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

/// The metadata of a file in a tree.
fn metadata(device: u64, found: &Stat) -> Metadata {
    Metadata {
        kind: found.kind.into(),
        device,
        inode: found.inode,
        links: found.links,
        size: found.size_bytes,
        accessed: since_epoch(found.accessed),
        modified: since_epoch(found.modified),
        changed: since_epoch(found.changed),
    }
}

fn new_time(time: NewTime) -> Result<Option<SystemTime>, Errno> {
    match time {
        NewTime::NoChange => Ok(None),
        NewTime::Now => Ok(Some(memory::now())),
        NewTime::At(time) => {
            let time = SystemTime::UNIX_EPOCH.checked_add(time);
            time.map(Some).ok_or(Errno::OVERFLOW)
        }
    }
}

fn new_times(times: NewTimes) -> Result<memory::NewTimes, Errno> {
    Ok(memory::NewTimes {
        accessed: new_time(times.accessed)?,
        modified: new_time(times.modified)?,
    })
}

/// Refuses an offset that no signed number holds, as pread(2) does.
pub(crate) fn check_offset(offset: u64) -> Result<(), Errno> {
    i64::try_from(offset).map(drop).map_err(|_| Errno::INVAL)
}

impl MemoryDirectory {
    /// A directory in memory that a guest may use. `device` is the number of its file system.
    #[must_use]
    pub fn new(dir: MemoryDir, device: u64) -> Self {
        Self {
            dir,
            device,
            listing_end: AtomicU64::new(0),
        }
    }

    /// The position where the listing that continues at `position` ends. A listing begins at 0.
    fn listing_end(&self, position: u64) -> u64 {
        let begun = self.listing_end.load(Relaxed);
        if position != 0 && begun != 0 {
            return begun;
        }
        let end = self.dir.end_cookie();
        self.listing_end.store(end, Relaxed);
        end
    }
}

/// The other directory of an operation on two directories. Fails with `xdev` if it is not in
/// memory.
fn in_memory(directory: &dyn Directory) -> Result<&MemoryDir, Errno> {
    let directory: &dyn Any = directory;
    let directory = directory.downcast_ref::<MemoryDirectory>();
    Ok(&directory.ok_or(Errno::XDEV)?.dir)
}

impl Directory for MemoryDirectory {
    fn is_on_disk(&self) -> bool {
        false
    }

    fn metadata(&self) -> Result<Metadata, Errno> {
        Ok(metadata(self.device, &self.dir.stat()))
    }

    fn find(&self, path: &str, follow: bool) -> Result<Metadata, Errno> {
        let found = result(self.dir.stat_path(path, follow))?;
        Ok(metadata(self.device, &found))
    }

    fn open(&self, path: &str, how: OpenHow) -> Result<Opened, Errno> {
        let options = OpenOptions {
            read: how.read,
            write: how.write || how.truncate,
            create: how.create,
            exclusive: how.exclusive,
            truncate: how.truncate,
            directory: how.directory,
            no_follow: !how.follow,
        };
        let device = self.device;
        Ok(match result(self.dir.open(path, &options))? {
            memory::Opened::File(file) => Opened::File(Box::new(OpenedFile { file, device })),
            memory::Opened::Dir(dir) => Opened::Directory(Box::new(Self::new(dir, device))),
        })
    }

    fn entries(&self, position: u64) -> Result<Box<dyn EntryReader>, Errno> {
        check_offset(position)?;
        Ok(Box::new(Entries {
            dir: self.dir.clone(),
            next: VecDeque::new(),
            position,
            end: self.listing_end(position),
        }))
    }

    fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        result(self.dir.set_times(new_times(times)?))
    }

    fn set_times_at(&self, path: &str, follow: bool, times: NewTimes) -> Result<(), Errno> {
        result(self.dir.set_path_times(path, follow, new_times(times)?))
    }

    fn create_directory(&self, path: &str) -> Result<(), Errno> {
        result(self.dir.create_dir(path))
    }

    fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        result(self.dir.remove_dir(path))
    }

    fn unlink_file(&self, path: &str) -> Result<(), Errno> {
        result(self.dir.unlink(path))
    }

    fn symlink(&self, to: &str, path: &str) -> Result<(), Errno> {
        result(self.dir.create_symlink(to, path))
    }

    fn read_link(&self, path: &str) -> Result<String, Errno> {
        let target = result(self.dir.read_link(path))?;
        // cap-std hides the target of an absolute link from a guest, too.
        match target.starts_with('/') {
            true => Err(Errno::PERM),
            false => Ok(target),
        }
    }

    fn link(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), Errno> {
        result(self.dir.link(old, in_memory(to)?, new))
    }

    fn rename(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), Errno> {
        result(self.dir.rename(old, in_memory(to)?, new))
    }

    fn sync(&self, _only_data: bool) -> Result<(), Errno> {
        Ok(())
    }
}

impl RegularFile for OpenedFile {
    fn is_on_disk(&self) -> bool {
        false
    }

    fn in_memory(&self) -> Option<&MemoryFile> {
        Some(&self.file)
    }

    fn metadata(&self) -> Result<Metadata, Errno> {
        Ok(metadata(self.device, &self.file.stat()))
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(self.file.size())
    }

    fn check_position(&self, position: u64) -> Result<(), Errno> {
        check_offset(position)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        check_offset(offset)?;
        result(self.file.read_at(offset, into))
    }

    fn read(&self, max: usize, offset: u64) -> Result<Vec<u8>, Errno> {
        check_offset(offset)?;
        let left = self.file.size().saturating_sub(offset);
        let max = left.min(max as u64) as usize;
        let mut bytes = Vec::with_capacity(max);
        let read = self.file.read_pieces_at(offset, max, |piece| {
            bytes.extend_from_slice(piece);
            Ok::<_, FileError>(())
        });
        result(read)?;
        Ok(bytes)
    }

    fn write_at(&self, vectors: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        check_offset(offset)?;
        write(vectors, |bytes, done| {
            self.file.write_at(offset + done as u64, bytes)
        })
    }

    fn append(&self, vectors: &[IoSlice<'_>]) -> Result<(usize, u64), Errno> {
        let mut end = 0;
        let written = write(vectors, |bytes, _| {
            let (start, written) = self.file.append(bytes)?;
            end = start + written as u64;
            Ok(written)
        })?;
        Ok((written, end))
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        result(self.file.set_size(size))
    }

    fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        result(self.file.set_times(new_times(times)?))
    }

    fn advise(&self, _offset: u64, len: u64, _advice: Advice) -> Result<(), Errno> {
        check_offset(len)
    }

    fn sync(&self, _only_data: bool) -> Result<(), Errno> {
        Ok(())
    }
}

/// Writes vectors one after another, until the file takes no more bytes. Returns the number of
/// bytes; an error only if no byte was written.
fn write(
    vectors: &[IoSlice<'_>],
    mut one: impl FnMut(&[u8], usize) -> Result<usize, FileError>,
) -> Result<usize, Errno> {
    let mut sum = 0;
    for bytes in vectors.iter().filter(|bytes| !bytes.is_empty()) {
        let written = match one(bytes, sum) {
            Ok(written) => written,
            Err(_) if sum > 0 => break,
            Err(error) => return Err(errno(error)),
        };
        sum += written;
        if written < bytes.len() {
            break;
        }
    }
    Ok(sum)
}

/// The entries of a directory, copied [`ENTRIES`] at a time.
struct Entries {
    dir: MemoryDir,
    /// The entries that were read and not yet returned.
    next: VecDeque<memory::DirEntry>,
    /// The position after the last entry that was read.
    position: u64,
    /// The position after the last entry that existed when the listing began.
    end: u64,
}

impl EntryReader for Entries {
    fn next(&mut self) -> Result<Option<Entry>, Errno> {
        if self.next.is_empty() {
            let more = self.dir.read_dir_before(self.position, self.end, ENTRIES);
            if let Some(last) = more.last() {
                self.position = last.cookie;
            }
            self.next = more.into();
        }
        Ok(self.next.pop_front().map(|entry| Entry {
            kind: entry.kind.into(),
            inode: entry.inode,
            name: entry.name,
            next: entry.cookie,
        }))
    }
}
