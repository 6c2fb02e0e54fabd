//! [`MemoryBase`]: the nodes of a base, in arrays.

use crate::stat::{DIRECTORY_BYTES, FileKind, Stat, Times};
use core::fmt;
use core::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

/// The number of the root directory.
pub(crate) const ROOT: u32 = 0;

/// An immutable tree of directories, files and symbolic links, shared by instances and threads.
///
/// Cloning it copies a pointer. The bytes of all files are one allocation.
#[derive(Clone)]
pub struct MemoryBase(Arc<Arrays>);

pub(super) struct Arrays {
    pub(super) nodes: Vec<BaseNode>,
    /// The entries of all directories. The entries of one directory are adjacent and sorted by
    /// name.
    pub(super) entries: Vec<BaseEntry>,
    /// The contents of all files.
    pub(super) bytes: Box<[u8]>,
    /// When the base was made, which is when its files changed last.
    pub(super) made: SystemTime,
}

/// A node of the base. Its number is its index.
pub(super) struct BaseNode {
    pub(super) content: Content,
    pub(super) links: u64,
    pub(super) modified: SystemTime,
}

/// The contents of a node of the base.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// The range of a file's bytes.
    File(Range<usize>),
    /// The range of a directory's entries.
    Directory(Range<usize>),
    /// A symbolic link's target.
    Symlink(Arc<str>),
}

/// An entry of a directory.
pub(super) struct BaseEntry {
    pub(super) name: Box<str>,
    pub(super) node: u32,
}

impl MemoryBase {
    pub(super) fn from_arrays(arrays: Arrays) -> Self {
        Self(Arc::new(arrays))
    }

    /// Files, directories and symbolic links, with the root.
    #[must_use]
    pub fn files(&self) -> usize {
        self.0.nodes.len()
    }

    /// Bytes in all files together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.len()
    }

    /// The contents of a node.
    pub(crate) fn content(&self, node: u32) -> &Content {
        &self.0.nodes[node as usize].content
    }

    /// The contents of all files.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The number of entries of a directory.
    pub(crate) fn len(&self, directory: u32) -> usize {
        self.range(directory).len()
    }

    /// The position of a name in a directory.
    pub(crate) fn find(&self, directory: u32, name: &str) -> Option<usize> {
        let entries = &self.0.entries[self.range(directory)];
        let found = entries.binary_search_by(|entry| (*entry.name).cmp(name));
        found.ok()
    }

    /// The name and the node at a position of a directory.
    pub(crate) fn entry(&self, directory: u32, position: usize) -> (&str, u32) {
        let entry = &self.0.entries[self.range(directory)][position];
        (&entry.name, entry.node)
    }

    fn range(&self, directory: u32) -> Range<usize> {
        match self.content(directory) {
            Content::Directory(range) => range.clone(),
            _ => 0..0,
        }
    }

    /// The kind of a node.
    pub(crate) fn kind(&self, node: u32) -> FileKind {
        match self.content(node) {
            Content::File(_) => FileKind::File,
            Content::Directory(_) => FileKind::Directory,
            Content::Symlink(_) => FileKind::Symlink,
        }
    }

    /// The number of names of a node.
    pub(crate) fn links(&self, node: u32) -> u64 {
        self.0.nodes[node as usize].links
    }

    /// The times of a node.
    pub(crate) fn times(&self, node: u32) -> Times {
        Times {
            changed: self.0.made,
            ..Times::at(self.0.nodes[node as usize].modified)
        }
    }

    /// The attributes of a node that no instance has changed.
    pub(crate) fn stat(&self, node: u32) -> Stat {
        let size_bytes = match self.content(node) {
            Content::File(range) => range.len() as u64,
            Content::Directory(_) => DIRECTORY_BYTES,
            Content::Symlink(target) => target.len() as u64,
        };
        let times = self.times(node);
        Stat {
            inode: inode(node),
            kind: self.kind(node),
            links: self.links(node),
            size_bytes,
            accessed: times.accessed,
            modified: times.modified,
            changed: times.changed,
        }
    }
}

/// The inode number of a node of the base. The instance's own nodes have higher numbers.
pub(crate) fn inode(node: u32) -> u64 {
    u64::from(node) + 1
}

impl fmt::Debug for MemoryBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBase")
            .field("files", &self.files())
            .field("bytes", &self.bytes())
            .finish()
    }
}
