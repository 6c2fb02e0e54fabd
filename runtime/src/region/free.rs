//! [`FreeList`]: the slots that nobody has, and those who wait for one.
//!
//! Last in, first out for each module, so that a slot is taken again while its pages and cache lines
//! are warm. Who waits is served in turn: a slot that comes back goes to the one who waits longest and
//! not through the list, so that nobody can overtake.

use core::hash::{BuildHasherDefault, Hasher};
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
    state: Mutex<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    /// Slots that hold no module.
    cold: Vec<S>,
    /// Slots that are clean for a module.
    warm: HashMap<ModuleId, Vec<S>, Numbered>,
    /// Number of all of them.
    count: usize,
    /// Who waits, longest first. Empty unless there is no free slot.
    waiting: VecDeque<Arc<Waiter<S>>>,
}

#[derive(Debug)]
struct Waiter<S> {
    /// What was given to the waiter. Written under the list's lock.
    given: Mutex<Option<S>>,
    told: Condvar,
}

/// Modules whose lists may be empty before empty lists are looked for and removed.
const LISTS_KEPT: usize = 64;

impl<S> FreeList<S> {
    /// A list of slots that hold no module; the last is taken first.
    pub(crate) fn new(cold: Vec<S>) -> Self {
        let count = cold.len();
        let state = Mutex::new(State {
            cold,
            warm: HashMap::default(),
            count,
            waiting: VecDeque::new(),
        });
        Self { state }
    }

    /// Number of free slots.
    pub(crate) fn len(&self) -> usize {
        self.lock().count
    }

    /// Takes a slot: one that is warm for the module, else a cold one, else the latest of the module
    /// that has most. `None` if there was none for as long as was to be waited.
    pub(crate) fn take(&self, module: ModuleId, wait: Wait) -> Option<S> {
        let mut state = self.lock();
        if let Some(slot) = state.pop(module) {
            return Some(slot);
        }
        let deadline = match wait {
            Wait::No => return None,
            Wait::Forever => None,
            Wait::Until(deadline) => Some(deadline),
        };
        let waiter = Arc::new(Waiter {
            given: Mutex::new(None),
            told: Condvar::new(),
        });
        state.waiting.push_back(Arc::clone(&waiter));
        drop(state);
        waiter.wait(deadline).or_else(|| {
            // Nobody gives to a waiter that is not in the queue: what was given in between is taken.
            self.lock()
                .waiting
                .retain(|other| !Arc::ptr_eq(other, &waiter));
            lock(&waiter.given).take()
        })
    }

    /// Puts a slot back, clean for a module or holding none.
    pub(crate) fn put(&self, slot: S, module: Option<ModuleId>) {
        let mut state = self.lock();
        if let Some(waiter) = state.waiting.pop_front() {
            *lock(&waiter.given) = Some(slot);
            waiter.told.notify_one();
            return;
        }
        state.count += 1;
        let State { cold, warm, .. } = &mut *state;
        let Some(module) = module else {
            cold.push(slot);
            return;
        };
        if warm.len() >= LISTS_KEPT && !warm.contains_key(&module) {
            warm.retain(|_, slots| !slots.is_empty());
        }
        warm.entry(module).or_default().push(slot);
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        lock(&self.state)
    }
}

/// Nothing that holds one of these locks panics half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> State<S> {
    fn pop(&mut self, module: ModuleId) -> Option<S> {
        let own = self.warm.get_mut(&module).and_then(Vec::pop);
        let slot = own.or_else(|| self.cold.pop()).or_else(|| {
            let most = self.warm.values_mut().max_by_key(|slots| slots.len())?;
            most.pop()
        })?;
        self.count -= 1;
        Some(slot)
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

    #[test]
    fn a_module_gets_its_own_slot_back_first() {
        let list = FreeList::new(vec![3, 2, 1]);
        assert_eq!(list.take(7, Wait::No), Some(1));
        assert_eq!(list.take(7, Wait::No), Some(2));
        list.put(1, Some(7));
        list.put(2, Some(8));
        assert_eq!(list.take(7, Wait::No), Some(1));
        assert_eq!(
            list.take(9, Wait::No),
            Some(3),
            "a cold one before another module's"
        );
        assert_eq!(
            list.take(9, Wait::No),
            Some(2),
            "another module's before none"
        );
        assert_eq!((list.take(9, Wait::No), list.len()), (None, 0));
    }

    #[test]
    fn lists_of_modules_that_are_gone_do_not_pile_up() {
        let list = FreeList::new(vec![0]);
        for module in 0..10_000 {
            let slot = list.take(module, Wait::No).unwrap();
            list.put(slot, Some(module));
        }
        assert!(list.lock().warm.len() <= LISTS_KEPT + 1);
        assert_eq!(list.len(), 1);
    }

    #[test]
    fn who_waits_longest_is_served_first() {
        let list = Arc::new(FreeList::<u32>::new(vec![]));
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
            while list.lock().waiting.len() <= turn {
                std::thread::yield_now();
            }
        }
        for slot in 10..13 {
            list.put(slot, None);
            assert_eq!(served.recv(), Ok((slot as usize - 10, Some(slot))));
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(list.len(), 0);
    }

    #[test]
    fn who_gives_up_loses_no_slot() {
        let list = FreeList::<u32>::new(vec![]);
        let soon = Wait::Until(Instant::now() + Duration::from_millis(5));
        assert_eq!(list.take(0, soon), None);
        assert!(list.lock().waiting.is_empty());
        list.put(1, None);
        assert_eq!(list.len(), 1);
        let past = Wait::Until(Instant::now());
        assert_eq!(list.take(0, past), Some(1));
    }

    #[test]
    fn what_is_given_between_giving_up_and_leaving_the_queue_is_taken() {
        // The moment itself: the waiter's time is over, and it is still in the queue.
        let list = FreeList::<u32>::new(vec![]);
        let waiter = Arc::new(Waiter {
            given: Mutex::new(None),
            told: Condvar::new(),
        });
        list.lock().waiting.push_back(Arc::clone(&waiter));
        assert_eq!(waiter.wait(Some(Instant::now())), None);
        list.put(5, None);
        assert_eq!(list.len(), 0, "it went to the waiter");
        assert_eq!(lock(&waiter.given).take(), Some(5));
    }

    #[test]
    fn many_threads_share_few_slots() {
        let list = FreeList::new((0..2).collect());
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
        assert_eq!(list.len(), 2);
        let mut all = [list.take(0, Wait::No), list.take(0, Wait::No)];
        all.sort_unstable();
        assert_eq!(all, [Some(0), Some(1)]);
    }
}
