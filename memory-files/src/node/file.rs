//! [`FileNode`] and [`LinkNode`]: a file and a symbolic link of the layer.

use crate::account::Charge;
use crate::base::{MemoryBase, inode};
use crate::contents::Contents;
use crate::error::FileError;
use crate::limits::NODE_BYTES;
use crate::stat::{FileKind, NewTimes, Stat, Times, now};
use core::fmt;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use crossbeam_utils::CachePadded;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A file.
pub(crate) struct FileNode {
    inode: u64,
    /// The base, if the file comes from a base.
    base: Option<MemoryBase>,
    /// The range of the file's initial bytes among all bytes of the base.
    base_range: Range<usize>,
    /// Whether the contents may differ from the base's contents. Set before the first change, and
    /// never cleared. While it is false, readers need no lock, so that threads that read one file
    /// of the base write to no common cache line.
    is_changed: AtomicBool,
    links: AtomicU64,
    /// On cache lines of its own: threads that write to different files do not share a cache line.
    state: CachePadded<RwLock<FileState>>,
}

/// The state that a file's lock protects.
pub(crate) struct FileState {
    contents: Contents,
    times: Times,
}

impl FileNode {
    /// A new empty file. `charge` covers its node.
    pub(crate) fn new(charge: Charge) -> Arc<Self> {
        let inode = charge.account().new_inode();
        Arc::new(Self {
            inode,
            base: None,
            base_range: 0..0,
            is_changed: AtomicBool::new(true),
            links: AtomicU64::new(1),
            state: RwLock::new(FileState {
                contents: Contents::new(0..0, charge),
                times: Times::at(now()),
            })
            .into(),
        })
    }

    /// The file with the number `node` of a base.
    pub(crate) fn of_base(
        base: &MemoryBase,
        node: u32,
        range: Range<usize>,
        charge: Charge,
    ) -> Arc<Self> {
        Arc::new(Self {
            inode: inode(node),
            base: Some(base.clone()),
            base_range: range.clone(),
            is_changed: AtomicBool::new(false),
            links: AtomicU64::new(base.links(node)),
            state: RwLock::new(FileState {
                contents: Contents::new(range, charge),
                times: base.times(node),
            })
            .into(),
        })
    }

