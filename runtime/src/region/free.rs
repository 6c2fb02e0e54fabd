//! [`FreeList`]: the free slots of a region, and the queue of callers that wait for one.
//!
//! ```text
//!             thread ─▶ its shard                     other shards, if it has no such slot
//!   take:       front, if warm for the module ─▶ warm ─▶ cold ─▶ warm or cold elsewhere ─▶ any
//!   put:        front; the slot that was there moves to the shard's stacks
//!               if callers wait: the one that has waited longest gets a slot
//! ```
//!
//! With at most one thread per processor, each thread has its own shard. The front of
//! a shard holds the slot that was put there last. An atomic exchange puts or takes it, so a thread
//! that creates one instance after another takes no lock. Each shard also has one stack of slots
//! for each module, and one of cold slots, which hold no module. Because these are stacks, a slot
//! is taken again while its pages and cache lines are warm.
//!
//! Waiters get slots in the order in which they came. While a caller waits, a new caller does not
//! overtake it: it joins the queue, or gets no slot if it does not wait.
//!
//! No slot stays in a shard while a caller waits. A waiter first counts itself in `waiting`, then
//! searches all shards. A thread that returns a slot first puts it into a shard, then reads
//! `waiting`. So at least one of the two sees the other. For a stack, this holds because each
//! thread holds the lock of the stack when it puts a slot or searches. For a front, it holds
//! because the exchanges, the increment and the load of `waiting` are in the single order of all
//! SeqCst operations.
//!
//! The package `runtime/loom` runs the tests of `free/orders.rs` with loom, which tries the
//! possible orders of the threads' operations.

// The paths are explicit because the package `runtime/loom` includes this file, too.
#[path = "free/front.rs"]
mod front;
#[path = "free/place.rs"]
mod place;

use crate::sys;
use core::hash::{BuildHasherDefault, Hasher};
use front::Front;
pub(crate) use place::Place;
use std::collections::{HashMap, VecDeque};
use std::ops::{Deref, DerefMut};
use std::task::Waker;
use std::time::Instant;
use sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// Types that threads share: those of the standard library, or those of loom in its tests.
mod sync {
    #[cfg(loom)]
    pub(super) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
    #[cfg(loom)]
    pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(super) use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
    #[cfg(not(loom))]
    pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

    pub(super) use std::sync::PoisonError;

    /// Marks a place that relies on the single order of all SeqCst operations. Loom models this
    /// order only for fences, so under loom this is a fence.
    #[inline]
    pub(super) fn in_one_order() {
        #[cfg(loom)]
        if !WEAKENED.get() {
            loom::sync::atomic::fence(Ordering::SeqCst);
        }
    }

    #[cfg(loom)]
    std::thread_local! {
        /// Removes the fence; set by the canary test. A thread-local of the standard library,
        /// because loom runs all threads of a model on one thread of the system.
        pub(super) static WEAKENED: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    }

    #[cfg(not(loom))]
    pub(super) use crate::sys::thread::number;
    #[cfg(loom)]
    loom::thread_local! {
        /// Number of the thread, set by the tests.
        pub(super) static NUMBER: core::cell::Cell<usize> = core::cell::Cell::new(0);
    }
    #[cfg(loom)]
    pub(super) fn number() -> usize {
        NUMBER.with(core::cell::Cell::get)
    }
}

/// Identifies a module. No two modules of a process have equal ids.
pub(crate) type ModuleId = u64;

/// Hashes module ids. They ascend from 0 and no user chooses them, so one multiplication
/// distributes them well enough over a table.
#[derive(Debug, Default)]
struct NumberHasher(u64);

type Numbered = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 over the golden ratio: Knuth, The Art of Computer Programming, 6.4.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Time that a caller waits for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// Until a slot is free.
    Forever,
    /// Until this time.
    Until(Instant),
}

/// The free slots. `S` is a slot with its state.
#[derive(Debug)]
pub(crate) struct FreeList<S> {
    shards: Box<[Shard<S>]>,
    /// Number of callers that wait or are about to wait.
    waiting: AtomicUsize,
    queue: Mutex<Queue<S>>,
}

