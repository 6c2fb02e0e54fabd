//! The initial contents of memory 0, stored sparsely as runs of pages.
//!
//! The file holds only pages that have a byte other than zero. Runs are in ascending order, and
//! neither overlap nor touch. [`Section::Image`](crate::sections::Section::Image) holds the pages
//! of all runs, one after the other.

use crate::layout::IMAGE_PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// A run of consecutive pages of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRun {
    /// First page of the run in memory 0, in units of [`IMAGE_PAGE_BYTES`].
    pub first: u32,
    /// Number of pages, at least 1.
    pub pages: u32,
}

impl ImageRun {
    /// Bytes of an encoded run.
    pub const BYTES: usize = 8;

    /// Encodes the run as `first, pages`.
    #[must_use]
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.first.to_le_bytes());
        bytes[4..].copy_from_slice(&self.pages.to_le_bytes());
        bytes
    }

    /// Address of the run's first byte in memory 0.
    #[must_use]
    pub fn start(self) -> u64 {
        u64::from(self.first) * IMAGE_PAGE_BYTES
    }

    /// Bytes of the run.
    #[must_use]
    pub fn len(self) -> u64 {
        u64::from(self.pages) * IMAGE_PAGE_BYTES
    }

    /// Whether the run has no page. [`decode_runs`] refuses such a run.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.pages == 0
    }
}

/// Decodes and checks the runs of an image of `image_bytes` bytes for a memory of `memory_bytes`
/// bytes.
///
/// Returns `None` unless the runs are complete records, pass [`sum_runs`], and are `image_bytes`
/// long in total.
#[must_use]
pub fn decode_runs(bytes: &[u8], image_bytes: u64, memory_bytes: u64) -> Option<Vec<ImageRun>> {
    let mut runs = Vec::with_capacity(bytes.len() / ImageRun::BYTES);
    for record in bytes.chunks(ImageRun::BYTES) {
        let word = |at: usize| Some(u32::from_le_bytes(record.get(at..at + 4)?.try_into().ok()?));
        runs.push(ImageRun {
            first: word(0)?,
            pages: word(4)?,
        });
    }
    (sum_runs(&runs, memory_bytes)? == image_bytes).then_some(runs)
}

/// Checks runs, and returns the bytes of all their pages.
///
/// Returns `None` unless the runs are ascending, not adjacent, and inside a memory of
/// `memory_bytes` bytes.
#[must_use]
pub fn sum_runs(runs: &[ImageRun], memory_bytes: u64) -> Option<u64> {
    let (mut free_from, mut total) = (0, 0);
    for run in runs {
        if run.is_empty() || run.start() < free_from || run.start() + run.len() > memory_bytes {
            return None;
        }
        // Two runs that touch are an error: the compiler writes them as one run.
        free_from = run.start() + run.len() + IMAGE_PAGE_BYTES;
        total += run.len();
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(runs: &[(u32, u32)], image_pages: u64, memory_pages: u64) -> bool {
        let encode = |&(first, pages)| ImageRun { first, pages }.encode();
        let bytes: Vec<u8> = runs.iter().flat_map(encode).collect();
        decode_runs(&bytes, image_pages * 4096, memory_pages * 4096).is_some()
    }

    #[test]
    fn sound_runs_are_decoded_and_others_refused() {
        assert!(decode(&[], 0, 0));
        assert!(decode(&[(0, 2), (3, 1)], 3, 4));
        assert!(
            !decode(&[(0, 2), (3, 1)], 4, 4),
            "image longer than its runs"
        );
        assert!(!decode(&[(0, 2), (3, 1)], 3, 3), "past the memory");
        assert!(!decode(&[(0, 2), (2, 1)], 3, 4), "touching");
        assert!(!decode(&[(3, 1), (0, 2)], 3, 4), "descending");
        assert!(!decode(&[(0, 0)], 0, 4), "empty");
        assert!(
            !decode(&[(u32::MAX, u32::MAX)], u64::from(u32::MAX), 16),
            "far past the memory"
        );
        assert!(decode_runs(&[0; 7], 0, 4096).is_none(), "not whole");
    }
}
