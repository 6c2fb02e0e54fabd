//! [`Account`]: the host memory that is held for one instance, and what the instance has used.
//!
//! Each slot of a region has one account. An instance opens the account of its slot when something is
//! first counted, which clears it: an instance that holds nothing and is not measured never touches it.
//! The instances of a group share the account of the first.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// The host refuses to hold more memory for a guest than
/// [`RegionBuilder::host_bytes_max`](crate::RegionBuilder::host_bytes_max) allows.
///
/// A host function that returns this error ends the call with
/// [`TrapCode::HostMemoryExhausted`](crate::TrapCode::HostMemoryExhausted).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "host holds {held} bytes for the guest and is asked for {asked} more, it may hold {limit}; raise \
     `host_bytes_max`"
)]
#[non_exhaustive]
pub struct HostBytesError {
    /// Bytes that the host holds for the guest.
    pub held: usize,
    /// Bytes that it was asked to hold in addition.
    pub asked: usize,
    /// Most bytes that it may hold.
    pub limit: usize,
}

/// Host memory that is held for one instance, or for the instances of one group.
///
/// The fields are atomic because a call may continue on another thread, not because threads count at
/// the same time: whoever counts has borrowed the instance. So a count is a load and a store.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Account {
    /// Most bytes that may be held.
    host_bytes_max: usize,
    /// Bytes that are held now.
    host_bytes: AtomicUsize,
}

impl Account {
    /// An account under which at most so many bytes of host memory are held.
    pub(crate) fn new(host_bytes_max: usize) -> Self {
        Self {
            host_bytes_max,
            host_bytes: AtomicUsize::new(0),
        }
    }

    /// Clears what the last instance of the slot has left.
    pub(crate) fn clear(&self) {
        self.host_bytes.store(0, Relaxed);
    }

    /// Counts `asked` bytes of host memory as held.
    ///
    /// # Errors
    ///
    /// [`HostBytesError`] if the sum would exceed the limit: nothing is counted then.
    pub(crate) fn hold(&self, asked: usize) -> Result<(), HostBytesError> {
        let held = self.host_bytes.load(Relaxed);
        match held.checked_add(asked) {
            Some(sum) if sum <= self.host_bytes_max => {
                self.host_bytes.store(sum, Relaxed);
                Ok(())
            }
            _ => Err(self.refusal(asked)),
        }
    }

    /// The error of holding `asked` bytes more.
    pub(crate) fn refusal(&self, asked: usize) -> HostBytesError {
        HostBytesError {
            held: self.host_bytes(),
            asked,
            limit: self.host_bytes_max,
        }
    }

    /// Counts `bytes` of host memory as no longer held.
    pub(crate) fn release(&self, bytes: usize) {
        let held = self.host_bytes.load(Relaxed);
        debug_assert!(bytes <= held, "{bytes} bytes released, {held} are held");
        self.host_bytes.store(held.saturating_sub(bytes), Relaxed);
    }

    /// Bytes of host memory that are held.
    pub(crate) fn host_bytes(&self) -> usize {
        self.host_bytes.load(Relaxed)
    }

    /// Bytes of host memory that may still be held.
    pub(crate) fn host_bytes_left(&self) -> usize {
        self.host_bytes_max - self.host_bytes()
    }
}
