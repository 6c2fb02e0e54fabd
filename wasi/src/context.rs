//! [`WasiCtx`]: the WASI context of a guest. [`WasiCtxBuilder`] builds it.

use crate::clock::Clocks;
use crate::cookies::Cookies;
use crate::descriptors::{Descriptor, OpenFolder, Table};
use crate::files::{Access, Directory, Folder, HostDirectory, MemoryDirectory};
use crate::quota::{FileQuota, FileQuotaMax, Opened};
use crate::random::Random;
use crate::source::Source;
use crate::stream::Stream;
use crate::strings::{Strings, StringsError};
use crate::virtual_clock::VirtualClock;
use cap_std::fs::Dir;
use pirn_memory_files::MemoryDir;
use std::io::{Read, Write, empty, sink};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// The device number of all files in memory: no real device has it.
const MEMORY_DEVICE: u64 = 0;

/// The state that all threads of a guest share.
pub(crate) struct State {
    pub(crate) args: Strings,
    pub(crate) env: Strings,
    pub(crate) clocks: Clocks,
    pub(crate) random: Random,
    pub(crate) table: Table,
    pub(crate) cookies: Cookies,
    pub(crate) quota: Arc<FileQuota>,
}

/// The WASI context of a guest.
///
/// Clones share all state: each thread of a guest has a clone.
#[derive(Clone)]
pub struct WasiCtx(pub(crate) Arc<State>);

impl core::fmt::Debug for WasiCtx {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WasiCtx").finish_non_exhaustive()
    }
}

impl WasiCtx {
    /// The numbers of the open descriptors, ascending, with the standard streams and the preopened
    /// directories.
    ///
    /// Standard streams have the numbers 0 to 2, and preopened directories the numbers from 3 on.
    /// Before an embedder takes a snapshot, it looks for other numbers: later instances do not have
    /// the descriptors that this guest has opened.
    ///
    /// A guest may also have replaced a preopened descriptor by a descriptor that it has opened:
    /// [`opened`](Self::opened) counts the opened descriptors.
    #[must_use]
    pub fn open_descriptors(&self) -> Vec<u32> {
        self.0.table.numbers()
    }

    /// Counts the descriptors that the guest has opened and not closed, also after the end of the
    /// instance that has the context.
    ///
    /// A guest can move a file that it opened to the number of a preopened descriptor
    /// (`fd_renumber`). [`open_descriptors`](Self::open_descriptors) does not see this change.
    #[must_use]
    pub fn opened(&self) -> Opened {
        Opened(Arc::clone(&self.0.quota))
    }
}

/// A descriptor that a guest cannot begin with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PreopenError {
    /// The name of a directory is not UTF-8.
    #[error("the name {name:?} of a directory is not utf-8; give the guest another name for it")]
    Name {
        /// The name, with replacements for what is not UTF-8.
        name: String,
    },
}

/// A directory that a guest begins with.
struct Preopen {
    directory: Box<dyn Directory>,
    access: Access,
    name: Box<str>,
}

/// Builder of a guest's WASI context.
///
/// A new context has no arguments, variables or directories. Its standard input is empty, and it
/// discards both outputs. It has clocks and random bytes.
///
/// Random bytes come from the kernel at each call of a guest (getrandom(2)). So two guests never
/// share a generator, and a process and its fork do not share one.
///
/// ```
/// use pirn_wasi::WasiCtxBuilder;
/// use pirn_wasi::pipe::{ReadPipe, WritePipe};
///
/// let output = WritePipe::new_in_memory();
/// let wasi = WasiCtxBuilder::new()
///     .arg("greet")?
///     .env("LANG", "C")?
///     .stdin(ReadPipe::from("a line of input"))
///     .stdout(output.clone())
///     .build();
/// # drop(wasi);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct WasiCtxBuilder {
    args: Strings,
    env: Strings,
    clocks: Clocks,
    random: Random,
    standard: [Option<Stream>; 3],
    preopens: Vec<Preopen>,
    sockets: Vec<(u32, OwnedFd)>,
    max: FileQuotaMax,
}

impl Default for WasiCtxBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for WasiCtxBuilder {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("WasiCtxBuilder").finish_non_exhaustive()
    }
}

impl WasiCtxBuilder {
    /// An empty context. Its monotonic clock starts now.
    pub fn new() -> Self {
        Self::with(Clocks::Kernel(Instant::now()))
    }

    /// An empty context with a virtual clock, for runs that must repeat exactly. Link the guest by
    /// [`link_virtual`](crate::link_virtual) with the same clock. The guest sees 1970-01-01 as all
    /// times of files, because each read changes the time of the last access.
    pub fn with_virtual_clock(clock: &VirtualClock) -> Self {
        Self::with(Clocks::Virtual(clock.clone()))
    }

