//! [`Table`]: the descriptors of a guest, by number. [`Descriptor`]: what a number stands for.
//!
//! All threads of a guest use one table. The descriptors that a guest opens are spread over several
//! locks by number, so that threads that use different descriptors share no cache line.

use crate::errno::Errno;
use crate::fdflags::FdFlags;
use crate::files::{File, FileKind, Folder, Metadata};
use crate::stream::Stream;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU16, AtomicU32};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

/// What a descriptor stands for.
pub(crate) enum Descriptor {
    /// Boxed, because its alignment would make each stream of a new guest as large.
    File(Box<OpenFile>),
    Folder(OpenFolder),
    Stream(Stream),
}

/// A regular file that the guest has opened.
///
/// The alignment gives each file its own cache lines and so avoids false sharing. Threads that read
/// different files write to the positions of these files.
#[repr(align(128))]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// The file position. The lock is held during a read or write at the position, as on Linux.
    position: Mutex<u64>,
    flags: AtomicU16,
}

impl OpenFile {
    /// A file that the guest opened with these flags.
    pub(crate) fn new(file: File, flags: FdFlags) -> Self {
        Self {
            file,
            position: Mutex::new(0),
            flags: AtomicU16::new(flags.reported().bits()),
        }
    }

    pub(crate) fn position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn flags(&self) -> FdFlags {
        FdFlags::from_known(self.flags.load(Relaxed))
    }

    /// Sets the flags.
    ///
    /// # Errors
    ///
    /// `inval` for flags of synchronous writes, as with fcntl(2).
    pub(crate) fn set_flags(&self, flags: FdFlags) -> Result<(), Errno> {
        match FdFlags::CHANGEABLE.contains(flags) {
            true => {
                self.flags.store(flags.bits(), Relaxed);
                Ok(())
            }
            false => Err(Errno::INVAL),
        }
    }
}

/// A directory that the guest has opened or was given.
pub(crate) struct OpenFolder {
    pub(crate) folder: Folder,
    /// The name of a preopened directory.
    pub(crate) name: Option<Box<str>>,
}

impl Descriptor {
    /// The directory.
    ///
    /// # Errors
    ///
    /// `badf` if it is none.
    pub(crate) fn folder(&self) -> Result<&OpenFolder, Errno> {
        match self {
            Self::Folder(folder) => Ok(folder),
            _ => Err(Errno::BADF),
        }
    }

    /// The stream, which may be a socket.
    ///
    /// # Errors
    ///
    /// `notsock` if it is none.
    pub(crate) fn socket(&self) -> Result<&Stream, Errno> {
        match self {
            Self::Stream(stream) if stream.is_socket() => Ok(stream),
            _ => Err(Errno::NOTSOCK),
        }
    }

    pub(crate) fn metadata(&self) -> Result<Metadata, Errno> {
        match self {
            Self::File(open) => open.file.metadata(),
            Self::Folder(open) => open.folder.metadata(),
            Self::Stream(stream) => stream.metadata(),
        }
    }

    /// The type, the flags, and the rights to read and to write.
    pub(crate) fn status(&self) -> Result<(FileKind, FdFlags, (bool, bool)), Errno> {
        Ok(match self {
            Self::File(open) => {
                let rights = (open.file.is_readable, open.file.is_writable);
                (FileKind::RegularFile, open.flags(), rights)
            }
            Self::Folder(_) => (FileKind::Directory, FdFlags::default(), (false, false)),
            Self::Stream(stream) => {
                let rights = (stream.is_readable, stream.is_writable);
                (stream.kind()?, stream.flags(), rights)
            }
        })
    }
}

/// Number of locks that opened descriptors are spread over. A guest opens successive numbers.
const SHARDS: usize = 16;

type Descriptors = HashMap<u32, Arc<Descriptor>, FxBuildHasher>;

#[derive(Default)]
#[repr(align(128))]
struct Shard(RwLock<Descriptors>);

/// The descriptors of a guest, by number. Each number is given once.
#[derive(Default)]
pub(crate) struct Table {
    /// The descriptors with which the guest began, by number, and those moved to these numbers.
    given: RwLock<Vec<Option<Arc<Descriptor>>>>,
    given_count: u32,
    /// The descriptors with other numbers. `None` until the guest opens one.
    opened: OnceLock<Box<[Shard; SHARDS]>>,
    /// The next number.
    next: AtomicU32,
    /// Held exclusively while a descriptor is renumbered, and shared while one is closed: a
    /// descriptor has at most one number at a time.
    renumbering: RwLock<()>,
}

