//! [`Entries`]: a `directory-entry-stream`.

use super::error::ErrorCode;
use super::folder::Folder;
use super::types::{DirectoryEntry, FileKind, TYPES};
use crate::file_quota::Held;
use crate::table::Resource;
use pirn_component::ResourceType;
use rustix::fs::{AtFlags, Dir};

/// A `directory-entry-stream`. It counts as a descriptor, because it holds a file descriptor of the
/// host. The host reads one buffer of entries at a time, even in a large directory.
pub(crate) struct Entries {
    dir: Dir,
    _held: Held,
}

impl ResourceType for Entries {
    const INTERFACE: &'static str = TYPES;
    const NAME: &'static str = "directory-entry-stream";
}

impl Resource for Entries {}

impl Entries {
    pub(crate) fn new(folder: &Folder) -> Result<Self, ErrorCode> {
        let held = folder.quota.hold();
        Ok(Self {
            _held: held.map_err(|_| ErrorCode::InsufficientMemory)?,
            dir: Dir::new(folder.reopen()?)?,
        })
    }

    /// The next entry, without `.` and `..`. None at the end.
    pub(crate) fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        loop {
            let Some(entry) = self.dir.read().transpose()? else {
                return Ok(None);
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let mut kind = FileKind::from(entry.file_type());
            if kind == FileKind::Unknown {
                kind = self.kind(name).unwrap_or(FileKind::Unknown);
            }
            let name = name.to_str().map_err(|_| ErrorCode::IllegalByteSequence)?;
            return Ok(Some(DirectoryEntry {
                kind,
                name: name.to_owned(),
            }));
        }
    }

    /// The type of an entry, for file systems that do not record it in the directory. The name
    /// comes from the kernel, so it cannot lead outside the directory.
    fn kind(&self, name: &std::ffi::CStr) -> rustix::io::Result<FileKind> {
        let found = rustix::fs::statat(self.dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(rustix::fs::FileType::from_raw_mode(found.st_mode).into())
    }
}
