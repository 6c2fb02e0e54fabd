//! [`MemoryDirectory`]: a directory in memory that an option gives the guest.

use anyhow::{Context, Result, bail};
use pirn_wasi::memory_files::{BaseLimits, Limits};
use pirn_wasi::{Dir, MemoryBase, MemoryDir, ambient_authority};
use std::fs::File;
use std::path::Path;

/// A directory in memory, made of what `--memory-dir GUEST[=DIR|TAR]` names.
pub(crate) struct MemoryDirectory {
    /// The option's text as the user wrote it.
    pub(crate) text: String,
    pub(crate) dir: MemoryDir,
    /// Its path, as the guest sees it.
    pub(crate) guest: String,
}

impl MemoryDirectory {
    /// Parses the option, and copies the directory or the archive. `bytes_max` bounds the guest's
    /// changes.
    pub(crate) fn of(text: &str, bytes_max: u64) -> Result<Self> {
        let (guest, source) = match text.split_once('=') {
            Some((guest, source)) => (guest, Some(source)),
            None => (text, None),
        };
        if guest.is_empty() || source == Some("") {
            bail!(
                "--memory-dir {text:?} has an empty GUEST, DIR or TAR; write --memory-dir \
                 GUEST[=DIR|TAR]"
            );
        }
        let base = match source {
            Some(source) => base(Path::new(source))
                .with_context(|| format!("--memory-dir {text}: cannot copy {source}"))?,
            None => MemoryBase::empty(),
        };
        let limits = Limits {
            bytes_max,
            ..Limits::default()
        };
        Ok(Self {
            text: text.to_owned(),
            dir: MemoryDir::new(&base, limits),
            guest: guest.to_owned(),
        })
    }
}

/// A copy of a directory, or of the contents of an archive.
fn base(source: &Path) -> Result<MemoryBase> {
    let limits = BaseLimits::default();
    if std::fs::metadata(source)?.is_dir() {
        let dir = Dir::open_ambient_dir(source, ambient_authority())?;
        return Ok(MemoryBase::from_dir(&dir, &limits)?);
    }
    Ok(MemoryBase::from_tar(File::open(source)?, &limits)?)
}
