//! [`FreeList`]: the free slots of a region, and the queue of callers that wait for a slot.
//!
//! ```text
//!             thread ─▶ its shard                     other shards, if it has no such slot
//!   take:       front, if warm for the module ─▶ warm ─▶ cold ─▶ warm or cold elsewhere ─▶ any
//!   put:        front; the slot that was there moves to the shard's stacks
//!               if callers wait: the one that has waited longest gets a slot
//! ```
//!
//! With at most one thread per processor, each thread has its own shard. The front of a shard holds
//! the slot that was returned to the shard last. An atomic exchange puts or takes that slot, so a
//! thread that creates one instance after another takes no lock. Each shard also has one stack of
//! slots for each module, and one stack of cold slots, which hold no module. A stack returns the
//! slot that was put last, while the slot's pages and cache lines are warm.
//!
//! Waiters get slots in the order in which they came. While a caller waits, no new caller overtakes
//! it. The new caller joins the queue, or gets no slot if it does not wait.
//!
//! No slot stays in a shard while a caller waits. A waiter first counts itself in `waiting`, then
//! searches all shards. A thread that returns a slot first puts it into a shard, then reads
//! `waiting`. So the waiter finds the slot, or the thread finds the waiter. For a stack, the reason
//! is its lock, which each thread holds when it puts a slot or searches. For a front, the reason is
//! the single order of all SeqCst operations. The exchanges, the increment and the load of
//! `waiting` are in that order.
//!
//! The package `runtime/loom` runs the tests of `free/orders.rs` with loom, which tries the
//! possible orders of the threads' operations.

// The paths are explicit because the package `runtime/loom` includes this file, too.
#[path = "free/front.rs"]
mod front;
#[path = "free/shard.rs"]
mod shard;
#[path = "free/sync.rs"]
mod sync;
#[path = "free/waiter.rs"]
mod waiter;

use crate::sys;
use crossbeam_utils::CachePadded;
use front::Front;
use shard::{FreeSlot, Shard, Stacks};
pub(crate) use shard::{ModuleId, Taken};
use std::collections::{HashMap, VecDeque};
use std::task::{Poll, Waker};
use std::time::Instant;
use sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, lock};
use waiter::{Given, Queue, Waiter};

/// Time that a caller waits for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitLimit {
    /// The caller does not wait.
    No,
    /// Until a slot is free.
    Forever,
    /// Until this time.
    Until(Instant),
}

/// The free slots. `S` is a slot with its state.
#[derive(Debug)]
pub(crate) struct FreeList<S> {
    /// Each shard has cache lines of its own, to avoid false sharing.
    shards: Box<[CachePadded<Shard<S>>]>,
    /// Number of callers that wait or are about to wait.
    waiting: AtomicUsize,
    queue: Mutex<Queue<S>>,
}

impl<S> FreeList<S> {
    /// Creates a list of slots that hold no module. A single thread takes these slots in order.
    pub(crate) fn new(cold: Vec<S>) -> Self {
        Self::with_shards(cold, sys::thread::parts())
    }

    /// Creates a list of `count` shards, which must be a power of two.
    fn with_shards(cold: Vec<S>, count: usize) -> Self {
        debug_assert!(count.is_power_of_two());
        let mut lists: Vec<Vec<_>> = (0..count).map(|_| vec![]).collect();
        for (at, slot) in cold.into_iter().enumerate() {
            lists[at % count].push(Box::new(FreeSlot { module: None, slot }));
        }
        let shard = |mut cold: Vec<_>| {
            // `pop` takes the last element first.
            cold.reverse();
            CachePadded::new(Shard {
                front: Front::new(),
                stacks: Mutex::new(Stacks {
                    cold,
                    warm: HashMap::default(),
                }),
            })
        };
        Self {
            shards: lists.into_iter().map(shard).collect(),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(Queue {
                waiters: VecDeque::new(),
                is_closed: false,
            }),
        }
    }

    /// Number of free slots.
    pub(crate) fn len(&self) -> usize {
        let held = |shard: &CachePadded<Shard<S>>| {
            let stacks = lock(&shard.stacks);
            stacks.len() + usize::from(!shard.front.is_empty())
        };
        self.shards.iter().map(held).sum()
    }

    /// Takes a slot, the best slot for `module` first.
    ///
    /// Returns `None` if no slot is free until `wait` ends, or if the list is closed. With
    /// [`WaitLimit::No`], also returns `None` while another caller waits.
    #[inline]
    pub(crate) fn take(&self, module: ModuleId, wait: WaitLimit) -> Option<Taken<S>> {
        // A caller does not overtake waiters. Relaxed: a caller that arrives at the same moment as
        // a waiter may come first.
        if self.waiting.load(Ordering::Relaxed) == 0
            && let Some(slot) = self.find(module)
        {
            return Some(slot);
        }
        let deadline = match wait {
            WaitLimit::No => return None,
            WaitLimit::Forever => None,
            WaitLimit::Until(deadline) => Some(deadline),
        };
        self.queue_for(deadline)
    }

