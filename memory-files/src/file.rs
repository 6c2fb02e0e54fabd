//! [`MemoryFile`]: an open file.

use crate::error::FileError;
use crate::node::FileNode;
use crate::stat::{NewTimes, Stat};
use std::sync::Arc;

/// An open file of an instance.
///
/// The file has no position: the caller keeps one. Clones share the file. Several threads may use
/// the file at once: readers share its lock, and a writer holds the lock alone.
#[derive(Debug, Clone)]
pub struct MemoryFile {
    node: Arc<FileNode>,
    reads: bool,
    writes: bool,
    is_read_only: bool,
}

impl MemoryFile {
    pub(crate) fn new(
        node: Arc<FileNode>,
        (reads, writes): (bool, bool),
        is_read_only: bool,
    ) -> Self {
        Self {
            node,
            reads,
            writes,
            is_read_only,
        }
    }

    /// Whether the file was opened to read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.reads
    }

    /// Whether the file was opened to write.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.writes
    }

    /// The size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.node.size()
    }

    /// The attributes.
    #[must_use]
    pub fn stat(&self) -> Stat {
        self.node.stat()
    }

    /// Whether both handles name the same file of the same instance.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.node, &other.node)
    }

    /// Reads bytes from `offset` on into `bytes`. Returns the number of read bytes: less than the
    /// length of `bytes` at the end of the file, and 0 after the end.
    ///
    /// # Errors
    ///
    /// [`FileError::BadDescriptor`] if the file was not opened to read.
    pub fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, FileError> {
        let mut at = 0;
        self.read_pieces_at(offset, bytes.len(), |piece| {
            bytes[at..][..piece.len()].copy_from_slice(piece);
            at += piece.len();
            Ok(())
        })
    }

    /// Calls `sink` for at most `len` bytes from `offset` on, in order, piece by piece and in
    /// place. Returns the number of bytes. No writer changes the file meanwhile; `sink` must not
    /// use this file.
    ///
    /// # Errors
    ///
    /// As [`read_at`](Self::read_at), and the first error of `sink`.
    pub fn read_pieces_at<E: From<FileError>>(
        &self,
        offset: u64,
        len: usize,
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        match self.reads {
            true => self.node.read(offset, len, sink),
            false => Err(FileError::BadDescriptor.into()),
        }
    }

    /// Writes bytes at `offset`. Returns the number of written bytes: less than the length of
    /// `bytes` if the limit of bytes is reached. A gap between the end of the file and `offset`
    /// becomes a hole.
    ///
    /// # Errors
    ///
    /// [`FileError::BadDescriptor`] if the file was not opened to write; [`FileError::NoSpace`] and
    /// [`FileError::TooLarge`] if nothing could be written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<usize, FileError> {
        let written = self.write_pieces(Some(offset), bytes.len(), copy_from(bytes));
        written.map(|(_, written)| written)
    }

    /// Writes bytes at the end that the file has when its lock is taken. Returns the offset of the
    /// first byte and the number of bytes.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    pub fn append(&self, bytes: &[u8]) -> Result<(u64, usize), FileError> {
        self.write_pieces(None, bytes.len(), copy_from(bytes))
    }

    /// Calls `fill` with each destination buffer in order, `len` bytes in total, in place. The
    /// buffers begin at `offset`, or at the end of the file if `offset` is `None`. `fill` must
    /// write the whole buffer, and must not use this file. Returns the offset of the first byte and
    /// the number of bytes.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at), and the first error of `fill`. The file then has the bytes
    /// of the earlier calls of `fill`, and perhaps a part of the failed buffer.
    pub fn write_pieces<E: From<FileError>>(
        &self,
        offset: Option<u64>,
        len: usize,
        fill: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<(u64, usize), E> {
        match self.writes {
            true => self.node.write(offset, len, fill),
            false => Err(FileError::BadDescriptor.into()),
        }
    }

    /// Sets the size. A longer file gets a hole at its end.
    ///
    /// # Errors
    ///
    /// [`FileError::TooLarge`]; [`FileError::ReadOnly`] as [`set_times`](Self::set_times);
    /// [`FileError::Invalid`] if the file was not opened to write, as ftruncate(2) has it.
    pub fn set_size(&self, size: u64) -> Result<(), FileError> {
        match (self.writes, self.is_read_only) {
            (_, true) => Err(FileError::ReadOnly),
            (true, false) => self.node.set_size(size),
            (false, false) => Err(FileError::Invalid),
        }
    }

    /// Sets the times.
    ///
    /// # Errors
    ///
    /// [`FileError::ReadOnly`] if the file was opened through a read-only directory.
    pub fn set_times(&self, new: NewTimes) -> Result<(), FileError> {
        if self.is_read_only {
            return Err(FileError::ReadOnly);
        }
        self.node.set_times(new);
        Ok(())
    }
}

/// Fills each buffer with the next bytes of a slice.
fn copy_from(bytes: &[u8]) -> impl FnMut(&mut [u8]) -> Result<(), FileError> {
    let mut at = 0;
    move |room| {
        room.copy_from_slice(&bytes[at..][..room.len()]);
        at += room.len();
        Ok(())
    }
}
