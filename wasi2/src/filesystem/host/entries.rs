//! [`HostEntries`]: the entries of a directory of the host.

use crate::filesystem::backend::EntryReader;
use crate::filesystem::error::ErrorCode;
use crate::filesystem::types::{DirectoryEntry, FileKind};
use rustix::fs::{AtFlags, Dir};

/// The entries of a directory of the host. The host reads one buffer of entries at a time, even in
/// a large directory.
pub(super) struct HostEntries(pub(super) Dir);

impl EntryReader for HostEntries {
    fn next(&mut self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        loop {
            let Some(entry) = self.0.read().transpose()? else {
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
}

impl HostEntries {
    /// The type of an entry, for file systems that do not record it in the directory. The name
    /// comes from the kernel, so it cannot lead outside the directory.
    fn kind(&self, name: &std::ffi::CStr) -> rustix::io::Result<FileKind> {
        let found = rustix::fs::statat(self.0.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(rustix::fs::FileType::from_raw_mode(found.st_mode).into())
    }
}
