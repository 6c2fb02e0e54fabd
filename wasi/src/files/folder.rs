//! [`Folder`]: a preopened or opened directory, and the operations on paths in it.
//!
//! Checks the guest's access, the length of paths, and the quotas. The [`Directory`] confines the
//! guest.

use super::backend::{Directory, EntryReader, Opened};
use super::file::File;
use super::types::{Access, FileKind, Metadata, NewTimes, OpenHow};
use crate::errno::Errno;
use crate::quota::{FileQuota, Held};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Most bytes of a path, with the zero byte at its end, as in the kernel.
const PATH_MAX: usize = 4096;

/// Checks the length of a path.
fn checked(path: &str) -> Result<&str, Errno> {
    match path.len() {
        0..PATH_MAX => Ok(path),
        _ => Err(Errno::NAMETOOLONG),
    }
}

/// What a guest has opened.
pub enum Node {
    /// A regular file.
    File(File),
    /// A directory.
    Folder(Folder),
    /// A pipe, a socket or a character device, in nonblocking mode; and the access of the directory
    /// in which it was opened.
    Stream(OwnedFd, Access, Held),
}

/// A directory that is preopened, or that the guest has opened.
pub struct Folder {
    directory: Box<dyn Directory>,
    access: Access,
    quota: Arc<FileQuota>,
    /// `None` for a preopened directory.
    _held: Option<Held>,
}

impl Folder {
    /// A preopened directory, which does not count as a descriptor.
    #[must_use]
    pub fn new(directory: Box<dyn Directory>, access: Access, quota: Arc<FileQuota>) -> Self {
        Self {
            directory,
            access,
            quota,
            _held: None,
        }
    }

    /// Whether the guest may change the directory and everything below it.
    #[must_use]
    pub fn is_changeable(&self) -> bool {
        self.access == Access::Full
    }

