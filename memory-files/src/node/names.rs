//! [`Names`]: the entries of one directory of the layer, above the entries of a directory of the
//! base.

use super::Node;
use crate::account::Charge;
use crate::base::MemoryBase;
use crate::error::FileError;
use crate::limits::{CHANGED_BYTES, NAME_BYTES};
use crate::stat::{FileKind, Times};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cookies of `.` and `..`.
const SELF_COOKIE: u64 = 1;
const PARENT_COOKIE: u64 = 2;
/// The cookie of the first entry of the base.
const FIRST_COOKIE: u64 = 3;

/// An entry of a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// The inode number. `..` has the directory's own inode number.
    pub inode: u64,
    /// The kind.
    pub kind: FileKind,
    /// The position after this entry. The position stays valid while the directory changes.
    pub cookie: u64,
}

/// The names that a directory's lock protects.
///
/// Names of the base never move. `changed` records which of them were opened, replaced or removed.
/// Each name that the instance added has a cookie, which is its place in listings.
#[derive(Debug)]
pub(crate) struct Names {
    /// The directory of the base, if this directory comes from the base.
    base: Option<(MemoryBase, u32)>,
    /// Changed names of the base, by their position in its directory. `None` is a removed name.
    changed: BTreeMap<u32, Option<Node>>,
    /// Number of removed names among `changed`.
    removed: usize,
    own: BTreeMap<u64, (Arc<str>, Node)>,
    cookies: BTreeMap<Arc<str>, u64>,
    next_cookie: u64,
    /// Whether the directory itself was removed.
    pub(crate) is_removed: bool,
    pub(crate) directories: u64,
    pub(crate) times: Times,
    charge: Charge,
}

/// The node that a name leads to.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    /// A node of the layer.
    Node(Node),
    /// A node of the base that the instance has not opened.
    Base(u32),
}

impl Names {
    /// The names of a new directory, or of a directory of a base. `charge` covers the node.
    pub(crate) fn new(base: Option<(MemoryBase, u32)>, times: Times, charge: Charge) -> Self {
        let entries = base.as_ref().map_or(0, |(base, node)| base.len(*node));
        let directories = base
            .as_ref()
            .map_or(0, |(base, node)| base.links(*node) - 2);
        Self {
            base,
            changed: BTreeMap::new(),
            removed: 0,
            own: BTreeMap::new(),
            cookies: BTreeMap::new(),
            next_cookie: FIRST_COOKIE + entries as u64,
            is_removed: false,
            directories,
            times,
            charge,
        }
    }

    fn base_len(&self) -> usize {
        self.base.as_ref().map_or(0, |(base, node)| base.len(*node))
    }

    /// The position of a name in the directory of the base.
    fn position(&self, name: &str) -> Option<u32> {
        let (base, node) = self.base.as_ref()?;
        base.find(*node, name).map(|position| position as u32)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.removed == self.base_len()
    }

