//! [`HostDirectory`]: a directory of the host, and the operations on paths in it.
//!
//! This file confines guests. cap-std resolves all paths. No path leads outside the directory, even
//! with `..` and symbolic links, and even if other guests rename directories at the same time.
//! Nothing in this file passes a guest's path to the kernel.

use super::convert::{time_spec, timestamps};
use super::entries::HostEntries;
use super::file::{HostFile, sync};
use crate::filesystem::backend::{Directory, EntryReader, OpenHow, Opened};
use crate::filesystem::error::ErrorCode;
use crate::filesystem::metadata::Metadata;
use crate::filesystem::path_checks::names_directory;
use crate::filesystem::types::{FileKind, NewTimestamp};
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
pub(crate) struct HostDirectory(pub(crate) Arc<Dir>);

/// A path without trailing slashes. cap-std refuses trailing slashes when it makes or removes a
/// name.
fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        trimmed => trimmed,
    }
}

/// Options for opening a file.
fn options(how: OpenHow, create: bool) -> OpenOptions {
    let OpenHow {
        follow,
        open,
        flags,
    } = how;
    let mut options = OpenOptions::new();
    options
        .maybe_dir(true)
        .create(create && !open.exclusive)
        .create_new(create && open.exclusive)
        .truncate(open.truncate)
        // The host must open a file to read, to write, or both. If the guest asks for neither, the
        // host opens the file to read, but the guest still may not read it.
        .read(flags.read || !flags.write)
        .write(flags.write || create || open.truncate)
        .sync(flags.file_integrity_sync)
        .dsync(flags.data_integrity_sync)
        .rsync(flags.requested_write_sync)
        // Without O_NONBLOCK, opening a FIFO waits for its other end.
        .nonblock(true)
        .follow(match follow {
            true => FollowSymlinks::Yes,
            false => FollowSymlinks::No,
        });
    options
}

impl HostDirectory {
    /// Checks a path: if it ends in `/` or `/.`, it must name a directory.
    fn named<'a>(&self, path: &'a str) -> Result<&'a str, ErrorCode> {
        if names_directory(path) {
            self.find(path, true)?;
        }
        Ok(trimmed(path))
    }

    /// Opens the directory again, to read or sync it: the open descriptor may be an `O_PATH`
    /// descriptor.
    fn reopen(&self) -> Result<OwnedFd, ErrorCode> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&*self.0, ".", flags, Mode::empty())?)
    }

    /// Opens a path without waiting. Opens the path to write if the host may not read it.
    fn open_any(&self, path: &str) -> io::Result<File> {
        let open = |read: bool| {
            let mut options = OpenOptions::new();
            options
                .maybe_dir(true)
                .read(read)
                .write(!read)
                .nonblock(true);
            self.0.open_with(path, &options)
        };
        open(true).or_else(|error| match error.kind() {
            ErrorKind::PermissionDenied => open(false),
            _ => Err(error),
        })
    }

    /// Opens a file or directory. A symbolic link that must not be followed is an error of cap-std.
    fn open_with(&self, path: &str, options: &OpenOptions) -> Result<Opened, ErrorCode> {
        let opened = self.0.open_with(path, options)?;
        Ok(match opened.metadata()?.is_dir() {
            true => {
                let dir = Arc::new(Dir::from_std_file(opened.into_std()));
                Opened::Directory(Box::new(Self(dir)))
            }
            false => Opened::File(Box::new(HostFile(opened))),
        })
    }
}

/// The other directory of an operation on two directories. Fails with `cross-device` if it is not
/// of the host.
fn of_host(directory: &dyn Directory) -> Result<&HostDirectory, ErrorCode> {
    let directory: &dyn Any = directory;
    directory.downcast_ref().ok_or(ErrorCode::CrossDevice)
}

impl Directory for HostDirectory {
    fn metadata(&self) -> Result<Metadata, ErrorCode> {
        Ok(Metadata::from(&self.0.dir_metadata()?))
    }

    fn find(&self, path: &str, follow: bool) -> Result<Metadata, ErrorCode> {
        // cap-std does not check that a path with a slash at its end names a directory.
        let is_directory = names_directory(path);
        let found = match follow || is_directory {
            true => self.0.metadata(path)?,
            false => self.0.symlink_metadata(path)?,
        };
        match is_directory && !found.is_dir() {
            true => Err(ErrorCode::NotDirectory),
            false => Ok(Metadata::from(&found)),
        }
    }

    fn open(&self, path: &str, how: OpenHow) -> Result<Opened, ErrorCode> {
        self.open_with(path, &options(how, false))
    }

    fn create(&self, path: &str, how: OpenHow) -> Result<Opened, ErrorCode> {
        self.open_with(path, &options(how, true))
    }

    fn entries(&self) -> Result<Box<dyn EntryReader>, ErrorCode> {
        let dir = rustix::fs::Dir::new(self.reopen()?)?;
        Ok(Box::new(HostEntries(dir)))
    }

    fn set_times(&self, accessed: NewTimestamp, modified: NewTimestamp) -> Result<(), ErrorCode> {
        let times = timestamps(accessed, modified)?;
        let here = AtFlags::empty();
        Ok(rustix::fs::utimensat(&*self.0, ".", &times, here)?)
    }

    fn set_times_at(
        &self,
        follow: bool,
        path: &str,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        if follow && self.find(path, false)?.kind == FileKind::SymbolicLink {
            // cap-std can set the times of a link's target only by opening the target.
            let kind = self.find(path, true)?.kind;
            if !matches!(kind, FileKind::RegularFile | FileKind::Directory) {
                return Err(ErrorCode::Unsupported);
            }
            let times = timestamps(accessed, modified)?;
            return Ok(rustix::fs::futimens(self.open_any(path)?, &times)?);
        }
        let (accessed, modified) = (time_spec(accessed)?, time_spec(modified)?);
        Ok(self.0.set_symlink_times(path, accessed, modified)?)
    }

    fn create_directory(&self, path: &str) -> Result<(), ErrorCode> {
        Ok(self.0.create_dir(trimmed(path))?)
    }

    fn remove_directory(&self, path: &str) -> Result<(), ErrorCode> {
        Ok(self.0.remove_dir(trimmed(path))?)
    }

    fn unlink_file(&self, path: &str) -> Result<(), ErrorCode> {
        Ok(self.0.remove_file_or_symlink(self.named(path)?)?)
    }

    fn symlink(&self, to: &str, path: &str) -> Result<(), ErrorCode> {
        // cap-std refuses absolute paths.
        Ok(self.0.symlink(to, self.named(path)?)?)
    }

    fn read_link(&self, path: &str) -> Result<String, ErrorCode> {
        let target = self.0.read_link(path)?.into_os_string().into_string();
        target.map_err(|_| ErrorCode::IllegalByteSequence)
    }

    fn link(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), ErrorCode> {
        let to = of_host(to)?;
        Ok(self.0.hard_link(self.named(old)?, &to.0, to.named(new)?)?)
    }

    fn rename(&self, old: &str, to: &dyn Directory, new: &str) -> Result<(), ErrorCode> {
        if names_directory(new) && self.find(old, false)?.kind != FileKind::Directory {
            return Err(ErrorCode::NotDirectory);
        }
        let (old, new) = (self.named(old)?, trimmed(new));
        Ok(self.0.rename(old, &of_host(to)?.0, new)?)
    }

    fn sync(&self, only_data: bool) -> Result<(), ErrorCode> {
        sync(self.reopen()?, only_data)
    }
}
