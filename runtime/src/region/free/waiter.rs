//! [`Waiter`]: a caller in the queue, a blocked thread or a future.

use super::shard::Taken;
use super::sync::{Arc, Condvar, Mutex, PoisonError, lock};
use core::mem;
use core::panic::AssertUnwindSafe;
use std::collections::VecDeque;
use std::panic::catch_unwind;
use std::task::Waker;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Waiter<S> {
    /// A slot is stored here only while the queue is locked.
    pub(super) given: Mutex<Given<S>>,
    pub(super) notified: Condvar,
}

/// The result for a waiter.
#[derive(Debug)]
pub(super) struct Given<S> {
    pub(super) slot: Option<Taken<S>>,
    /// Wakes the waiter, if the waiter is a future and not a thread.
    pub(super) waker: Option<Waker>,
    /// Whether the list is closed: no slot will come.
    pub(super) is_closed: bool,
}

/// The waiters.
#[derive(Debug)]
pub(super) struct Queue<S> {
    /// The waiter that has waited longest is first.
    pub(super) waiters: VecDeque<Arc<Waiter<S>>>,
    /// Whether [`FreeList::close`](super::FreeList::close) was called.
    pub(super) is_closed: bool,
}

impl<S> Waiter<S> {
    /// Blocks the thread until the waiter gets a slot. `None` if the deadline passes or the list is
    /// closed.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> Option<Taken<S>> {
        let mut given = lock(&self.given);
        while given.slot.is_none() && !given.is_closed {
            let Some(deadline) = deadline else {
                given = self
                    .notified
                    .wait(given)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.checked_duration_since(Instant::now())?;
            let result = self.notified.wait_timeout(given, left);
            given = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        given.slot.take()
    }
}

/// Wakes a waiter that got a slot, or whose list was closed.
pub(super) fn tell(waker: Waker) {
    // A panic of a waker must not stop the wake-up of other waiters, and must not reach a caller
    // that drops an instance.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Dropping the payload might panic.
        mem::forget(panic);
    }
}
