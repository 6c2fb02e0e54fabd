//! [`Folder`]: a preopened or opened directory, and the operations on paths in it.
//!
//! This file confines guests. cap-std resolves all paths. No path leads outside the directory, even
//! with `..` and symbolic links, and even if other guests rename directories meanwhile. Nothing in
//! this file passes a guest's path to the kernel.

use super::error::ErrorCode;
use super::types::{NewTimestamp, PathFlags};
use crate::file_quota::{FileQuota, Held};
use crate::limits::PATH_MAX;
use crate::preopens::Access;
use cap_fs_ext::{DirExt, OpenOptionsMaybeDirExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use rustix::fs::{AtFlags, Mode, OFlags, Timestamps};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A directory that is preopened, or that the guest has opened.
pub(crate) struct Folder {
    pub(crate) dir: Arc<Dir>,
    pub(crate) access: Access,
    pub(crate) quota: Arc<FileQuota>,
    /// `None` for a preopened directory.
    pub(crate) _held: Option<Held>,
}

/// Checks the length of a path.
pub(crate) fn checked(path: &str) -> Result<&str, ErrorCode> {
    match path.len() {
        0..PATH_MAX => Ok(path),
        _ => Err(ErrorCode::NameTooLong),
    }
}

/// Whether a path ends in `/` or `/.`, so that it must name a directory. cap-std does not check
/// this.
pub(crate) fn names_directory(path: &str) -> bool {
    path.ends_with('/') || path.ends_with("/.")
}

/// A path without trailing slashes. cap-std refuses trailing slashes when it makes or removes a
/// name.
fn trimmed(path: &str) -> Result<&str, ErrorCode> {
    match checked(path)?.trim_end_matches('/') {
        "" => Ok(path),
        trimmed => Ok(trimmed),
    }
}

impl Folder {
    /// Checks that the guest may change the directory and what is below it.
    pub(crate) fn check_change(&self) -> Result<(), ErrorCode> {
        match self.access {
            Access::Full => Ok(()),
            Access::ReadOnly => Err(ErrorCode::ReadOnly),
        }
    }

    /// The metadata of the file at a path. With `follow`, a symbolic link at the end is followed.
    pub(crate) fn find(&self, path: &str, follow: bool) -> Result<Metadata, ErrorCode> {
        let path = checked(path)?;
        let is_directory = names_directory(path);
        let found = match follow || is_directory {
            true => self.dir.metadata(path)?,
            false => self.dir.symlink_metadata(path)?,
        };
        match is_directory && !found.is_dir() {
            true => Err(ErrorCode::NotDirectory),
            false => Ok(found),
        }
    }

    /// Checks a path: if it ends in `/` or `/.`, it must name a directory.
    fn named<'a>(&self, path: &'a str) -> Result<&'a str, ErrorCode> {
        if names_directory(path) {
            self.find(path, true)?;
        }
        trimmed(path)
    }

    /// Opens the directory again, to read or sync it. `dir` may have been opened with `O_PATH`.
    pub(crate) fn reopen(&self) -> Result<OwnedFd, ErrorCode> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&*self.dir, ".", flags, Mode::empty())?)
    }

    pub(crate) fn set_times(
        &self,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        self.check_change()?;
        let times = Timestamps {
            last_access: accessed.timespec()?,
            last_modification: modified.timespec()?,
        };
        Ok(rustix::fs::utimensat(
            &*self.dir,
            ".",
            &times,
            AtFlags::empty(),
        )?)
    }

    pub(crate) fn set_times_at(
        &self,
        flags: PathFlags,
        path: &str,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        self.check_change()?;
        if flags.symlink_follow && self.find(path, false)?.is_symlink() {
            // cap-std can set the times of a link's target only by opening the target.
            let kind = self.find(path, true)?.file_type();
            if !kind.is_file() && !kind.is_dir() {
                return Err(ErrorCode::Unsupported);
            }
            let times = Timestamps {
                last_access: accessed.timespec()?,
                last_modification: modified.timespec()?,
            };
            return Ok(rustix::fs::futimens(self.open_any(path)?, &times)?);
        }
        let path = checked(path)?;
        let (accessed, modified) = (accessed.spec()?, modified.spec()?);
        Ok(self.dir.set_symlink_times(path, accessed, modified)?)
    }

    /// Opens a path without waiting. Opens it to write if the host may not read it.
    fn open_any(&self, path: &str) -> io::Result<File> {
        let open = |read: bool| {
            let mut options = OpenOptions::new();
            options
                .maybe_dir(true)
                .read(read)
                .write(!read)
                .nonblock(true);
            self.dir.open_with(path, &options)
        };
        open(true).or_else(|error| match error.kind() {
            ErrorKind::PermissionDenied => open(false),
            _ => Err(error),
        })
    }

    pub(crate) fn create_directory(&self, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        let path = trimmed(path)?;
        Ok(self.quota.entry(|| self.dir.create_dir(path))??)
    }

    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        Ok(self.dir.remove_dir(trimmed(path)?)?)
    }

    pub(crate) fn unlink_file(&self, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        Ok(self.dir.remove_file_or_symlink(self.named(path)?)?)
    }

    pub(crate) fn symlink(&self, to: &str, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        let (to, path) = (checked(to)?, self.named(path)?);
        // cap-std refuses absolute paths.
        Ok(self.quota.entry(|| self.dir.symlink(to, path))??)
    }

    /// The target of a symbolic link, unless it is absolute.
    pub(crate) fn read_link(&self, path: &str) -> Result<String, ErrorCode> {
        let target = self.dir.read_link(checked(path)?)?.into_os_string();
        let target = target.into_string();
        target.map_err(|_| ErrorCode::IllegalByteSequence)
    }

    pub(crate) fn link(
        &self,
        flags: PathFlags,
        old: &str,
        to: &Self,
        new: &str,
    ) -> Result<(), ErrorCode> {
        self.check_change()?;
        to.check_change()?;
        if flags.symlink_follow {
            return Err(ErrorCode::Invalid);
        }
        let (old, new) = (self.named(old)?, to.named(new)?);
        let link = || self.dir.hard_link(old, &to.dir, new);
        Ok(self.quota.entry(link)??)
    }

    pub(crate) fn rename(&self, old: &str, to: &Self, new: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        to.check_change()?;
        if names_directory(new) && !self.find(old, false)?.is_dir() {
            return Err(ErrorCode::NotDirectory);
        }
        let (old, new) = (self.named(old)?, trimmed(new)?);
        Ok(self.dir.rename(old, &to.dir, new)?)
    }
}
