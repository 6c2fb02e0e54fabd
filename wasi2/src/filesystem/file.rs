//! [`File`]: a regular file that a guest has opened.

use super::error::{ErrorCode, quota_error};
use super::types::{Advice, DescriptorFlags, NewTimestamp};
use crate::file_quota::{FileQuota, Held};
use crate::limits::{FILE_WRITE_MAX, READ_MAX};
use crate::preopens::Access;
use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::Timestamps;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::sync::Arc;

/// A regular file that a guest has opened. Its streams share it.
///
/// Reads and writes block the thread while the disk works.
pub(crate) struct File {
    pub(crate) file: cap_std::fs::File,
    /// The flags that the guest requested. The host may have opened the file with more rights.
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

    /// Reads at most `max` bytes. Returns no bytes at the end of the file.
    pub(crate) fn read(&self, max: usize, offset: u64) -> io::Result<Bytes> {
        let mut bytes = Vec::with_capacity(max.min(READ_MAX));
        retry_on_intr(|| rustix::io::pread(&self.file, spare_capacity(&mut bytes), offset))?;
        Ok(bytes.into())
    }

    /// Writes bytes, perhaps not all, so that the thread is soon free. Returns their number.
    pub(crate) fn write(&self, bytes: &[u8], place: Place) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let max = bytes.len().min(FILE_WRITE_MAX);
        let charged = self.quota.charge(1, max as u64);
        let charged = charged.map_err(|_| quota_error())?;
        // At most the length of the bytes.
        let bytes = &bytes[..charged as usize];
        let written = match place {
            Place::At(at) => retry_on_intr(|| rustix::io::pwrite(&self.file, bytes, at)),
            Place::End => retry_on_intr(|| self.append(bytes)),
        };
        let rest = charged - written.unwrap_or(0) as u64;
        self.quota.give_back(rest);
        Ok(written?)
    }

    fn append(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let vectors = [IoSlice::new(bytes)];
        match rustix::io::pwritev2(&self.file, &vectors, 0, ReadWriteFlags::APPEND) {
            // Some file systems do not support `RWF_APPEND`. Then this append is not atomic.
            Err(Errno::NOSYS | Errno::NOTSUP) => {
                let end = rustix::fs::fstat(&self.file)?.st_size;
                rustix::io::pwrite(&self.file, bytes, end.cast_unsigned())
            }
            written => written,
        }
    }

    pub(crate) fn set_size(&self, size: u64) -> Result<(), ErrorCode> {
        self.check_write()?;
        let set = || rustix::fs::ftruncate(&self.file, size);
        if !self.quota.is_disk_limited() {
            return Ok(set()?);
        }
        let more = size.saturating_sub(self.file.metadata()?.len());
        self.quota.charge(more, more)?;
        set().map_err(|error| {
            self.quota.give_back(more);
            error.into()
        })
    }

    pub(crate) fn set_times(
        &self,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        let times = Timestamps {
            last_access: accessed.timespec()?,
            last_modification: modified.timespec()?,
        };
        match self.access {
            Access::Full => Ok(rustix::fs::futimens(&self.file, &times)?),
            Access::ReadOnly => Err(ErrorCode::ReadOnly),
        }
    }

    pub(crate) fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), ErrorCode> {
        // Otherwise a guest could evict pages that other guests use from the page cache.
        if advice == Advice::DontNeed && !self.flags.write {
            return Ok(());
        }
        let len = NonZeroU64::new(len);
        Ok(rustix::fs::fadvise(&self.file, offset, len, advice.into())?)
    }
}
