//! [`Stream`]: a host file, pipe, terminal or socket with the behaviour of POSIX. A call that would
//! block waits in intervals of a millisecond. [`Standard`] is a standard stream of this process.

use crate::{times, wait};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::OFlags;
use std::any::Any;
use std::io::{self, IoSlice, IoSliceMut, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wasi_common::file::{
    Advice, FdFlags, FileType, Filestat, RiFlags, RoFlags, SdFlags, SiFlags, WasiFile,
};
use wasi_common::snapshots::preview_1::types::Errno;
use wasi_common::{Error, SystemTimeSpec};

/// Bytes that a pipe accepts at once if poll(2) reports it as writable (PIPE_BUF).
const CHUNK: usize = 4096;

/// The kind of a descriptor. It decides how calls wait for the descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A file or a block device. Reads and writes never block.
    Disk,
    /// A socket that is, or may become, connected.
    Socket,
    /// A listening socket, which is never writable.
    Listener,
    /// A pipe, a terminal, or another device.
    Other,
}

impl Kind {
    fn of(file: BorrowedFd<'_>) -> Self {
        let stat = rustix::fs::fstat(file);
        match stat.map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode)) {
            Ok(rustix::fs::FileType::Socket) => {
                match rustix::net::sockopt::socket_acceptconn(file) {
                    Ok(true) => Self::Listener,
                    _ => Self::Socket,
                }
            }
            Ok(rustix::fs::FileType::RegularFile | rustix::fs::FileType::BlockDevice) => Self::Disk,
            _ => Self::Other,
        }
    }
}

/// The flags of a descriptor. O_SYNC stands for all three flags of synchronous writes.
fn flags_of(file: BorrowedFd<'_>) -> io::Result<FdFlags> {
    let set = rustix::fs::fcntl_getfl(file)?;
    let mut flags = FdFlags::empty();
    flags.set(FdFlags::APPEND, set.contains(OFlags::APPEND));
    flags.set(FdFlags::NONBLOCK, set.contains(OFlags::NONBLOCK));
    let synchronous = FdFlags::DSYNC | FdFlags::RSYNC | FdFlags::SYNC;
    flags.set(synchronous, set.contains(OFlags::SYNC));
    Ok(flags)
}

/// Waits for a descriptor: for one interval, or not at all.
fn wait(file: BorrowedFd<'_>, events: PollFlags, waits: bool) -> Result<(), Error> {
    if waits {
        return wait::wait(file, events);
    }
    match wait::is_ready(file, events, Duration::ZERO)? {
        true => Ok(()),
        false => Err(Errno::Again.into()),
    }
}

