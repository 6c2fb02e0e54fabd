//! Files in memory ([`pirn_memory_files`]) as directories and files of wasi-common.

use crate::open_files::OpenFile;
use crate::times::clear_early;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use pirn_memory_files::{
    DirEntry, FileError, FileKind, MemoryDir, NewTimes, OpenOptions, Opened, Stat, now,
};
use std::any::Any;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use wasi_common::dir::{OpenResult, ReaddirCursor, ReaddirEntity, WasiDir};
use wasi_common::file::{Advice, FdFlags, FileAccessMode, FileType, Filestat, OFlags};
use wasi_common::snapshots::preview_1::types::Errno;
use wasi_common::{Error, SystemTimeSpec, WasiFile};

/// Entries of a directory that are copied at a time.
const ENTRIES: usize = 64;
/// The device number of all files in memory: no real device has it.
const DEVICE: u64 = 0;

thread_local! {
    /// The file that this thread has opened last. `path_open` takes the file when wasi-common
    /// returns, because wasi-common does not return the files in its table.
    static OPENED: Cell<Option<Arc<OpenFile>>> = const { Cell::new(None) };
}

/// Takes the file that this thread has opened since the last call of this function.
pub(crate) fn take_opened() -> Option<Arc<OpenFile>> {
    OPENED.take()
}

/// A directory in memory, preopened or opened by a guest.
pub(crate) struct Folder {
    dir: MemoryDir,
    /// The position where the current listing ends: the end of the directory when the listing
    /// began, 0 before the first listing. Without this position, a guest that renames each entry
    /// that it reads would read the renamed entries for ever.
    listing_end: AtomicU64,
}

/// An open file in memory.
struct File(Arc<OpenFile>);

/// Whether a file is in memory. Such a file reports its number of ready bytes.
pub(crate) fn is_file(file: &dyn WasiFile) -> bool {
    file.as_any().is::<File>()
}

/// The errno of a failed operation.
pub(crate) fn errno(error: FileError) -> Errno {
    match error {
        FileError::NotFound => Errno::Noent,
        FileError::Exists => Errno::Exist,
        FileError::NotDirectory => Errno::Notdir,
        FileError::IsDirectory => Errno::Isdir,
        FileError::NotEmpty => Errno::Notempty,
        FileError::Loop => Errno::Loop,
        FileError::NameTooLong => Errno::Nametoolong,
        FileError::NoSpace => Errno::Nospc,
        FileError::TooLarge => Errno::Fbig,
        FileError::Invalid => Errno::Inval,
        FileError::Busy => Errno::Busy,
        FileError::ReadOnly => Errno::Rofs,
        FileError::NotPermitted => Errno::Perm,
        FileError::BadDescriptor => Errno::Badf,
        FileError::CrossDevice => Errno::Xdev,
        _ => Errno::Io,
    }
}

fn error(error: FileError) -> Error {
    errno(error).into()
}

fn filetype(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::SymbolicLink,
    }
}

fn filestat(stat: &Stat) -> Filestat {
    let mut stat = Filestat {
        device_id: DEVICE,
        inode: stat.inode,
        filetype: filetype(stat.kind),
        nlink: stat.links,
        size: stat.size_bytes,
        atim: Some(stat.accessed),
        mtim: Some(stat.modified),
        ctim: Some(stat.changed),
    };
    clear_early(&mut stat);
    stat
}

fn times(accessed: Option<SystemTimeSpec>, modified: Option<SystemTimeSpec>) -> NewTimes {
    let time = |spec| match spec {
        SystemTimeSpec::Absolute(time) => cap_std::time::SystemTime::into_std(time),
        SystemTimeSpec::SymbolicNow => now(),
    };
    NewTimes {
        accessed: accessed.map(time),
        modified: modified.map(time),
    }
}

impl Folder {
    pub(crate) fn new(dir: MemoryDir) -> Self {
        Self {
            dir,
            listing_end: AtomicU64::new(0),
        }
    }

    /// The position where the listing that continues at `cookie` ends. A listing begins at 0.
    fn listing_end(&self, cookie: u64) -> u64 {
        let begun = self.listing_end.load(Relaxed);
        if cookie != 0 && begun != 0 {
            return begun;
        }
        let end = self.dir.end_cookie();
        self.listing_end.store(end, Relaxed);
        end
    }

    /// The directory of another descriptor, for an operation on two paths.
    fn other(to: &dyn WasiDir) -> Result<&MemoryDir, Error> {
        let to: Option<&Self> = to.as_any().downcast_ref();
        // A directory of the host is another file system.
        Ok(&to.ok_or(Errno::Xdev)?.dir)
    }
}

#[async_trait::async_trait]
impl WasiDir for Folder {
    fn as_any(&self) -> &dyn Any {
        self
    }

