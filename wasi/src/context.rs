//! [`WasiCtxBuilder`]: what a guest has of the world, put together from wasi-common's parts.
//!
//! wasi-common's own builder makes each context twice, seeds a generator for each and asks the kernel how finely
//! its clocks count: 1.1 us, where most requests want a line of output. Here a context is made once, randomness
//! is asked for when a guest wants some, and nobody asks for the resolution of a clock: 0.3 us.

use crate::files::{Access, Folder};
use crate::poll::Sched;
use crate::quota::{self, Quota};
use crate::streams::{Standard, Stream};
use core::time::Duration;
use rand::rand_core::UnwrapErr;
use rand::rngs::SysRng;
use std::path::Path;
use std::sync::Arc;
use wasi_common::clocks::WasiMonotonicOffsetClock;
use wasi_common::file::FileAccessMode;
use wasi_common::sync::clocks::{MonotonicClock, SystemClock};
use wasi_common::sync::net::Socket;
use wasi_common::sync::{Dir, ambient_authority};
use wasi_common::{
    Error, StringArrayError, Table, WasiClocks, WasiCtx, WasiFile, WasiMonotonicClock as _,
};

/// What a guest has of the world, to begin with nothing: no arguments, no variables, no directories, nothing to
/// read, and two outputs that throw away what is written. There are clocks and random bytes.
///
/// Random bytes come from the kernel whenever a guest asks (getrandom(2)): no two guests have a generator in
/// common, nor have those of a process and its fork.
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
    ctx: WasiCtx,
    /// There is none unless the guest is given a directory or a socket.
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
    /// Nothing yet.
    pub fn new() -> Self {
        let random = Box::new(UnwrapErr(SysRng));
        Self {
            ctx: WasiCtx::new(random, clocks(), Box::new(Sched), Table::new()),
            quota: None,
            descriptors_max: quota::DESCRIPTORS_MAX,
            disk_bytes_max: u64::MAX,
        }
    }

    /// One more argument; the first is the program's name.
    ///
    /// # Errors
    ///
    /// If all of them together do not fit into 4 GiB.
    pub fn arg(mut self, arg: &str) -> Result<Self, StringArrayError> {
        self.ctx.push_arg(arg)?;
        Ok(self)
    }

    /// More arguments.
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

    /// One more variable.
    ///
    /// # Errors
    ///
    /// If all of them together do not fit into 4 GiB.
    pub fn env(mut self, name: &str, value: &str) -> Result<Self, StringArrayError> {
        self.ctx.push_env(name, value)?;
        Ok(self)
    }

    /// More variables, by name and value.
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

    /// What standard input reads.
    pub fn stdin(self, file: Box<dyn WasiFile>) -> Self {
        self.ctx.set_stdin(Stream::of(file));
        self
    }

    /// Where standard output goes.
    pub fn stdout(self, file: Box<dyn WasiFile>) -> Self {
        self.ctx.set_stdout(Stream::of(file));
        self
    }

    /// Where standard error goes.
    pub fn stderr(self, file: Box<dyn WasiFile>) -> Self {
        self.ctx.set_stderr(Stream::of(file));
        self
    }

    /// The three standard streams of this process.
    pub fn inherit_stdio(self) -> Self {
        self.ctx.set_stdin(Standard::stdin());
        self.ctx.set_stdout(Standard::stdout());
        self.ctx.set_stderr(Standard::stderr());
        self
    }

    /// One more directory, which the guest knows by a name. It sees nothing outside of it.
    ///
    /// # Errors
    ///
    /// If there are no descriptors left.
    pub fn preopened_dir(self, dir: Dir, name: impl AsRef<Path>) -> Result<Self, Error> {
        self.preopened(dir, name.as_ref(), Access::Full)
    }

    /// One more directory, which the guest may read and not change. A call that would change the
    /// directory, or anything below it, fails with `rofs` (69), unless the path itself is an error
    /// (`noent`, `perm`, `isdir`).
    ///
    /// Only access by this descriptor is read-only: through another directory that holds the same
    /// files, or by another process, they can still be changed.
    ///
    /// # Errors
    ///
    /// As [`preopened_dir`](Self::preopened_dir).
    pub fn preopened_dir_read_only(self, dir: Dir, name: impl AsRef<Path>) -> Result<Self, Error> {
        self.preopened(dir, name.as_ref(), Access::ReadOnly)
    }

    fn preopened(mut self, dir: Dir, name: &Path, access: Access) -> Result<Self, Error> {
        let folder = self.quota().dir(Folder::new(dir, access));
        self.ctx.push_preopened_dir(folder, name)?;
        Ok(self)
    }

    /// A socket, as a descriptor of this number.
    pub fn preopened_socket(mut self, fd: u32, socket: impl Into<Socket>) -> Self {
        let access = FileAccessMode::READ | FileAccessMode::WRITE;
        let socket = self.quota().socket(Stream::of(socket.into().into()));
        self.ctx.insert_file(fd, socket, access);
        self
    }

    /// Most descriptors that the guest may have open at a time of those that it opens or accepts:
    /// 64 unless this is called. Those that it is given are not counted. One more is refused with
    /// errno `nfile` (41).
    pub fn descriptors_max(mut self, descriptors: u32) -> Self {
        self.descriptors_max = descriptors.into();
        self
    }

    /// Most bytes that the guest may write to files that it opens; without a call of this there is
    /// no limit. Standard streams are not counted, even if they are redirected to a file. Bytes
    /// that overwrite and bytes that append count alike, and so does each that
    /// `fd_filestat_set_size` adds; a file, directory or link that is made counts as 4,096.
    /// Removing gives nothing back. A write that fits in part is cut short, and one that does not
    /// fit at all fails with errno `dquot` (19).
    pub fn disk_bytes_max(mut self, bytes: u64) -> Self {
        self.disk_bytes_max = bytes;
        self
    }

    /// What counts descriptors and bytes.
    fn quota(&mut self) -> &Arc<Quota> {
        self.quota.get_or_insert_with(Quota::new)
    }

    /// The context. Its clones, as threads have them, share its limits.
    #[must_use]
    pub fn build(self) -> WasiCtx {
        if let Some(quota) = &self.quota {
            quota.set_max(self.descriptors_max, self.disk_bytes_max);
        }
        self.ctx
    }
}

/// The clocks of the kernel, the monotonic one from now on.
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
