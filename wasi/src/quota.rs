//! [`FileQuota`]: limits the descriptors that a guest opens and the bytes that it writes to disk.
//!
//! A descriptor counts until its [`Held`] is dropped, so each way to close it counts.

use crate::errno::Errno;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Charge for a new file, directory or link, in addition to the bytes that the guest writes to a
/// file. Most file systems use a block for a directory.
const ENTRY_BYTES: u64 = 4096;

/// The limits of a guest.
#[derive(Debug, Clone, Copy)]
pub struct FileQuotaMax {
    /// Most descriptors that the guest has open at a time, besides those that it is given.
    pub descriptors: u64,
    /// Most bytes that the guest writes to disk. `u64::MAX` means no limit.
    pub disk_bytes: u64,
}

impl Default for FileQuotaMax {
    fn default() -> Self {
        Self {
            descriptors: 64,
            disk_bytes: u64::MAX,
        }
    }
}

/// The limits of one guest, and its use of them.
#[derive(Debug)]
pub struct FileQuota {
    max: FileQuotaMax,
    descriptors: AtomicU64,
    disk_bytes: AtomicU64,
    /// Whether the guest sees 1970-01-01 as all times of files.
    pub(crate) hides_times: bool,
}

impl FileQuota {
    /// A quota with these limits.
    #[must_use]
    pub fn new(max: FileQuotaMax) -> Self {
        Self {
            max,
            descriptors: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            hides_times: false,
        }
    }

    /// As [`new`](Self::new), for a guest that sees 1970-01-01 as all times of files.
    pub(crate) fn without_times(max: FileQuotaMax) -> Self {
        Self {
            hides_times: true,
            ..Self::new(max)
        }
    }

    /// Counts one more descriptor, until the result is dropped.
    ///
    /// # Errors
    ///
    /// [`Errno::NFILE`] if the limit is reached.
    pub fn hold(self: &Arc<Self>) -> Result<Held, Errno> {
        let taken = take(&self.descriptors, self.max.descriptors, 1, 1);
        taken.ok_or(Errno::NFILE)?;
        Ok(Held(Arc::clone(self)))
    }

    /// The descriptors that count now.
    pub(crate) fn descriptors(&self) -> u64 {
        self.descriptors.load(Relaxed)
    }

    /// Whether written bytes are limited.
    pub(crate) fn is_disk_limited(&self) -> bool {
        self.max.disk_bytes != u64::MAX
    }

    /// Charges bytes before a write, at most `most` bytes. Returns the charged number.
    ///
    /// # Errors
    ///
    /// [`Errno::DQUOT`] if fewer than `least` bytes are left.
    pub(crate) fn charge(&self, least: u64, most: u64) -> Result<u64, Errno> {
        match self.is_disk_limited() {
            true => take(&self.disk_bytes, self.max.disk_bytes, least, most).ok_or(Errno::DQUOT),
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
    pub(crate) fn entry<R>(&self, make: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
        self.charge(ENTRY_BYTES, ENTRY_BYTES)?;
        make().inspect_err(|_| self.give_back(ENTRY_BYTES))
    }
}

/// Counts at most `most` units as used, and returns the counted number; `None` if fewer than
/// `least` units are left.
fn take(used: &AtomicU64, max: u64, least: u64, most: u64) -> Option<u64> {
    let mut taken = 0;
    let update = |used: u64| {
        taken = max.saturating_sub(used).min(most);
        (taken >= least).then_some(used + taken)
    };
    used.fetch_update(Relaxed, Relaxed, update).ok()?;
    Some(taken)
}

/// Counts one descriptor until this value is dropped.
#[derive(Debug)]
pub struct Held(Arc<FileQuota>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.descriptors.fetch_sub(1, Relaxed);
    }
}

/// The number of descriptors that a guest has opened and not closed. See
/// [`WasiCtx::opened`](crate::WasiCtx::opened).
#[derive(Debug, Clone)]
pub struct Opened(pub(crate) Arc<FileQuota>);

impl Opened {
    /// The current number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.descriptors()
    }
}