    async fn open_file(
        &self,
        follow: bool,
        path: &str,
        how: OFlags,
        read: bool,
        write: bool,
        flags: FdFlags,
    ) -> Result<OpenResult, Error> {
        let creates = how.contains(OFlags::CREATE);
        let truncates = how.contains(OFlags::TRUNCATE);
        let appends = flags.contains(FdFlags::APPEND);
        let makes = OFlags::CREATE | OFlags::EXCLUSIVE | OFlags::TRUNCATE;
        if how.contains(OFlags::DIRECTORY) && how.intersects(makes) {
            return Err(Errno::Inval.into());
        }
        let mut access = FileAccessMode::empty();
        access.set(FileAccessMode::READ, read);
        access.set(FileAccessMode::WRITE, write);
        // A read-only directory reports an error of the path first, and then `rofs`.
        let write = write || (truncates && self.dir.is_read_only());
        // cap-std refuses these combinations for directories of the host, too.
        if truncates && (appends || !(write || creates)) {
            return Err(Errno::Inval.into());
        }
        let options = OpenOptions {
            read,
            write: write || truncates,
            create: creates,
            exclusive: how.contains(OFlags::EXCLUSIVE),
            truncate: truncates,
            directory: how.contains(OFlags::DIRECTORY),
            no_follow: !follow,
        };
        match self.dir.open(path, &options).map_err(error)? {
            Opened::Dir(dir) => Ok(OpenResult::Dir(Box::new(Self::new(dir)))),
            Opened::File(file) => {
                let file = Arc::new(OpenFile::new(file, access, known(flags)));
                OPENED.set(Some(Arc::clone(&file)));
                Ok(OpenResult::File(Box::new(File(file))))
            }
        }
    }

    async fn create_dir(&self, path: &str) -> Result<(), Error> {
        self.dir.create_dir(path).map_err(error)
    }

    async fn readdir(
        &self,
        cursor: ReaddirCursor,
    ) -> Result<Box<dyn Iterator<Item = Result<ReaddirEntity, Error>> + Send>, Error> {
        let cookie = cursor.into();
        check_offset(cookie)?;
        Ok(Box::new(Entries {
            dir: self.dir.clone(),
            cookie,
            end: self.listing_end(cookie),
            read: VecDeque::new(),
        }))
    }

    async fn symlink(&self, target: &str, path: &str) -> Result<(), Error> {
        self.dir.create_symlink(target, path).map_err(error)
    }

    async fn remove_dir(&self, path: &str) -> Result<(), Error> {
        self.dir.remove_dir(path).map_err(error)
    }

    async fn unlink_file(&self, path: &str) -> Result<(), Error> {
        self.dir.unlink(path).map_err(error)
    }

    async fn read_link(&self, path: &str) -> Result<PathBuf, Error> {
        let target = self.dir.read_link(path).map_err(error)?;
        // cap-std hides the target of an absolute link from a guest.
        match target.starts_with('/') {
            true => Err(Errno::Perm.into()),
            false => Ok(target.into()),
        }
    }

    async fn get_filestat(&self) -> Result<Filestat, Error> {
        Ok(filestat(&self.dir.stat()))
    }

    async fn get_path_filestat(&self, path: &str, follow: bool) -> Result<Filestat, Error> {
        let stat = self.dir.stat_path(path, follow).map_err(error)?;
        Ok(filestat(&stat))
    }

    async fn rename(&self, path: &str, to: &dyn WasiDir, to_path: &str) -> Result<(), Error> {
        let to = Self::other(to)?;
        self.dir.rename(path, to, to_path).map_err(error)
    }

    async fn hard_link(&self, path: &str, to: &dyn WasiDir, to_path: &str) -> Result<(), Error> {
        let to = Self::other(to)?;
        self.dir.link(path, to, to_path).map_err(error)
    }

    async fn set_times(
        &self,
        path: &str,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
        follow: bool,
    ) -> Result<(), Error> {
        let new = times(accessed, modified);
        self.dir.set_path_times(path, follow, new).map_err(error)
    }
}

/// The entries of a directory, copied [`ENTRIES`] at a time.
struct Entries {
    dir: MemoryDir,
    cookie: u64,
    end: u64,
    read: VecDeque<DirEntry>,
}

impl Iterator for Entries {
    type Item = Result<ReaddirEntity, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty() {
            let read = self.dir.read_dir_before(self.cookie, self.end, ENTRIES);
            self.read = read.into();
        }
        let entry = self.read.pop_front()?;
        self.cookie = entry.cookie;
        Some(Ok(ReaddirEntity {
            next: entry.cookie.into(),
            inode: entry.inode,
            name: entry.name,
            filetype: filetype(entry.kind),
        }))
    }
}

/// The flags that a file reports. As on Linux, one flag of synchronous writes sets all three.
fn known(flags: FdFlags) -> FdFlags {
    let synchronous = FdFlags::DSYNC | FdFlags::RSYNC | FdFlags::SYNC;
    let mut known = flags & (FdFlags::APPEND | FdFlags::NONBLOCK);
    known.set(synchronous, flags.intersects(synchronous));
    known
}

