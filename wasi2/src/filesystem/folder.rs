//! [`Folder`]: a preopened or opened directory, and the operations on paths in it.
//!
//! Checks the guest's access, the length of paths, and the quotas. The [`Directory`] confines the
//! guest.

use super::backend::Directory;
use super::error::ErrorCode;
use super::metadata::Metadata;
use super::path_checks::checked;
use super::types::{NewTimestamp, PathFlags};
use crate::file_quota::{FileQuota, Held};
use crate::preopens::Access;
use std::sync::Arc;

/// A directory that is preopened, or that the guest has opened.
pub(crate) struct Folder {
    pub(crate) directory: Box<dyn Directory>,
    pub(crate) access: Access,
    pub(crate) quota: Arc<FileQuota>,
    /// `None` for a preopened directory.
    pub(crate) _held: Option<Held>,
}

impl Folder {
    /// Checks that the guest may change the directory and everything below it.
    pub(crate) fn check_change(&self) -> Result<(), ErrorCode> {
        match self.access {
            Access::Full => Ok(()),
            Access::ReadOnly => Err(ErrorCode::ReadOnly),
        }
    }

    /// Makes a directory entry, and charges for the entry if the directory is on a disk.
    pub(crate) fn entry<R>(
        &self,
        make: impl FnOnce() -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        match self.directory.is_on_disk() {
            true => self.quota.entry(make)?,
            false => make(),
        }
    }

    /// The metadata of the file at a path. With `follow`, a symbolic link at the end is followed.
    pub(crate) fn find(&self, path: &str, follow: bool) -> Result<Metadata, ErrorCode> {
        self.directory.find(checked(path)?, follow)
    }

    pub(crate) fn set_times(
        &self,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        self.check_change()?;
        self.directory
            .set_times(accessed.checked()?, modified.checked()?)
    }

    pub(crate) fn set_times_at(
        &self,
        flags: PathFlags,
        path: &str,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        self.check_change()?;
        let (accessed, modified) = (accessed.checked()?, modified.checked()?);
        let follow = flags.symlink_follow;
        self.directory
            .set_times_at(follow, checked(path)?, accessed, modified)
    }

    pub(crate) fn create_directory(&self, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        let path = checked(path)?;
        self.entry(|| self.directory.create_directory(path))
    }

    pub(crate) fn remove_directory(&self, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        self.directory.remove_directory(checked(path)?)
    }

    pub(crate) fn unlink_file(&self, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        self.directory.unlink_file(checked(path)?)
    }

    pub(crate) fn symlink(&self, to: &str, path: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        let (to, path) = (checked(to)?, checked(path)?);
        self.entry(|| self.directory.symlink(to, path))
    }

    /// The target of a symbolic link, unless it is absolute.
    pub(crate) fn read_link(&self, path: &str) -> Result<String, ErrorCode> {
        self.directory.read_link(checked(path)?)
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
        let (old, new) = (checked(old)?, checked(new)?);
        let link = || self.directory.link(old, &*to.directory, new);
        self.entry(link)
    }

    pub(crate) fn rename(&self, old: &str, to: &Self, new: &str) -> Result<(), ErrorCode> {
        self.check_change()?;
        to.check_change()?;
        let (old, new) = (checked(old)?, checked(new)?);
        self.directory.rename(old, &*to.directory, new)
    }
}
