//! [`Stream`]: a pipe, a terminal, a socket, a standard stream or a stream of the embedder, with
//! the behaviour of POSIX.
//!
//! An operation that would block waits for one interval at most, and then fails with
//! [`Failed::Wait`]. The host function repeats the operation, unless the guest was stopped. A read
//! of a source of the embedder does not wait ([`Failed::Later`]): the host function decides how to
//! wait.

use crate::errno::{Errno, of_io};
use crate::fdflags::FdFlags;
use crate::files::{Access, Advice, FileKind, Metadata, NewTimes, fd_times};
use crate::quota::{FileQuota, Held};
use crate::source::{self, Source};
use core::sync::atomic::AtomicU16;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::{ReadWriteFlags, retry_on_intr};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags};
use smallvec::SmallVec;
use std::io::{self, IoSlice, IsTerminal, Read, Write};
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// The interval after which a waiting thread checks whether its guest was stopped.
pub(crate) const LOOK: Duration = Duration::from_millis(1);

/// Bytes that a pipe accepts at once if poll(2) reports it as writable (PIPE_BUF).
const CHUNK: usize = 4096;

/// The reason for which an operation was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The stream was not ready at the end of an interval.
    Wait,
    /// A [`Source`] has no bytes yet. The operation did not wait.
    Later,
    Errno(Errno),
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The kind of a descriptor of the host. It decides how calls wait for the descriptor.
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
        use rustix::fs::FileType;
        let stat = rustix::fs::fstat(file);
        match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Socket) => match rustix::net::sockopt::socket_acceptconn(file) {
                Ok(true) => Self::Listener,
                _ => Self::Socket,
            },
            Ok(FileType::RegularFile | FileType::BlockDevice) => Self::Disk,
            _ => Self::Other,
        }
    }
}

/// A descriptor of the host.
enum Handle {
    /// The standard streams of this process. The guest cannot seek in them or change them, because
    /// the host and other processes share them.
    Stdin(io::Stdin),
    Stdout(io::Stdout),
    Stderr(io::Stderr),
    Owned(OwnedFd),
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stdin(stdin) => stdin.as_fd(),
            Self::Stdout(stdout) => stdout.as_fd(),
            Self::Stderr(stderr) => stderr.as_fd(),
            Self::Owned(fd) => fd.as_fd(),
        }
    }
}

impl Handle {
    fn is_standard(&self) -> bool {
        !matches!(self, Self::Owned(_))
    }

    /// Writes output that the host has buffered: it comes before the guest's output.
    fn flush(&self) -> Result<(), Errno> {
        match self {
            Self::Stdout(stdout) => stdout.lock().flush().map_err(|error| of_io(&error)),
            _ => Ok(()),
        }
    }
}

/// The other end of a stream.
enum End {
    /// A reader of the embedder.
    Reader(Mutex<Box<dyn Read + Send>>),
    /// A source of the embedder whose bytes may arrive later.
    Source(source::Shared),
    /// A writer of the embedder.
    Writer(Mutex<Box<dyn Write + Send>>),
    /// A descriptor of the host.
    Host(Handle, Kind),
}

/// A stream of a guest.
pub(crate) struct Stream {
    end: End,
    /// The flags that the guest sees. The flags of the host's descriptor do not change, because
    /// other processes may share it.
    flags: AtomicU16,
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
    /// The access of the directory in which the stream was opened.
    access: Access,
    _held: Option<Held>,
}

impl Stream {
    fn new(end: End, flags: FdFlags, (is_readable, is_writable): (bool, bool)) -> Self {
        Self {
            end,
            flags: AtomicU16::new(flags.bits()),
            is_readable,
            is_writable,
            access: Access::Full,
            _held: None,
        }
    }

    /// An input from a reader of the embedder.
    pub(crate) fn reader(reader: impl Read + Send + 'static) -> Self {
        let end = End::Reader(Mutex::new(Box::new(reader)));
        Self::new(end, FdFlags::default(), (true, false))
    }

    /// An input from a source of the embedder whose bytes may arrive later.
    pub(crate) fn source(source: impl Source) -> Self {
        let end = End::Source(source::Shared::new(source));
        Self::new(end, FdFlags::default(), (true, false))
    }