impl File {
    /// Writes vectors one after another, until the file takes no more bytes. Returns the end offset
    /// and the number of bytes.
    fn write(&self, mut offset: Option<u64>, vectors: &[IoSlice<'_>]) -> Result<(u64, u64), Error> {
        let (mut end, mut sum) = (offset.unwrap_or(0), 0);
        for bytes in vectors.iter().filter(|bytes| !bytes.is_empty()) {
            let written = match offset {
                Some(at) => self.0.file.write_at(at, bytes).map(|written| (at, written)),
                None => self.0.file.append(bytes),
            };
            let (at, written) = match written {
                Ok(written) => written,
                Err(_) if sum > 0 => break,
                Err(failed) => return Err(error(failed)),
            };
            (sum, end) = (sum + written as u64, at + written as u64);
            offset = offset.map(|_| end);
            if written < bytes.len() {
                break;
            }
        }
        Ok((end, sum))
    }

    fn read(&self, mut at: u64, vectors: &mut [IoSliceMut<'_>]) -> Result<u64, Error> {
        let mut sum = 0;
        for bytes in vectors {
            let read = self.0.file.read_at(at, bytes).map_err(error)?;
            (at, sum) = (at + read as u64, sum + read as u64);
            if read < bytes.len() {
                break;
            }
        }
        Ok(sum)
    }
}

/// Refuses an offset that no signed number holds, as pread(2) does.
pub(crate) fn check_offset(offset: u64) -> Result<(), Errno> {
    i64::try_from(offset).map(drop).map_err(|_| Errno::Inval)
}

#[async_trait::async_trait]
impl WasiFile for File {
    fn as_any(&self) -> &dyn Any {
        self
    }

    async fn get_filetype(&self) -> Result<FileType, Error> {
        Ok(FileType::RegularFile)
    }

    async fn get_fdflags(&self) -> Result<FdFlags, Error> {
        Ok(self.0.flags())
    }

    async fn set_fdflags(&mut self, flags: FdFlags) -> Result<(), Error> {
        if !(FdFlags::APPEND | FdFlags::NONBLOCK).contains(flags) {
            return Err(Errno::Inval.into());
        }
        self.0.set_flags(flags);
        Ok(())
    }

    async fn get_filestat(&self) -> Result<Filestat, Error> {
        Ok(filestat(&self.0.file.stat()))
    }

    async fn set_filestat_size(&self, size: u64) -> Result<(), Error> {
        check_offset(size)?;
        self.0.file.set_size(size).map_err(error)
    }

    async fn advise(&self, offset: u64, len: u64, _: Advice) -> Result<(), Error> {
        check_offset(offset)?;
        Ok(check_offset(len)?)
    }

    async fn set_times(
        &self,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
    ) -> Result<(), Error> {
        self.0
            .file
            .set_times(times(accessed, modified))
            .map_err(error)
    }

    async fn read_vectored<'a>(&self, vectors: &mut [IoSliceMut<'a>]) -> Result<u64, Error> {
        let mut position = self.0.position();
        let read = self.read(*position, vectors)?;
        *position += read;
        Ok(read)
    }

    async fn read_vectored_at<'a>(
        &self,
        vectors: &mut [IoSliceMut<'a>],
        offset: u64,
    ) -> Result<u64, Error> {
        check_offset(offset)?;
        self.read(offset, vectors)
    }

    async fn write_vectored<'a>(&self, vectors: &[IoSlice<'a>]) -> Result<u64, Error> {
        let mut position = self.0.position();
        let at = (!self.0.appends()).then_some(*position);
        let (end, written) = self.write(at, vectors)?;
        if written > 0 {
            *position = end;
        }
        Ok(written)
    }

    async fn write_vectored_at<'a>(
        &self,
        vectors: &[IoSlice<'a>],
        offset: u64,
    ) -> Result<u64, Error> {
        check_offset(offset)?;
        Ok(self.write(Some(offset), vectors)?.1)
    }

    async fn seek(&self, to: SeekFrom) -> Result<u64, Error> {
        let mut position = self.0.position();
        *position = new_position(&self.0, *position, to).map_err(Error::from)?;
        Ok(*position)
    }

    fn num_ready_bytes(&self) -> Result<u64, Error> {
        Ok(self.0.file.size().saturating_sub(*self.0.position()))
    }

    async fn readable(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn writable(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The position after lseek(2).
fn new_position(file: &OpenFile, position: u64, to: SeekFrom) -> Result<u64, Errno> {
    let (start, distance) = match to {
        SeekFrom::Start(at) => (0, i64::try_from(at).map_err(|_| Errno::Inval)?),
        SeekFrom::Current(distance) => (position, distance),
        SeekFrom::End(distance) => (file.file.size(), distance),
    };
    let at = start.checked_add_signed(distance).ok_or(Errno::Inval)?;
    check_offset(at).map(|()| at)
}
