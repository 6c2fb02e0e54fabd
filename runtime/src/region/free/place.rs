//! [`Place`]: a place in the queue of those who wait, for whom no thread waits.

use super::sync::Ordering;
use super::{FreeList, Taken, Waiter, lock};
use core::mem;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::task::{Poll, Waker};

/// Wakes one of those who were given a slot.
pub(super) fn tell(waker: Waker) {
    // The others are to be woken, too, and whoever drops an instance is not to panic.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Its drop might panic.
        mem::forget(panic);
    }
}

/// A place in the queue of a list. Who has it looks whether a slot was given, and leaves.
#[derive(Debug)]
pub(crate) struct Place<S>(super::Arc<Waiter<S>>);

impl<S> FreeList<S> {
    /// Queues.
    pub(crate) fn queue(&self) -> Place<S> {
        Place(self.enter())
    }

    /// What was given to a place; `None` if the list is closed. If it was given nothing yet, the
    /// waker is told when that changes.
    pub(crate) fn given(&self, place: &Place<S>, waker: &Waker) -> Poll<Option<Taken<S>>> {
        // Cloned and dropped outside of the lock: both run code of others, which may panic or come
        // here.
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

    /// Gives up a place. What was given to it meanwhile goes to the next.
    pub(crate) fn leave(&self, place: &Place<S>) {
        let given = self.retire(&place.0);
        if let Some(slot) = given {
            let module = slot.0.module;
            self.put(slot, module);
        }
    }

    /// Takes a waiter out of the queue, and what it was given meanwhile.
    pub(super) fn retire(&self, waiter: &super::Arc<Waiter<S>>) -> Option<Taken<S>> {
        // Nobody gives to a waiter that is not in the queue: what was given in between is taken.
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