/// Writes as much as the descriptor accepts without blocking, in chunks of at most [`CHUNK`] bytes.
fn write_in_chunks(
    file: BorrowedFd<'_>,
    waits: bool,
    vectors: &[IoSlice<'_>],
    mut write: impl FnMut(&[IoSlice<'_>]) -> Result<u64, Error>,
) -> Result<u64, Error> {
    let mut all: Vec<_> = vectors.iter().map(|bytes| IoSlice::new(bytes)).collect();
    let mut rest = &mut all[..];
    // Skips empty vectors.
    IoSlice::advance_slices(&mut rest, 0);
    wait(file, PollFlags::OUT, waits)?;
    let mut sum = 0;
    while !rest.is_empty() {
        if sum > 0 && !wait::is_ready(file, PollFlags::OUT, Duration::ZERO)? {
            break;
        }
        let mut left = CHUNK;
        let chunk = rest.iter().map_while(|bytes| {
            let some = bytes.len().min(left);
            left -= some;
            (some > 0 || bytes.is_empty()).then(|| IoSlice::new(&bytes[..some]))
        });
        let chunk: Vec<_> = chunk.collect();
        let written = match write(&chunk) {
            Ok(written) => written,
            // Report the bytes that were written already. The next call returns the error.
            Err(_) if sum > 0 => break,
            Err(error) => return Err(error),
        };
        sum += written;
        if written < (CHUNK - left) as u64 {
            break;
        }
        IoSlice::advance_slices(&mut rest, written as usize);
    }
    Ok(sum)
}

/// A host file with the behaviour of POSIX:
///
/// - Reads and writes wait in intervals, see [`wait`](mod@crate::wait). A write takes as many bytes
///   as fit.
/// - A positioned write goes to its position even if the file has O_APPEND. Linux would append.
/// - A socket function fails with `notsock` for files that are no socket.
pub(crate) struct Stream {
    file: Box<dyn WasiFile>,
    kind: Kind,
    flags: FdFlags,
    /// Whether the guest may not change the size and times of the file.
    is_read_only: bool,
    /// Held while a thread writes to a file with O_APPEND. [`write_at`] clears the flag during its
    /// write, and no other write may happen in that time.
    appending: Mutex<()>,
}

impl Stream {
    /// Wraps a file that has a descriptor; returns any other file unchanged.
    pub(crate) fn of(file: Box<dyn WasiFile>) -> Box<dyn WasiFile> {
        // An error of fcntl(2) is ignored here. Reading or writing reports it.
        let known = file
            .pollable()
            .map(|file| flags_of(file).unwrap_or(FdFlags::empty()));
        Self::boxed(file, known.unwrap_or(FdFlags::empty()), false)
    }

    /// Wraps a file that has a descriptor; returns any other file unchanged. `is_read_only` is for
    /// files in a read-only directory.
    pub(crate) fn boxed(
        file: Box<dyn WasiFile>,
        flags: FdFlags,
        is_read_only: bool,
    ) -> Box<dyn WasiFile> {
        let Some(kind) = file.pollable().map(Kind::of) else {
            return file;
        };
        Box::new(Self {
            file,
            kind,
            flags,
            is_read_only,
            appending: Mutex::new(()),
        })
    }

    /// The descriptor, if reads or writes may block.
    fn blocking(&self) -> Option<BorrowedFd<'_>> {
        self.file.pollable().filter(|_| self.kind != Kind::Disk)
    }

    fn waits(&self) -> bool {
        !self.flags.contains(FdFlags::NONBLOCK)
    }

    fn wait(&self, events: PollFlags) -> Result<(), Error> {
        self.blocking()
            .map_or(Ok(()), |file| wait(file, events, self.waits()))
    }

    /// The descriptor and the lock for writes, if the file has O_APPEND.
    fn appending(&self) -> Option<(BorrowedFd<'_>, MutexGuard<'_, ()>)> {
        if self.kind != Kind::Disk || !self.flags.contains(FdFlags::APPEND) {
            return None;
        }
        let file = self.file.pollable()?;
        let right = self.appending.lock();
        Some((file, right.unwrap_or_else(PoisonError::into_inner)))
    }

    fn socket(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Socket | Kind::Listener => Ok(()),
            _ => Err(Errno::Notsock.into()),
        }
    }

    /// Checks that the descriptor is not a listening socket, which has no peer.
    fn connected(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Listener => Err(Errno::Notconn.into()),
            _ => Ok(()),
        }
    }

    fn change(&self) -> Result<(), Error> {
        match self.is_read_only {
            true => Err(Errno::Rofs.into()),
            false => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl WasiFile for Stream {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        self.file.pollable()
    }

    fn isatty(&self) -> bool {
        self.file.isatty()
    }

    fn num_ready_bytes(&self) -> Result<u64, Error> {
        let Some(file) = self.file.pollable().filter(|_| self.kind == Kind::Disk) else {
            return self.file.num_ready_bytes();
        };
        // The position may lie after the end of the file.
        let stat = rustix::fs::fstat(file).map_err(io::Error::from)?;
        let position = rustix::fs::tell(file).map_err(io::Error::from)?;
        Ok(stat.st_size.cast_unsigned().saturating_sub(position))
    }

    async fn get_filetype(&self) -> Result<FileType, Error> {
        self.file.get_filetype().await
    }

    async fn get_fdflags(&self) -> Result<FdFlags, Error> {
        match self.file.pollable() {
            Some(file) => Ok(flags_of(file)?),
            None => self.file.get_fdflags().await,
        }
    }

    async fn set_fdflags(&mut self, flags: FdFlags) -> Result<(), Error> {
        self.file.set_fdflags(flags).await?;
        self.flags = flags;
        Ok(())
    }

    async fn get_filestat(&self) -> Result<Filestat, Error> {
        let mut stat = self.file.get_filestat().await?;
        let found = self.file.pollable().map(rustix::fs::fstat);
        if let Some(Ok(found)) = found {
            // wasi-common returns the creation time here.
            stat.ctim = times::since_epoch(found.st_ctime, found.st_ctime_nsec as i64);
        }
        times::clear_early(&mut stat);
        Ok(stat)
    }

    async fn set_filestat_size(&self, size: u64) -> Result<(), Error> {
        self.change()?;
        self.file.set_filestat_size(size).await
    }

    async fn set_times(
        &self,
        accessed: Option<SystemTimeSpec>,
        modified: Option<SystemTimeSpec>,
    ) -> Result<(), Error> {
        self.change()?;
        self.file.set_times(accessed, modified).await
    }

    async fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), Error> {
        self.file.advise(offset, len, advice).await
    }

    async fn datasync(&self) -> Result<(), Error> {
        self.file.datasync().await
    }

    async fn sync(&self) -> Result<(), Error> {
        self.file.sync().await
    }

    async fn seek(&self, position: io::SeekFrom) -> Result<u64, Error> {
        self.file.seek(position).await
    }

    async fn read_vectored<'a>(&self, vectors: &mut [IoSliceMut<'a>]) -> Result<u64, Error> {
        self.connected()?;
        self.wait(PollFlags::IN)?;
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
        if let Some((file, _right)) = self.appending() {
            return Ok(rustix::io::writev(file, vectors).map_err(io::Error::from)? as u64);
        }
        self.connected()?;
        let Some(file) = self.blocking() else {
            return self.file.write_vectored(vectors).await;
        };
        write_in_chunks(file, self.waits(), vectors, |chunk| {
            Ok(rustix::io::writev(file, chunk).map_err(io::Error::from)? as u64)
        })
    }

    async fn write_vectored_at<'a>(
        &self,
        vectors: &[IoSlice<'a>],
        offset: u64,
    ) -> Result<u64, Error> {
        if let Some((file, _right)) = self.appending() {
            return Ok(write_at(file, vectors, offset)?);
        }
        self.file.write_vectored_at(vectors, offset).await
    }

    async fn peek(&self, bytes: &mut [u8]) -> Result<u64, Error> {
        self.wait(PollFlags::IN)?;
        self.file.peek(bytes).await
    }

    async fn readable(&self) -> Result<(), Error> {
        self.file.readable().await
    }

    async fn writable(&self) -> Result<(), Error> {
        self.file.writable().await
    }

    async fn sock_accept(&self, flags: FdFlags) -> Result<Box<dyn WasiFile>, Error> {
        self.socket()?;
        let is_known = (flags - FdFlags::NONBLOCK).is_empty();
        if self.kind != Kind::Listener || !is_known {
            return Err(Errno::Inval.into());
        }
        self.wait(PollFlags::IN)?;
        let accepted = self.file.sock_accept(flags).await?;
        Ok(Self::boxed(accepted, flags, false))
    }

    async fn sock_recv<'a>(
        &self,
        vectors: &mut [IoSliceMut<'a>],
        flags: RiFlags,
    ) -> Result<(u64, RoFlags), Error> {
        self.socket()?;
        self.connected()?;
        self.wait(PollFlags::IN)?;
        // With MSG_WAITALL the kernel would block the thread. A short result is allowed, as after a
        // signal.
        let flags = flags - RiFlags::RECV_WAITALL;
        self.file.sock_recv(vectors, flags).await
    }

    async fn sock_send<'a>(&self, vectors: &[IoSlice<'a>], flags: SiFlags) -> Result<u64, Error> {
        self.socket()?;
        if !flags.is_empty() {
            return Err(Errno::Notsup.into());
        }
        self.write_vectored(vectors).await
    }

    async fn sock_shutdown(&self, how: SdFlags) -> Result<(), Error> {
        self.socket()?;
        self.connected()?;
        self.file.sock_shutdown(how).await
    }
}

