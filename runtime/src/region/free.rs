//! [`FreeList`]: the slots that nobody has, and those who wait for one.
//!
//! ```text
//!             thread ─▶ its shard        other shards, when that runs dry
//!   take:       warm for the module ─▶ cold ─▶ warm or cold elsewhere ─▶ another module's, anywhere
//!   put:        its shard ─▶ if anybody waits: the longest waiting is given one
//! ```
//!
//! Each thread has a shard of its own as long as there are no more threads than processors, so that a
//! lock is taken again by the one who had it. Last in, first out for each module, so that a slot is
//! taken again while its pages and cache lines are warm.
//!
//! Who waits is served in turn, and nobody overtakes: as long as anybody waits, whoever comes joins
//! the queue, or is told that there is nothing.
//!
//! No slot stays in a shard while somebody waits. A waiter first counts itself, then looks through all
//! shards; a giver puts the slot and looks whether anybody waits under one lock, its shard's. If it had
//! that lock first, the waiter finds the slot; if the waiter did, the giver sees the count, because
//! what one holder of a lock did before is seen by the next. So the count itself needs no ordering.

use core::cell::Cell;
use core::hash::{BuildHasherDefault, Hasher};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Names a module: no other of the process has it.
pub(crate) type ModuleId = u64;

/// Hashes module numbers: they ascend from 0 and are nobody's choice, so one multiplication spreads
/// them well enough over a table.
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

/// How long to wait for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// Until there is one.
    Forever,
    /// Until then.
    Until(Instant),
}

/// Slots that nobody has. `S` is a slot with all that is known of it.
#[derive(Debug)]
pub(crate) struct FreeList<S> {
    shards: Box<[Shard<S>]>,
    /// Those who wait, and those who are about to.
    waiting: AtomicUsize,
    /// Who waits, longest first.
    queue: Mutex<VecDeque<Arc<Waiter<S>>>>,
}

/// A part of the list, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<S>(Mutex<Slots<S>>);

#[derive(Debug)]
struct Slots<S> {
    /// Slots that hold no module.
    cold: Vec<S>,
    /// Slots that are clean for a module.
    warm: HashMap<ModuleId, Vec<S>, Numbered>,
}

#[derive(Debug)]
struct Waiter<S> {
    /// What was given to the waiter. Written under the queue's lock.
    given: Mutex<Option<S>>,
    told: Condvar,
}

/// Modules whose lists may be empty in a shard before empty lists are looked for and removed.
const LISTS_KEPT: usize = 64;
/// Most shards: who finds all empty has looked into each.
const SHARDS_MAX: usize = 64;

impl<S> FreeList<S> {
    /// A list of slots that hold no module; the first is taken first, by a lone thread.
    pub(crate) fn new(cold: Vec<S>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_shards(cold, processors.min(SHARDS_MAX).next_power_of_two())
    }

    /// `count` must be a power of two.
    fn with_shards(cold: Vec<S>, count: usize) -> Self {
        debug_assert!(count.is_power_of_two());
        let mut lists: Vec<Vec<S>> = (0..count).map(|_| vec![]).collect();
        for (at, slot) in cold.into_iter().enumerate() {
            lists[at % count].push(slot);
        }
        let shard = |mut cold: Vec<S>| {
            // Taken from the end.
            cold.reverse();
            Shard(Mutex::new(Slots {
                cold,
                warm: HashMap::default(),
            }))
        };
        Self {
            shards: lists.into_iter().map(shard).collect(),
            waiting: AtomicUsize::new(0),
            queue: Mutex::new(VecDeque::new()),
        }
    }