/// A part of the list. It has its own cache lines, so that threads do not share them falsely.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<S> {
    front: Front<Entry<S>>,
    stacks: Mutex<Stacks<S>>,
}

/// A slot, and the module for which it is clean.
#[derive(Debug)]
struct Entry<S> {
    module: Option<ModuleId>,
    slot: S,
}

/// A slot that was taken from the list. Its owner returns it with [`FreeList::put`].
#[derive(Debug)]
pub(crate) struct Taken<S>(Box<Entry<S>>);

impl<S> Deref for Taken<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        &self.0.slot
    }
}

impl<S> DerefMut for Taken<S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.0.slot
    }
}

#[derive(Debug)]
struct Stacks<S> {
    /// Slots that hold no module.
    cold: Vec<Box<Entry<S>>>,
    /// Slots that are clean for a module.
    warm: HashMap<ModuleId, Vec<Box<Entry<S>>>, Numbered>,
}

#[derive(Debug)]
struct Waiter<S> {
    /// A slot is stored here only while the queue is locked.
    given: Mutex<Given<S>>,
    told: Condvar,
}

/// The result for a waiter.
#[derive(Debug)]
struct Given<S> {
    slot: Option<Taken<S>>,
    /// Wakes the waiter, if the waiter is a future and not a thread.
    waker: Option<Waker>,
    /// Whether the list is closed: no slot will come.
    is_closed: bool,
}

/// The waiters.
#[derive(Debug)]
struct Queue<S> {
    /// The waiter that has waited longest is first.
    waiters: VecDeque<Arc<Waiter<S>>>,
    /// Whether [`FreeList::close`] was called.
    is_closed: bool,
}

/// Number of stacks of a shard from which a further stack first removes the empty ones.
const LISTS_KEPT: usize = 64;

impl<S> FreeList<S> {
    /// Creates a list of slots that hold no module. A single thread takes them in order.
    pub(crate) fn new(cold: Vec<S>) -> Self {
        Self::with_shards(cold, sys::thread::parts())
    }

    /// Creates a list of `count` shards, which must be a power of two.
    fn with_shards(cold: Vec<S>, count: usize) -> Self {
        debug_assert!(count.is_power_of_two());
        let mut lists: Vec<Vec<_>> = (0..count).map(|_| vec![]).collect();
        for (at, slot) in cold.into_iter().enumerate() {
            lists[at % count].push(Box::new(Entry { module: None, slot }));
        }
        let shard = |mut cold: Vec<_>| {
            // `pop` takes the last element first.
            cold.reverse();
            Shard {
                front: Front::new(),
                stacks: Mutex::new(Stacks {
                    cold,
                    warm: HashMap::default(),
                }),
            }
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
        let held = |shard: &Shard<S>| {
            let stacks = lock(&shard.stacks);
            stacks.len() + usize::from(!shard.front.is_empty())
        };
        self.shards.iter().map(held).sum()
    }

    /// Takes a slot, best one for `module` first.
    ///
    /// Returns `None` if no slot is free until `wait` ends, or if the list is closed. With
    /// [`Wait::No`], also returns `None` while another caller waits.
    #[inline]
    pub(crate) fn take(&self, module: ModuleId, wait: Wait) -> Option<Taken<S>> {
        // A caller does not overtake waiters. Relaxed: a caller that arrives at the same moment as
        // a waiter may come first.
        if self.waiting.load(Ordering::Relaxed) == 0
            && let Some(slot) = self.find(module)
        {
            return Some(slot);
        }
        let deadline = match wait {
            Wait::No => return None,
            Wait::Forever => None,
            Wait::Until(deadline) => Some(deadline),
        };
        self.queue_for(deadline)
    }

    /// Returns a slot to the list. It is clean for `module`, or holds no module.
    #[inline]
    pub(crate) fn put(&self, slot: Taken<S>, module: Option<ModuleId>) {
        let mut entry = slot.0;
        entry.module = module;
        let shard = self.shard(0);
        if let Some(before) = shard.front.put(entry) {
            lock(&shard.stacks).put(before);
        }
        // After both puts: the module's documentation gives the reason.
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

    /// Takes a slot from any shard, best one first.
    #[inline]
    fn find(&self, module: ModuleId) -> Option<Taken<S>> {
        match self.shard(0).front.take() {
            Some(entry) if entry.module == Some(module) => Some(Taken(entry)),
            other => self.search(module, other),
        }
    }

    /// Takes a slot from any shard, best one first. Moves `front`, the slot from this shard's
    /// front, to the stacks first.
    fn search(&self, module: ModuleId, front: Option<Box<Entry<S>>>) -> Option<Taken<S>> {
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
        let any = |shard: &Shard<S>| {
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
            told: Condvar::new(),
        });
        // Before `serve` searches the shards: the module's documentation gives the reason.
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
            waiter.told.notify_one();
            given.waker.take()
        };
        let wakers: Vec<_> = queue.waiters.iter().filter_map(close).collect();
        drop(queue);
        wakers.into_iter().for_each(place::tell);
    }

