//! [`Tree`]: the state that all directories and files of one instance share.

use crate::account::{Account, Charge};
use crate::base::{Content, MemoryBase, ROOT, inode};
use crate::error::FileError;
use crate::limits::{DIRECTORY_NODE_BYTES, Limits, NODE_BYTES};
use crate::node::{DirectoryNode, FileNode, Found, LinkNode, Node};
use crate::stat::{FileKind, Stat};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// One instance's layer above a base.
#[derive(Debug)]
pub(crate) struct Tree {
    account: Arc<Account>,
    base: MemoryBase,
    /// Held while a directory moves to another directory, so that no cycle arises.
    moves: Mutex<()>,
    /// Opened nodes of the base with several names, by number, while they have a name.
    linked: Mutex<HashMap<u32, Node>>,
}

impl Tree {
    /// The layer of a new instance, and its root directory.
    pub(crate) fn new(base: &MemoryBase, limits: Limits) -> (Arc<Self>, Arc<DirectoryNode>) {
        let account = Account::new(limits, inode(base.files() as u32));
        let charge = Charge::none(&account);
        let root = DirectoryNode::of_base(base, ROOT, Weak::new(), charge);
        let tree = Self {
            account,
            base: base.clone(),
            moves: Mutex::new(()),
            linked: Mutex::default(),
        };
        (Arc::new(tree), root)
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(crate) fn lock_moves(&self) -> MutexGuard<'_, ()> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges one node that the instance makes, and `bytes` bytes.
    pub(crate) fn charge(&self, bytes: u64) -> Result<Charge, FileError> {
        Charge::take(&self.account, bytes, 1)
    }

    /// The kind of the node that a name leads to.
    pub(crate) fn kind(&self, found: &Found) -> FileKind {
        match found {
            Found::Node(node) => node.kind(),
            Found::Base(number) => self.base.kind(*number),
        }
    }

    /// The attributes of the node that a name leads to.
    pub(crate) fn stat(&self, found: &Found) -> Stat {
        match found {
            Found::Node(node) => node.stat(),
            // The file may have been opened by another name.
            Found::Base(number) if self.is_linked(*number) => {
                let opened = self.linked(*number);
                opened.map_or_else(|| self.base.stat(*number), |node| node.stat())
            }
            Found::Base(number) => self.base.stat(*number),
        }
    }

    /// The target of a symbolic link; `None` if the name leads to no symbolic link.
    pub(crate) fn target(&self, found: &Found) -> Option<Arc<str>> {
        match found {
            Found::Node(Node::Link(link)) => Some(Arc::clone(link.target())),
            Found::Node(_) => None,
            Found::Base(number) => match self.base.content(*number) {
                Content::Symlink(target) => Some(Arc::clone(target)),
                _ => None,
            },
        }
    }

    /// Whether a node of the base is a file or symbolic link with several names.
    fn is_linked(&self, number: u32) -> bool {
        self.base.kind(number) != FileKind::Directory && self.base.links(number) > 1
    }

    /// The node of the layer for a name. Makes the node if the name leads to a node of the base.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`]; [`FileError::NoSpace`] at the limit of bytes.
    pub(crate) fn node(
        &self,
        directory: &Arc<DirectoryNode>,
        name: &str,
    ) -> Result<Node, FileError> {
        match directory.find(name) {
            Some(Found::Node(node)) => return Ok(node),
            Some(Found::Base(_)) => {}
            None => return Err(FileError::NotFound),
        }
        let mut names = directory.exclusive();
        match names.find(name) {
            // Another thread has made the node meanwhile.
            Some(Found::Node(node)) => Ok(node),
            Some(Found::Base(number)) => {
                let node = self.open(number, directory)?;
                names.open(name, node.clone())?;
                Ok(node)
            }
            None => Err(FileError::NotFound),
        }
    }

    /// A node of the layer for a node of the base.
    fn open(&self, number: u32, directory: &Arc<DirectoryNode>) -> Result<Node, FileError> {
        if !self.is_linked(number) {
            return self.open_new(number, directory);
        }
        let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = linked.get(&number) {
            return Ok(node.clone());
        }
        let node = self.open_new(number, directory)?;
        linked.insert(number, node.clone());
        Ok(node)
    }

    fn open_new(&self, number: u32, directory: &Arc<DirectoryNode>) -> Result<Node, FileError> {
        let base = &self.base;
        let charge = |bytes| Charge::take(&self.account, bytes, 0);
        Ok(match base.content(number) {
            Content::Directory(_) => {
                let parent = Arc::downgrade(directory);
                let charge = charge(DIRECTORY_NODE_BYTES)?;
                Node::Directory(DirectoryNode::of_base(base, number, parent, charge))
            }
            Content::Symlink(target) => {
                Node::Link(LinkNode::of_base(base, number, target, charge(NODE_BYTES)?))
            }
            Content::File(range) => {
                let (range, charge) = (range.clone(), charge(NODE_BYTES)?);
                Node::File(FileNode::of_base(base, number, range, charge))
            }
        })
    }

    fn linked(&self, number: u32) -> Option<Node> {
        let linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        linked.get(&number).cloned()
    }

    /// Whether a node of the base has several names. Then the removal of one name must first open
    /// the node, because the layer's node counts the names.
    pub(crate) fn has_other_names(&self, found: &Found) -> bool {
        matches!(found, Found::Base(number) if self.is_linked(*number))
    }

    /// Counts one name less for a node whose name was removed or replaced. The caller holds no lock
    /// of a directory, because this waits for the lock of the file.
    pub(crate) fn unlink(&self, found: &Found) {
        let Found::Node(node) = found else {
            return;
        };
        let has_names = match node {
            Node::File(file) => {
                let has_names = !file.unlink();
                file.touch_attributes();
                has_names
            }
            Node::Link(link) => !link.unlink(),
            Node::Directory(_) => true,
        };
        if !has_names && node.inode() <= self.base.files() as u64 {
            let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
            let number = (node.inode() - 1) as u32;
            let removed = linked.remove(&number);
            drop(linked);
            drop(removed);
        }
    }
}
