//! [`Quota`]: limits the descriptors that a guest opens and the bytes that it writes to disk.
//!
//! The quota wraps preopened directories and sockets, and all files that the guest opens through
//! them. The wrappers count when the guest opens and writes files. A descriptor counts until its
//! wrapper is dropped, so each way to close it counts.

use async_trait::async_trait;
use core::future::Future;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};
use std::any::Any;
use std::io::{IoSlice, IoSliceMut, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use wasi_common::dir::{OpenResult, ReaddirCursor, ReaddirEntity, WasiDir};
use wasi_common::file::{
    Advice, FdFlags, FileType, Filestat, OFlags, RiFlags, RoFlags, SdFlags, SiFlags,
};
use wasi_common::snapshots::preview_1::types::Errno;
use wasi_common::{Error, SystemTimeSpec, WasiFile};

/// Default limit of descriptors that a guest may open.
pub(crate) const DESCRIPTORS_MAX: u64 = 64;
/// Charge for a new file, directory or link, besides the bytes that the guest writes to a file.
/// Most file systems use a block for a directory.
const ENTRY_BYTES: u64 = 4096;

/// Limits and use of the guests of one context.
#[derive(Debug)]
pub(crate) struct Quota {
    descriptors: Count,
    disk_bytes: Count,
    /// Whether the guest sees 1970-01-01 as all times of files.
    hides_times: AtomicBool,
}

/// The number of descriptors that a guest has opened and not closed. See
/// [`WasiCtxBuilder::opened`](crate::WasiCtxBuilder::opened).
#[derive(Debug, Clone)]
pub struct Opened(pub(crate) Arc<Quota>);

impl Opened {
    /// The current number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.descriptors.used.load(Relaxed)
    }
}

/// A counter with a limit.
#[derive(Debug)]
struct Count {
    used: AtomicU64,
    max: AtomicU64,
}

impl Count {
    fn new(max: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            max: AtomicU64::new(max),
        }
    }

    /// Whether there is a limit.
    fn is_limited(&self) -> bool {
        self.max.load(Relaxed) != u64::MAX
    }

    /// Counts at least `least` and at most `most` units as used, and returns the counted number.
    /// Returns `None` if fewer than `least` units are left.
    fn take(&self, least: u64, most: u64) -> Option<u64> {
        let max = self.max.load(Relaxed);
        let mut taken = 0;
        let update = |used: u64| {
            taken = max.saturating_sub(used).min(most);
            (taken >= least).then_some(used + taken)
        };
        self.used.fetch_update(Relaxed, Relaxed, update).ok()?;
        Some(taken)
    }

    /// Counts `number` units as unused again.
    fn give_back(&self, number: u64) {
        self.used.fetch_sub(number, Relaxed);
    }
}