    /// An output to a writer of the embedder.
    pub(crate) fn writer(writer: impl Write + Send + 'static) -> Self {
        let end = End::Writer(Mutex::new(Box::new(writer)));
        Self::new(end, FdFlags::APPEND, (false, true))
    }

    fn host(handle: Handle, flags: FdFlags, rights: (bool, bool)) -> Self {
        let kind = Kind::of(handle.as_fd());
        Self::new(End::Host(handle, kind), flags, rights)
    }

    /// The standard input, output or error of this process, by its number.
    pub(crate) fn standard(number: u32) -> Self {
        let output = (FdFlags::APPEND, (false, true));
        let (handle, (flags, rights)) = match number {
            0 => {
                let input = (FdFlags::default(), (true, false));
                (Handle::Stdin(io::stdin()), input)
            }
            1 => (Handle::Stdout(io::stdout()), output),
            _ => (Handle::Stderr(io::stderr()), output),
        };
        Self::host(handle, flags, rights)
    }

    /// A descriptor that the embedder gives the guest.
    pub(crate) fn given(fd: OwnedFd, rights: (bool, bool)) -> Self {
        // An error of fcntl(2) is ignored here. Reading or writing reports it.
        let flags = flags_of(fd.as_fd()).unwrap_or_default();
        Self::host(Handle::Owned(fd), flags, rights)
    }

    /// A stream that the guest has opened.
    pub(crate) fn opened(
        fd: OwnedFd,
        flags: FdFlags,
        rights: (bool, bool),
        (access, held): (Access, Held),
    ) -> Self {
        Self {
            access,
            _held: Some(held),
            ..Self::host(Handle::Owned(fd), flags.reported(), rights)
        }
    }

    pub(crate) fn flags(&self) -> FdFlags {
        FdFlags::from_known(self.flags.load(Relaxed))
    }

    /// Sets the flags.
    ///
    /// # Errors
    ///
    /// `badf` for a stream of the embedder, `inval` for flags of synchronous writes.
    pub(crate) fn set_flags(&self, flags: FdFlags) -> Result<(), Errno> {
        let End::Host(handle, kind) = &self.end else {
            return Err(Errno::BADF);
        };
        let changeable = match kind {
            Kind::Socket | Kind::Listener => FdFlags::NONBLOCK,
            _ => FdFlags::CHANGEABLE,
        };
        if !changeable.contains(flags) {
            return Err(Errno::INVAL);
        }
        let flags = match handle {
            Handle::Stdout(_) | Handle::Stderr(_) => flags | FdFlags::APPEND,
            _ => flags,
        };
        self.flags.store(flags.bits(), Relaxed);
        Ok(())
    }