    // A closure of the caller may panic while it reads. Such a panic leaves the state unchanged.
    fn shared(&self) -> RwLockReadGuard<'_, FileState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for a change. A closure that panicked while it wrote may have left bytes
    /// after the end of the file. These bytes are freed before the file can grow.
    fn exclusive(&self) -> RwLockWriteGuard<'_, FileState> {
        self.state.write().unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.contents.free_behind_end();
            self.state.clear_poison();
            state
        })
    }

    /// Locks the state for a change of the contents.
    fn changing(&self) -> RwLockWriteGuard<'_, FileState> {
        let state = self.exclusive();
        self.is_changed.store(true, Release);
        state
    }

    /// All bytes of the base.
    fn base_bytes(&self) -> &[u8] {
        self.base.as_ref().map_or(&[], MemoryBase::all_bytes)
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    pub(crate) fn size(&self) -> u64 {
        self.shared().contents.size()
    }

    pub(crate) fn read<E>(
        &self,
        offset: u64,
        len: usize,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        // A change that begins meanwhile happens after this read.
        if !self.is_changed.load(Acquire) {
            let bytes = &self.base_bytes()[self.base_range.clone()];
            let start = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            let bytes = &bytes[start..start.saturating_add(len).min(bytes.len())];
            if !bytes.is_empty() {
                sink(bytes)?;
            }
            return Ok(bytes.len());
        }
        let state = self.shared();
        state.contents.read(self.base_bytes(), offset, len, sink)
    }

    /// Writes at `offset`, or at the end of the file if `offset` is `None`. Returns the offset and
    /// the number of bytes.
    pub(crate) fn write<E: From<FileError>>(
        &self,
        offset: Option<u64>,
        len: usize,
        fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(u64, usize), E> {
        let mut state = self.changing();
        let offset = offset.unwrap_or(state.contents.size());
        let base = self.base_bytes();
        let written = state.contents.write(base, offset, len, fill)?;
        if written > 0 {
            state.times.touch();
        }
        Ok((offset, written))
    }

    pub(crate) fn set_size(&self, size: u64) -> Result<(), FileError> {
        let mut state = self.changing();
        state.contents.set_size(size)?;
        state.times.touch();
        Ok(())
    }

    pub(crate) fn set_times(&self, new: NewTimes) {
        self.exclusive().times.set(new);
    }

    pub(crate) fn stat(&self) -> Stat {
        let state = self.shared();
        Stat {
            inode: self.inode,
            kind: FileKind::File,
            links: self.links.load(Relaxed),
            size_bytes: state.contents.size(),
            accessed: state.times.accessed,
            modified: state.times.modified,
            changed: state.times.changed,
        }
    }

    /// Counts one more name, before a directory has it: the count is never less than the names.
    pub(crate) fn link(&self) {
        self.links.fetch_add(1, Relaxed);
    }

    /// Counts one name less. Returns whether no name is left.
    pub(crate) fn unlink(&self) -> bool {
        self.links.fetch_sub(1, Relaxed) == 1
    }

    /// Records a change of the number of names. The caller holds no lock of a directory.
    pub(crate) fn touch_attributes(&self) {
        self.exclusive().times.touch_attributes();
    }
}

impl fmt::Debug for FileNode {
    /// Prints no contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileNode")
            .field("inode", &self.inode)
            .finish_non_exhaustive()
    }
}

/// A symbolic link.
#[derive(Debug)]
pub(crate) struct LinkNode {
    inode: u64,
    target: Arc<str>,
    links: AtomicU64,
    times: RwLock<Times>,
    _charge: Charge,
}

impl LinkNode {
    /// A new symbolic link. `charge` covers its node and its target.
    pub(crate) fn new(target: &str, charge: Charge) -> Arc<Self> {
        Arc::new(Self {
            inode: charge.account().new_inode(),
            target: target.into(),
            links: AtomicU64::new(1),
            times: RwLock::new(Times::at(now())),
            _charge: charge,
        })
    }

    /// The symbolic link with the number `node` of a base.
    pub(crate) fn of_base(
        base: &MemoryBase,
        node: u32,
        target: &Arc<str>,
        charge: Charge,
    ) -> Arc<Self> {
        Arc::new(Self {
            inode: inode(node),
            target: Arc::clone(target),
            links: AtomicU64::new(base.links(node)),
            times: RwLock::new(base.times(node)),
            _charge: charge,
        })
    }

    /// Bytes to charge for a link with this target.
    pub(crate) fn bytes(target: &str) -> u64 {
        NODE_BYTES + target.len() as u64
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    pub(crate) fn target(&self) -> &Arc<str> {
        &self.target
    }

    pub(crate) fn set_times(&self, new: NewTimes) {
        let times = self.times.write();
        times.unwrap_or_else(PoisonError::into_inner).set(new);
    }

    /// Counts one more name.
    pub(crate) fn link(&self) {
        self.links.fetch_add(1, Relaxed);
    }

    /// Counts one name less. Returns whether no name is left.
    pub(crate) fn unlink(&self) -> bool {
        self.links.fetch_sub(1, Relaxed) == 1
    }

    pub(crate) fn stat(&self) -> Stat {
        let times = *self.times.read().unwrap_or_else(PoisonError::into_inner);
        Stat {
            inode: self.inode,
            kind: FileKind::Symlink,
            links: self.links.load(Relaxed),
            size_bytes: self.target.len() as u64,
            accessed: times.accessed,
            modified: times.modified,
            changed: times.changed,
        }
    }
}
