//! [`OpenFiles`]: the files in memory that a guest has open, by descriptor.
//!
//! wasi-common's descriptor table has one lock that all threads of a guest take, and no function
//! that returns its files. Reads and writes of files in memory look here first. The files are
//! spread over several locks by descriptor, so that threads that use different descriptors share no
//! cache line.
//!
//! An entry is only a short cut. Without it, a call goes through wasi-common, with the same result.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use pirn_memory_files::MemoryFile;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
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

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<HashMap<u32, Arc<OpenFile>>>);

/// The open files in memory of one context.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles {
    shards: [Shard; SHARDS],
    /// Number of descriptors that were closed or renumbered. The lock is held meanwhile.
    changes: Mutex<u64>,
}

impl OpenFiles {
    fn shard(&self, fd: u32) -> &RwLock<HashMap<u32, Arc<OpenFile>>> {
        &self.shards[fd as usize % SHARDS].0
    }

    /// The open file of a descriptor.
    pub(crate) fn get(&self, fd: u32) -> Option<Arc<OpenFile>> {
        let shard = self
            .shard(fd)
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        shard.get(&fd).cloned()
    }

    /// The number of descriptors that were closed or renumbered until now.
    pub(crate) fn changes(&self) -> u64 {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the file of a descriptor that was opened when [`changes`](Self::changes) was
    /// `before`. If another thread has closed or renumbered any descriptor since, the descriptor
    /// may be another file by now, and gets no entry.
    pub(crate) fn add(&self, fd: u32, file: Arc<OpenFile>, before: u64) {
        let changes = self.lock();
        if *changes == before {
            let shard = self.shard(fd).write();
            let mut shard = shard.unwrap_or_else(PoisonError::into_inner);
            shard.insert(fd, file);
        }
    }

    fn remove(&self, fd: u32) -> Option<Arc<OpenFile>> {
        let shard = self.shard(fd).write();
        shard.unwrap_or_else(PoisonError::into_inner).remove(&fd)
    }

    /// Runs `close`, which closes a descriptor, and removes its entry.
    pub(crate) fn close<R>(&self, fd: u32, close: impl FnOnce() -> R) -> R {
        let mut changes = self.lock();
        *changes += 1;
        let file = self.remove(fd);
        let closed = close();
        drop(changes);
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
        let mut changes = self.lock();
        *changes += 1;
        let result = renumber();
        if is_done(&result) && from != to {
            let replaced = self.remove(to);
            if let Some(file) = self.remove(from) {
                let shard = self.shard(to).write();
                shard
                    .unwrap_or_else(PoisonError::into_inner)
                    .insert(to, file);
            }
            drop(changes);
            drop(replaced);
        }
        result
    }
}
