//! [`Place`]: a place in the queue of waiters, for a future instead of a blocked thread.

use super::sync::Ordering;
use super::{FreeList, Taken, Waiter, lock};
use core::mem;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::task::{Poll, Waker};

/// Wakes a waiter that got a slot, or whose list was closed.
pub(super) fn tell(waker: Waker) {
    // A panic of a waker must not stop the wake-up of other waiters, and must not reach a caller
    // that drops an instance.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Dropping the payload might panic.
        mem::forget(panic);
    }
}

/// A place in the queue of a list. Its owner polls [`FreeList::given`] for a slot, and finally
/// calls [`FreeList::leave`].
#[derive(Debug)]
pub(crate) struct Place<S>(super::Arc<Waiter<S>>);

impl<S> FreeList<S> {
    /// Joins the end of the queue.
    pub(crate) fn queue(&self) -> Place<S> {
        Place(self.enter())
    }

    /// Polls a place for its slot: `None` if the list is closed. If it is pending, the list calls
    /// `waker` when that changes.
    pub(crate) fn given(&self, place: &Place<S>, waker: &Waker) -> Poll<Option<Taken<S>>> {
        // The waker is cloned and dropped without the lock: both run foreign code, which may panic
        // or call this list.
        let waker = waker.clone();
        let mut given = lock(&place.0.given);
        let answer = match given.slot.take() {
            None if !given.is_closed => Poll::Pending,
            slot => Poll::Ready(slot),
        };
        let (told, known) = match answer {
            Poll::Ready(_) => (Some(waker), given.waker.take()),
            Poll::Pending => (None, given.waker.replace(waker)),
        };
        drop(given);
        drop((told, known));
        answer
    }

    /// Gives up a place. A slot that the place got meanwhile returns to the list, and so goes to
    /// the next waiter.
    pub(crate) fn leave(&self, place: &Place<S>) {
        let given = self.retire(&place.0);
        if let Some(slot) = given {
            let module = slot.0.module;
            self.put(slot, module);
        }
    }

    /// Removes a waiter from the queue, and takes the slot that it got meanwhile.
    pub(super) fn retire(&self, waiter: &super::Arc<Waiter<S>>) -> Option<Taken<S>> {
        // Only a waiter in the queue can get a slot, so after the removal no slot can arrive
        // unseen.
        let mut queue = lock(&self.queue);
        queue
            .waiters
            .retain(|other| !super::Arc::ptr_eq(other, waiter));
        drop(queue);
        let slot = lock(&waiter.given).slot.take();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        slot
    }
}
