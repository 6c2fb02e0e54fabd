//! [`OpenFiles`]: the files in memory that a guest has open, by descriptor. It also orders the
//! calls that close or renumber descriptors.
//!
//! wasi-common's descriptor table has one lock that all threads of a guest take, and no function
//! that returns its files. Reads and writes of files in memory look here first. The files are
//! spread over several locks by descriptor, so that threads that use different descriptors share no
//! cache line.
//!
//! An entry is only a short cut. Without an entry, a call goes through wasi-common, with the same
//! result. There is one exception: wasi-common cannot set a descriptor's flags if the guest has
//! threads.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use pirn_memory_files::MemoryFile;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use wasi_common::file::{FdFlags, FileAccessMode};

/// Number of locks that descriptors are spread over. Descriptors that a guest opens have successive
/// numbers.
const SHARDS: usize = 16;

/// An open file in memory.
///
/// The alignment gives each file its own cache lines and so avoids false sharing. Threads that read
/// different files write to the positions of these files.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OpenFile {
    pub(crate) file: MemoryFile,
    /// The access that the guest's rights allow. The file itself may be open for more.
    pub(crate) access: FileAccessMode,
    /// The file position. The lock is held during a read or write at the position, as on Linux.
    position: Mutex<u64>,
    /// The flags (`fdflags`). Only `append` has an effect.
    flags: AtomicU32,
}

impl OpenFile {
    pub(crate) fn new(file: MemoryFile, access: FileAccessMode, flags: FdFlags) -> Self {
        Self {
            file,
            access,
            position: Mutex::new(0),
            flags: AtomicU32::new(flags.bits()),
        }
    }

    pub(crate) fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn appends(&self) -> bool {
        self.flags().contains(FdFlags::APPEND)
    }

    pub(crate) fn flags(&self) -> FdFlags {
        FdFlags::from_bits_truncate(self.flags.load(Relaxed))
    }

    pub(crate) fn set_flags(&self, flags: FdFlags) {
        self.flags.store(flags.bits(), Relaxed);
    }
}

/// For a descriptor, its file; `None` if `fd_renumber` replaced the file by another kind of
/// descriptor.
type Files = HashMap<u32, Option<Arc<OpenFile>>>;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<Files>);

/// The open files in memory of one context.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    /// `None` if the guest has no directory in memory.
    shards: Option<Box<[Shard; SHARDS]>>,
    /// Held exclusively while a descriptor is renumbered, and shared while a descriptor is closed
    /// or recorded.
    ///
    /// wasi-common closes a descriptor in two steps: it finds out whether the descriptor is a file
    /// or a directory, and then removes that kind. It panics if another thread changes the kind
    /// between the steps.
    renumbering: RwLock<()>,
}

impl OpenFiles {
    /// Open files for a guest that has a directory in memory.
    pub(crate) fn in_memory() -> Self {
        Self {
            shards: Some(Box::default()),
            renumbering: RwLock::default(),
        }
    }

    fn shard(&self, fd: u32) -> Option<&RwLock<Files>> {
        let shards = self.shards.as_ref()?;
        Some(&shards[fd as usize % SHARDS].0)
    }

    /// The open file of a descriptor.
    pub(crate) fn get(&self, fd: u32) -> Option<Arc<OpenFile>> {
        let shard = self.shard(fd)?.read();
        let shard = shard.unwrap_or_else(PoisonError::into_inner);
        shard.get(&fd).cloned().flatten()
    }

    fn without_renumbering(&self) -> RwLockReadGuard<'_, ()> {
        let guard = self.renumbering.read();
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the file of a descriptor that was just opened, unless another thread has already
    /// closed or replaced the descriptor. `is_open` returns whether the descriptor is open.
    pub(crate) fn add(&self, fd: u32, file: Arc<OpenFile>, is_open: impl FnOnce() -> bool) {
        let _guard = self.without_renumbering();
        let Some(shard) = self.shard(fd) else {
            return;
        };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        // wasi-common gives each number once. So an open `fd` is this file, or a replacement by
        // `fd_renumber`, which already has an entry.
        if is_open() {
            shard.entry(fd).or_insert(Some(file));
        }
    }

    fn set(&self, fd: u32, file: Option<Arc<OpenFile>>) -> Option<Arc<OpenFile>> {
        let shard = self.shard(fd)?.write();
        let mut shard = shard.unwrap_or_else(PoisonError::into_inner);
        shard.insert(fd, file).flatten()
    }

    fn remove(&self, fd: u32) -> Option<Arc<OpenFile>> {
        let shard = self.shard(fd)?.write();
        let mut shard = shard.unwrap_or_else(PoisonError::into_inner);
        shard.remove(&fd).flatten()
    }

    /// Runs `close`, which closes a descriptor, and removes the entry. Closing a file of the host
    /// may take long; only threads that renumber wait for `close`.
    pub(crate) fn close<R>(&self, fd: u32, close: impl FnOnce() -> R) -> R {
        let guard = self.without_renumbering();
        let closed = close();
        // Removed after `close`: a thread that was about to record the descriptor finds it closed,
        // or has already recorded it.
        let file = self.remove(fd);
        drop(guard);
        // The file's memory may be freed here, without a lock.
        drop(file);
        closed
    }

    /// Runs `renumber`, which closes descriptor `to` and moves descriptor `from` to that number.
    /// `is_done` says whether the result of `renumber` is a success.
    pub(crate) fn renumber<R>(
        &self,
        (from, to): (u32, u32),
        renumber: impl FnOnce() -> R,
        is_done: impl FnOnce(&R) -> bool,
    ) -> R {
        let guard = self.renumbering.write();
        let guard = guard.unwrap_or_else(PoisonError::into_inner);
        let result = renumber();
        if is_done(&result) && from != to {
            let file = self.remove(from);
            let replaced = self.set(to, file);
            drop(guard);
            drop(replaced);
        }
        result
    }
}