/// The place of a number, locked.
enum Place<'a> {
    Given(RwLockWriteGuard<'a, Vec<Option<Arc<Descriptor>>>>),
    Opened(RwLockWriteGuard<'a, Descriptors>),
}

impl Place<'_> {
    fn set(&mut self, number: u32, new: Option<Arc<Descriptor>>) -> Option<Arc<Descriptor>> {
        match (self, new) {
            (Self::Given(given), new) => core::mem::replace(given.get_mut(number as usize)?, new),
            (Self::Opened(opened), Some(new)) => opened.insert(number, new),
            (Self::Opened(opened), None) => opened.remove(&number),
        }
    }
}

impl Table {
    /// A table with the descriptors with which a guest begins.
    pub(crate) fn new(given: Vec<Option<Descriptor>>) -> Self {
        let count = given.len() as u32;
        let given = given.into_iter().map(|found| found.map(Arc::new)).collect();
        Self {
            given: RwLock::new(given),
            given_count: count,
            next: AtomicU32::new(count),
            ..Self::default()
        }
    }

    fn shard(&self, number: u32) -> &RwLock<Descriptors> {
        let shards = self.opened.get_or_init(Box::default);
        &shards[number as usize % SHARDS].0
    }

    fn place(&self, number: u32) -> Place<'_> {
        match number < self.given_count {
            true => Place::Given(self.given.write().unwrap_or_else(PoisonError::into_inner)),
            false => {
                let shard = self.shard(number).write();
                Place::Opened(shard.unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// The descriptor with a number.
    ///
    /// # Errors
    ///
    /// `badf` if there is none.
    pub(crate) fn get(&self, number: u32) -> Result<Arc<Descriptor>, Errno> {
        let found = match number < self.given_count {
            true => {
                let given = self.given.read().unwrap_or_else(PoisonError::into_inner);
                given[number as usize].clone()
            }
            // A number that no descriptor had needs no place.
            false => self.opened.get().and_then(|shards| {
                let shard = shards[number as usize % SHARDS].0.read();
                let shard = shard.unwrap_or_else(PoisonError::into_inner);
                shard.get(&number).cloned()
            }),
        };
        found.ok_or(Errno::BADF)
    }

    /// Sets the descriptor with a number, before the guest begins.
    pub(crate) fn insert(&self, number: u32, new: Descriptor) {
        self.place(number).set(number, Some(Arc::new(new)));
    }

    /// Adds a descriptor, and returns its number.
    ///
    /// # Errors
    ///
    /// `nfile` if all numbers were given.
    pub(crate) fn add(&self, new: Descriptor) -> Result<u32, Errno> {
        let next = |next: u32| next.checked_add(1);
        loop {
            let number = self.next.fetch_update(Relaxed, Relaxed, next);
            let number = number.map_err(|_| Errno::NFILE)?;
            // The embedder may have given the number to a socket.
            if self.get(number).is_err() {
                self.insert(number, new);
                return Ok(number);
            }
        }
    }

    /// Removes a descriptor. The file is closed when the last operation on it ends.
    ///
    /// # Errors
    ///
    /// `badf` if there is none.
    pub(crate) fn close(&self, number: u32) -> Result<(), Errno> {
        self.get(number)?;
        let closed = {
            let order = self.renumbering.read();
            let _order = order.unwrap_or_else(PoisonError::into_inner);
            self.place(number).set(number, None)
        };
        // The file is closed without a lock: to close a file of the host may take long.
        closed.map(drop).ok_or(Errno::BADF)
    }

    /// Closes descriptor `to`, and gives its number to the descriptor `from`.
    ///
    /// # Errors
    ///
    /// `badf` if one of them does not exist.
    pub(crate) fn renumber(&self, from: u32, to: u32) -> Result<(), Errno> {
        let order = self.renumbering.write();
        let order = order.unwrap_or_else(PoisonError::into_inner);
        let moved = self.get(from)?;
        self.get(to)?;
        if from == to {
            return Ok(());
        }
        let old = self.place(from).set(from, None);
        let replaced = self.place(to).set(to, Some(moved));
        drop(order);
        drop((old, replaced));
        Ok(())
    }

    /// The numbers of all descriptors, ascending.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let given = self.given.read().unwrap_or_else(PoisonError::into_inner);
        let given = (0..).zip(&*given).filter(|(_, found)| found.is_some());
        let mut numbers: Vec<_> = given.map(|(number, _)| number).collect();
        for shard in self.opened.get().into_iter().flat_map(|shards| &shards[..]) {
            let shard = shard.0.read().unwrap_or_else(PoisonError::into_inner);
            numbers.extend(shard.keys());
        }
        numbers.sort_unstable();
        numbers
    }
}
