//! [`File`]: a regular file that a guest has opened.

use super::backend::RegularFile;
use super::error::{ErrorCode, quota_error};
use super::types::{Advice, DescriptorFlags, NewTimestamp};
use crate::file_quota::{FileQuota, Held};
use crate::limits::FILE_WRITE_MAX;
use crate::preopens::Access;
use std::io;
use std::sync::Arc;

/// A regular file that a guest has opened. The streams of the file share this value.
pub(crate) struct File {
    pub(crate) file: Box<dyn RegularFile>,
    /// The flags that the guest requested.
    pub(crate) flags: DescriptorFlags,
    /// The access of the directory in which the file was opened.
    pub(crate) access: Access,
    pub(crate) quota: Arc<FileQuota>,
    pub(crate) _held: Held,
}

/// Where a write begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    At(u64),
    End,
}

impl File {
    /// Checks that the guest may read the file.
    pub(crate) fn check_read(&self) -> Result<(), ErrorCode> {
        match self.flags.read {
            true => Ok(()),
            false => Err(ErrorCode::BadDescriptor),
        }
    }

    /// Checks that the guest may write the file.
    pub(crate) fn check_write(&self) -> Result<(), ErrorCode> {
        match self.flags.write {
            true => Ok(()),
            false => Err(ErrorCode::BadDescriptor),
        }
    }

    /// Writes bytes, perhaps not all, so that the thread is soon free. Returns the number of
    /// written bytes.
    pub(crate) fn write(&self, bytes: &[u8], place: Place) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let max = bytes.len().min(FILE_WRITE_MAX);
        if !self.file.is_on_disk() {
            return self.write_uncharged(&bytes[..max], place);
        }
        let charged = self.quota.charge(1, max as u64);
        let charged = charged.map_err(|_| quota_error())?;
        // `charged` is at most the length of `bytes`.
        let bytes = &bytes[..charged as usize];
        let written = self.write_uncharged(bytes, place);
        let rest = charged - *written.as_ref().unwrap_or(&0) as u64;
        self.quota.give_back(rest);
        written
    }

    fn write_uncharged(&self, bytes: &[u8], place: Place) -> io::Result<usize> {
        match place {
            Place::At(at) => self.file.write_at(bytes, at),
            Place::End => self.file.append(bytes),
        }
    }

    pub(crate) fn set_size(&self, size: u64) -> Result<(), ErrorCode> {
        self.check_write()?;
        if !self.file.is_on_disk() || !self.quota.is_disk_limited() {
            return self.file.set_size(size);
        }
        let more = size.saturating_sub(self.file.metadata()?.size);
        self.quota.charge(more, more)?;
        self.file
            .set_size(size)
            .inspect_err(|_| self.quota.give_back(more))
    }

    pub(crate) fn set_times(
        &self,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        let (accessed, modified) = (accessed.checked()?, modified.checked()?);
        match self.access {
            Access::Full => self.file.set_times(accessed, modified),
            Access::ReadOnly => Err(ErrorCode::ReadOnly),
        }
    }

    pub(crate) fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), ErrorCode> {
        // Otherwise a guest could evict pages that other guests use from the page cache.
        if advice == Advice::DontNeed && !self.flags.write {
            return Ok(());
        }
        self.file.advise(offset, len, advice)
    }
}
