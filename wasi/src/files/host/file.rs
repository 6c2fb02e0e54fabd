//! [`HostFile`]: a regular file of the host.
//!
//! Reads and writes block the thread while the disk works.

use super::convert::timestamps;
use crate::errno::Errno;
use crate::files::backend::RegularFile;
use crate::files::types::{Advice, Metadata, NewTimes};
use rustix::buffer::spare_capacity;
use rustix::fs::{FileType, SeekFrom};
use rustix::io::{ReadWriteFlags, retry_on_intr};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

/// A regular file of the host, opened for one descriptor of the guest. The host may have opened the
/// file with more rights than the guest has.
pub(super) struct HostFile(pub(super) OwnedFd);

/// The offset with which pwritev2(2) writes at the position of the open file.
const AT_POSITION: u64 = u64::MAX;

/// Waits until the disk has a file.
pub(super) fn sync(file: impl AsFd, only_data: bool) -> Result<(), Errno> {
    match only_data {
        true => rustix::fs::fdatasync(file),
        false => rustix::fs::fsync(file),
    }
}

/// Sets the times of an open file.
pub(crate) fn fd_times(file: impl AsFd, times: NewTimes) -> Result<(), Errno> {
    rustix::fs::futimens(file, &timestamps(times)?)
}

/// Checks an offset, because pwritev2(2) has another meaning for -1.
fn checked(offset: u64) -> Result<u64, Errno> {
    match i64::try_from(offset) {
        Ok(_) => Ok(offset),
        Err(_) => Err(Errno::INVAL),
    }
}

impl RegularFile for HostFile {
    fn metadata(&self) -> Result<Metadata, Errno> {
        Ok(Metadata::from(&rustix::fs::fstat(&self.0)?))
    }

    fn size(&self) -> Result<u64, Errno> {
        let found = rustix::fs::fstat(&self.0)?;
        match FileType::from_raw_mode(found.st_mode) {
            // The file's own position has no other use.
            FileType::BlockDevice => rustix::fs::seek(&self.0, SeekFrom::End(0)),
            _ => Ok(found.st_size.cast_unsigned()),
        }
    }

    fn check_position(&self, position: u64) -> Result<(), Errno> {
        // The largest position depends on the file system. FAT has the smallest one.
        match u32::try_from(position) {
            Ok(_) => Ok(()),
            Err(_) => rustix::fs::seek(&self.0, SeekFrom::Start(position)).map(drop),
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let offset = checked(offset)?;
        retry_on_intr(|| rustix::io::pread(&self.0, &mut *into, offset))
    }

    fn read(&self, max: usize, offset: u64) -> Result<Vec<u8>, Errno> {
        let offset = checked(offset)?;
        let mut bytes = Vec::with_capacity(max);
        retry_on_intr(|| rustix::io::pread(&self.0, spare_capacity(&mut bytes), offset))?;
        Ok(bytes)
    }

    fn write_at(&self, vectors: &[IoSlice<'_>], offset: u64) -> Result<usize, Errno> {
        let offset = checked(offset)?;
        retry_on_intr(|| rustix::io::pwritev(&self.0, vectors, offset))
    }

    fn append(&self, vectors: &[IoSlice<'_>]) -> Result<(usize, u64), Errno> {
        let append = || {
            let flags = ReadWriteFlags::APPEND;
            match rustix::io::pwritev2(&self.0, vectors, AT_POSITION, flags) {
                // Some file systems do not support `RWF_APPEND`. There the append is not atomic.
                Err(Errno::NOSYS | Errno::NOTSUP) => {
                    rustix::fs::seek(&self.0, SeekFrom::End(0))?;
                    rustix::io::writev(&self.0, vectors)
                }
                written => written,
            }
        };
        let written = retry_on_intr(append)?;
        Ok((written, rustix::fs::tell(&self.0)?))
    }

    fn set_size(&self, size: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(&self.0, checked(size)?)
    }

    fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        fd_times(&self.0, times)
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), Errno> {
        let len = NonZeroU64::new(len);
        rustix::fs::fadvise(&self.0, offset, len, advice.into())
    }

    fn sync(&self, only_data: bool) -> Result<(), Errno> {
        sync(&self.0, only_data)
    }
}
