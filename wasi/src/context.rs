//! [`WasiCtxBuilder`]: builds a guest's WASI context from parts of wasi-common.
//!
//! wasi-common's own builder makes each context twice, seeds two random generators, and asks the
//! kernel for the resolution of its clocks: 1.1 us. This builder makes a context once, draws random
//! bytes only when a guest asks for them, and does not ask for clock resolutions: 0.3 us.

use crate::files::{Access, Folder};
use crate::memory_dir;
use crate::open_files::OpenFiles;
use crate::poll::Sched;
use crate::quota::{self, Opened, Quota};
use crate::streams::{Standard, Stream};
use crate::virtual_clock::VirtualClock;
use crate::wasi_ctx::WasiCtx;
use core::time::Duration;
use pirn_memory_files::MemoryDir;
use rand::SeedableRng as _;
use rand::rand_core::UnwrapErr;
use rand::rngs::{ChaCha20Rng, SysRng};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use wasi_common::clocks::WasiMonotonicOffsetClock;
use wasi_common::file::FileAccessMode;
use wasi_common::sync::clocks::{MonotonicClock, SystemClock};
use wasi_common::sync::net::Socket;
use wasi_common::sync::{Dir, ambient_authority};
use wasi_common::{Error, StringArrayError, Table, WasiClocks, WasiFile, WasiMonotonicClock as _};

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
///     .stdin(Box::new(ReadPipe::from("who is there?")))
///     .stdout(Box::new(output.clone()))
///     .build();
/// # drop(wasi);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct WasiCtxBuilder {
    ctx: wasi_common::WasiCtx,
    /// `None` until the embedder gives the guest a directory.
    files: Option<OpenFiles>,
    /// `None` until the embedder gives the guest a directory or a socket.
    quota: Option<Arc<Quota>>,
    descriptors_max: u64,
    disk_bytes_max: u64,
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
    /// An empty context.
    pub fn new() -> Self {
        Self::with(clocks())
    }

    /// An empty context with a virtual clock, for runs that must repeat exactly. Link the guest by
    /// [`link_virtual`](crate::link_virtual) with the same clock. The guest sees 1970-01-01 as all
    /// times of files, because each read changes the time of the last access.
    pub fn with_virtual_clock(clock: &VirtualClock) -> Self {
        let mut builder = Self::with(clock.clocks());
        builder.quota().hide_times();
        builder
    }

    fn with(clocks: WasiClocks) -> Self {
        let random = Box::new(UnwrapErr(SysRng));
        Self {
            files: None,
            ctx: wasi_common::WasiCtx::new(random, clocks, Box::new(Sched), Table::new()),
            quota: None,
            descriptors_max: quota::DESCRIPTORS_MAX,
            disk_bytes_max: u64::MAX,
        }
    }

    /// Adds an argument. The first argument is the name of the program.
    ///
    /// # Errors
    ///
    /// If all arguments together exceed 4 GiB.
    pub fn arg(mut self, arg: &str) -> Result<Self, StringArrayError> {
        self.ctx.push_arg(arg)?;
        Ok(self)
    }

    /// Adds several arguments.
    ///
    /// # Errors
    ///
    /// As [`arg`](Self::arg).
    pub fn args<S: AsRef<str>>(
        self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<Self, StringArrayError> {
        args.into_iter()
            .try_fold(self, |all, arg| all.arg(arg.as_ref()))
    }

    /// Adds an environment variable.
    ///
    /// # Errors
    ///
    /// If all variables together exceed 4 GiB.
    pub fn env(mut self, name: &str, value: &str) -> Result<Self, StringArrayError> {
        self.ctx.push_env(name, value)?;
        Ok(self)
    }

    /// Adds several environment variables, each with name and value.
    ///
    /// # Errors
    ///
    /// As [`env`](Self::env).
    pub fn envs<N: AsRef<str>, V: AsRef<str>>(
        self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, StringArrayError> {
        variables
            .into_iter()
            .try_fold(self, |all, (n, v)| all.env(n.as_ref(), v.as_ref()))
    }

    /// Replaces the kernel's random bytes by a generator with this seed (ChaCha20), for runs that
    /// must repeat exactly. With the seed, anyone can compute all bytes.
    pub fn seeded_random(self, seed: [u8; 32]) -> Self {
        let random = Box::new(ChaCha20Rng::from_seed(seed));
        // A poisoned lock is harmless: this call replaces the generator.
        *self
            .ctx
            .random
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = random;
        self
    }

    /// Sets the source of standard input.
    pub fn stdin(self, file: Box<dyn WasiFile>) -> Self {
        self.ctx.set_stdin(Stream::of(file));
        self
    }

    /// Sets the destination of standard output.
    pub fn stdout(self, file: Box<dyn WasiFile>) -> Self {
        self.ctx.set_stdout(Stream::of(file));
        self
    }

    /// Sets the destination of standard error.
    pub fn stderr(self, file: Box<dyn WasiFile>) -> Self {
        self.ctx.set_stderr(Stream::of(file));
        self
    }

    /// Gives the guest the three standard streams of this process.
    pub fn inherit_stdio(self) -> Self {
        self.ctx.set_stdin(Standard::stdin());
        self.ctx.set_stdout(Standard::stdout());
        self.ctx.set_stderr(Standard::stderr());
        self
    }

    /// Gives the guest a directory under the name `name`. The guest cannot reach anything outside
    /// the directory.
    ///
    /// # Errors
    ///
    /// If no descriptor number is left in the context.
    pub fn preopened_dir(self, dir: Dir, name: impl AsRef<Path>) -> Result<Self, Error> {
        self.preopened(dir, name.as_ref(), Access::Full)
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
    pub fn preopened_dir_read_only(self, dir: Dir, name: impl AsRef<Path>) -> Result<Self, Error> {
        self.preopened(dir, name.as_ref(), Access::ReadOnly)
    }

    fn preopened(mut self, dir: Dir, name: &Path, access: Access) -> Result<Self, Error> {
        self.files.get_or_insert_default();
        let folder = self.quota().dir(Folder::new(dir, access));
        self.ctx.push_preopened_dir(folder, name)?;
        Ok(self)
    }

    /// Gives the guest a directory in memory under the name `name`. The limits of `dir` apply to
    /// the directory, and [`disk_bytes_max`](Self::disk_bytes_max) does not.
    ///
    /// # Errors
    ///
    /// As [`preopened_dir`](Self::preopened_dir).
    pub fn memory_dir(mut self, dir: MemoryDir, name: impl AsRef<Path>) -> Result<Self, Error> {
        self.files = Some(OpenFiles::in_memory());
        let folder = self.quota().memory_dir(memory_dir::Folder::new(dir));
        self.ctx.push_preopened_dir(folder, name.as_ref())?;
        Ok(self)
    }

    /// Gives the guest a socket as descriptor `fd`.
    pub fn preopened_socket(mut self, fd: u32, socket: impl Into<Socket>) -> Self {
        let access = FileAccessMode::READ | FileAccessMode::WRITE;
        let socket = self.quota().socket(Stream::of(socket.into().into()));
        self.ctx.insert_file(fd, socket, access);
        self
    }

    /// Limits the descriptors that the guest has open at the same time. The default is 64.
    ///
    /// The limit counts descriptors that the guest opens or accepts, not the descriptors that the
    /// embedder gives. A call that would exceed the limit fails with errno `nfile` (41).
    pub fn descriptors_max(mut self, descriptors: u32) -> Self {
        self.descriptors_max = descriptors.into();
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
        self.disk_bytes_max = bytes;
        self
    }

    /// Counts the descriptors that the guest has opened and not closed. The counter is valid after
    /// [`build`](Self::build).
    ///
    /// A guest can move a file that it opened to the number of a preopened descriptor
    /// (`fd_renumber`). [`open_descriptors`](crate::open_descriptors) does not see this change.
    pub fn opened(&mut self) -> Opened {
        Opened(Arc::clone(self.quota()))
    }

    /// The quota that counts descriptors and bytes, created on first use.
    fn quota(&mut self) -> &Arc<Quota> {
        self.quota.get_or_insert_with(Quota::new)
    }

    /// Finishes the context. Clones of the context, such as the clones for threads, share its
    /// limits.
    #[must_use]
    pub fn build(self) -> WasiCtx {
        if let Some(quota) = &self.quota {
            quota.set_max(self.descriptors_max, self.disk_bytes_max);
        }
        WasiCtx::new(self.ctx, self.files.map(Arc::new))
    }
}

/// The kernel's clocks. The monotonic clock starts now.
fn clocks() -> WasiClocks {
    let system = SystemClock::new(ambient_authority());
    let monotonic = MonotonicClock::new(ambient_authority());
    WasiClocks {
        system: Some(Box::new(system)),
        monotonic: Some(WasiMonotonicOffsetClock {
            creation_time: monotonic.now(Duration::ZERO),
            abs_clock: Box::new(monotonic),
        }),
    }
}
