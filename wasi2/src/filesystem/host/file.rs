//! [`HostFile`]: a regular file of the host.
//!
//! Reads and writes block the thread while the disk works.

use super::convert::timestamps;
use crate::filesystem::backend::RegularFile;
use crate::filesystem::error::ErrorCode;
use crate::filesystem::metadata::Metadata;
use crate::filesystem::types::{Advice, NewTimestamp};
use crate::io::exact;
use crate::limits::READ_MAX;
use bytes::Bytes;
use cap_std::fs::File;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::fd::AsFd;

/// A regular file of the host. The host may have opened the file with more rights than the guest
/// has.
pub(super) struct HostFile(pub(super) File);

/// Waits until the disk has a file.
pub(super) fn sync(file: impl AsFd, only_data: bool) -> Result<(), ErrorCode> {
    Ok(match only_data {
        true => rustix::fs::fdatasync(file),
        false => rustix::fs::fsync(file),
    }?)
}

impl RegularFile for HostFile {
    fn metadata(&self) -> Result<Metadata, ErrorCode> {
        Ok(Metadata::from(&self.0.metadata()?))
    }

    fn read(&self, max: usize, offset: u64) -> io::Result<Bytes> {
        let mut bytes = Vec::with_capacity(max.min(READ_MAX));
        retry_on_intr(|| rustix::io::pread(&self.0, spare_capacity(&mut bytes), offset))?;
        Ok(exact(bytes))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| {
            rustix::io::pwrite(&self.0, bytes, offset)
        })?)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let vectors = [IoSlice::new(bytes)];
        let append = || match rustix::io::pwritev2(&self.0, &vectors, 0, ReadWriteFlags::APPEND) {
            // Some file systems do not support `RWF_APPEND`. There the append is not atomic.
            Err(Errno::NOSYS | Errno::NOTSUP) => {
                let end = rustix::fs::fstat(&self.0)?.st_size;
                rustix::io::pwrite(&self.0, bytes, end.cast_unsigned())
            }
            written => written,
        };
        Ok(retry_on_intr(append)?)
    }

    fn set_size(&self, size: u64) -> Result<(), ErrorCode> {
        Ok(rustix::fs::ftruncate(&self.0, size)?)
    }

    fn set_times(&self, accessed: NewTimestamp, modified: NewTimestamp) -> Result<(), ErrorCode> {
        let times = timestamps(accessed, modified)?;
        Ok(rustix::fs::futimens(&self.0, &times)?)
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), ErrorCode> {
        let len = NonZeroU64::new(len);
        Ok(rustix::fs::fadvise(&self.0, offset, len, advice.into())?)
    }

    fn sync(&self, only_data: bool) -> Result<(), ErrorCode> {
        sync(&self.0, only_data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_read_keeps_no_more_than_its_bytes() {
        let mut file = tempfile::tempfile().expect("a file");
        std::io::Write::write_all(&mut file, b"xyz").expect("it is written");
        let file = HostFile(File::from_std(file));
        let read = file.read(READ_MAX, 1).expect("it is read");
        assert_eq!(read, "yz");
        let buffer = read.try_into_mut().expect("nothing else has the buffer");
        assert!(buffer.capacity() <= 16, "{}", buffer.capacity());
    }
}
