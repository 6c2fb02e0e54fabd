//! [`FileQuota`]: limits the descriptors that a guest opens and the bytes that it writes to disk.

use crate::limits::DESCRIPTORS_MAX;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Charge for a new file, directory or link, in addition to the bytes that the guest writes to a
/// file. Most file systems use a block for a directory.
pub(crate) const ENTRY_BYTES: u64 = 4096;

/// The limits of a guest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileQuotaMax {
    pub(crate) descriptors: u64,
    pub(crate) disk_bytes: u64,
}

impl Default for FileQuotaMax {
    fn default() -> Self {
        Self {
            descriptors: DESCRIPTORS_MAX,
            disk_bytes: u64::MAX,
        }
    }
}

/// A limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceeded;

/// The limits of one guest, and its use of them.
#[derive(Debug)]
pub(crate) struct FileQuota {
    max: FileQuotaMax,
    descriptors: AtomicU64,
    disk_bytes: AtomicU64,
}

impl FileQuota {
    pub(crate) fn new(max: FileQuotaMax) -> Self {
        Self {
            max,
            descriptors: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
        }
    }

    /// Counts one more descriptor, until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Result<Held, Exceeded> {
        take(&self.descriptors, self.max.descriptors, 1, 1)?;
        Ok(Held(Arc::clone(self)))
    }

    /// Whether written bytes are limited.
    pub(crate) fn is_disk_limited(&self) -> bool {
        self.max.disk_bytes != u64::MAX
    }

    /// Charges bytes before a write, at most `most` bytes. Returns the charged number. Fails if
    /// fewer than `least` bytes are left.
    pub(crate) fn charge(&self, least: u64, most: u64) -> Result<u64, Exceeded> {
        match self.is_disk_limited() {
            true => take(&self.disk_bytes, self.max.disk_bytes, least, most),
            false => Ok(most),
        }
    }

    /// Gives charged bytes back, after a write of fewer bytes.
    pub(crate) fn give_back(&self, bytes: u64) {
        if self.is_disk_limited() {
            self.disk_bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// Makes a directory entry and charges for it. Gives the charge back if `make` fails.
    pub(crate) fn entry<R, E>(
        &self,
        make: impl FnOnce() -> Result<R, E>,
    ) -> Result<Result<R, E>, Exceeded> {
        self.charge(ENTRY_BYTES, ENTRY_BYTES)?;
        let made = make();
        if made.is_err() {
            self.give_back(ENTRY_BYTES);
        }
        Ok(made)
    }
}

/// Counts at most `most` units as used, and returns the counted number. Fails if fewer than `least`
/// units are left.
fn take(used: &AtomicU64, max: u64, least: u64, most: u64) -> Result<u64, Exceeded> {
    let mut taken = 0;
    let update = |used: u64| {
        taken = max.saturating_sub(used).min(most);
        (taken >= least).then_some(used + taken)
    };
    match used.fetch_update(Relaxed, Relaxed, update) {
        Ok(_) => Ok(taken),
        Err(_) => Err(Exceeded),
    }
}

/// Counts one descriptor until this value is dropped.
#[derive(Debug)]
pub(crate) struct Held(Arc<FileQuota>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.descriptors.fetch_sub(1, Relaxed);
    }
}