impl Quota {
    /// A quota with the default limits.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            descriptors: Count::new(DESCRIPTORS_MAX),
            disk_bytes: Count::new(u64::MAX),
            hides_times: AtomicBool::new(false),
        })
    }

    /// Lets the guest see 1970-01-01 as all times of files.
    pub(crate) fn hide_times(&self) {
        self.hides_times.store(true, Relaxed);
    }

    /// The metadata of a file that the guest sees.
    fn shown(&self, mut stat: Filestat) -> Filestat {
        if self.hides_times.load(Relaxed) {
            let start = Some(SystemTime::UNIX_EPOCH);
            (stat.atim, stat.mtim, stat.ctim) = (start, start, start);
        }
        stat
    }

    /// Sets the limits.
    pub(crate) fn set_max(&self, descriptors: u64, disk_bytes: u64) {
        self.descriptors.max.store(descriptors, Relaxed);
        self.disk_bytes.max.store(disk_bytes, Relaxed);
    }

    /// Wraps a preopened directory, which does not count as a descriptor.
    pub(crate) fn dir(self: &Arc<Self>, dir: impl WasiDir + 'static) -> Box<dyn WasiDir> {
        self.wrapped(dir, true)
    }

    /// Wraps a preopened directory in memory. Bytes that the guest writes to it do not count,
    /// because the directory has its own limit.
    pub(crate) fn memory_dir(self: &Arc<Self>, dir: impl WasiDir + 'static) -> Box<dyn WasiDir> {
        self.wrapped(dir, false)
    }

    fn wrapped(self: &Arc<Self>, dir: impl WasiDir + 'static, is_disk: bool) -> Box<dyn WasiDir> {
        Box::new(Folder {
            dir: Box::new(dir),
            quota: Arc::clone(self),
            is_disk,
            _held: None,
        })
    }

    /// Wraps a preopened socket, which does not count as a descriptor.
    pub(crate) fn socket(self: &Arc<Self>, file: Box<dyn WasiFile>) -> Box<dyn WasiFile> {
        Box::new(File {
            file,
            quota: Arc::clone(self),
            is_disk: false,
            _held: None,
        })
    }

    /// Counts one more descriptor, until the result is dropped.
    fn hold(self: &Arc<Self>) -> Result<Held, Error> {
        match self.descriptors.take(1, 1) {
            Some(_) => Ok(Held(Arc::clone(self))),
            None => Err(Errno::Nfile.into()),
        }
    }

    /// Charges bytes before a write, and returns the number of bytes that the guest may write.
    fn charge(&self, least: u64, most: u64) -> Result<u64, Error> {
        let taken = self.disk_bytes.take(least, most);
        taken.ok_or_else(|| Errno::Dquot.into())
    }

    /// Creates a directory entry and charges [`ENTRY_BYTES`] for it. Gives the charge back if the
    /// creation fails.
    async fn entry<R>(
        &self,
        make: impl Future<Output = Result<R, Error>> + Send,
    ) -> Result<R, Error> {
        self.charge(ENTRY_BYTES, ENTRY_BYTES)?;
        let made = make.await;
        if made.is_err() {
            self.disk_bytes.give_back(ENTRY_BYTES);
        }
        made
    }
}

/// Counts one descriptor until this value is dropped.
struct Held(Arc<Quota>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.descriptors.give_back(1);
    }
}

/// A directory whose opened files count.
struct Folder {
    dir: Box<dyn WasiDir>,
    quota: Arc<Quota>,
    /// Whether new entries and written bytes count. True for directories of the host.
    is_disk: bool,
    _held: Option<Held>,
}

impl Folder {
    /// Creates a directory entry. The entry counts if the directory is on disk.
    async fn entry<R>(
        &self,
        make: impl Future<Output = Result<R, Error>> + Send,
    ) -> Result<R, Error> {
        match self.is_disk {
            true => self.quota.entry(make).await,
            false => make.await,
        }
    }

    /// Whether opening a file may create an entry that counts.
    async fn may_make(&self, path: &str, follow: bool, flags: OFlags) -> bool {
        self.is_disk
            && self.quota.disk_bytes.is_limited()
            && flags.contains(OFlags::CREATE)
            && self.dir.get_path_filestat(path, follow).await.is_err()
    }
}

#[async_trait]
impl WasiDir for Folder {
    /// Returns the wrapped directory: `rename` and `hard_link` look for the type of the wrapped
    /// directory.
    fn as_any(&self) -> &dyn Any {
        self.dir.as_any()
    }

    async fn open_file(
        &self,
        follow: bool,
        path: &str,
        flags: OFlags,
        read: bool,
        write: bool,
        fd_flags: FdFlags,
    ) -> Result<OpenResult, Error> {
        let held = Some(self.quota.hold()?);
        let open = self
            .dir
            .open_file(follow, path, flags, read, write, fd_flags);
        let opened = match self.may_make(path, follow, flags).await {
            true => self.quota.entry(open).await?,
            false => open.await?,
        };
        let quota = Arc::clone(&self.quota);
        Ok(match opened {
            OpenResult::File(file) => OpenResult::File(Box::new(File {
                file,
                quota,
                is_disk: self.is_disk,
                _held: held,
            })),
            OpenResult::Dir(dir) => OpenResult::Dir(Box::new(Folder {
                dir,
                quota,
                is_disk: self.is_disk,
                _held: held,
            })),
        })
    }

