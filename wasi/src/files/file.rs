//! [`File`]: a regular file that a guest has opened.

use super::backend::RegularFile;
use super::types::{Access, Advice, Metadata, NewTimes};
use crate::errno::Errno;
use crate::quota::{FileQuota, Held};
use pirn_memory_files::MemoryFile;
use std::io::IoSlice;
use std::sync::Arc;

/// A regular file that a guest has opened, with the rights that the guest asked for.
pub struct File {
    pub(super) file: Box<dyn RegularFile>,
    /// Whether the guest may read the file.
    pub is_readable: bool,
    /// Whether the guest may write the file.
    pub is_writable: bool,
    /// The access of the directory in which the file was opened.
    pub(super) access: Access,
    pub(super) quota: Arc<FileQuota>,
    pub(super) _held: Held,
}

/// Where a write begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At an offset.
    At(u64),
    /// At the end of the file.
    End,
}

/// The leading part of the vectors, `bytes` bytes long in total.
fn prefix<'a>(vectors: &'a [IoSlice<'_>], bytes: u64) -> Vec<IoSlice<'a>> {
    let mut left = bytes;
    let cut = vectors.iter().map(|vector| {
        let some = (vector.len() as u64).min(left);
        left -= some;
        IoSlice::new(&vector[..some as usize])
    });
    cut.collect()
}

impl File {
    /// The file, if it is in memory.
    pub(crate) fn in_memory(&self) -> Option<&MemoryFile> {
        self.file.in_memory()
    }

    /// Whether changes go to a disk.
    #[must_use]
    pub fn is_on_disk(&self) -> bool {
        self.file.is_on_disk()
    }

    /// The metadata.
    ///
    /// # Errors
    ///
    /// As fstat(2).
    pub fn metadata(&self) -> Result<Metadata, Errno> {
        let found = self.file.metadata()?;
        Ok(match self.quota.hides_times {
            true => found.without_times(),
            false => found,
        })
    }

    /// The size in bytes.
    ///
    /// # Errors
    ///
    /// As lseek(2).
    pub fn size(&self) -> Result<u64, Errno> {
        self.file.size()
    }

    /// Checks that a position may be set, perhaps behind the end of the file.
    ///
    /// # Errors
    ///
    /// As lseek(2).
    pub fn check_position(&self, position: u64) -> Result<(), Errno> {
        self.file.check_position(position)
    }

    fn check_read(&self) -> Result<(), Errno> {
        match self.is_readable {
            true => Ok(()),
            false => Err(Errno::BADF),
        }
    }

    /// Reads bytes. Returns 0 at the end of the file.
    ///
    /// # Errors
    ///
    /// As pread(2); [`Errno::BADF`] if the guest may not read the file.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.check_read()?;
        self.file.read_at(into, offset)
    }

    /// Reads at most `max` bytes into a new buffer. Returns no bytes at the end of the file.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at).
    pub fn read(&self, max: usize, offset: u64) -> Result<Vec<u8>, Errno> {
        self.check_read()?;
        self.file.read(max, offset)
    }

    /// Writes bytes, perhaps not all. Returns the number of written bytes, and the offset after
    /// them.
    ///
    /// # Errors
    ///
    /// As pwritev(2); [`Errno::BADF`] if the guest may not write the file, and [`Errno::DQUOT`] if
    /// the guest may write no more bytes to disk.
    pub fn write(&self, vectors: &[IoSlice<'_>], place: Place) -> Result<(usize, u64), Errno> {
        if !self.is_writable {
            return Err(Errno::BADF);
        }
        let bytes = vectors.iter().map(|vector| vector.len() as u64).sum();
        if bytes == 0 || !self.file.is_on_disk() || !self.quota.is_disk_limited() {
            return self.write_uncharged(vectors, place);
        }
        let charged = self.quota.charge(1, bytes)?;
        let written = match charged == bytes {
            true => self.write_uncharged(vectors, place),
            false => self.write_uncharged(&prefix(vectors, charged), place),
        };
        let used = written.as_ref().map_or(0, |(written, _)| *written as u64);
        self.quota.give_back(charged - used);
        written
    }

    fn write_uncharged(
        &self,
        vectors: &[IoSlice<'_>],
        place: Place,
    ) -> Result<(usize, u64), Errno> {
        match place {
            Place::At(at) => {
                let written = self.file.write_at(vectors, at)?;
                Ok((written, at + written as u64))
            }
            Place::End => self.file.append(vectors),
        }
    }

    /// Sets the size in bytes.
    ///
    /// # Errors
    ///
    /// As ftruncate(2); [`Errno::ROFS`] in a read-only directory, and [`Errno::DQUOT`] if the guest
    /// may write no more bytes to disk.
    pub fn set_size(&self, size: u64) -> Result<(), Errno> {
        self.access.check_change()?;
        if !self.is_writable {
            return Err(Errno::INVAL);
        }
        if !self.file.is_on_disk() || !self.quota.is_disk_limited() {
            return self.file.set_size(size);
        }
        let more = size.saturating_sub(self.file.metadata()?.size);
        self.quota.charge(more, more)?;
        self.file
            .set_size(size)
            .inspect_err(|_| self.quota.give_back(more))
    }

    /// Sets the times.
    ///
    /// # Errors
    ///
    /// As futimens(3); [`Errno::ROFS`] in a read-only directory.
    pub fn set_times(&self, times: NewTimes) -> Result<(), Errno> {
        self.access.check_change()?;
        self.file.set_times(times)
    }

    /// Announces the use of a part of the file.
    ///
    /// # Errors
    ///
    /// As posix_fadvise(2).
    pub fn advise(&self, offset: u64, len: u64, advice: Advice) -> Result<(), Errno> {
        // Otherwise a guest could evict pages that other guests use from the page cache.
        let advice = match advice {
            Advice::DontNeed if !self.is_writable => Advice::Normal,
            advice => advice,
        };
        self.file.advise(offset, len, advice)
    }

    /// Waits until the disk has the file.
    ///
    /// # Errors
    ///
    /// As fsync(2).
    pub fn sync(&self, only_data: bool) -> Result<(), Errno> {
        self.file.sync(only_data)
    }
}
