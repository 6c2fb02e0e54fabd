//! [`Descriptor`]: a `descriptor`, and the operations that files and directories share.

use super::error::ErrorCode;
use super::types::{DescriptorFlags, FileKind, NewTimestamp, TYPES, new_times};
use crate::limits::FILE_WRITE_MAX;
use crate::table::resource_type;
use pirn_wasi::Errno;
use pirn_wasi::files::{File, Folder, Metadata, Place};
use std::io::IoSlice;
use std::sync::Arc;

/// A regular file that a guest has opened. The streams of the file share this value.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// The flags that the guest requested.
    pub(crate) flags: DescriptorFlags,
}

/// A `descriptor`.
#[derive(Clone)]
pub(crate) enum Descriptor {
    File(Arc<OpenFile>),
    Folder(Arc<Folder>),
}

resource_type!(Descriptor, TYPES, "descriptor", ready);

impl OpenFile {
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
    pub(crate) fn write(&self, bytes: &[u8], place: Place) -> Result<usize, Errno> {
        let some = &bytes[..bytes.len().min(FILE_WRITE_MAX)];
        if some.is_empty() {
            return Ok(0);
        }
        let (written, _) = self.file.write(&[IoSlice::new(some)], place)?;
        Ok(written)
    }
}

impl Descriptor {
    /// The file, for operations that directories do not have.
    pub(crate) fn file(&self) -> Result<&Arc<OpenFile>, ErrorCode> {
        match self {
            Self::File(file) => Ok(file),
            Self::Folder(_) => Err(ErrorCode::IsDirectory),
        }
    }

    /// The directory, for operations that files do not have.
    pub(crate) fn folder(&self) -> Result<&Arc<Folder>, ErrorCode> {
        match self {
            Self::File(_) => Err(ErrorCode::NotDirectory),
            Self::Folder(folder) => Ok(folder),
        }
    }

    pub(crate) fn kind(&self) -> FileKind {
        match self {
            Self::File(_) => FileKind::RegularFile,
            Self::Folder(_) => FileKind::Directory,
        }
    }

    /// The flags. A directory is mutable if the directory in which it was opened is mutable, even
    /// if the guest did not request `mutate-directory`. C libraries open directories for reading,
    /// and then remove files in them.
    pub(crate) fn flags(&self) -> DescriptorFlags {
        match self {
            Self::File(open) => open.flags,
            Self::Folder(folder) => DescriptorFlags {
                read: true,
                mutate_directory: folder.is_changeable(),
                ..DescriptorFlags::default()
            },
        }
    }

    pub(crate) fn metadata(&self) -> Result<Metadata, ErrorCode> {
        Ok(match self {
            Self::File(open) => open.file.metadata(),
            Self::Folder(folder) => folder.metadata(),
        }?)
    }

    pub(crate) fn set_times(
        &self,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        let times = new_times(accessed, modified)?;
        Ok(match self {
            Self::File(open) => open.file.set_times(times),
            Self::Folder(folder) => folder.set_times(times),
        }?)
    }

    /// Whether the guest may have made changes that [`sync`](Self::sync) waits for.
    pub(crate) fn has_writes(&self) -> bool {
        match self {
            Self::File(open) => open.flags.write && open.file.is_on_disk(),
            Self::Folder(folder) => folder.is_changeable() && folder.is_on_disk(),
        }
    }

    /// Waits until the disk has the file.
    pub(crate) fn sync(&self, only_data: bool) -> Result<(), ErrorCode> {
        Ok(match self {
            Self::File(open) => open.file.sync(only_data),
            Self::Folder(folder) => folder.sync(only_data),
        }?)
    }
}
