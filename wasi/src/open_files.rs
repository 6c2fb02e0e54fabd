//! [`OpenFiles`]: the files in memory that a guest has open, by descriptor, and the order of calls
//! that change what a descriptor means.
//!
//! wasi-common's descriptor table has one lock that all threads of a guest take, and no function
//! that returns its files. Reads and writes of files in memory look here first. The files are
//! spread over several locks by descriptor, so that threads that use different descriptors share no
//! cache line.
//!
//! An entry is only a short cut. Without it, a call goes through wasi-common, with the same result.
//! There is one exception: wasi-common cannot set a descriptor's flags if the guest has threads.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use pirn_memory_files::MemoryFile;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use wasi_common::file::{FdFlags, FileAccessMode};

/// Locks that descriptors are spread over. Descriptors that a guest opens have successive numbers.
const SHARDS: usize = 16;

/// An open file in memory.
///
/// The alignment gives each its own cache lines: two threads that read different files write to
/// different positions.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OpenFile {
    pub(crate) file: MemoryFile,
    /// What the guest may do by its rights. The file itself may have been opened with more.
    pub(crate) access: FileAccessMode,
    /// Held during a read or write at the position, as Linux does.
    position: Mutex<u64>,
    /// The flags (`fdflags`). All but `append` change nothing.
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

/// By descriptor: its file, or `None` if it was renumbered and is no file in memory.
type Files = HashMap<u32, Option<Arc<OpenFile>>>;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<Files>);

/// The open files in memory of one context.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    /// `None` if the guest has no directory in memory.
    shards: Option<Box<[Shard; SHARDS]>>,
    /// Held while a descriptor is renumbered, and shared while one is closed or recorded.
    ///
    /// wasi-common closes a descriptor in two steps: it looks whether it is a file or a directory,
    /// and removes it as such. It panics if another thread makes it the other one in between.
    renumbering: RwLock<()>,
}

impl OpenFiles {
    /// For a guest that has a directory in memory.
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

    /// Records the file of a descriptor that was just opened, unless another thread has closed or
    /// replaced it already. `is_open` returns whether the descriptor is open.
    pub(crate) fn add(&self, fd: u32, file: Arc<OpenFile>, is_open: impl FnOnce() -> bool) {
        let _guard = self.without_renumbering();
        let Some(shard) = self.shard(fd) else {
            return;
        };
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        // wasi-common gives each number once. So if it is open, it is this file, or the one that it
        // was replaced by, which has an entry.
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

    /// Runs `close`, which closes a descriptor, and removes its entry. Closing a file of the host
    /// may take long; only threads that renumber wait for it.
    pub(crate) fn close<R>(&self, fd: u32, close: impl FnOnce() -> R) -> R {
        let guard = self.without_renumbering();
        let closed = close();
        // Removed last: a thread that was about to record the descriptor finds it closed, or has
        // recorded it by now.
        let file = self.remove(fd);
        drop(guard);
        // The file's memory may be freed here, without a lock.
        drop(file);
        closed
    }

    /// Runs `renumber`, which gives a descriptor another number and closes that one. It returns
    /// whether it did so.
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