    fn with(clocks: Clocks) -> Self {
        Self {
            args: Strings::default(),
            env: Strings::default(),
            clocks,
            random: Random::kernel(),
            standard: [None, None, None],
            preopens: vec![],
            sockets: vec![],
            max: FileQuotaMax::default(),
        }
    }

    /// Adds an argument, which need not be UTF-8. The first argument is the name of the program.
    ///
    /// # Errors
    ///
    /// If all arguments together exceed 4 GiB.
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Result<Self, StringsError> {
        self.args.push(&[arg.as_ref()])?;
        Ok(self)
    }

    /// Adds several arguments.
    ///
    /// # Errors
    ///
    /// As [`arg`](Self::arg).
    pub fn args<S: AsRef<[u8]>>(
        self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self, StringsError> {
        args.into_iter().try_fold(self, Self::arg)
    }

    /// Adds an environment variable. Name and value need not be UTF-8.
    ///
    /// # Errors
    ///
    /// If all variables together exceed 4 GiB.
    pub fn env(
        mut self,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Self, StringsError> {
        self.env.push(&[name.as_ref(), b"=", value.as_ref()])?;
        Ok(self)
    }

    /// Adds several environment variables, each with name and value.
    ///
    /// # Errors
    ///
    /// As [`env`](Self::env).
    pub fn envs<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, StringsError> {
        let mut variables = variables.into_iter();
        variables.try_fold(self, |all, (name, value)| all.env(name, value))
    }

    /// Replaces the kernel's random bytes by a generator with this seed (ChaCha20), for runs that
    /// must repeat exactly. With the seed, anyone can compute all bytes.
    pub fn seeded_random(mut self, seed: [u8; 32]) -> Self {
        self.random = Random::seeded(seed);
        self
    }

    fn standard(mut self, number: usize, stream: Stream) -> Self {
        self.standard[number] = Some(stream);
        self
    }

    /// Sets the source of standard input. A read of the guest blocks its thread until the source
    /// returns.
    pub fn stdin(self, source: impl Read + Send + 'static) -> Self {
        self.standard(0, Stream::reader(source))
    }

    /// Sets a source of standard input whose bytes may arrive later. A guest whose linker was
    /// filled by [`link_async`](crate::link_async) waits without blocking a thread. Any other
    /// guest blocks its thread, and can be stopped while it waits.
    pub fn stdin_source(self, source: impl Source) -> Self {
        self.standard(0, Stream::source(source))
    }

    /// Sets the destination of standard output.
    pub fn stdout(self, destination: impl Write + Send + 'static) -> Self {
        self.standard(1, Stream::writer(destination))
    }

    /// Sets the destination of standard error.
    pub fn stderr(self, destination: impl Write + Send + 'static) -> Self {
        self.standard(2, Stream::writer(destination))
    }

    /// Reads standard input from a descriptor of the host: a file, a pipe, a terminal or a socket.
    /// A guest that waits for it can be stopped.
    ///
    /// The guest can seek in a file, and change its size and times as far as the descriptor allows
    /// it. Give each guest an open file of its own, or a pipe.
    pub fn stdin_fd(self, fd: impl Into<OwnedFd>) -> Self {
        self.standard(0, Stream::given(fd.into(), (true, false)))
    }

    /// Writes standard output to a descriptor of the host, as [`stdin_fd`](Self::stdin_fd).
    pub fn stdout_fd(self, fd: impl Into<OwnedFd>) -> Self {
        self.standard(1, Stream::given(fd.into(), (false, true)))
    }

    /// Writes standard error to a descriptor of the host, as [`stdin_fd`](Self::stdin_fd).
    pub fn stderr_fd(self, fd: impl Into<OwnedFd>) -> Self {
        self.standard(2, Stream::given(fd.into(), (false, true)))
    }

    /// Gives the guest the three standard streams of this process.
    pub fn inherit_stdio(mut self) -> Self {
        self.standard = [0, 1, 2].map(|number| Some(Stream::standard(number)));
        self
    }

    /// Gives the guest a directory under the name `name`. The guest cannot reach anything outside
    /// the directory. Several builders may share one directory, as an [`Arc`].
    ///
    /// # Errors
    ///
    /// If the name is not UTF-8.
    pub fn preopened_dir(
        self,
        dir: impl Into<Arc<Dir>>,
        name: impl AsRef<Path>,
    ) -> Result<Self, PreopenError> {
        let directory = Box::new(HostDirectory::new(dir));
        self.preopened(directory, name.as_ref(), Access::Full)
    }

    /// Gives the guest a directory that it can read but not change. A call that would change the
    /// directory or anything below it fails with `rofs` (69). An error of the path itself (`noent`,
    /// `perm`, `isdir`) takes precedence.
    ///
    /// Only access through this descriptor is read-only. The files can still be changed through
    /// another directory that contains them, or by another process.
    ///
    /// # Errors
    ///
    /// As [`preopened_dir`](Self::preopened_dir).
    pub fn preopened_dir_read_only(
        self,
        dir: impl Into<Arc<Dir>>,
        name: impl AsRef<Path>,
    ) -> Result<Self, PreopenError> {
        let directory = Box::new(HostDirectory::new(dir));
        self.preopened(directory, name.as_ref(), Access::ReadOnly)
    }

    /// Gives the guest a directory in memory under the name `name`. The limits of `dir` apply to
    /// the directory, and [`disk_bytes_max`](Self::disk_bytes_max) does not.
    ///
    /// # Errors
    ///
    /// As [`preopened_dir`](Self::preopened_dir).
    pub fn memory_dir(self, dir: MemoryDir, name: impl AsRef<Path>) -> Result<Self, PreopenError> {
        let access = match dir.is_read_only() {
            true => Access::ReadOnly,
            false => Access::Full,
        };
        let directory = Box::new(MemoryDirectory::new(dir, MEMORY_DEVICE));
        self.preopened(directory, name.as_ref(), access)
    }

    fn preopened(
        mut self,
        directory: Box<dyn Directory>,
        name: &Path,
        access: Access,
    ) -> Result<Self, PreopenError> {
        let name = name.to_str().ok_or_else(|| PreopenError::Name {
            name: name.to_string_lossy().into_owned(),
        })?;
        self.preopens.push(Preopen {
            directory,
            access,
            name: name.into(),
        });
        Ok(self)
    }

    /// Gives the guest a socket as descriptor `fd`. Preopened directories get other numbers.
    pub fn preopened_socket(mut self, fd: u32, socket: impl Into<OwnedFd>) -> Self {
        self.sockets.push((fd, socket.into()));
        self
    }

    /// Limits the descriptors that the guest has open at the same time. The default is 64.
    ///
    /// The limit counts descriptors that the guest opens or accepts, not the descriptors that the
    /// embedder gives. A call that would exceed the limit fails with errno `nfile` (41).
    pub fn descriptors_max(mut self, descriptors: u32) -> Self {
        self.max.descriptors = descriptors.into();
        self
    }

    /// Limits the bytes that the guest may write to the files that it opens. There is no limit by
    /// default.
    ///
    /// * Overwritten and appended bytes count, and so do bytes that `fd_filestat_set_size` adds.
    /// * A new file, directory or link counts as 4,096 bytes.
    /// * Removing a file gives no bytes back.
    /// * Standard streams are not counted, even if they are redirected to a file.
    ///
    /// A write that fits in part is cut short. A write that does not fit at all fails with errno
    /// `dquot` (19).
    pub fn disk_bytes_max(mut self, bytes: u64) -> Self {
        self.max.disk_bytes = bytes;
        self
    }

    /// Finishes the context. Clones of the context, such as the clones for threads, share its
    /// limits.
    #[must_use]
    pub fn build(self) -> WasiCtx {
        let quota = Arc::new(match &self.clocks {
            Clocks::Kernel(_) => FileQuota::new(self.max),
            Clocks::Virtual(_) => FileQuota::without_times(self.max),
        });
        let mut given = Vec::with_capacity(3 + self.preopens.len());
        let [stdin, stdout, stderr] = self.standard;
        for stream in [
            stdin.unwrap_or_else(|| Stream::reader(empty())),
            stdout.unwrap_or_else(|| Stream::writer(sink())),
            stderr.unwrap_or_else(|| Stream::writer(sink())),
        ] {
            given.push(Some(Descriptor::Stream(stream)));
        }
        for preopen in self.preopens {
            while self
                .sockets
                .iter()
                .any(|(fd, _)| *fd as usize == given.len())
            {
                given.push(None);
            }
            let folder = Folder::new(preopen.directory, preopen.access, Arc::clone(&quota));
            let name = Some(preopen.name);
            given.push(Some(Descriptor::Folder(OpenFolder { folder, name })));
        }
        let table = Table::new(given);
        for (fd, socket) in self.sockets {
            let socket = Stream::given(socket, (true, true));
            table.insert(fd, Descriptor::Stream(socket));
        }
        WasiCtx(Arc::new(State {
            args: self.args,
            env: self.env,
            clocks: self.clocks,
            random: self.random,
            table,
            cookies: Cookies::default(),
            quota,
        }))
    }
}