    /// Number of free slots.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(&shard.0).len()).sum()
    }

    /// Takes a slot. `None` if there was none for as long as was to be waited, or somebody waits
    /// already and `wait` is not to.
    pub(crate) fn take(&self, module: ModuleId, wait: Wait) -> Option<S> {
        // Nobody overtakes those who wait.
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

    /// Puts a slot back, clean for a module or holding none.
    pub(crate) fn put(&self, slot: S, module: Option<ModuleId>) {
        let mut slots = lock(&self.shard(0).0);
        slots.put(slot, module);
        // Under the lock, see the module's documentation.
        let waiting = self.waiting.load(Ordering::Relaxed);
        drop(slots);
        if waiting > 0 {
            self.serve();
        }
    }

    /// The shard `n` behind that of this thread.
    fn shard(&self, n: usize) -> &Shard<S> {
        // Their number is a power of two.
        &self.shards[(thread_number() + n) & (self.shards.len() - 1)]
    }

    /// A slot from anywhere, best first.
    fn find(&self, module: ModuleId) -> Option<S> {
        if let Some(slot) = lock(&self.shard(0).0).good(module) {
            return Some(slot);
        }
        let mut others = (1..self.shards.len()).map(|n| self.shard(n));
        let good = others.find_map(|shard| lock(&shard.0).good(module));
        good.or_else(|| self.shards.iter().find_map(|shard| lock(&shard.0).any()))
    }

    /// Waits in turn.
    #[cold]
    fn queue_for(&self, deadline: Option<Instant>) -> Option<S> {
        let waiter = Arc::new(Waiter {
            given: Mutex::new(None),
            told: Condvar::new(),
        });
        // Before the shards are looked through once more, see the module's documentation.
        self.waiting.fetch_add(1, Ordering::Relaxed);
        lock(&self.queue).push_back(Arc::clone(&waiter));
        self.serve();
        let slot = waiter.wait(deadline).or_else(|| {
            // Nobody gives to a waiter that is not in the queue: what was given in between is taken.
            lock(&self.queue).retain(|other| !Arc::ptr_eq(other, &waiter));
            lock(&waiter.given).take()
        });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        slot
    }

    /// Gives what there is to those who wait, longest first.
    #[cold]
    fn serve(&self) {
        let mut queue = lock(&self.queue);
        while !queue.is_empty() {
            // Whatever it is clean for: the one who waits longest is next.
            let Some(slot) = self.shards.iter().find_map(|shard| lock(&shard.0).any()) else {
                return;
            };
            let Some(waiter) = queue.pop_front() else {
                return;
            };
            *lock(&waiter.given) = Some(slot);
            waiter.told.notify_one();
        }
    }
}

/// A number for this thread: threads are numbered as they come.
#[inline]
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let number = NUMBER.get();
    if number != usize::MAX {
        return number;
    }
    // Relaxed: any number would do.
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % (usize::MAX / 2);
    NUMBER.set(number);
    number
}

/// Nothing that holds one of these locks panics half-way.
#[inline]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Slots<S> {
    fn len(&self) -> usize {
        self.cold.len() + self.warm.values().map(Vec::len).sum::<usize>()
    }

    /// A slot that is warm for the module, else a cold one.
    fn good(&mut self, module: ModuleId) -> Option<S> {
        let own = self.warm.get_mut(&module).and_then(Vec::pop);
        own.or_else(|| self.cold.pop())
    }

    /// A cold slot, else the latest of the module that has most.
    fn any(&mut self) -> Option<S> {
        self.cold.pop().or_else(|| {
            let most = self.warm.values_mut().max_by_key(|slots| slots.len())?;
            most.pop()
        })
    }

    fn put(&mut self, slot: S, module: Option<ModuleId>) {
        let Some(module) = module else {
            self.cold.push(slot);
            return;
        };
        if self.warm.len() >= LISTS_KEPT && !self.warm.contains_key(&module) {
            self.warm.retain(|_, slots| !slots.is_empty());
        }
        self.warm.entry(module).or_default().push(slot);
    }
}