    /// The descriptor of the host.
    ///
    /// # Errors
    ///
    /// `badf` for a stream of the embedder.
    fn fd(&self) -> Result<BorrowedFd<'_>, Errno> {
        match &self.end {
            End::Host(handle, _) => Ok(handle.as_fd()),
            _ => Err(Errno::BADF),
        }
    }

    /// The descriptor of the host, for operations on the file itself.
    ///
    /// # Errors
    ///
    /// `standard` for a standard stream, `badf` for a stream of the embedder.
    fn file(&self, standard: Errno) -> Result<BorrowedFd<'_>, Errno> {
        match &self.end {
            End::Host(handle, _) if handle.is_standard() => Err(standard),
            _ => self.fd(),
        }
    }

    /// The type of the stream. A C library takes a character device for a terminal.
    pub(crate) fn kind(&self) -> Result<FileKind, Errno> {
        Ok(match &self.end {
            End::Host(handle, _) if handle.is_standard() => match handle.as_fd().is_terminal() {
                true => FileKind::CharacterDevice,
                false => FileKind::Unknown,
            },
            End::Host(handle, _) => Metadata::from(&rustix::fs::fstat(handle)?).kind,
            _ => FileKind::Unknown,
        })
    }

    /// The metadata. A standard stream, or a stream of the embedder, has only a type.
    pub(crate) fn metadata(&self) -> Result<Metadata, Errno> {
        match &self.end {
            End::Host(handle, kind) if !handle.is_standard() => {
                let found = Metadata::from(&rustix::fs::fstat(handle)?);
                // A socket has no times.
                Ok(match kind {
                    Kind::Socket | Kind::Listener => Metadata {
                        accessed: None,
                        modified: None,
                        changed: None,
                        ..found
                    },
                    _ => found,
                })
            }
            _ => Ok(Metadata {
                kind: self.kind()?,
                device: 0,
                inode: 0,
                links: 0,
                size: 0,
                accessed: None,
                modified: None,
                changed: None,
            }),
        }
    }

    fn waits(&self) -> bool {
        !self.flags().contains(FdFlags::NONBLOCK)
    }

    /// Waits until a descriptor can be read or written, for one interval at most.
    fn wait(&self, file: BorrowedFd<'_>, events: PollFlags) -> Result<(), Failed> {
        let (time, late) = match self.waits() {
            true => (LOOK, Failed::Wait),
            false => (Duration::ZERO, Errno::AGAIN.into()),
        };
        match is_ready(file, events, time)? {
            true => Ok(()),
            false => Err(late),
        }
    }

    /// The result of an operation on a descriptor that was ready, but perhaps no more: another
    /// process may have read the bytes.
    fn done<R>(&self, result: Result<R, Errno>) -> Result<R, Failed> {
        match result {
            Err(Errno::AGAIN) if self.waits() => Err(Failed::Wait),
            result => Ok(result?),
        }
    }

    /// Reads bytes that are there, perhaps fewer than fit. Returns 0 at the end.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<usize, Failed> {
        if !self.is_readable {
            return Err(Errno::BADF.into());
        }
        match &self.end {
            End::Reader(reader) => {
                let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                // A reader that reports more bytes than it has filled gives no others.
                into.fill(0);
                Ok(reader.read(into).map_err(|error| of_io(&error))?)
            }
            End::Source(source) => {
                into.fill(0);
                let read = source.read(into).map_err(|error| of_io(&error))?;
                read.ok_or(Failed::Later)
            }
            End::Host(_, Kind::Listener) => Err(Errno::NOTCONN.into()),
            End::Host(_, Kind::Socket) => self.receive(into, false),
            End::Host(handle, kind) => {
                if *kind != Kind::Disk {
                    self.wait(handle.as_fd(), PollFlags::IN)?;
                }
                self.done(retry_on_intr(|| rustix::io::read(handle, &mut *into)))
            }
            End::Writer(_) => Err(Errno::BADF.into()),
        }
    }

    /// Writes bytes, perhaps not all.
    pub(crate) fn write(&self, vectors: &[IoSlice<'_>]) -> Result<usize, Failed> {
        if !self.is_writable {
            return Err(Errno::BADF.into());
        }
        match &self.end {
            End::Writer(writer) => {
                let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(writer
                    .write_vectored(vectors)
                    .map_err(|error| of_io(&error))?)
            }
            End::Host(_, Kind::Listener) => Err(Errno::NOTCONN.into()),
            End::Host(handle, Kind::Disk) => {
                handle.flush()?;
                let appends = !handle.is_standard() && self.flags().contains(FdFlags::APPEND);
                Ok(retry_on_intr(|| match appends {
                    true => append(handle, vectors),
                    false => rustix::io::writev(handle, vectors),
                })?)
            }
            End::Host(handle, kind) => self.write_in_chunks(handle, *kind == Kind::Socket, vectors),
            End::Reader(_) | End::Source(_) => Err(Errno::BADF.into()),
        }
    }

    /// Writes as much as a descriptor accepts without blocking, in chunks of at most [`CHUNK`]
    /// bytes. A chunk is one write: the lines of several writers to a pipe do not mix (write(2)).
    fn write_in_chunks(
        &self,
        handle: &Handle,
        is_socket: bool,
        vectors: &[IoSlice<'_>],
    ) -> Result<usize, Failed> {
        let file = handle.as_fd();
        self.wait(file, PollFlags::OUT)?;
        handle.flush()?;
        let mut all: Slices<'_> = vectors.iter().map(|bytes| IoSlice::new(bytes)).collect();
        let mut rest = &mut all[..];
        // Skips empty vectors.
        IoSlice::advance_slices(&mut rest, 0);
        let mut sum = 0;
        while !rest.is_empty() {
            if sum > 0 && !is_ready(file, PollFlags::OUT, Duration::ZERO)? {
                break;
            }
            let mut left = CHUNK;
            let chunk = rest.iter().map_while(|bytes| {
                let some = bytes.len().min(left);
                left -= some;
                (some > 0 || bytes.is_empty()).then(|| IoSlice::new(&bytes[..some]))
            });
            let chunk: Slices<'_> = chunk.collect();
            let written = self.done(retry_on_intr(|| match is_socket {
                true => send(file, &chunk),
                false => rustix::io::writev(file, &chunk),
            }));
            let written = match written {
                Ok(written) => written,
                // Report the bytes that were written already. The next call returns the error.
                Err(_) if sum > 0 => break,
                Err(failed) => return Err(failed),
            };
            sum += written;
            if written < CHUNK - left {
                break;
            }
            drop(chunk);
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(sum)
    }

    /// Reads bytes at an offset.
    pub(crate) fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        if !self.is_readable {
            return Err(Errno::BADF);
        }
        let file = self.file(Errno::SPIPE)?;
        retry_on_intr(|| rustix::io::pread(file, &mut *into, offset))
    }

    /// Writes bytes at an offset.
    pub(crate) fn write_at(&self, vectors: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        if !self.is_writable {
            return Err(Errno::BADF);
        }
        let file = self.file(Errno::SPIPE)?;
        retry_on_intr(|| rustix::io::pwritev(file, vectors, offset))
    }

    /// Moves the position, and returns the new one.
    pub(crate) fn seek(&self, to: SeekFrom) -> Result<u64, Errno> {
        match &self.end {
            End::Host(_, Kind::Socket | Kind::Listener) => Err(Errno::BADF),
            _ => rustix::fs::seek(self.file(Errno::SPIPE)?, to),
        }
    }

    /// Announces the use of a part of the file.
    pub(crate) fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), Errno> {
        let file = self.file(Errno::BADF)?;
        rustix::fs::fadvise(file, offset, NonZeroU64::new(len), advice.into())
    }

    /// Waits until the disk has the file.
    pub(crate) fn sync(&self, only_data: bool) -> Result<(), Errno> {
        match &self.end {
            End::Host(Handle::Owned(fd), Kind::Disk | Kind::Other) => match only_data {
                true => rustix::fs::fdatasync(fd),
                false => rustix::fs::fsync(fd),
            },
            _ => Ok(()),
        }
    }

    /// Sets the size in bytes.
    pub(crate) fn set_size(&self, size: u64) -> Result<(), Errno> {
        self.check_change()?;
        rustix::fs::ftruncate(self.file(Errno::BADF)?, size)
    }

    /// Sets the times.
    pub(crate) fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        self.check_change()?;
        fd_times(self.file(Errno::BADF)?, times)
    }

    fn check_change(&self) -> Result<(), Errno> {
        match self.access {
            Access::Full => Ok(()),
            Access::ReadOnly => Err(Errno::ROFS),
        }
    }

    /// The descriptor to poll; `None` for a stream of the embedder.
    pub(crate) fn pollable(&self) -> Option<BorrowedFd<'_>> {
        self.fd().ok()
    }

    /// Whether a stream without a descriptor can be read or written now.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.end {
            End::Source(source) => source.is_ready(),
            _ => true,
        }
    }

    /// Ready if a read does not fail with [`Failed::Later`]. Otherwise wakes the task of the
    /// context when a read does not.
    pub(crate) fn poll_ready(&self, context: &Context<'_>) -> Poll<()> {
        match &self.end {
            End::Source(source) => source.poll_ready(context),
            _ => Poll::Ready(()),
        }
    }

    /// The number of bytes that can be read now. Not every stream reports it.
    pub(crate) fn ready_bytes(&self) -> u64 {
        match &self.end {
            // A stream of the embedder does not report its size. Report at least one byte.
            End::Reader(_) | End::Source(_) | End::Writer(_) | End::Host(_, Kind::Listener) => 1,
            End::Host(Handle::Owned(fd), Kind::Disk) => {
                let size = rustix::fs::fstat(fd).map_or(0, |stat| stat.st_size.cast_unsigned());
                // The position may lie after the end of the file.
                size.saturating_sub(rustix::fs::tell(fd).unwrap_or(0))
            }
            End::Host(handle, _) => rustix::io::ioctl_fionread(handle).unwrap_or(0),
        }
    }

    pub(crate) fn is_socket(&self) -> bool {
        matches!(self.end, End::Host(_, Kind::Socket | Kind::Listener))
    }

    /// The socket, for operations that only sockets have, and whether the socket is listening.
    fn socket(&self) -> Result<(BorrowedFd<'_>, bool), Errno> {
        match &self.end {
            End::Host(handle, Kind::Socket) => Ok((handle.as_fd(), false)),
            End::Host(handle, Kind::Listener) => Ok((handle.as_fd(), true)),
            _ => Err(Errno::NOTSOCK),
        }
    }

    /// The socket, which has a peer.
    fn connected(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self.socket()? {
            (socket, false) => Ok(socket),
            _ => Err(Errno::NOTCONN),
        }
    }

    /// Receives bytes from a socket. With `peeks`, the bytes stay there.
    pub(crate) fn receive(&self, into: &mut [u8], peeks: bool) -> Result<usize, Failed> {
        let socket = self.connected()?;
        self.wait(socket, PollFlags::IN)?;
        // Another thread may have taken the bytes since the wait.
        let flags = match peeks {
            true => RecvFlags::DONTWAIT | RecvFlags::PEEK,
            false => RecvFlags::DONTWAIT,
        };
        self.done(retry_on_intr(|| {
            rustix::net::recv(socket, &mut *into, flags).map(|(received, _)| received)
        }))
    }

    /// Sends bytes to a socket, perhaps not all.
    pub(crate) fn send(&self, vectors: &[IoSlice<'_>]) -> Result<usize, Failed> {
        self.connected()?;
        self.write(vectors)
    }

    /// Accepts a connection.
    pub(crate) fn accept(&self, flags: FdFlags, quota: &Arc<FileQuota>) -> Result<Self, Failed> {
        let (socket, is_listening) = self.socket()?;
        if !is_listening || !FdFlags::NONBLOCK.contains(flags) {
            return Err(Errno::INVAL.into());
        }
        let held = quota.hold()?;
        self.wait(socket, PollFlags::IN)?;
        let accept =
            || rustix::net::accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let fd = self.done(retry_on_intr(accept))?;
        let both = (true, true);
        Ok(Self::opened(fd, flags, both, (Access::Full, held)))
    }

    /// Shuts one or both directions of a socket down.
    pub(crate) fn shutdown(&self, how: Shutdown) -> Result<(), Errno> {
        rustix::net::shutdown(self.connected()?, how)
    }
}