    async fn create_dir(&self, path: &str) -> Result<(), Error> {
        self.entry(self.dir.create_dir(path)).await
    }

    async fn readdir(
        &self,
        cursor: ReaddirCursor,
    ) -> Result<Box<dyn Iterator<Item = Result<ReaddirEntity, Error>> + Send>, Error> {
        self.dir.readdir(cursor).await
    }

    async fn symlink(&self, old: &str, new: &str) -> Result<(), Error> {
        self.entry(self.dir.symlink(old, new)).await
    }

    async fn remove_dir(&self, path: &str) -> Result<(), Error> {
        self.dir.remove_dir(path).await
    }

    async fn unlink_file(&self, path: &str) -> Result<(), Error> {
        self.dir.unlink_file(path).await
    }

    async fn read_link(&self, path: &str) -> Result<PathBuf, Error> {
        self.dir.read_link(path).await
    }

    async fn get_filestat(&self) -> Result<Filestat, Error> {
        Ok(self.quota.shown(self.dir.get_filestat().await?))
    }

    async fn get_path_filestat(&self, path: &str, follow: bool) -> Result<Filestat, Error> {
        let stat = self.dir.get_path_filestat(path, follow).await?;
        Ok(self.quota.shown(stat))
    }

    async fn rename(&self, path: &str, to: &dyn WasiDir, to_path: &str) -> Result<(), Error> {
        self.dir.rename(path, to, to_path).await
    }

    async fn hard_link(&self, path: &str, to: &dyn WasiDir, to_path: &str) -> Result<(), Error> {
        self.entry(self.dir.hard_link(path, to, to_path)).await
    }

    async fn set_times(
        &self,
        path: &str,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
        follow: bool,
    ) -> Result<(), Error> {
        self.dir.set_times(path, accessed, modified, follow).await
    }
}

/// A file whose written bytes count, or a socket whose accepted sockets count.
struct File {
    file: Box<dyn WasiFile>,
    quota: Arc<Quota>,
    /// Whether written bytes count. True for files on disk, false for sockets and files in memory.
    is_disk: bool,
    _held: Option<Held>,
}

