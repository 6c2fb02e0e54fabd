//! All system calls of the runtime.

pub(crate) mod clock;
pub(crate) mod fork;
pub(crate) mod fork_lock;
pub(crate) mod memory;
pub(crate) mod pagemap;
pub(crate) mod signal;
pub(crate) mod thread;
pub(crate) mod userfault;

pub(crate) use memory::page_bytes;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whose contents are consistent at every step, so a poisoned lock is still valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