/// Buffers of one write.
type Slices<'a> = SmallVec<[IoSlice<'a>; 16]>;

/// Writes at the end of a file, and moves the position there.
fn append(file: &Handle, vectors: &[IoSlice<'_>]) -> Result<usize, Errno> {
    /// The position of the open file (pwritev2(2)).
    const AT_POSITION: u64 = u64::MAX;
    rustix::io::pwritev2(file, vectors, AT_POSITION, ReadWriteFlags::APPEND)
}

/// Sends bytes to a socket. Another thread may have used up its room since the wait, and a socket
/// without a peer sends no SIGPIPE to the host.
fn send(socket: BorrowedFd<'_>, vectors: &[IoSlice<'_>]) -> Result<usize, Errno> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, vectors, &mut SendAncillaryBuffer::default(), flags)
}

/// The flags of a descriptor of the host. O_SYNC stands for all three flags of synchronous writes.
fn flags_of(file: BorrowedFd<'_>) -> Result<FdFlags, Errno> {
    let set = rustix::fs::fcntl_getfl(file)?;
    let synchronous = FdFlags::SYNCHRONOUS.when(set.contains(OFlags::SYNC));
    let nonblocking = FdFlags::NONBLOCK.when(set.contains(OFlags::NONBLOCK));
    Ok(FdFlags::APPEND.when(set.contains(OFlags::APPEND)) | nonblocking | synchronous)
}

/// Whether a descriptor can be read or written within a time of less than a second. Also true at
/// the end of the file and after an error of the file. The read or write then reports the end or
/// the error.
fn is_ready(file: BorrowedFd<'_>, events: PollFlags, time: Duration) -> Result<bool, Errno> {
    let mut fds = [PollFd::from_borrowed_fd(file, events)];
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    };
    match rustix::event::poll(&mut fds, Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        // A signal interrupted poll(2).
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno),
    }
}