    /// Returns a slot to the list. The slot is clean for `module`, or holds no module.
    #[inline]
    pub(crate) fn put(&self, slot: Taken<S>, module: Option<ModuleId>) {
        let mut entry = slot.0;
        entry.module = module;
        let shard = self.shard(0);
        if let Some(before) = shard.front.put(entry) {
            lock(&shard.stacks).put(before);
        }
        // This load comes after both puts: the module's documentation gives the reason.
        sync::in_one_order();
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.serve();
        }
    }

    /// The shard `n` places after the shard of this thread.
    #[inline]
    fn shard(&self, n: usize) -> &Shard<S> {
        // The number of shards is a power of two.
        &self.shards[(sync::number() + n) & (self.shards.len() - 1)]
    }

    /// Takes a slot from any shard, the best slot first.
    #[inline]
    fn find(&self, module: ModuleId) -> Option<Taken<S>> {
        match self.shard(0).front.take() {
            Some(entry) if entry.module == Some(module) => Some(Taken(entry)),
            other => self.search(module, other),
        }
    }

    /// Takes a slot from any shard, the best slot first. Before that, moves `front`, the slot from
    /// this shard's front, to the stacks.
    fn search(&self, module: ModuleId, front: Option<Box<FreeSlot<S>>>) -> Option<Taken<S>> {
        let put = front.is_some();
        let mut stacks = lock(&self.shard(0).stacks);
        if let Some(entry) = front {
            stacks.put(entry);
        }
        let own = stacks.good(module);
        drop(stacks);
        if put && self.waiting.load(Ordering::SeqCst) > 0 {
            // No waiter could find the slot while this thread moved it from the front to the
            // stacks.
            self.serve();
        }
        let mut others = (1..self.shards.len()).map(|n| self.shard(n));
        own.or_else(|| others.find_map(|shard| lock(&shard.stacks).good(module)))
            .map(Taken)
            .or_else(|| self.any())
    }

    /// Takes any slot of any shard.
    fn any(&self) -> Option<Taken<S>> {
        let any = |shard: &CachePadded<Shard<S>>| {
            let stacked = lock(&shard.stacks).any();
            stacked.or_else(|| shard.front.take())
        };
        self.shards.iter().find_map(any).map(Taken)
    }

    /// Waits in the queue for a slot.
    #[cold]
    fn queue_for(&self, deadline: Option<Instant>) -> Option<Taken<S>> {
        let waiter = self.enter();
        let slot = waiter.wait(deadline);
        let late = self.retire(&waiter);
        slot.or(late)
    }

    /// Adds a waiter to the end of the queue.
    #[cold]
    fn enter(&self) -> Arc<Waiter<S>> {
        let waiter = Arc::new(Waiter {
            given: Mutex::new(Given {
                slot: None,
                waker: None,
                is_closed: false,
            }),
            notified: Condvar::new(),
        });
        // The increment comes before `serve` searches the shards: the module's documentation gives
        // the reason.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        sync::in_one_order();
        let mut queue = lock(&self.queue);
        lock(&waiter.given).is_closed = queue.is_closed;
        queue.waiters.push_back(Arc::clone(&waiter));
        drop(queue);
        self.serve();
        waiter
    }

    /// Closes the list, because no slot will return. Present and later waiters get no slot.
    #[cold]
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        let close = |waiter: &Arc<Waiter<S>>| {
            let mut given = lock(&waiter.given);
            given.is_closed = true;
            waiter.notified.notify_one();
            given.waker.take()
        };
        let wakers: Vec<_> = queue.waiters.iter().filter_map(close).collect();
        drop(queue);
        wakers.into_iter().for_each(waiter::tell);
    }

    /// Gives free slots to waiters, in the order in which the waiters came.
    #[cold]
    fn serve(&self) {
        let mut wakers = vec![];
        let mut queue = lock(&self.queue);
        while !queue.waiters.is_empty() {
            // For fairness, the next waiter gets any slot, even a slot that is clean for another
            // module.
            let Some(slot) = self.any() else {
                break;
            };
            let Some(waiter) = queue.waiters.pop_front() else {
                break;
            };
            let mut given = lock(&waiter.given);
            given.slot = Some(slot);
            wakers.extend(given.waker.take());
            waiter.notified.notify_one();
        }
        drop(queue);
        // The lock is free here, because a waker may call this function.
        wakers.into_iter().for_each(waiter::tell);
    }
}

/// A place in the queue of a list. Its owner polls [`FreeList::given`] for a slot, and finally
/// calls [`FreeList::leave`].
#[derive(Debug)]
pub(crate) struct Place<S>(Arc<Waiter<S>>);

impl<S> FreeList<S> {
    /// Joins the end of the queue.
    pub(crate) fn queue(&self) -> Place<S> {
        Place(self.enter())
    }

    /// Polls a place for its slot: `None` if the list is closed. If the slot is pending, the list
    /// calls `waker` when the place gets a slot or the list is closed.
    pub(crate) fn given(&self, place: &Place<S>, waker: &Waker) -> Poll<Option<Taken<S>>> {
        // The waker is cloned and dropped without the lock: both run foreign code, which may panic
        // or call this list.
        let waker = waker.clone();
        let mut given = lock(&place.0.given);
        let answer = match given.slot.take() {
            None if !given.is_closed => Poll::Pending,
            slot => Poll::Ready(slot),
        };
        let (unused, known) = match answer {
            Poll::Ready(_) => (Some(waker), given.waker.take()),
            Poll::Pending => (None, given.waker.replace(waker)),
        };
        drop(given);
        drop((unused, known));
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
    fn retire(&self, waiter: &Arc<Waiter<S>>) -> Option<Taken<S>> {
        // Only a waiter in the queue can get a slot, so after the removal no slot can arrive
        // unseen.
        let mut queue = lock(&self.queue);
        queue.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        drop(queue);
        let slot = lock(&waiter.given).slot.take();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        slot
    }
}

#[cfg(all(test, not(loom)))]
#[path = "free/tests.rs"]
mod tests;

#[cfg(all(test, loom))]
#[path = "free/orders.rs"]
mod orders;
