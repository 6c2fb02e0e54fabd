//! Process-wide locks. A thread that forks holds all of them until fork(2) has returned.
//!
//! While a thread forks, no other thread may hold one of these locks: in the child, no thread would
//! release it. For the same reason, no thread waits for a value that the process makes once.
//! `std::sync::OnceLock` lets other threads wait for the thread that makes it. With
//! `once_cell::race`, each thread makes its own value, and all use the first one.

use crate::{module, region, stop, sys};
use core::cell::RefCell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard};

/// Takes a process-wide lock.
pub(crate) fn take<T>(lock: &'static Mutex<T>) -> MutexGuard<'static, T> {
    hold_over_forks();
    sys::lock(lock)
}

/// Registers the handlers that hold the locks across forks.
///
/// A fork that is in progress during the first call does not hold them. So this function is called
/// long before one of the locks is taken.
pub(crate) fn hold_over_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Several threads may register the handlers at once. `before_fork` works if it is called
    // several times. If there is no memory to register them, a child may inherit a locked lock.
    if !DONE.load(Acquire) && sys::fork::around_forks(before_fork, after_fork).is_ok() {
        DONE.store(true, Release);
    }
}

/// All process-wide locks, in their locking order.
type All = (module::Locks, region::Lock, stop::Locks);

thread_local! {
    static HELD: RefCell<Option<All>> = const { RefCell::new(None) };
}

extern "C" fn before_fork() {
    // While the thread's locals are being destroyed, it cannot keep the locks.
    let _ = HELD.try_with(|held| {
        held.borrow_mut()
            .get_or_insert_with(|| (module::lock(), region::lock(), stop::lock()));
    });
}

extern "C" fn after_fork() {
    let _ = HELD.try_with(|held| held.replace(None));
}
