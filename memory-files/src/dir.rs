//! [`MemoryDir`]: an open directory of an instance, and the operations on paths below it.

use crate::base::MemoryBase;
use crate::error::FileError;
use crate::file::MemoryFile;
use crate::limits::{DIRECTORY_NODE_BYTES, Limits, NODE_BYTES, PATH_BYTES_MAX};
use crate::node::{DirEntry, DirectoryNode, FileNode, Found, LinkNode, Node, lock_all};
use crate::stat::{FileKind, NewTimes, Stat};
use crate::tree::Tree;
use crate::walk::{Follow, Place, walk};
use core::fmt;
use std::sync::Arc;

/// An open directory of one instance's files: the files of a base, which other instances share, and
/// the instance's own changes above them.
///
/// [`new`](Self::new) makes a tree and opens its root. Clones of a directory, and files and
/// directories opened through it, belong to the same tree. The tree is freed with the last of these
/// handles. All operations may be called from several threads at once.
///
/// Paths are relative, and none leads out of the directory that it is resolved from.
///
/// ```
/// use pirn_memory_files::{Limits, MemoryBase, MemoryDir, OpenOptions};
///
/// let mut base = MemoryBase::builder(&Default::default());
/// base.file("etc/motd", 5, &b"hello"[..], std::time::UNIX_EPOCH)?;
/// let base = base.build();
/// let dir = MemoryDir::new(&base, Limits::default());
/// let options = OpenOptions { read: true, write: true, ..OpenOptions::default() };
/// let file = dir.open("etc/motd", &options)?.into_file().expect("a file");
/// file.write_at(0, b"J")?;
/// let mut bytes = [0; 8];
/// assert_eq!(file.read_at(0, &mut bytes)?, 5);
/// assert_eq!(&bytes[..5], b"Jello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryDir {
    tree: Arc<Tree>,
    node: Arc<DirectoryNode>,
    is_read_only: bool,
}

/// How to open a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)]
pub struct OpenOptions {
    /// Opens the file to read.
    pub read: bool,
    /// Opens the file to write.
    pub write: bool,
    /// Makes the file if it does not exist (`O_CREAT`).
    pub create: bool,
    /// With `create`: fails if the path exists, even as a symbolic link (`O_EXCL`).
    pub exclusive: bool,
    /// Sets the size to 0 (`O_TRUNC`). Needs `write`.
    pub truncate: bool,
    /// Fails if the path names no directory (`O_DIRECTORY`).
    pub directory: bool,
    /// Fails if the path ends in a symbolic link (`O_NOFOLLOW`).
    pub no_follow: bool,
}

/// The file or directory that [`MemoryDir::open`] opened.
#[derive(Debug)]
pub enum Opened {
    /// A file.
    File(MemoryFile),
    /// A directory.
    Dir(MemoryDir),
}

impl fmt::Debug for MemoryDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDir")
            .field("inode", &self.node.inode())
            .field("is_read_only", &self.is_read_only)
            .finish_non_exhaustive()
    }
}

impl Opened {
    /// The file, if the path named a file.
    #[must_use]
    pub fn into_file(self) -> Option<MemoryFile> {
        match self {
            Self::File(file) => Some(file),
            Self::Dir(_) => None,
        }
    }

    /// The directory, if the path named a directory.
    #[must_use]
    pub fn into_dir(self) -> Option<MemoryDir> {
        match self {
            Self::Dir(dir) => Some(dir),
            Self::File(_) => None,
        }
    }
}

impl MemoryDir {
    /// The root of a new tree. A tree costs two allocations, however large the base is.
    #[must_use]
    pub fn new(base: &MemoryBase, limits: Limits) -> Self {
        let (tree, node) = Tree::new(base, limits);
        Self {
            tree,
            node,
            is_read_only: false,
        }
    }

