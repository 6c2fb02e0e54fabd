//! [`HostDirectory`]: a directory of the host, and the operations on paths in it.
//!
//! This file confines guests. cap-std resolves all paths. No path leads outside the directory, even
//! with `..` and symbolic links, and even if other guests rename directories at the same time.
//! Nothing in this file passes a guest's path to the kernel.

use super::convert::{time_spec, timestamps};
use super::entries::HostEntries;
use super::file::{HostFile, fd_times, sync};
use crate::errno::{Errno, of_io};
use crate::files::backend::{Directory, EntryReader, Opened};
use crate::files::types::{FileKind, Metadata, NewTimes, OpenHow};
use cap_fs_ext::{
    DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsMaybeDirExt, OpenOptionsSyncExt,
};
use cap_std::fs::{Dir, File, OpenOptions};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A directory of the host.
pub struct HostDirectory(Arc<Dir>);

/// Whether a path ends in `/` or `/.`, so that it must name a directory.
fn names_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}

/// A path without trailing slashes. cap-std refuses trailing slashes when it makes or removes a
/// name.
fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed,
    }
}

/// The path of the directory that contains the last name of a path; `None` if that is the directory
/// itself, or if the path does not end in a name.
fn parent(path: &str) -> Option<&str> {
    let (parent, name) = trimmed(path).rsplit_once('/')?;
    (!parent.is_empty() && !ends_in_dots(name)).then_some(parent)
}

/// Whether the last component of a path is `.` or `..`.
fn ends_in_dots(path: &str) -> bool {
    let last = trimmed(path).rsplit('/').next();
    matches!(last, Some("." | ".."))
}

/// The error number of a result of cap-std.
fn errno<R>(result: io::Result<R>) -> Result<R, Errno> {
    result.map_err(|error| of_io(&error))
}

/// Options for opening a file.
fn options(how: OpenHow) -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .maybe_dir(true)
        .create(how.create && !how.exclusive)
        .create_new(how.create && how.exclusive)
        .truncate(how.truncate)
        // The host must open a file to read, to write, or both. If the guest asks for neither, the
        // host opens the file to read, but the guest still may not read it.
        .read(how.read || !how.write)
        // The standard library makes and truncates a file only if it opens the file to write.
        .write(how.write || how.create || how.truncate)
        .sync(how.synchronous.file)
        .dsync(how.synchronous.data)
        .rsync(how.synchronous.reads)
        // Without O_NONBLOCK, opening a FIFO waits for its other end.
        .nonblock(true)
        .follow(match how.follow {
            true => FollowSymlinks::Yes,
            false => FollowSymlinks::No,
        });
    options
}

impl HostDirectory {
    /// A directory of the host that guests may use.
    pub fn new(dir: impl Into<Arc<Dir>>) -> Self {
        Self(dir.into())
    }

    /// The type of what a path without its trailing slashes names. A symbolic link is not followed.
    fn kind(&self, path: &str) -> Result<FileKind, Errno> {
        Ok(self.find(trimmed(path), false)?.kind)
    }

    /// Checks that a path names a directory that the guest may reach.
    fn check_folder(&self, path: Option<&str>) -> Result<(), Errno> {
        let found = path.map(|path| self.find(path, true)).transpose()?;
        match found.map(|found| found.kind) {
            None | Some(FileKind::Directory) => Ok(()),
            Some(_) => Err(Errno::NOTDIR),
        }
    }

    /// Checks a path under which a link is made. No link can have a path that only a directory may
    /// have (symlink(2), link(2)).
    fn check_new(&self, path: &str) -> Result<(), Errno> {
        match path.ends_with('/') || ends_in_dots(path) {
            true => self.find(trimmed(path), false).and(Err(Errno::EXIST)),
            false => Ok(()),
        }
    }

    /// Opens the directory again, to read or sync it: the open descriptor may be an `O_PATH`
    /// descriptor.
    fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&*self.0, ".", flags, Mode::empty())
    }

    /// Opens a path without waiting. Opens the path to write if the host may not read it.
    fn open_any(&self, path: &str) -> Result<File, Errno> {
        let open = |read: bool| {
            let mut options = OpenOptions::new();
            options
                .maybe_dir(true)
                .read(read)
                .write(!read)
                .nonblock(true);
            self.0.open_with(path, &options)
        };
        errno(open(true).or_else(|error| match error.kind() {
            ErrorKind::PermissionDenied => open(false),
            _ => Err(error),
        }))
    }
}

/// The other directory of an operation on two directories. Fails with `xdev` if it is not of the
/// host.
fn of_host(directory: &dyn Directory) -> Result<&HostDirectory, Errno> {
    let directory: &dyn Any = directory;
    directory.downcast_ref().ok_or(Errno::XDEV)
}

impl Directory for HostDirectory {
    fn metadata(&self) -> Result<Metadata, Errno> {
        Ok(Metadata::from(&errno(self.0.dir_metadata())?))
    }

    fn find(&self, path: &str, follow: bool) -> Result<Metadata, Errno> {
        // cap-std does not check that a path with a slash at its end names a directory.
        let is_directory = names_directory(path);
        let found = errno(match follow || is_directory {
            true => self.0.metadata(path),
            false => self.0.symlink_metadata(path),
        })?;
        match is_directory && !found.is_dir() {
            true => Err(Errno::NOTDIR),
            false => Ok(Metadata::from(&found)),
        }
    }