impl<S> Waiter<S> {
    /// Waits to be given a slot; `None` once the deadline has passed.
    fn wait(&self, deadline: Option<Instant>) -> Option<S> {
        let mut given = lock(&self.given);
        while given.is_none() {
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
        given.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    fn waiting(list: &FreeList<u32>) -> usize {
        lock(&list.queue).len()
    }

    #[test]
    fn a_module_gets_its_own_slot_back_first() {
        for shards in [1, 2, 8] {
            let list = FreeList::with_shards(vec![1, 2, 3], shards);
            let mut all: Vec<_> = (0..3).filter_map(|_| list.take(7, Wait::No)).collect();
            assert_eq!((list.take(7, Wait::No), list.len()), (None, 0));
            let (a, b, c) = (all.remove(0), all.remove(0), all.remove(0));
            list.put(a, Some(7));
            list.put(b, Some(8));
            list.put(c, None);
            assert_eq!(list.take(7, Wait::No), Some(a));
            assert_eq!(
                list.take(9, Wait::No),
                Some(c),
                "a cold one before another module's"
            );
            assert_eq!(
                list.take(9, Wait::No),
                Some(b),
                "another module's before none"
            );
            assert_eq!((list.take(9, Wait::No), list.len()), (None, 0));
        }
    }

    #[test]
    fn a_lone_thread_takes_slots_in_order() {
        let list = FreeList::with_shards((0..6).collect(), 1);
        let taken: Vec<_> = (0..6).filter_map(|_| list.take(0, Wait::No)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn lists_of_modules_that_are_gone_do_not_pile_up() {
        let list = FreeList::with_shards(vec![0], 1);
        for module in 0..10_000 {
            let slot = list.take(module, Wait::No).unwrap();
            list.put(slot, Some(module));
        }
        assert!(lock(&list.shards[0].0).warm.len() <= LISTS_KEPT + 1);
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn a_slot_of_any_shard_is_found() {
        let list = FreeList::with_shards((0..4).collect(), 4);
        let taken: Vec<_> = (0..4).filter_map(|_| list.take(0, Wait::No)).collect();
        assert_eq!(taken.len(), 4);
        // Put back by other threads, each into a shard of its own.
        std::thread::scope(|scope| {
            for slot in &taken {
                scope.spawn(|| list.put(*slot, Some(3)));
            }
        });
        assert_eq!((0..4).filter_map(|_| list.take(9, Wait::No)).count(), 4);
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
                    told.send((turn, slot)).unwrap();
                }
            }));
            // The next may queue only behind this one.
            while waiting(&list) <= turn {
                std::thread::yield_now();
            }
        }
        for slot in 10..13 {
            assert_eq!(list.take(0, Wait::No), None, "somebody waits");
            list.put(slot, None);
            assert_eq!(served.recv(), Ok((slot as usize - 10, Some(slot))));
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
        assert_eq!(list.take(0, soon), None);
        assert_eq!(
            (waiting(&list), list.waiting.load(Ordering::Relaxed)),
            (0, 0)
        );
        list.put(1, None);
        assert_eq!(list.len(), 1);
        let past = Wait::Until(Instant::now());
        assert_eq!(list.take(0, past), Some(1));
    }

    #[test]
    fn what_is_given_between_giving_up_and_leaving_the_queue_is_taken() {
        // The moment itself: the waiter's time is over, and it is still in the queue.
        let list = FreeList::<u32>::with_shards(vec![], 1);
        let waiter = Arc::new(Waiter {
            given: Mutex::new(None),
            told: Condvar::new(),
        });
        list.waiting.fetch_add(1, Ordering::Relaxed);
        lock(&list.queue).push_back(Arc::clone(&waiter));
        assert_eq!(waiter.wait(Some(Instant::now())), None);
        list.put(5, None);
        assert_eq!(list.len(), 0, "it went to the waiter");
        assert_eq!(lock(&waiter.given).take(), Some(5));
    }

    #[test]
    fn what_is_put_before_a_waiter_counts_itself_is_found_by_it() {
        // The other moment: the slot came after the waiter looked, and before anybody could see it.
        let list = FreeList::<u32>::with_shards(vec![], 2);
        assert_eq!(list.find(0), None);
        list.put(6, Some(3));
        assert_eq!(list.queue_for(None), Some(6));
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
            let mut all = [list.take(0, Wait::No), list.take(0, Wait::No)];
            all.sort_unstable();
            assert_eq!(all, [Some(0), Some(1)]);
            assert_eq!(list.waiting.load(Ordering::Relaxed), 0);
        }
    }
}