    /// Whether changes go to a disk.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.directory.is_on_disk()
    }

    /// Counts one more descriptor of the guest, until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`Errno::NFILE`] if the limit is reached.
    pub fn hold(&self) -> Result<Held, Errno> {
        self.quota.hold()
    }

    /// Makes a directory entry, and charges for the entry if the directory is on a disk.
    fn entry<R>(&self, make: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
        match self.directory.is_on_disk() {
            true => self.quota.entry(make),
            false => make(),
        }
    }

    fn shown(&self, found: Metadata) -> Metadata {
        match self.quota.hides_times {
            true => found.without_times(),
            false => found,
        }
    }

    /// The metadata of the directory.
    ///
    /// # Errors
    ///
    /// As fstat(2).
    pub fn metadata(&self) -> Result<Metadata, Errno> {
        Ok(self.shown(self.directory.metadata()?))
    }

    /// The metadata of the file at a path. With `follow`, a symbolic link at the end is followed.
    ///
    /// # Errors
    ///
    /// As fstatat(2).
    pub fn find(&self, path: &str, follow: bool) -> Result<Metadata, Errno> {
        Ok(self.shown(self.directory.find(checked(path)?, follow)?))
    }

    /// Opens a file or a directory. Refuses other files with [`Errno::NOTSUP`] before it opens
    /// them: reads and writes of other files can block forever, and to open some devices already
    /// has an effect.
    ///
    /// # Errors
    ///
    /// As [`open_any`](Self::open_any).
    pub fn open(&self, path: &str, how: OpenHow) -> Result<Node, Errno> {
        let check = |found: &Metadata| match found.kind {
            // A symbolic link that must not be followed is an error of the file system.
            FileKind::Directory | FileKind::RegularFile | FileKind::SymbolicLink => Ok(()),
            _ if how.directory => Err(Errno::NOTDIR),
            _ => Err(Errno::NOTSUP),
        };
        let is_new = how.create && how.exclusive;
        if !is_new && let Ok(found) = self.directory.find(checked(path)?, how.follow) {
            check(&found)?;
        }
        match self.open_any(path, how)? {
            // Another guest may have replaced the file since the check.
            Node::File(file) => check(&file.file.metadata()?).map(|()| Node::File(file)),
            Node::Stream(..) => Err(Errno::NOTSUP),
            folder => Ok(folder),
        }
    }

    /// Opens a path.
    ///
    /// # Errors
    ///
    /// As openat(2); [`Errno::INVAL`] for `directory` with `create`, `exclusive` or `truncate`;
    /// [`Errno::NFILE`] if the guest has too many descriptors, and [`Errno::DQUOT`] if it may make
    /// no more files. In a read-only directory, an error of the path itself (`noent`, `perm`,
    /// `isdir`) takes precedence over [`Errno::ROFS`].
    pub fn open_any(&self, path: &str, mut how: OpenHow) -> Result<Node, Errno> {
        let path = checked(path)?;
        if how.directory && (how.create || how.exclusive || how.truncate) {
            return Err(Errno::INVAL);
        }
        if self.access == Access::ReadOnly {
            if how.write || how.truncate {
                return Err(self.refusal(path, how));
            }
            if how.create {
                match self.directory.find(path, how.follow && !how.exclusive) {
                    Ok(_) if how.exclusive => return Err(Errno::EXIST),
                    Ok(_) => how.create = false,
                    Err(_) => return Err(self.refusal(path, how)),
                }
            }
        }
        let held = self.quota.hold()?;
        let opened = match (how.create, how.exclusive) {
            (false, _) => self.directory.open(path, how).map_err(|error| {
                // As open(2): a symbolic link is no directory.
                let is_link = error == Errno::LOOP
                    && how.directory
                    && !how.follow
                    && self.directory.find(path, false).is_ok();
                if is_link { Errno::NOTDIR } else { error }
            })?,
            (true, true) => self.entry(|| self.directory.open(path, how))?,
            // No file can be made under a path that only a directory may have.
            _ if path.ends_with('/') => self.directory.open(path, how)?,
            // A file that exists is opened without `create`, and costs nothing.
            (true, false) => match self.existing(path, how) {
                // A symbolic link may lead to such a path, too.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    self.entry(|| self.directory.open(path, how))?
                }
                opened => opened?,
            },
        };
        Ok(match opened {
            Opened::Directory(_) if how.create => return Err(Errno::ISDIR),
            Opened::Directory(directory) => Node::Folder(Self {
                directory,
                access: self.access,
                quota: Arc::clone(&self.quota),
                _held: Some(held),
            }),
            _ if how.directory => return Err(Errno::NOTDIR),
            Opened::File(file) => Node::File(File {
                file,
                is_readable: how.read,
                is_writable: how.write,
                access: self.access,
                quota: Arc::clone(&self.quota),
                _held: held,
            }),
            Opened::Stream(fd) => Node::Stream(fd, self.access, held),
        })
    }

    /// Opens a path that may have to be made, if it exists.
    fn existing(&self, path: &str, how: OpenHow) -> Result<Opened, Errno> {
        let create = false;
        self.directory.open(path, OpenHow { create, ..how })
    }

    /// The error for an open that would change or make a file in a read-only directory.
    fn refusal(&self, path: &str, how: OpenHow) -> Errno {
        match self.directory.find(path, how.follow) {
            Ok(found) if found.kind == FileKind::Directory => Errno::ISDIR,
            Ok(_) => Errno::ROFS,
            Err(Errno::NOENT) if how.create => {
                let parent = path.trim_end_matches('/').rsplit_once('/');
                match parent.map(|(parent, _)| self.directory.find(parent, true)) {
                    Some(Err(error)) => error,
                    _ => Errno::ROFS,
                }
            }
            Err(error) => error,
        }
    }

    /// The entries after a position, with `.` and `..`. The first position is 0.
    ///
    /// # Errors
    ///
    /// As readdir(3).
    pub fn entries(&self, position: u64) -> Result<Box<dyn EntryReader>, Errno> {
        self.directory.entries(position)
    }

    /// Sets the times of the directory.
    ///
    /// # Errors
    ///
    /// As futimens(3); [`Errno::ROFS`] if the guest may not change the directory.
    pub fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        self.access.check_change()?;
        self.directory.set_times(times)
    }

    /// Sets the times of the file at a path.
    ///
    /// # Errors
    ///
    /// As utimensat(2); [`Errno::ROFS`] if the guest may not change the directory.
    pub fn set_times_at(&self, path: &str, follow: bool, times: NewTimes) -> Result<(), Errno> {
        self.access.check_change()?;
        self.directory.set_times_at(checked(path)?, follow, times)
    }

    /// Makes a directory.
    ///
    /// # Errors
    ///
    /// As mkdirat(2); [`Errno::ROFS`] if the guest may not change the directory, and
    /// [`Errno::DQUOT`] if it may make no more files.
    pub fn create_directory(&self, path: &str) -> Result<(), Errno> {
        self.access.check_change()?;
        let path = checked(path)?;
        self.entry(|| self.directory.create_directory(path))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// As rmdir(2); [`Errno::ROFS`] if the guest may not change the directory.
    pub fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        self.access.check_change()?;
        self.directory.remove_directory(checked(path)?)
    }

    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    ///
    /// As unlinkat(2); [`Errno::ROFS`] if the guest may not change the directory.
    pub fn unlink_file(&self, path: &str) -> Result<(), Errno> {
        self.access.check_change()?;
        self.directory.unlink_file(checked(path)?)
    }

    /// Makes a symbolic link with the target `to`.
    ///
    /// # Errors
    ///
    /// As symlinkat(2); as [`create_directory`](Self::create_directory); [`Errno::PERM`] for an
    /// absolute target.
    pub fn symlink(&self, to: &str, path: &str) -> Result<(), Errno> {
        self.access.check_change()?;
        let (to, path) = (checked(to)?, checked(path)?);
        if to.is_empty() {
            return Err(Errno::NOENT);
        }
        self.entry(|| self.directory.symlink(to, path))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    ///
    /// As readlinkat(2); [`Errno::PERM`] for an absolute target.
    pub fn read_link(&self, path: &str) -> Result<String, Errno> {
        self.directory.read_link(checked(path)?)
    }

    /// Gives the file at `old` a second name in `to`. A symbolic link is not followed.
    ///
    /// # Errors
    ///
    /// As linkat(2); as [`create_directory`](Self::create_directory); [`Errno::XDEV`] if `to`
    /// belongs to another file system.
    pub fn link(&self, old: &str, to: &Self, new: &str) -> Result<(), Errno> {
        self.access.check_change()?;
        to.access.check_change()?;
        let (old, new) = (checked(old)?, checked(new)?);
        self.entry(|| self.directory.link(old, &*to.directory, new))
    }

    /// Renames a file.
    ///
    /// # Errors
    ///
    /// As renameat(2); [`Errno::ROFS`] if the guest may not change both directories, and
    /// [`Errno::XDEV`] if `to` belongs to another file system.
    pub fn rename(&self, old: &str, to: &Self, new: &str) -> Result<(), Errno> {
        self.access.check_change()?;
        to.access.check_change()?;
        let (old, new) = (checked(old)?, checked(new)?);
        self.directory.rename(old, &*to.directory, new)
    }

    /// Waits until the disk has the directory.
    ///
    /// # Errors
    ///
    /// As fsync(2).
    pub fn sync(&self, only_data: bool) -> Result<(), Errno> {
        self.directory.sync(only_data)
    }
}
