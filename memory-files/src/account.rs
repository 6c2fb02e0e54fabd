//! [`Account`]: counts the host memory and the files of one instance, and refuses requests beyond
//! the limits.
//!
//! A change of a counter writes a cache line that all threads of the guest share. Therefore only
//! operations that allocate or free memory change a counter. A write to an existing extent changes
//! no counter.

use crate::error::FileError;
use crate::limits::Limits;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use crossbeam_utils::CachePadded;
use std::sync::Arc;

/// The counters of one instance.
#[derive(Debug)]
pub(crate) struct Account {
    limits: Limits,
    bytes: CachePadded<AtomicU64>,
    files: CachePadded<AtomicU64>,
    next_inode: CachePadded<AtomicU64>,
}

impl Account {
    /// Counters at 0. `first_inode` is the inode number of the first node that the instance makes.
    pub(crate) fn new(limits: Limits, first_inode: u64) -> Arc<Self> {
        Arc::new(Self {
            limits,
            bytes: AtomicU64::new(0).into(),
            files: AtomicU64::new(0).into(),
            next_inode: AtomicU64::new(first_inode).into(),
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }

    pub(crate) fn new_inode(&self) -> u64 {
        self.next_inode.fetch_add(1, Relaxed)
    }
}

/// Adds to a counter, unless that exceeds its limit.
fn take(counter: &AtomicU64, number: u64, max: u64) -> Result<(), FileError> {
    let more = |used: u64| used.checked_add(number).filter(|sum| *sum <= max);
    let taken = counter.fetch_update(Relaxed, Relaxed, more);
    taken.map(drop).map_err(|_| FileError::NoSpace)
}

/// The bytes and files that one node has taken from an [`Account`]. Dropping the charge gives them
/// back.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: u64,
    files: u64,
}

impl Charge {
    /// Takes `bytes` bytes and `files` files.
    ///
    /// # Errors
    ///
    /// [`FileError::NoSpace`] at a limit.
    pub(crate) fn take(account: &Arc<Account>, bytes: u64, files: u64) -> Result<Self, FileError> {
        let mut charge = Self::none(account);
        charge.more(bytes)?;
        if files > 0 {
            take(&account.files, files, account.limits.files_max)?;
            charge.files = files;
        }
        Ok(charge)
    }

    /// An empty charge, for the root of an instance.
    pub(crate) fn none(account: &Arc<Account>) -> Self {
        Self {
            account: Arc::clone(account),
            bytes: 0,
            files: 0,
        }
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Takes more bytes.
    ///
    /// # Errors
    ///
    /// [`FileError::NoSpace`] at the limit.
    pub(crate) fn more(&mut self, bytes: u64) -> Result<(), FileError> {
        take(&self.account.bytes, bytes, self.account.limits.bytes_max)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives bytes back.
    pub(crate) fn less(&mut self, bytes: u64) {
        self.account.bytes.fetch_sub(bytes, Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.bytes.fetch_sub(self.bytes, Relaxed);
        }
        if self.files > 0 {
            self.account.files.fetch_sub(self.files, Relaxed);
        }
    }
}