    fn open(&self, path: &str, how: OpenHow) -> Result<Opened, Errno> {
        if how.create && how.exclusive && ends_in_dots(path) {
            return self.find(path, true).and(Err(Errno::EXIST));
        }
        if how.create && path.ends_with('/') {
            // As open(2): after an error of the parent, no file has such a path.
            match parent(path) {
                Some(parent) => self.find(parent, true)?,
                None => self.find(path, true).map_err(|error| match error {
                    Errno::PERM => error,
                    _ => Errno::ISDIR,
                })?,
            };
            return Err(Errno::ISDIR);
        }
        let opened = errno(self.0.open_with(path, &options(how)));
        // Without openat2(2), cap-std has another error for a link to a name and a slash.
        let opened = opened.map_err(|error| match self.kind(path) {
            Ok(FileKind::SymbolicLink) if how.create && error == Errno::INVAL => Errno::ISDIR,
            _ => error,
        })?;
        let opened = OwnedFd::from(opened.into_std());
        let found = rustix::fs::fstat(&opened)?;
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode).into();
        Ok(match kind {
            FileKind::Directory => {
                Opened::Directory(Box::new(Self::new(Dir::from_std_file(opened.into()))))
            }
            FileKind::RegularFile | FileKind::BlockDevice => {
                Opened::File(Box::new(HostFile(opened)))
            }
            _ => Opened::Stream(opened),
        })
    }

    fn entries(&self, position: u64) -> Result<Box<dyn EntryReader>, Errno> {
        let dir = rustix::fs::Dir::new(self.reopen()?)?;
        Ok(Box::new(HostEntries::after(dir, position)?))
    }

    fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        let here = AtFlags::empty();
        rustix::fs::utimensat(&*self.0, ".", &timestamps(times)?, here)
    }

    fn set_times_at(&self, path: &str, follow: bool, times: NewTimes) -> Result<(), Errno> {
        if follow || names_directory(path) {
            // cap-std can set the times of a link's target only by opening the target. To open a
            // device may already have an effect.
            return match self.find(path, true)?.kind {
                FileKind::Directory => Self::new(errno(self.0.open_dir(path))?).set_times(times),
                FileKind::RegularFile | FileKind::Fifo => fd_times(self.open_any(path)?, times),
                _ => Err(Errno::NOTSUP),
            };
        }
        let (accessed, modified) = (time_spec(times.accessed)?, time_spec(times.modified)?);
        errno(self.0.set_symlink_times(path, accessed, modified))
    }

    fn create_directory(&self, path: &str) -> Result<(), Errno> {
        errno(self.0.create_dir(trimmed(path)))
    }

    fn remove_directory(&self, path: &str) -> Result<(), Errno> {
        if ends_in_dots(path) {
            // As rmdir(2): the directory has another name.
            self.find(path, true)?;
            return Err(match trimmed(path).ends_with("..") {
                true => Errno::NOTEMPTY,
                false => Errno::INVAL,
            });
        }
        errno(self.0.remove_dir(trimmed(path)))
    }

    fn unlink_file(&self, path: &str) -> Result<(), Errno> {
        if path.ends_with('/') || ends_in_dots(path) {
            // As unlink(2): a link to a directory is not followed, and no directory is removed.
            return Err(match self.kind(path)? {
                FileKind::Directory => Errno::ISDIR,
                _ => Errno::NOTDIR,
            });
        }
        errno(self.0.remove_file_or_symlink(path))
    }

    fn symlink(&self, to: &str, path: &str) -> Result<(), Errno> {
        self.check_new(path)?;
        // cap-std refuses absolute paths.
        errno(self.0.symlink(to, path))
    }

    fn read_link(&self, path: &str) -> Result<String, Errno> {
        let target = errno(self.0.read_link(path))?.into_os_string();
        target.into_string().map_err(|_| Errno::ILSEQ)
    }

    fn link(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), Errno> {
        let to = of_host(to)?;
        if names_directory(old) {
            self.find(old, true)?;
            to.check_new(new)?;
            return Err(Errno::PERM);
        }
        let linked = to
            .check_new(new)
            .and_then(|()| errno(self.0.hard_link(old, &to.0, new)));
        // As link(2): an error of the first path takes precedence.
        linked.or_else(|error| self.kind(old).and(Err(error)))
    }

    fn rename(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), Errno> {
        let to = of_host(to)?;
        if ends_in_dots(old) || ends_in_dots(new) {
            // As rename(2): the directory itself has no name there.
            for (directory, path) in [(self, old), (to, new)] {
                // Also an empty path, and one that leads outside.
                let named = path.is_empty() || path.starts_with('/') || ends_in_dots(path);
                directory.check_folder(if named { Some(path) } else { parent(path) })?;
            }
            return Err(Errno::BUSY);
        }
        if old.ends_with('/') || new.ends_with('/') {
            to.check_folder(parent(new))?;
            // A link to a directory is not followed.
            if self.kind(old)? != FileKind::Directory {
                return Err(Errno::NOTDIR);
            }
        }
        errno(self.0.rename(trimmed(old), &to.0, trimmed(new)))
    }

    fn sync(&self, only_data: bool) -> Result<(), Errno> {
        sync(self.reopen()?, only_data)
    }
}
