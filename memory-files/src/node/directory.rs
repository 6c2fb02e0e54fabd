//! [`DirectoryNode`]: a directory of the layer.

use super::Node;
use super::names::{Found, Names};
use crate::account::Charge;
use crate::base::{MemoryBase, inode};
use crate::stat::{DIRECTORY_BYTES, FileKind, NewTimes, Stat, Times, now};
use core::fmt;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// A directory.
pub(crate) struct DirectoryNode {
    inode: u64,
    names: RwLock<Names>,
    /// The directory that contains this directory. The parent changes only while the instance's
    /// lock for moves is held.
    parent: Mutex<Weak<DirectoryNode>>,
}

impl DirectoryNode {
    /// A new empty directory. `charge` covers its node.
    pub(crate) fn new(parent: Weak<Self>, charge: Charge) -> Arc<Self> {
        Arc::new(Self {
            inode: charge.account().new_inode(),
            names: RwLock::new(Names::new(None, Times::at(now()), charge)),
            parent: Mutex::new(parent),
        })
    }

    /// The directory with the number `node` of a base.
    pub(crate) fn of_base(
        base: &MemoryBase,
        node: u32,
        parent: Weak<Self>,
        charge: Charge,
    ) -> Arc<Self> {
        let names = Names::new(Some((base.clone(), node)), base.times(node), charge);
        Arc::new(Self {
            inode: inode(node),
            names: RwLock::new(names),
            parent: Mutex::new(parent),
        })
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    // No function panics while it holds the lock. So even a poisoned lock protects consistent
    // names.
    pub(crate) fn shared(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn exclusive(&self) -> RwLockWriteGuard<'_, Names> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node that a name leads to.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        self.shared().find(name)
    }

    pub(crate) fn parent(&self) -> Option<Arc<Self>> {
        let parent = self.parent.lock();
        parent.unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    pub(crate) fn set_parent(&self, parent: Weak<Self>) {
        *self.parent.lock().unwrap_or_else(PoisonError::into_inner) = parent;
    }

    pub(crate) fn set_times(&self, new: NewTimes) {
        self.exclusive().times.set(new);
    }

    pub(crate) fn stat(&self) -> Stat {
        let names = self.shared();
        Stat {
            inode: self.inode,
            kind: FileKind::Directory,
            links: if names.is_removed {
                0
            } else {
                2 + names.directories
            },
            size_bytes: DIRECTORY_BYTES,
            accessed: names.times.accessed,
            modified: names.times.modified,
            changed: names.times.changed,
        }
    }
}

impl fmt::Debug for DirectoryNode {
    /// Prints no names: printing a deep tree would overflow the stack.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectoryNode")
            .field("inode", &self.inode)
            .finish_non_exhaustive()
    }
}

impl Drop for DirectoryNode {
    /// Frees all nodes below by a loop. A guest may nest 100,000 directories, and a recursion
    /// would overflow the host's stack.
    fn drop(&mut self) {
        let names = self.names.get_mut();
        let mut left = names.unwrap_or_else(PoisonError::into_inner).take_nodes();
        while let Some(node) = left.pop() {
            if let Node::Directory(directory) = node
                && let Some(mut directory) = Arc::into_inner(directory)
            {
                let names = directory.names.get_mut();
                let names = names.unwrap_or_else(PoisonError::into_inner);
                left.append(&mut names.take_nodes());
            }
        }
    }
}

/// The names of several directories, all locked.
pub(crate) struct Locked<'a>(SmallVec<[(u64, RwLockWriteGuard<'a, Names>); 3]>);

/// Locks several directories, in the order of their inode numbers, so that two threads never wait
/// for each other. A directory may occur twice.
pub(crate) fn lock_all<'a>(directories: &[&'a DirectoryNode]) -> Locked<'a> {
    let mut sorted: SmallVec<[&DirectoryNode; 3]> = directories.into();
    sorted.sort_unstable_by_key(|directory| directory.inode);
    sorted.dedup_by_key(|directory| directory.inode);
    let locked = sorted.into_iter();
    Locked(
        locked
            .map(|directory| (directory.inode, directory.exclusive()))
            .collect(),
    )
}

impl Locked<'_> {
    /// The names of a directory that was locked.
    ///
    /// # Panics
    ///
    /// If the directory was not locked.
    pub(crate) fn of(&mut self, directory: &DirectoryNode) -> &mut Names {
        let mut locked = self.0.iter_mut();
        let found = locked.find(|(inode, _)| *inode == directory.inode);
        &mut found.expect("the caller locked the directory").1
    }
}
