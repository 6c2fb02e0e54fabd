//! [`HostEntries`]: the entries of a directory of the host.

use crate::errno::Errno;
use crate::files::backend::EntryReader;
use crate::files::types::{Entry, FileKind};
use rustix::fs::{AtFlags, Dir};

/// The entries of a directory of the host. The host reads one buffer of entries at a time, even in
/// a large directory.
pub(super) struct HostEntries(Dir);

impl HostEntries {
    /// The entries after a position, which is the kernel's position in the directory. Removing
    /// entries does not shift this position.
    pub(super) fn after(mut dir: Dir, position: u64) -> Result<Self, Errno> {
        if position != 0 {
            dir.seek(i64::try_from(position).map_err(|_| Errno::INVAL)?)?;
        }
        Ok(Self(dir))
    }

    /// The type of an entry, for file systems that do not record it in the directory. The name
    /// comes from the kernel, so it cannot lead outside the directory.
    fn kind(&self, name: &std::ffi::CStr) -> rustix::io::Result<FileKind> {
        let found = rustix::fs::statat(self.0.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(rustix::fs::FileType::from_raw_mode(found.st_mode).into())
    }
}

impl EntryReader for HostEntries {
    fn next(&mut self) -> Result<Option<Entry>, Errno> {
        let Some(entry) = self.0.read().transpose()? else {
            return Ok(None);
        };
        let name = entry.file_name();
        let mut kind = FileKind::from(entry.file_type());
        if kind == FileKind::Unknown {
            kind = self.kind(name).unwrap_or(FileKind::Unknown);
        }
        let inode = match name.to_bytes() {
            // Hides the inode of the parent of the guest's directory.
            b".." => rustix::fs::fstat(self.0.fd()?)?.st_ino,
            _ => entry.ino(),
        };
        let name = name.to_str().map_err(|_| Errno::ILSEQ)?;
        Ok(Some(Entry {
            kind,
            inode,
            name: name.to_owned(),
            next: entry.offset().cast_unsigned(),
        }))
    }
}
