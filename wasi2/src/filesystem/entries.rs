//! [`Entries`]: a `directory-entry-stream`.

use super::error::ErrorCode;
use super::types::{DirectoryEntry, TYPES};
use crate::table::resource_type;
use pirn_component::HeldBytes;
use pirn_wasi::Held;
use pirn_wasi::files::{EntryReader, Folder};

/// A `directory-entry-stream`. It counts as a descriptor, because it may hold a file descriptor of
/// the host.
pub(crate) struct Entries {
    reader: Box<dyn EntryReader>,
    _held: Held,
    /// Counts the memory of the entries that the host reads at once.
    _bytes: HeldBytes,
}

resource_type!(Entries, TYPES, "directory-entry-stream", ready);

impl Entries {
    pub(crate) fn new(folder: &Folder, bytes: HeldBytes) -> Result<Self, ErrorCode> {
        Ok(Self {
            _bytes: bytes,
            _held: folder.hold()?,
            reader: folder.entries(0)?,
        })
    }

    /// The next entry, without `.` and `..`. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        loop {
            match self.reader.next()? {
                Some(entry) if matches!(&*entry.name, "." | "..") => {}
                entry => {
                    return Ok(entry.map(|entry| DirectoryEntry {
                        kind: entry.kind.into(),
                        name: entry.name,
                    }));
                }
            }
        }
    }
}