    /// Gives free slots to waiters, in the order in which they came.
    #[cold]
    fn serve(&self) {
        let mut wakers = vec![];
        let mut queue = lock(&self.queue);
        while !queue.waiters.is_empty() {
            // For fairness, the next waiter gets any slot, even one that is clean for another
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
            waiter.told.notify_one();
        }
        drop(queue);
        // Without the lock, because a waker may call this function.
        wakers.into_iter().for_each(place::tell);
    }
}

/// Locks a mutex. Poisoning is ignored, because no code panics half-way through a change under one
/// of these locks.
#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Stacks<S> {
    fn len(&self) -> usize {
        self.cold.len() + self.warm.values().map(Vec::len).sum::<usize>()
    }

    /// Takes a slot that is warm for the module, else a cold one.
    fn good(&mut self, module: ModuleId) -> Option<Box<Entry<S>>> {
        let own = self.warm.get_mut(&module).and_then(Vec::pop);
        own.or_else(|| self.cold.pop())
    }

    /// Takes a cold slot, else the slot that was put last of the module with the most slots.
    fn any(&mut self) -> Option<Box<Entry<S>>> {
        self.cold.pop().or_else(|| {
            let most = self.warm.values_mut().max_by_key(|slots| slots.len())?;
            most.pop()
        })
    }

    fn put(&mut self, entry: Box<Entry<S>>) {
        let Some(module) = entry.module else {
            self.cold.push(entry);
            return;
        };
        if self.warm.len() >= LISTS_KEPT && !self.warm.contains_key(&module) {
            self.warm.retain(|_, slots| !slots.is_empty());
        }
        self.warm.entry(module).or_default().push(entry);
    }
}

