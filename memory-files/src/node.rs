//! The nodes of one instance's layer: files, directories and symbolic links.
//!
//! Opening a file of the base creates a node for it in the instance's layer. Files and directories
//! have one lock each. No operation waits for a file's lock while it holds a directory's lock: the
//! caller's closure runs with the file locked, and may use directories. No operation holds one
//! directory's lock while it waits for another directory's lock, except by [`lock_all`], which
//! takes locks in the order of inode numbers.

mod directory;
mod file;
mod names;

pub(crate) use directory::{DirectoryNode, lock_all};
pub(crate) use file::{FileNode, LinkNode};
pub use names::DirEntry;
pub(crate) use names::Found;

use crate::stat::{FileKind, Stat};
use std::sync::Arc;

/// A node of the layer.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    File(Arc<FileNode>),
    Directory(Arc<DirectoryNode>),
    Link(Arc<LinkNode>),
}

impl Node {
    /// The inode number.
    pub(crate) fn inode(&self) -> u64 {
        match self {
            Self::File(file) => file.inode(),
            Self::Directory(directory) => directory.inode(),
            Self::Link(link) => link.inode(),
        }
    }

    /// The kind.
    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Self::File(_) => FileKind::File,
            Self::Directory(_) => FileKind::Directory,
            Self::Link(_) => FileKind::Symlink,
        }
    }

    /// The attributes.
    pub(crate) fn stat(&self) -> Stat {
        match self {
            Self::File(file) => file.stat(),
            Self::Directory(directory) => directory.stat(),
            Self::Link(link) => link.stat(),
        }
    }

    /// Whether both are the same node of one instance.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.inode() == other.inode()
    }
}
