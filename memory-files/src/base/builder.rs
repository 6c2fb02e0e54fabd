//! [`BaseBuilder`]: collects the entries of a base, checks their paths, and counts them.

use super::error::BaseError;
use super::tree::{Arrays, BaseEntry, BaseNode, Content, MemoryBase, ROOT};
use crate::limits::{BaseLimits, NAME_BYTES_MAX, PATH_BYTES_MAX};
use crate::stat::now;
use core::ops::Range;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::SystemTime;

/// Builder of a [`MemoryBase`]. Paths are relative to the root, with `/` between names.
#[derive(Debug)]
pub struct BaseBuilder {
    nodes: Vec<Node>,
    /// Further names of files and symbolic links, in all directories together.
    further_names: u64,
    bytes: Vec<u8>,
    /// Bytes of the targets of all symbolic links.
    target_bytes: u64,
    limits: BaseLimits,
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    links: u64,
    modified: SystemTime,
    /// Whether an entry names the directory. A directory without an entry is made for the entries
    /// below it.
    is_listed: bool,
}

#[derive(Debug)]
enum Kind {
    File(Range<usize>),
    Directory(BTreeMap<Box<str>, u32>),
    Symlink(Arc<str>),
}

impl BaseBuilder {
    pub(super) fn new(limits: &BaseLimits) -> Self {
        let root = Node {
            kind: Kind::Directory(BTreeMap::new()),
            links: 2,
            modified: SystemTime::UNIX_EPOCH,
            is_listed: false,
        };
        Self {
            nodes: vec![root],
            further_names: 0,
            bytes: vec![],
            target_bytes: 0,
            limits: *limits,
        }
    }

    pub(super) fn limits(&self) -> &BaseLimits {
        &self.limits
    }

    /// Adds a directory, and the missing directories above it.
    ///
    /// # Errors
    ///
    /// [`BaseError`] for an invalid or existing path, for a path below a file or a symbolic link,
    /// or at a limit.
    pub fn directory(&mut self, path: &str, modified: SystemTime) -> Result<(), BaseError> {
        let node = match self.place(path)? {
            None => ROOT,
            Some((parent, name)) => match self.child(parent, name) {
                Some(node) => node,
                None => self.add(path, parent, name, Kind::Directory(BTreeMap::new()))?,
            },
        };
        let found = &mut self.nodes[node as usize];
        if found.is_listed || !matches!(found.kind, Kind::Directory(_)) {
            return Err(BaseError::Duplicate { path: path.into() });
        }
        (found.is_listed, found.modified) = (true, modified);
        Ok(())
    }

    /// Adds a file with the next `size` bytes of `contents`.
    ///
    /// # Errors
    ///
    /// As [`directory`](Self::directory), and for contents that cannot be read or have fewer than
    /// `size` bytes.
    pub fn file(
        &mut self,
        path: &str,
        size: u64,
        contents: impl Read,
        modified: SystemTime,
    ) -> Result<(), BaseError> {
        let (parent, name) = self.new_place(path)?;
        self.check_bytes(path, size)?;
        let start = self.bytes.len();
        // A source may announce more bytes than it has. So the announced size reserves at most 1
        // MiB.
        self.bytes.reserve(size.min(1 << 20) as usize);
        let found = contents.take(size).read_to_end(&mut self.bytes);
        let added = match found {
            Ok(found) if found as u64 == size => {
                let kind = Kind::File(start..self.bytes.len());
                self.add(path, parent, name, kind)
            }
            Ok(found) => Err(BaseError::Size {
                path: path.into(),
                expected: size,
                found: found as u64,
            }),
            Err(error) => Err(BaseError::Io {
                path: path.into(),
                error,
            }),
        };
        let node = added.inspect_err(|_| self.bytes.truncate(start))?;
        self.nodes[node as usize].modified = modified;
        Ok(())
    }

    /// Adds a symbolic link. A target that leads out of the tree is kept, but no instance can
    /// follow it.
    ///
    /// # Errors
    ///
    /// As [`directory`](Self::directory), and for a target that is empty or too long.
    pub fn symlink(
        &mut self,
        path: &str,
        target: &str,
        modified: SystemTime,
    ) -> Result<(), BaseError> {
        let (parent, name) = self.new_place(path)?;
        if target.is_empty() || target.len() >= PATH_BYTES_MAX || target.contains('\0') {
            return Err(BaseError::Path {
                path: path.into(),
                problem: "is a symbolic link whose target is empty, too long, or has a zero byte",
            });
        }
        self.check_bytes(path, target.len() as u64)?;
        let node = self.add(path, parent, name, Kind::Symlink(target.into()))?;
        self.target_bytes += target.len() as u64;
        self.nodes[node as usize].modified = modified;
        Ok(())
    }

    /// Adds a further name of a file or symbolic link.
    ///
    /// # Errors
    ///
    /// As [`directory`](Self::directory), and if `existing` names no file or symbolic link of this
    /// builder.
    pub fn hard_link(&mut self, path: &str, existing: &str) -> Result<(), BaseError> {
        let (parent, name) = self.new_place(path)?;
        self.check_files(path)?;
        let found = match self.find(existing)? {
            Some(node) if !matches!(self.nodes[node as usize].kind, Kind::Directory(_)) => node,
            _ => {
                return Err(BaseError::Parent {
                    path: path.into(),
                    part: existing.into(),
                    wanted: "earlier file",
                });
            }
        };
        self.nodes[found as usize].links += 1;
        self.further_names += 1;
        self.insert(parent, name, found);
        Ok(())
    }