/// The leading part of the vectors, `bytes` bytes long in total.
fn prefix<'a>(vectors: &'a [IoSlice<'_>], bytes: u64) -> Vec<IoSlice<'a>> {
    let mut left = bytes;
    let cut = vectors.iter().map(|vector| {
        let some = (vector.len() as u64).min(left);
        left -= some;
        IoSlice::new(&vector[..some as usize])
    });
    cut.collect()
}

impl File {
    /// Charges a write to disk and returns the number of bytes that the quota allows; `None` if no
    /// limit applies to this write.
    fn charge(&self, vectors: &[IoSlice<'_>]) -> Result<Option<u64>, Error> {
        let bytes = vectors.iter().map(|vector| vector.len() as u64).sum();
        if bytes == 0 || !self.is_disk || !self.quota.disk_bytes.is_limited() {
            return Ok(None);
        }
        self.quota.charge(1, bytes).map(Some)
    }

    /// Gives back the charged bytes that were not written.
    fn settle(&self, charged: u64, written: &Result<u64, Error>) {
        let written = *written.as_ref().unwrap_or(&0);
        let rest = charged.saturating_sub(written);
        self.quota.disk_bytes.give_back(rest);
    }
}

#[async_trait]
impl WasiFile for File {
    fn as_any(&self) -> &dyn Any {
        self.file.as_any()
    }

    async fn get_filetype(&self) -> Result<FileType, Error> {
        self.file.get_filetype().await
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        self.file.pollable()
    }

    fn isatty(&self) -> bool {
        self.file.isatty()
    }

    async fn sock_accept(&self, flags: FdFlags) -> Result<Box<dyn WasiFile>, Error> {
        let held = Some(self.quota.hold()?);
        Ok(Box::new(File {
            file: self.file.sock_accept(flags).await?,
            quota: Arc::clone(&self.quota),
            is_disk: false,
            _held: held,
        }))
    }

    async fn sock_recv<'a>(
        &self,
        vectors: &mut [IoSliceMut<'a>],
        flags: RiFlags,
    ) -> Result<(u64, RoFlags), Error> {
        self.file.sock_recv(vectors, flags).await
    }

    async fn sock_send<'a>(&self, vectors: &[IoSlice<'a>], flags: SiFlags) -> Result<u64, Error> {
        self.file.sock_send(vectors, flags).await
    }

    async fn sock_shutdown(&self, how: SdFlags) -> Result<(), Error> {
        self.file.sock_shutdown(how).await
    }

    async fn datasync(&self) -> Result<(), Error> {
        self.file.datasync().await
    }

    async fn sync(&self) -> Result<(), Error> {
        self.file.sync().await
    }

    async fn get_fdflags(&self) -> Result<FdFlags, Error> {
        self.file.get_fdflags().await
    }

    async fn set_fdflags(&mut self, flags: FdFlags) -> Result<(), Error> {
        self.file.set_fdflags(flags).await
    }

    async fn get_filestat(&self) -> Result<Filestat, Error> {
        Ok(self.quota.shown(self.file.get_filestat().await?))
    }

    async fn set_filestat_size(&self, size: u64) -> Result<(), Error> {
        if !self.is_disk || !self.quota.disk_bytes.is_limited() {
            return self.file.set_filestat_size(size).await;
        }
        let before = self.file.get_filestat().await?.size;
        let more = size.saturating_sub(before);
        self.quota.charge(more, more)?;
        let set = self.file.set_filestat_size(size).await;
        if set.is_err() {
            self.quota.disk_bytes.give_back(more);
        }
        set
    }

    async fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), Error> {
        self.file.advise(offset, len, advice).await
    }

    async fn set_times(
        &self,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
    ) -> Result<(), Error> {
        self.file.set_times(accessed, modified).await
    }

    async fn read_vectored<'a>(&self, vectors: &mut [IoSliceMut<'a>]) -> Result<u64, Error> {
        self.file.read_vectored(vectors).await
    }

    async fn read_vectored_at<'a>(
        &self,
        vectors: &mut [IoSliceMut<'a>],
        offset: u64,
    ) -> Result<u64, Error> {
        self.file.read_vectored_at(vectors, offset).await
    }

    async fn write_vectored<'a>(&self, vectors: &[IoSlice<'a>]) -> Result<u64, Error> {
        let Some(bytes) = self.charge(vectors)? else {
            return self.file.write_vectored(vectors).await;
        };
        let written = self.file.write_vectored(&prefix(vectors, bytes)).await;
        self.settle(bytes, &written);
        written
    }

    async fn write_vectored_at<'a>(
        &self,
        vectors: &[IoSlice<'a>],
        offset: u64,
    ) -> Result<u64, Error> {
        let Some(bytes) = self.charge(vectors)? else {
            return self.file.write_vectored_at(vectors, offset).await;
        };
        let written = self
            .file
            .write_vectored_at(&prefix(vectors, bytes), offset)
            .await;
        self.settle(bytes, &written);
        written
    }

    async fn seek(&self, to: SeekFrom) -> Result<u64, Error> {
        self.file.seek(to).await
    }

    async fn peek(&self, bytes: &mut [u8]) -> Result<u64, Error> {
        self.file.peek(bytes).await
    }

    fn num_ready_bytes(&self) -> Result<u64, Error> {
        self.file.num_ready_bytes()
    }

    async fn readable(&self) -> Result<(), Error> {
        self.file.readable().await
    }

    async fn writable(&self) -> Result<(), Error> {
        self.file.writable().await
    }
}
