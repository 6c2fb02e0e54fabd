//! The methods of [`WasiBuilder`] for files.

use crate::preopens::{Preopen, Source};
use crate::wasi::WasiBuilder;
use cap_std::fs::Dir;
use pirn_memory_files::{Limits as MemoryLimits, MemoryBase};
use pirn_wasi::files::Access;
use std::sync::Arc;

impl WasiBuilder {
    /// Gives the guest a directory under a path. The guest cannot reach anything outside of the
    /// directory.
    ///
    /// Reads and writes of files block the thread while the disk works. The guest can open only
    /// regular files and directories.
    ///
    /// Several builders may share one directory, as an [`Arc`].
    #[must_use]
    pub fn preopened_dir(self, dir: impl Into<Arc<Dir>>, path: impl Into<String>) -> Self {
        self.preopened(Source::Host(dir.into()), path.into(), Access::Full)
    }

    /// Gives the guest a directory that it can read but not change. A call that would change the
    /// directory or anything below it fails with `read-only`.
    ///
    /// Only access through this descriptor is read-only. The files can still be changed through
    /// another directory that contains them, or by another process.
    #[must_use]
    pub fn preopened_dir_read_only(
        self,
        dir: impl Into<Arc<Dir>>,
        path: impl Into<String>,
    ) -> Self {
        self.preopened(Source::Host(dir.into()), path.into(), Access::ReadOnly)
    }

    /// Gives the guest a directory in memory under a path. At first the directory has the content
    /// of `base`.
    ///
    /// All instances share the base, and no instance changes it. The changes of an instance lie in
    /// memory of its own, within `limits`, and end with its [`Wasi`](crate::Wasi). The changes do
    /// not count as [bytes on disk](Self::disk_bytes_max).
    #[must_use]
    pub fn memory_dir(
        self,
        base: &MemoryBase,
        limits: MemoryLimits,
        path: impl Into<String>,
    ) -> Self {
        let source = Source::Memory(base.clone(), limits);
        self.preopened(source, path.into(), Access::Full)
    }

    fn preopened(mut self, source: Source, path: String, access: Access) -> Self {
        let preopen = Preopen {
            source,
            path,
            access,
        };
        self.config.files.preopens.push(preopen);
        self
    }

    /// Limits the files and directories that a guest has open at the same time, streams of
    /// directory entries included. The default is 64.
    ///
    /// Preopened directories do not count. A file counts until its descriptor and all its streams
    /// are dropped. A call that would exceed the limit fails with `insufficient-memory`.
    #[must_use]
    pub fn descriptors_max(mut self, descriptors: u32) -> Self {
        self.config.files.max.descriptors = descriptors.into();
        self
    }

    /// Limits the bytes that a guest may write to the files that it opens. There is no limit by
    /// default.
    ///
    /// * Overwritten and appended bytes count, and so do bytes that `set-size` adds.
    /// * A new file, directory or link counts as 4,096 bytes.
    /// * Removing a file gives no bytes back.
    /// * Standard streams are not counted, even if they are redirected to a file.
    /// * Files in memory are not counted. Their directories have limits of their own.
    ///
    /// A write that fits in part is cut short. A write that does not fit at all fails with `quota`.
    #[must_use]
    pub fn disk_bytes_max(mut self, bytes: u64) -> Self {
        self.config.files.max.disk_bytes = bytes;
        self
    }
}