    /// The finished base.
    #[must_use]
    pub fn build(self) -> MemoryBase {
        let mut entries = vec![];
        let nodes = self.nodes.into_iter().map(|node| {
            let content = match node.kind {
                Kind::File(range) => Content::File(range),
                Kind::Symlink(target) => Content::Symlink(target),
                Kind::Directory(names) => {
                    let start = entries.len();
                    let named = names.into_iter();
                    entries.extend(named.map(|(name, node)| BaseEntry { name, node }));
                    Content::Directory(start..entries.len())
                }
            };
            BaseNode {
                content,
                links: node.links,
                modified: node.modified,
            }
        });
        let nodes = nodes.collect();
        MemoryBase::from_arrays(Arrays {
            nodes,
            entries,
            bytes: self.bytes.into_boxed_slice(),
            made: now(),
        })
    }

    /// The directory and the name of a new entry.
    fn new_place<'a>(&mut self, path: &'a str) -> Result<(u32, &'a str), BaseError> {
        let (parent, name) = self
            .place(path)?
            .ok_or_else(|| problem(path, "is the root"))?;
        match self.child(parent, name) {
            None => Ok((parent, name)),
            Some(_) => Err(BaseError::Duplicate { path: path.into() }),
        }
    }

    /// The directory and the name of an entry; `None` for the root. Makes directories that are
    /// missing.
    fn place<'a>(&mut self, path: &'a str) -> Result<Option<(u32, &'a str)>, BaseError> {
        let depth = path.split('/').filter(|name| is_name(name)).count();
        if depth > self.limits.depth_max {
            return Err(BaseError::Limit {
                path: path.into(),
                what: "directories deep",
                max: self.limits.depth_max as u64,
                limit: "depth_max",
            });
        }
        let names = names(path)?;
        let Some((name, above)) = names.split_last() else {
            return Ok(None);
        };
        let mut parent = ROOT;
        for part in above {
            parent = match self.child(parent, part) {
                Some(node) => node,
                None => self.add(path, parent, part, Kind::Directory(BTreeMap::new()))?,
            };
            if !matches!(self.nodes[parent as usize].kind, Kind::Directory(_)) {
                return Err(BaseError::Parent {
                    path: path.into(),
                    part: (*part).into(),
                    wanted: "directory",
                });
            }
        }
        Ok(Some((parent, name)))
    }

    /// The node at a path.
    fn find(&self, path: &str) -> Result<Option<u32>, BaseError> {
        let mut names = names(path)?.into_iter();
        Ok(names.try_fold(ROOT, |node, name| self.child(node, name)))
    }

    fn child(&self, parent: u32, name: &str) -> Option<u32> {
        match &self.nodes[parent as usize].kind {
            Kind::Directory(names) => names.get(name).copied(),
            _ => None,
        }
    }

    fn add(&mut self, path: &str, parent: u32, name: &str, kind: Kind) -> Result<u32, BaseError> {
        self.check_files(path)?;
        let number = self.nodes.len() as u32;
        let is_directory = matches!(kind, Kind::Directory(_));
        self.nodes.push(Node {
            kind,
            links: if is_directory { 2 } else { 1 },
            modified: SystemTime::UNIX_EPOCH,
            is_listed: false,
        });
        self.nodes[parent as usize].links += u64::from(is_directory);
        self.insert(parent, name, number);
        Ok(number)
    }

    /// Nodes and further names that the limit still allows. Numbers of nodes have 32 bits.
    pub(super) fn files_left(&self) -> u64 {
        let max = self.limits.files_max.min(u32::MAX.into());
        max.saturating_sub(self.nodes.len() as u64 + self.further_names)
    }

    /// Checks that the limit allows one more node or further name.
    fn check_files(&self, path: &str) -> Result<(), BaseError> {
        match self.files_left() {
            0 => Err(BaseError::Limit {
                path: path.into(),
                what: "files",
                max: self.limits.files_max.min(u32::MAX.into()),
                limit: "files_max",
            }),
            _ => Ok(()),
        }
    }

    /// Checks that the limit allows more bytes.
    fn check_bytes(&self, path: &str, more: u64) -> Result<(), BaseError> {
        let used = self.bytes.len() as u64 + self.target_bytes;
        match more > self.limits.bytes_max.saturating_sub(used) {
            true => Err(BaseError::Limit {
                path: path.into(),
                what: "bytes",
                max: self.limits.bytes_max,
                limit: "bytes_max",
            }),
            false => Ok(()),
        }
    }

    fn insert(&mut self, parent: u32, name: &str, node: u32) {
        if let Kind::Directory(names) = &mut self.nodes[parent as usize].kind {
            names.insert(name.into(), node);
        }
    }
}

/// The names of a path, without `.`.
fn names(path: &str) -> Result<Vec<&str>, BaseError> {
    if path.starts_with('/') {
        return Err(problem(
            path,
            "is absolute; a base has paths below its root",
        ));
    }
    let names: Vec<_> = path.split('/').filter(|name| is_name(name)).collect();
    if names.contains(&"..") {
        return Err(problem(
            path,
            "contains `..`; a base has paths below its root",
        ));
    }
    if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(problem(path, "has a name of more than 255 bytes"));
    }
    match path.contains('\0') {
        true => Err(problem(path, "contains a zero byte")),
        false => Ok(names),
    }
}

fn is_name(part: &str) -> bool {
    !part.is_empty() && part != "."
}

fn problem(path: &str, problem: &'static str) -> BaseError {
    BaseError::Path {
        path: path.into(),
        problem,
    }
}
