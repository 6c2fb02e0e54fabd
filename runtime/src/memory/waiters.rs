//! [`Waiters`]: the guests that wait at addresses of one shared memory.

use core::mem;
use core::ops::RangeInclusive;
use core::panic::AssertUnwindSafe;
use core::task::Waker;
use std::collections::BTreeMap;
use std::panic::catch_unwind;

/// The waiters of a memory.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Wakers, by address and number of arrival.
    pub(super) waiting: BTreeMap<(u64, u64), Waker>,
    /// The next number of arrival.
    next: u64,
}

impl Waiters {
    /// Number of guests that wait at an address.
    pub(super) fn count(&self, address: u64) -> usize {
        self.waiting.range(at(address)).count()
    }

    /// Adds a waiter at an address, and returns its key.
    pub(super) fn add(&mut self, address: u64) -> (u64, u64) {
        let key = (address, self.next);
        self.next += 1;
        self.waiting.insert(key, Waker::noop().clone());
        key
    }

    /// Removes at most `count` waiters at an address, and returns their wakers. The waiters that
    /// have waited longest come first.
    pub(super) fn remove(&mut self, address: u64, count: u32) -> Vec<Waker> {
        let first = self.waiting.range(at(address)).take(count as usize);
        let first: Vec<_> = first.map(|(key, _)| *key).collect();
        let remove = |key| self.waiting.remove(&key);
        first.into_iter().filter_map(remove).collect()
    }
}

/// The keys of all waiters at an address.
fn at(address: u64) -> RangeInclusive<(u64, u64)> {
    (address, 0)..=(address, u64::MAX)
}

/// Calls one waker.
pub(super) fn tell(waker: Waker) {
    // The waker is code of the embedder. If it panics, the other waiters must still be woken.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Dropping the panic's payload could panic as well.
        mem::forget(panic);
    }
}
