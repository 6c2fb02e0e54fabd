//! [`Entries`]: a `directory-entry-stream`.

use super::backend::EntryReader;
use super::error::ErrorCode;
use super::folder::Folder;
use super::types::{DirectoryEntry, TYPES};
use crate::file_quota::Held;
use crate::table::Resource;
use pirn_component::{HeldBytes, ResourceType};

/// A `directory-entry-stream`. It counts as a descriptor, because it may hold a file descriptor of
/// the host.
pub(crate) struct Entries {
    reader: Box<dyn EntryReader>,
    _held: Held,
    /// Counts the memory of the entries that the host reads at once.
    _bytes: HeldBytes,
}

impl ResourceType for Entries {
    const INTERFACE: &'static str = TYPES;
    const NAME: &'static str = "directory-entry-stream";
}

impl Resource for Entries {}

impl Entries {
    pub(crate) fn new(folder: &Folder, bytes: HeldBytes) -> Result<Self, ErrorCode> {
        let held = folder.quota.hold();
        Ok(Self {
            _bytes: bytes,
            _held: held.map_err(|_| ErrorCode::InsufficientMemory)?,
            reader: folder.directory.entries()?,
        })
    }

    /// The next entry, without `.` and `..`. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        self.reader.next()
    }
}
