//! [`ForkLock`]: a process-wide lock. A thread that forks keeps all these locks free of other
//! holders until fork(2) has returned.
//!
//! While a thread forks, no other thread may hold one of these locks: in the child, no thread would
//! release the lock. For the same reason, no thread waits for a value that the process makes once.
//! `std::sync::OnceLock` lets other threads wait for the thread that makes the value. With
//! `once_cell::race`, each thread makes its own value, and all threads use the first value.
//!
//! This file has no list of the locks. Each lock names its [`Rank`], and each rank has a mutex in
//! this file. A thread takes the mutex of the rank before the lock itself, so a thread that holds
//! all these mutexes knows that no other thread holds one of the locks. No lock is registered. The
//! handlers of fork(2) allocate once in each thread that forks, when its first fork registers the
//! destructor of a thread-local variable. The allocation is safe: glibc runs the handlers before it
//! takes the locks of malloc(3).

use core::cell::{Cell, RefCell};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whose contents are consistent at every step, so a poisoned lock is still valid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Position of a lock in the locking order. A thread that holds a lock may take locks of a higher
/// rank only. The ranks ascend in the order of the modules: 0 to 2 in `module`, 3 in `region`, 4 to
/// 7 in `stop`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank(usize);

/// Number of ranks.
const RANKS: usize = 16;

impl Rank {
    /// The rank with a number below [`RANKS`]. Two locks have the same rank only if no thread holds
    /// both locks.
    pub(crate) const fn new(number: usize) -> Self {
        assert!(number < RANKS, "more ranks than mutexes");
        Self(number)
    }
}

/// One mutex for each rank. A thread takes the mutex before a lock of that rank, and before it
/// forks.
static RANK_MUTEXES: [Mutex<()>; RANKS] = [const { Mutex::new(()) }; RANKS];

/// A lock that no other thread holds while a thread forks.
#[derive(Debug)]
pub(crate) struct ForkLock<T> {
    rank: Rank,
    value: Mutex<T>,
}

/// Guard of a [`ForkLock`].
#[derive(Debug)]
pub(crate) struct ForkGuard<'a, T> {
    // Fields are dropped in this order: the mutex of the rank is released last.
    value: MutexGuard<'a, T>,
    _order: InOrder,
    _rank: MutexGuard<'static, ()>,
}

impl<T> ForkLock<T> {
    pub(crate) const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            value: Mutex::new(value),
        }
    }

    /// Takes the lock.
    pub(crate) fn take(&self) -> ForkGuard<'_, T> {
        hold_over_forks();
        let order = InOrder::enter(self.rank);
        let rank = lock(&RANK_MUTEXES[self.rank.0]);
        ForkGuard {
            value: lock(&self.value),
            _order: order,
            _rank: rank,
        }
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// A lock that this thread holds, for the check of the locking order in builds with debug
/// assertions.
#[derive(Debug)]
struct InOrder(Rank);

thread_local! {
    /// A bit for each rank in which this thread holds a lock.
    static RANKS_HELD: Cell<u32> = const { Cell::new(0) };
}

impl InOrder {
    /// Notes that this thread takes a lock of a rank.
    fn enter(rank: Rank) -> Self {
        if cfg!(debug_assertions) {
            let held = RANKS_HELD.get();
            assert!(
                held >> rank.0 == 0,
                "lock of rank {} taken while locks {held:#b} are held",
                rank.0
            );
            RANKS_HELD.set(held | 1 << rank.0);
        }
        Self(rank)
    }
}

impl Drop for InOrder {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            RANKS_HELD.set(RANKS_HELD.get() & !(1 << self.0.0));
        }
    }
}

/// Registers the handlers that hold the locks across forks.
///
/// A fork that is in progress during the first call does not hold the locks. So `Module::open`,
/// `Module::from_bytes` and `Tracker::new` call this function before they take a lock.
pub(crate) fn hold_over_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Several threads may register the handlers at once. `before_fork` works if it is called
    // several times. If there is no memory to register the handlers, a child may inherit a locked
    // lock.
    if !DONE.load(Acquire) && super::fork::around_forks(before_fork, after_fork).is_ok() {
        DONE.store(true, Release);
    }
}

/// The mutexes of all ranks, in the locking order.
type AllRanks = [MutexGuard<'static, ()>; RANKS];

thread_local! {
    static RANKS_LOCKED: RefCell<Option<AllRanks>> = const { RefCell::new(None) };
}

extern "C" fn before_fork() {
    // While the thread's locals are being destroyed, the thread cannot keep the mutexes.
    let _ = RANKS_LOCKED.try_with(|held| {
        held.borrow_mut()
            .get_or_insert_with(|| RANK_MUTEXES.each_ref().map(|rank| lock(rank)));
    });
}

extern "C" fn after_fork() {
    let _ = RANKS_LOCKED.try_with(|held| held.replace(None));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    static LOW: ForkLock<u32> = ForkLock::new(Rank::new(RANKS - 2), 1);
    static HIGH: ForkLock<u32> = ForkLock::new(Rank::new(RANKS - 1), 2);

    #[test]
    #[cfg(debug_assertions)]
    fn locks_are_taken_in_the_order_of_their_ranks() {
        let (low, high) = (LOW.take(), HIGH.take());
        assert_eq!((*low, *high), (1, 2));
        drop(low);
        // Taking a lock of a lower rank, or the same lock again, could deadlock.
        catch_unwind(|| drop(LOW.take())).expect_err("the order is wrong");
        catch_unwind(|| drop(HIGH.take())).expect_err("the lock is held");
        drop(high);
        drop(LOW.take());
    }

    #[test]
    fn a_thread_that_forks_holds_every_lock() {
        before_fork();
        let other = std::thread::spawn(|| RANK_MUTEXES.iter().all(|rank| rank.try_lock().is_err()));
        let held = other.join();
        after_fork();
        assert!(held.expect("the thread ends"));
    }
}