/// Writes at a position of a file with O_APPEND. Clears the flag for this write.
fn write_at(file: BorrowedFd<'_>, vectors: &[IoSlice<'_>], offset: u64) -> io::Result<u64> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags - OFlags::APPEND)?;
    let written = rustix::io::pwritev(file, vectors, offset);
    rustix::fs::fcntl_setfl(file, flags)?;
    Ok(written? as u64)
}

/// A standard stream of this process, without a buffer for the guest. The guest can only read or
/// write the stream. The guest cannot seek, and cannot change the descriptor's flags, because the
/// host and other processes share the descriptor.
pub(crate) struct Standard {
    handle: Handle,
    kind: Kind,
    /// Whether the guest set the stream to nonblocking. The flag is of this guest only: O_NONBLOCK
    /// would affect all processes that share the descriptor.
    is_nonblocking: AtomicBool,
}

enum Handle {
    In(io::Stdin),
    Out(io::Stdout),
    Err(io::Stderr),
}

impl Standard {
    fn boxed(handle: Handle) -> Box<dyn WasiFile> {
        let mut standard = Self {
            handle,
            kind: Kind::Other,
            is_nonblocking: AtomicBool::new(false),
        };
        standard.kind = Kind::of(standard.fd());
        Box::new(standard)
    }