    /// A read-only handle to this directory. Handles that are not read-only can still change the
    /// directory and its files.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Whether this handle is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Bytes of host memory that the tree uses, as [`Limits::bytes_max`] counts them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.tree.account().bytes()
    }

    /// Files, directories and symbolic links that the instance made and that exist or are open, as
    /// [`Limits::files_max`] counts them.
    #[must_use]
    pub fn used_files(&self) -> u64 {
        self.tree.account().files()
    }

    /// Whether both handles name the same directory of the same tree.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }

    /// Checks that the directory may be changed.
    fn change(&self) -> Result<(), FileError> {
        match self.is_read_only {
            true => Err(FileError::ReadOnly),
            false => Ok(()),
        }
    }

    fn walk(&self, path: &str, follow: Follow) -> Result<Place, FileError> {
        walk(&self.tree, &self.node, path, follow)
    }

    fn follow(&self, path: &str, follows: bool) -> Result<Place, FileError> {
        let follow = if follows {
            Follow::Always
        } else {
            Follow::Slash
        };
        self.walk(path, follow)
    }

    /// Opens a file or directory, and makes the file if asked to.
    ///
    /// # Errors
    ///
    /// [`FileError`], as open(2) has it. [`FileError::Invalid`] for `create` or `truncate` with
    /// `directory`, and for `truncate` without `write`.
    pub fn open(&self, path: &str, options: &OpenOptions) -> Result<Opened, FileError> {
        let OpenOptions {
            create,
            exclusive,
            truncate,
            write,
            ..
        } = *options;
        if ((create || truncate) && options.directory) || (truncate && !write) {
            return Err(FileError::Invalid);
        }
        if create && path.ends_with('/') && self.walk(path, Follow::Never)?.name.is_some() {
            return Err(FileError::IsDirectory);
        }
        let is_new = create && exclusive;
        let place = self.follow(path, !options.no_follow && !is_new)?;
        // A link's target may end in a slash, too.
        if create && place.is_directory && place.name.is_some() {
            return Err(FileError::IsDirectory);
        }
        loop {
            let found = match (&place.name, place.find(&self.tree)) {
                (Some(name), Err(FileError::NotFound)) if create => {
                    self.change()?;
                    match self.create(&place.directory, name)? {
                        Some(file) => return Ok(Opened::File(self.file(file, options))),
                        // Another thread made the file meanwhile.
                        None => continue,
                    }
                }
                (_, found) => found?,
            };
            return self.open_found(&place, &found, options);
        }
    }

    /// Opens an existing file or directory.
    fn open_found(
        &self,
        place: &Place,
        found: &Found,
        options: &OpenOptions,
    ) -> Result<Opened, FileError> {
        if options.create && options.exclusive {
            return Err(FileError::Exists);
        }
        match self.tree.kind(found) {
            FileKind::Symlink => return Err(FileError::Loop),
            FileKind::Directory if options.write || options.create => {
                return Err(FileError::IsDirectory);
            }
            FileKind::File if options.directory => return Err(FileError::NotDirectory),
            _ => {}
        }
        if options.write {
            self.change()?;
        }
        match place.node(&self.tree)? {
            Node::Directory(node) => Ok(Opened::Dir(Self {
                node,
                tree: Arc::clone(&self.tree),
                is_read_only: self.is_read_only,
            })),
            Node::File(node) => {
                if options.truncate {
                    node.set_size(0)?;
                }
                Ok(Opened::File(self.file(node, options)))
            }
            Node::Link(_) => Err(FileError::Loop),
        }
    }

    fn file(&self, node: Arc<FileNode>, options: &OpenOptions) -> MemoryFile {
        MemoryFile::new(node, (options.read, options.write), self.is_read_only)
    }

    /// Makes a file; `None` if the name exists.
    fn create(
        &self,
        directory: &Arc<DirectoryNode>,
        name: &str,
    ) -> Result<Option<Arc<FileNode>>, FileError> {
        let file = FileNode::new(self.tree.charge(NODE_BYTES)?);
        match self.add(directory, name, Node::File(Arc::clone(&file))) {
            Ok(()) => Ok(Some(file)),
            Err(FileError::Exists) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a node a name that must be new.
    fn add(&self, directory: &Arc<DirectoryNode>, name: &str, node: Node) -> Result<(), FileError> {
        let mut names = directory.exclusive();
        if names.find(name).is_some() {
            return Err(FileError::Exists);
        }
        if names.is_removed {
            return Err(FileError::NotFound);
        }
        names.insert(name, node).map(drop)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// [`FileError`], as mkdir(2) has it.
    pub fn create_dir(&self, path: &str) -> Result<(), FileError> {
        let place = self.walk(path, Follow::Never)?;
        let name = place.name(FileError::Exists)?;
        if place.directory.find(name).is_some() {
            return Err(FileError::Exists);
        }
        self.change()?;
        let parent = Arc::downgrade(&place.directory);
        let node = DirectoryNode::new(parent, self.tree.charge(DIRECTORY_NODE_BYTES)?);
        self.add(&place.directory, name, Node::Directory(node))
    }

    /// Makes a symbolic link with the target `target`.
    ///
    /// # Errors
    ///
    /// [`FileError`], as symlink(2) has it; [`FileError::NotPermitted`] for an absolute target.
    pub fn create_symlink(&self, target: &str, path: &str) -> Result<(), FileError> {
        match target {
            "" => return Err(FileError::NotFound),
            target if target.starts_with('/') => return Err(FileError::NotPermitted),
            target if target.len() >= PATH_BYTES_MAX => return Err(FileError::NameTooLong),
            target if target.contains('\0') => return Err(FileError::Invalid),
            _ => {}
        }
        let place = self.walk(path, Follow::Never)?;
        let name = place.name(FileError::Exists)?;
        if place.directory.find(name).is_some() {
            return Err(FileError::Exists);
        }
        if place.is_directory {
            return Err(FileError::NotFound);
        }
        self.change()?;
        let charge = self.tree.charge(LinkNode::bytes(target))?;
        self.add(
            &place.directory,
            name,
            Node::Link(LinkNode::new(target, charge)),
        )
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// [`FileError`], as readlink(2) has it: [`FileError::Invalid`] for a file or directory.
    pub fn read_link(&self, path: &str) -> Result<String, FileError> {
        let found = self.walk(path, Follow::Slash)?.find(&self.tree)?;
        let target = self.tree.target(&found).ok_or(FileError::Invalid)?;
        Ok(target.to_string())
    }

    /// The attributes of the directory.
    #[must_use]
    pub fn stat(&self) -> Stat {
        self.node.stat()
    }

    /// The attributes of the file at a path. With `follows`, a symbolic link at the end is
    /// followed.
    ///
    /// # Errors
    ///
    /// [`FileError`], as stat(2) and lstat(2) have it.
    pub fn stat_path(&self, path: &str, follows: bool) -> Result<Stat, FileError> {
        let found = self.follow(path, follows)?.find(&self.tree)?;
        Ok(self.tree.stat(&found))
    }

    /// Sets the times of the directory.
    ///
    /// # Errors
    ///
    /// [`FileError::ReadOnly`].
    pub fn set_times(&self, new: NewTimes) -> Result<(), FileError> {
        self.change()?;
        self.node.set_times(new);
        Ok(())
    }

    /// Sets the times of the file that a path names.
    ///
    /// # Errors
    ///
    /// [`FileError`], as utimensat(2) has it.
    pub fn set_path_times(
        &self,
        path: &str,
        follows: bool,
        new: NewTimes,
    ) -> Result<(), FileError> {
        let place = self.follow(path, follows)?;
        place.find(&self.tree)?;
        self.change()?;
        match place.node(&self.tree)? {
            Node::File(file) => file.set_times(new),
            Node::Directory(directory) => directory.set_times(new),
            Node::Link(link) => link.set_times(new),
        }
        Ok(())
    }

    /// At most `entries_max` entries after the position `cookie`. Position 0 is the start of the
    /// directory, and the cookie of an entry is the position after that entry. If the result is
    /// empty, no entries are left.
    ///
    /// Positions stay valid while the directory changes. An entry that exists from the first call
    /// to the last is listed exactly once. A new name gets a position after all others. So a caller
    /// that makes a name for each entry never reaches the end, unless it uses
    /// [`read_dir_before`](Self::read_dir_before).
    #[must_use]
    pub fn read_dir(&self, cookie: u64, entries_max: usize) -> Vec<DirEntry> {
        self.read_dir_before(cookie, u64::MAX, entries_max)
    }

    /// As [`read_dir`](Self::read_dir), but only entries before the position `end`. If `end` is
    /// the [`end_cookie`](Self::end_cookie) at the first call, a listing always ends, whatever
    /// changes meanwhile.
    #[must_use]
    pub fn read_dir_before(&self, cookie: u64, end: u64, entries_max: usize) -> Vec<DirEntry> {
        let names = self.node.shared();
        names.list(self.node.inode(), cookie, end, entries_max)
    }

    /// The position that the next new name of the directory will get.
    #[must_use]
    pub fn end_cookie(&self) -> u64 {
        self.node.shared().end_cookie()
    }

    /// Removes a file or symbolic link. Open handles to the file stay valid.
    ///
    /// # Errors
    ///
    /// [`FileError`], as unlink(2) has it.
    pub fn unlink(&self, path: &str) -> Result<(), FileError> {
        let place = self.walk(path, Follow::Never)?;
        let name = place.name(FileError::IsDirectory)?;
        let found = place.directory.find(name).ok_or(FileError::NotFound)?;
        match self.tree.kind(&found) {
            FileKind::Directory => return Err(FileError::IsDirectory),
            _ if place.is_directory => return Err(FileError::NotDirectory),
            _ => self.change()?,
        }
        if self.tree.has_other_names(&found) {
            self.tree.node(&place.directory, name)?;
        }
        let mut names = place.directory.exclusive();
        // Another thread may have replaced the file by a directory.
        let is_directory = |found: Found| self.tree.kind(&found) == FileKind::Directory;
        if names.find(name).is_some_and(is_directory) {
            return Err(FileError::IsDirectory);
        }
        let removed = names.remove(name)?;
        drop(names);
        self.tree.unlink(&removed);
        // The file's memory is freed here, without the directory's lock.
        drop(removed);
        Ok(())
    }

    /// Removes an empty directory. Open handles to the directory can create no entries.
    ///
    /// # Errors
    ///
    /// [`FileError`], as rmdir(2) has it.
    pub fn remove_dir(&self, path: &str) -> Result<(), FileError> {
        let place = self.walk(path, Follow::Never)?;
        let Some(name) = &place.name else {
            // As rmdir(2): `.` is invalid, and a directory that contains another is not empty.
            let ends_in_dot = path.trim_end_matches('/').rsplit('/').next() == Some(".");
            let error = if ends_in_dot {
                FileError::Invalid
            } else {
                FileError::NotEmpty
            };
            return Err(error);
        };
        loop {
            let found = place.directory.find(name).ok_or(FileError::NotFound)?;
            if self.tree.kind(&found) != FileKind::Directory {
                return Err(FileError::NotDirectory);
            }
            self.change()?;
            let Node::Directory(node) = self.tree.node(&place.directory, name)? else {
                continue;
            };
            let mut locked = lock_all(&[&place.directory, &node]);
            let is_same = |found: &Found| match found {
                Found::Node(Node::Directory(now)) => Arc::ptr_eq(now, &node),
                _ => false,
            };
            if !locked
                .of(&place.directory)
                .find(name)
                .as_ref()
                .is_some_and(is_same)
            {
                continue;
            }
            if !locked.of(&node).is_empty() {
                return Err(FileError::NotEmpty);
            }
            let removed = locked.of(&place.directory).remove(name)?;
            locked.of(&node).is_removed = true;
            drop(locked);
            drop(removed);
            return Ok(());
        }
    }

    /// Gives a file or symbolic link a further name, `new_path` below `to`.
    ///
    /// # Errors
    ///
    /// [`FileError`], as link(2) has it: [`FileError::NotPermitted`] for a directory.
    pub fn link(&self, path: &str, to: &Self, new_path: &str) -> Result<(), FileError> {
        self.check_tree(to)?;
        let node = self.walk(path, Follow::Slash)?.node(&self.tree)?;
        let place = to.walk(new_path, Follow::Never)?;
        let name = place.name(FileError::Exists)?;
        if place.directory.find(name).is_some() {
            return Err(FileError::Exists);
        }
        if place.is_directory {
            return Err(FileError::NotFound);
        }
        if matches!(node, Node::Directory(_)) {
            return Err(FileError::NotPermitted);
        }
        self.change()?;
        to.change()?;
        match &node {
            Node::File(file) => file.link(),
            Node::Link(link) => link.link(),
            Node::Directory(_) => {}
        }
        let added = self.add(&place.directory, name, node.clone());
        match &node {
            _ if added.is_err() => self.tree.unlink(&Found::Node(node)),
            Node::File(file) => file.touch_attributes(),
            _ => {}
        }
        added
    }

    /// Checks that another directory belongs to the same tree.
    fn check_tree(&self, other: &Self) -> Result<(), FileError> {
        if Arc::ptr_eq(&self.tree, &other.tree) {
            return Ok(());
        }
        self.change()?;
        other.change()?;
        Err(FileError::CrossDevice)
    }

    /// Renames a file, directory or symbolic link to `new_path` below `to`. Replaces a file or
    /// symbolic link there, and an empty directory if a directory is renamed. Other threads see the
    /// old name or the new name.
    ///
    /// # Errors
    ///
    /// [`FileError`], as rename(2) has it.
    pub fn rename(&self, path: &str, to: &Self, new_path: &str) -> Result<(), FileError> {
        self.check_tree(to)?;
        let from = self.walk(path, Follow::Never)?;
        let place = to.walk(new_path, Follow::Never)?;
        from.name(FileError::Busy)?;
        place.name(FileError::Busy)?;
        from.find(&self.tree)?;
        self.change()?;
        to.change()?;
        crate::rename::rename(&self.tree, &from, &place)
    }
}
