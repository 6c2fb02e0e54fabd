//! Types that threads share, from the standard library, or from loom in loom's tests.

#[cfg(loom)]
pub(super) use loom::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(loom)]
pub(super) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(super) use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(not(loom))]
pub(super) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub(super) use std::sync::PoisonError;

/// Marks a place that relies on the single order of all SeqCst operations. Loom models this order
/// only for fences, so under loom this function is a fence.
#[inline]
pub(super) fn in_one_order() {
    #[cfg(loom)]
    if !WEAKENED.get() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}

#[cfg(loom)]
std::thread_local! {
    /// Removes the fence; set by the canary test. The variable is a thread-local of the standard
    /// library, because loom runs all threads of a model on one thread of the system.
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

/// Locks a mutex. Poisoning is ignored, because no code panics half-way through a change under one
/// of the list's locks.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
