//! [`Strings`]: the arguments or the environment variables of a guest.

use thiserror::Error;

/// The arguments or the environment variables of a guest, each with a zero byte at its end. They
/// need not be UTF-8.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    /// The offsets of the strings in `bytes`.
    offsets: Vec<u32>,
}

/// The strings of a guest are too long.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "strings of {bytes} bytes for a guest, at most {} fit its memory; pass fewer",
    u32::MAX
)]
#[non_exhaustive]
pub struct StringsError {
    /// The length of all strings, with a zero byte each.
    pub bytes: u64,
}

impl Strings {
    /// Adds a string, which consists of these parts.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result<(), StringsError> {
        let more: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = self.bytes.len() as u64 + more as u64 + 1;
        if u32::try_from(bytes).is_err() {
            return Err(StringsError { bytes });
        }
        self.offsets.push(self.bytes.len() as u32);
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.push(0);
        Ok(())
    }

    /// All strings one after the other.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The offsets of the strings in [`bytes`](Self::bytes).
    pub(crate) fn offsets(&self) -> &[u32] {
        &self.offsets
    }
}
