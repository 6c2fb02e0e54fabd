//! [`MemoryDirectory`]: a directory in memory that an option gives the guest.

use anyhow::{Context, Result, bail};
use pirn_wasi::MemoryBase;
use pirn_wasi::memory_files::{BaseLimits, Limits};
use std::path::Path;

/// A directory in memory, from an option `--memory-dir GUEST[=DIR|TAR]`.
pub(crate) struct MemoryDirectory {
    /// The option's text as the user wrote it.
    pub(crate) text: String,
    /// The content of the directory when the guest starts.
    pub(crate) base: MemoryBase,
    pub(crate) limits: Limits,
    /// The path at which the guest sees the directory.
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
            Some(source) => MemoryBase::open(Path::new(source), &BaseLimits::default())
                .with_context(|| format!("--memory-dir {text}"))?,
            None => MemoryBase::empty(),
        };
        let limits = Limits {
            bytes_max,
            ..Limits::default()
        };
        Ok(Self {
            text: text.to_owned(),
            base,
            limits,
            guest: guest.to_owned(),
        })
    }
}