    pub(crate) fn stdin() -> Box<dyn WasiFile> {
        Self::boxed(Handle::In(io::stdin()))
    }

    pub(crate) fn stdout() -> Box<dyn WasiFile> {
        Self::boxed(Handle::Out(io::stdout()))
    }

    pub(crate) fn stderr() -> Box<dyn WasiFile> {
        Self::boxed(Handle::Err(io::stderr()))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.handle {
            Handle::In(stdin) => stdin.as_fd(),
            Handle::Out(stdout) => stdout.as_fd(),
            Handle::Err(stderr) => stderr.as_fd(),
        }
    }

    fn waits(&self) -> bool {
        !self.is_nonblocking.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl WasiFile for Standard {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn pollable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd())
    }

    fn isatty(&self) -> bool {
        self.fd().is_terminal()
    }

    fn num_ready_bytes(&self) -> Result<u64, Error> {
        Ok(rustix::io::ioctl_fionread(self.fd()).map_err(io::Error::from)?)
    }

    async fn get_filetype(&self) -> Result<FileType, Error> {
        // A C library takes a character device for a terminal.
        Ok(match self.isatty() {
            true => FileType::CharacterDevice,
            false => FileType::Unknown,
        })
    }

    async fn get_fdflags(&self) -> Result<FdFlags, Error> {
        let mut flags = FdFlags::empty();
        flags.set(FdFlags::APPEND, !matches!(self.handle, Handle::In(_)));
        flags.set(FdFlags::NONBLOCK, !self.waits());
        Ok(flags)
    }

    async fn set_fdflags(&mut self, flags: FdFlags) -> Result<(), Error> {
        let known = FdFlags::NONBLOCK | FdFlags::APPEND;
        if !(flags - known).is_empty() {
            return Err(Errno::Inval.into());
        }
        let nonblocking = flags.contains(FdFlags::NONBLOCK);
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
        Ok(())
    }

    async fn read_vectored<'a>(&self, vectors: &mut [IoSliceMut<'a>]) -> Result<u64, Error> {
        let Handle::In(_) = &self.handle else {
            return Err(Errno::Badf.into());
        };
        if self.kind != Kind::Disk {
            wait(self.fd(), PollFlags::IN, self.waits())?;
        }
        Ok(rustix::io::readv(self.fd(), vectors).map_err(io::Error::from)? as u64)
    }

    async fn write_vectored<'a>(&self, vectors: &[IoSlice<'a>]) -> Result<u64, Error> {
        let write = |chunk: &[IoSlice<'_>]| -> Result<u64, Error> {
            // Output that the host has buffered comes first.
            match &self.handle {
                Handle::Out(stdout) => stdout.lock().flush()?,
                Handle::Err(_) => {}
                Handle::In(_) => return Err(Errno::Badf.into()),
            }
            Ok(rustix::io::writev(self.fd(), chunk).map_err(io::Error::from)? as u64)
        };
        match self.kind {
            Kind::Disk => write(vectors),
            _ => write_in_chunks(self.fd(), self.waits(), vectors, write),
        }
    }

    async fn read_vectored_at<'a>(&self, _: &mut [IoSliceMut<'a>], _: u64) -> Result<u64, Error> {
        Err(Errno::Spipe.into())
    }

    async fn write_vectored_at<'a>(&self, _: &[IoSlice<'a>], _: u64) -> Result<u64, Error> {
        Err(Errno::Spipe.into())
    }

    async fn seek(&self, _: io::SeekFrom) -> Result<u64, Error> {
        Err(Errno::Spipe.into())
    }
}