    /// The node that a name leads to.
    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        let Some(position) = self.position(name) else {
            let (_, node) = self.own.get(self.cookies.get(name)?)?;
            return Some(Found::Node(node.clone()));
        };
        match self.changed.get(&position) {
            Some(node) => node.clone().map(Found::Node),
            None => {
                let (base, directory) = self.base.as_ref()?;
                Some(Found::Base(base.entry(*directory, position as usize).1))
            }
        }
    }

    /// Records the node of the layer for a name that leads to a node of the base.
    ///
    /// # Errors
    ///
    /// [`FileError::NoSpace`] at the limit of bytes.
    pub(crate) fn open(&mut self, name: &str, node: Node) -> Result<(), FileError> {
        if let Some(position) = self.position(name) {
            self.charge.more(CHANGED_BYTES)?;
            self.changed.insert(position, Some(node));
        }
        Ok(())
    }

    /// Lets a name lead to a node. Returns the node that the name led to before. The caller must
    /// drop that node when it holds no lock.
    ///
    /// # Errors
    ///
    /// [`FileError::NoSpace`] at the limit of bytes. Then no name has changed.
    pub(crate) fn insert(&mut self, name: &str, node: Node) -> Result<Option<Found>, FileError> {
        let is_directory = matches!(node, Node::Directory(_));
        let before = self.find(name);
        if let Some(position) = self.position(name) {
            if !self.changed.contains_key(&position) {
                self.charge.more(CHANGED_BYTES)?;
            }
            let was = self.changed.insert(position, Some(node));
            self.removed -= usize::from(matches!(was, Some(None)));
        } else if let Some(cookie) = self.cookies.get(name) {
            if let Some((_, old)) = self.own.get_mut(cookie) {
                *old = node;
            }
        } else {
            self.charge.more(NAME_BYTES + name.len() as u64)?;
            let name: Arc<str> = name.into();
            self.cookies.insert(Arc::clone(&name), self.next_cookie);
            self.own.insert(self.next_cookie, (name, node));
            self.next_cookie += 1;
        }
        self.directories += u64::from(is_directory);
        self.directories -= u64::from(
            before
                .as_ref()
                .is_some_and(|found| self.is_directory(found)),
        );
        self.times.touch();
        Ok(before)
    }

    /// Removes a name.
    ///
    /// # Errors
    ///
    /// [`FileError::NotFound`]; [`FileError::NoSpace`] if the name is the base's, the instance has
    /// not opened it, and the limit of bytes is reached.
    pub(crate) fn remove(&mut self, name: &str) -> Result<Found, FileError> {
        let found = self.find(name).ok_or(FileError::NotFound)?;
        if let Some(position) = self.position(name) {
            if !self.changed.contains_key(&position) {
                self.charge.more(CHANGED_BYTES)?;
            }
            self.changed.insert(position, None);
            self.removed += 1;
        } else if let Some(cookie) = self.cookies.remove(name) {
            self.own.remove(&cookie);
            self.charge.less(NAME_BYTES + name.len() as u64);
        }
        self.directories -= u64::from(self.is_directory(&found));
        self.times.touch();
        Ok(found)
    }

    fn is_directory(&self, found: &Found) -> bool {
        match found {
            Found::Node(node) => matches!(node, Node::Directory(_)),
            Found::Base(node) => {
                let base = self.base.as_ref();
                base.is_some_and(|(base, _)| base.kind(*node) == FileKind::Directory)
            }
        }
    }

    /// Removes and returns all nodes of the layer.
    pub(crate) fn take_nodes(&mut self) -> Vec<Node> {
        let changed = core::mem::take(&mut self.changed).into_values().flatten();
        let own = core::mem::take(&mut self.own).into_values();
        self.cookies.clear();
        changed.chain(own.map(|(_, node)| node)).collect()
    }

    /// The position that the next new name will get.
    pub(crate) fn end_cookie(&self) -> u64 {
        self.next_cookie
    }

    /// At most `max` entries after the position `cookie` and before the position `end`; position 0
    /// is the start. `inode` is the inode number of the directory. A removed directory has no
    /// entries.
    pub(crate) fn list(&self, inode: u64, cookie: u64, end: u64, max: usize) -> Vec<DirEntry> {
        if self.is_removed {
            return vec![];
        }
        let dots = [(".", SELF_COOKIE), ("..", PARENT_COOKIE)];
        let dots = dots.into_iter().filter(|(_, of)| *of > cookie);
        let dots = dots.map(|(name, cookie)| DirEntry {
            name: name.to_owned(),
            inode,
            kind: FileKind::Directory,
            cookie,
        });
        let first = cookie
            .saturating_sub(PARENT_COOKIE)
            .min(self.base_len() as u64) as u32;
        let of_base = (first..self.base_len() as u32).filter_map(|at| self.entry_of_base(at));
        let own = self.own.range(cookie.saturating_add(1)..);
        let own = own.map(|(cookie, (name, node))| DirEntry {
            name: name.to_string(),
            inode: node.inode(),
            kind: node.kind(),
            cookie: *cookie,
        });
        let all = dots.chain(of_base).chain(own);
        all.take_while(|entry| entry.cookie < end)
            .take(max)
            .collect()
    }

    fn entry_of_base(&self, position: u32) -> Option<DirEntry> {
        let (base, directory) = self.base.as_ref()?;
        let (name, number) = base.entry(*directory, position as usize);
        let (inode, kind) = match self.changed.get(&position) {
            Some(node) => (node.as_ref()?.inode(), node.as_ref()?.kind()),
            None => (crate::base::inode(number), base.kind(number)),
        };
        Some(DirEntry {
            name: name.to_owned(),
            inode,
            kind,
            cookie: FIRST_COOKIE + u64::from(position),
        })
    }
}
