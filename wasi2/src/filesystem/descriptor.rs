//! [`Descriptor`]: a `descriptor`, and the operations that files and directories share.

use super::error::ErrorCode;
use super::file::File;
use super::folder::Folder;
use super::metadata::Metadata;
use super::types::{DescriptorFlags, FileKind, NewTimestamp, TYPES};
use crate::preopens::Access;
use crate::table::Resource;
use pirn_component::ResourceType;
use std::sync::Arc;

/// A `descriptor`.
#[derive(Clone)]
pub(crate) enum Descriptor {
    File(Arc<File>),
    Folder(Arc<Folder>),
}

impl ResourceType for Descriptor {
    const INTERFACE: &'static str = TYPES;
    const NAME: &'static str = "descriptor";
}

impl Resource for Descriptor {}

impl Descriptor {
    /// The file, for operations that directories do not have.
    pub(crate) fn file(&self) -> Result<&Arc<File>, ErrorCode> {
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
            Self::File(file) => file.flags,
            Self::Folder(folder) => DescriptorFlags {
                read: true,
                mutate_directory: folder.access == Access::Full,
                ..DescriptorFlags::default()
            },
        }
    }

    pub(crate) fn metadata(&self) -> Result<Metadata, ErrorCode> {
        match self {
            Self::File(file) => file.file.metadata(),
            Self::Folder(folder) => folder.directory.metadata(),
        }
    }

    pub(crate) fn set_times(
        &self,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> Result<(), ErrorCode> {
        match self {
            Self::File(file) => file.set_times(accessed, modified),
            Self::Folder(folder) => folder.set_times(accessed, modified),
        }
    }

    /// Whether the guest may have made changes that [`sync`](Self::sync) waits for.
    pub(crate) fn has_writes(&self) -> bool {
        match self {
            Self::File(file) => file.flags.write && file.file.is_on_disk(),
            Self::Folder(folder) => folder.access == Access::Full && folder.directory.is_on_disk(),
        }
    }

    /// Waits until the disk has the file.
    pub(crate) fn sync(&self, only_data: bool) -> Result<(), ErrorCode> {
        match self {
            Self::File(file) => file.file.sync(only_data),
            Self::Folder(folder) => folder.directory.sync(only_data),
        }
    }
}