impl<S> Waiter<S> {
    /// Blocks the thread until the waiter gets a slot. `None` if the deadline passes or the list is
    /// closed.
    fn wait(&self, deadline: Option<Instant>) -> Option<Taken<S>> {
        let mut given = lock(&self.given);
        while given.slot.is_none() && !given.is_closed {
            let Some(deadline) = deadline else {
                given = self
                    .told
                    .wait(given)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = deadline.checked_duration_since(Instant::now())?;
            let result = self.told.wait_timeout(given, left);
            given = result.unwrap_or_else(PoisonError::into_inner).0;
        }
        given.slot.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::Poll;
    use std::time::Duration;

    fn waiting(list: &FreeList<u32>) -> usize {
        lock(&list.queue).waiters.len()
    }

    /// The number of a slot that was taken.
    fn number(taken: Option<&Taken<u32>>) -> Option<u32> {
        taken.map(|slot| **slot)
    }

    /// A slot that was not in the list before.
    fn slot(number: u32) -> Taken<u32> {
        Taken(Box::new(Entry {
            module: None,
            slot: number,
        }))
    }

    /// A waker that panics when it wakes, or counts its calls.
    enum Task {
        Panics,
        Counts(std::sync::atomic::AtomicUsize),
    }

    impl std::task::Wake for Task {
        fn wake(self: std::sync::Arc<Self>) {
            match &*self {
                Self::Panics => panic!("a waker's bug"),
                Self::Counts(woken) => {
                    woken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            }
        }
    }

    /// A thread that gives out several slots wakes every waiter that gets one, even if the waker of
    /// the first panics.
    #[test]
    fn a_waker_that_panics_keeps_nobody_waiting() {
        let list = FreeList::with_shards(vec![], 1);
        let panics = Waker::from(std::sync::Arc::new(Task::Panics));
        let counts = std::sync::Arc::new(Task::Counts(0.into()));
        let places = [list.queue(), list.queue()];
        assert!(list.given(&places[0], &panics).is_pending());
        assert!(
            list.given(&places[1], &Waker::from(counts.clone()))
                .is_pending()
        );
        for number in 0..2 {
            lock(&list.shards[0].stacks).put(slot(number).0);
        }
        list.serve();
        let Task::Counts(woken) = &*counts else {
            unreachable!("it counts")
        };
        assert_eq!(woken.load(std::sync::atomic::Ordering::SeqCst), 1);
        for place in &places {
            let given = list.given(place, Waker::noop());
            assert!(matches!(given, Poll::Ready(Some(_))), "{given:?}");
            list.leave(place);
        }
        assert_eq!(list.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn nobody_waits_at_a_closed_list() {
        let list = FreeList::with_shards(vec![], 2);
        let woken = std::sync::Arc::new(Task::Counts(0.into()));
        let place = list.queue();
        assert!(list.given(&place, &Waker::from(woken.clone())).is_pending());
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| list.take(0, Wait::Forever).is_none());
            while waiting(&list) < 2 {
                std::thread::yield_now();
            }
            list.close();
            assert!(thread.join().unwrap());
        });
        let Task::Counts(woken) = &*woken else {
            unreachable!("it counts")
        };
        assert_eq!(woken.load(std::sync::atomic::Ordering::SeqCst), 1);
        let given = list.given(&place, Waker::noop());
        assert!(matches!(given, Poll::Ready(None)), "{given:?}");
        list.leave(&place);
        assert!(list.take(0, Wait::Forever).is_none());
        let late = list.queue();
        let given = list.given(&late, Waker::noop());
        assert!(matches!(given, Poll::Ready(None)), "{given:?}");
        list.leave(&late);
        assert_eq!(
            (waiting(&list), list.waiting.load(Ordering::SeqCst)),
            (0, 0)
        );
    }

    /// Takes a slot for a module if one is free, does not return it, and gives its number.
    fn taken(list: &FreeList<u32>, module: ModuleId) -> Option<u32> {
        number(list.take(module, Wait::No).as_ref())
    }

    #[test]
    fn a_module_gets_its_own_slot_back_first() {
        for shards in [1, 2, 8] {
            let list = FreeList::with_shards(vec![1, 2, 3], shards);
            let mut all: Vec<_> = (0..3).filter_map(|_| list.take(7, Wait::No)).collect();
            assert_eq!((taken(&list, 7), list.len()), (None, 0));
            let numbers: Vec<_> = all.iter().map(|slot| Some(**slot)).collect();
            for module in [None, Some(8), Some(7)] {
                list.put(all.pop().unwrap(), module);
            }
            let [a, b, c] = numbers[..] else { panic!() };
            assert_eq!((taken(&list, 7), list.len()), (a, 2));
            assert_eq!(taken(&list, 9), c, "a cold one before another module's");
            assert_eq!(taken(&list, 9), b, "another module's before none");
            assert_eq!((taken(&list, 9), list.len()), (None, 0));
        }
    }

    #[test]
    fn a_lone_thread_takes_slots_in_order() {
        let list = FreeList::with_shards((0..6).collect(), 1);
        let taken: Vec<_> = (0..6).filter_map(|_| taken(&list, 0)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn lists_of_modules_that_are_gone_do_not_pile_up() {
        let list = FreeList::with_shards(vec![0], 1);
        for module in 0..10_000 {
            let slot = list.take(module, Wait::No).unwrap();
            list.put(slot, Some(module));
        }
        assert!(lock(&list.shards[0].stacks).warm.len() <= LISTS_KEPT + 1);
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn a_slot_of_any_shard_is_found() {
        let list = FreeList::with_shards((0..4).collect(), 4);
        let taken: Vec<_> = (0..4).filter_map(|_| list.take(0, Wait::No)).collect();
        assert_eq!(taken.len(), 4);
        // Other threads return them, each to its own shard.
        std::thread::scope(|scope| {
            for slot in taken {
                scope.spawn(|| list.put(slot, Some(3)));
            }
        });
        assert_eq!(list.len(), 4);
        let all: Vec<_> = (0..5).filter_map(|_| list.take(9, Wait::No)).collect();
        assert_eq!((all.len(), list.len()), (4, 0));
    }

    #[test]
    fn who_waits_longest_is_served_first_and_nobody_overtakes() {
        let list = Arc::new(FreeList::<u32>::with_shards(vec![], 4));
        let (told, served) = mpsc::channel();
        let mut threads = vec![];
        for turn in 0..3 {
            let (list, told) = (Arc::clone(&list), told.clone());
            threads.push(std::thread::spawn({
                let list = Arc::clone(&list);
                move || {
                    let slot = list.take(0, Wait::Forever);
                    told.send((turn, number(slot.as_ref()))).unwrap();
                }
            }));
            // The next thread must not start before this one is in the queue.
            while waiting(&list) <= turn {
                std::thread::yield_now();
            }
        }
        for turn in 10..13 {
            assert_eq!(taken(&list, 0), None, "somebody waits");
            list.put(slot(turn), None);
            assert_eq!(served.recv(), Ok((turn as usize - 10, Some(turn))));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((list.len(), list.waiting.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn who_gives_up_loses_no_slot() {
        let list = FreeList::<u32>::with_shards(vec![], 2);
        let soon = Wait::Until(Instant::now() + Duration::from_millis(5));
        assert!(list.take(0, soon).is_none());
        assert_eq!(
            (waiting(&list), list.waiting.load(Ordering::Relaxed)),
            (0, 0)
        );
        list.put(slot(1), None);
        assert_eq!(list.len(), 1);
        let past = Wait::Until(Instant::now());
        assert_eq!(number(list.take(0, past).as_ref()), Some(1));
    }

    #[test]
    fn what_is_given_between_giving_up_and_leaving_the_queue_is_taken() {
        // The exact moment: the waiter's deadline has passed, and the waiter is still in the queue.
        let list = FreeList::<u32>::with_shards(vec![], 1);
        let waiter = Arc::new(Waiter {
            given: Mutex::new(Given {
                slot: None,
                waker: None,
                is_closed: false,
            }),
            told: Condvar::new(),
        });
        list.waiting.fetch_add(1, Ordering::Relaxed);
        lock(&list.queue).waiters.push_back(Arc::clone(&waiter));
        assert!(waiter.wait(Some(Instant::now())).is_none());
        list.put(slot(5), None);
        assert_eq!(list.len(), 0, "it went to the waiter");
        assert_eq!(number(lock(&waiter.given).slot.as_ref()), Some(5));
    }

    #[test]
    fn what_is_put_before_a_waiter_counts_itself_is_found_by_it() {
        // The other moment: a slot returns after the waiter searched, and before the waiter counts
        // itself.
        let list = FreeList::<u32>::with_shards(vec![], 2);
        assert!(list.find(0).is_none());
        list.put(slot(6), Some(3));
        assert_eq!(number(list.queue_for(None).as_ref()), Some(6));
        assert_eq!(list.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_threads_share_few_slots() {
        for shards in [1, 2, 4] {
            let list = FreeList::with_shards((0..2).collect(), shards);
            std::thread::scope(|scope| {
                for thread in 0..8_u64 {
                    let list = &list;
                    scope.spawn(move || {
                        for round in 0..2_000 {
                            let wait = match round % 3 {
                                0 => Wait::Forever,
                                1 => Wait::Until(Instant::now() + Duration::from_micros(20)),
                                _ => Wait::No,
                            };
                            if let Some(slot) = list.take(thread % 3, wait) {
                                list.put(slot, (round % 2 == 0).then_some(thread % 3));
                            }
                        }
                    });
                }
            });
            let mut all = [taken(&list, 0), taken(&list, 0)];
            all.sort_unstable();
            assert_eq!(all, [Some(0), Some(1)]);
            assert_eq!(list.waiting.load(Ordering::Relaxed), 0);
        }
    }
}

#[cfg(all(test, loom))]
#[path = "free/orders.rs"]
mod orders;
