//! The locks that a process has one of, and forks: while a thread forks, no other one holds any of them,
//! because in the child nobody would give it back.
//!
//! For the same reason nothing that a process makes once is waited for (`std::sync::OnceLock` has others
//! wait for the one that makes it): whoever needs it makes it, and all use the first (`once_cell::race`).

use crate::{module, region, stop, sys};
use core::cell::RefCell;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard};

/// Takes such a lock.
pub(crate) fn take<T>(lock: &'static Mutex<T>) -> MutexGuard<'static, T> {
    hold_over_forks();
    sys::lock(lock)
}

/// Has the locks be held by whoever forks.
///
/// Not by a fork that is under way when the process comes here first: so it is called long before one of them is
/// taken.
pub(crate) fn hold_over_forks() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Several threads that come here first do it several times, for which `before_fork` is ready. Without
    // memory for it, a child may be unlucky.
    if !DONE.load(Acquire) && sys::fork::around_forks(before_fork, after_fork).is_ok() {
        DONE.store(true, Release);
    }
}

/// All of them, in the order in which they are taken.
type All = (module::Locks, region::Lock, stop::Locks);

thread_local! {
    static HELD: RefCell<Option<All>> = const { RefCell::new(None) };
}

extern "C" fn before_fork() {
    // While the thread's own things are destroyed, it holds nothing.
    let _ = HELD.try_with(|held| {
        held.borrow_mut()
            .get_or_insert_with(|| (module::lock(), region::lock(), stop::lock()));
    });
}

extern "C" fn after_fork() {
    let _ = HELD.try_with(|held| held.replace(None));
}
