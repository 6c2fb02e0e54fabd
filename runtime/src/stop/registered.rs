//! Registers a waker in an [`AtomicWaker`] without running the waker's own code under its lock.
//!
//! [`AtomicWaker::register`] clones its argument under a lock, and does not release the lock if the
//! clone panics. So its argument is a wrapper of the waker. Cloning the wrapper moves the waker out
//! of the wrapper, which runs no code of the embedder.
//!
//! # Safety
//!
//! Owns two facts: the waker is moved out at most once, and the wrapper does not outlive the call
//! of `register`.
#![allow(unsafe_code)]

use atomic_waker::AtomicWaker;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::task::{RawWaker, RawWakerVTable, Waker};

/// Registers a waker in an empty `place`, unless a concurrent wake-up wakes it at once.
pub(super) fn register(place: &AtomicWaker, waker: Waker) {
    let waker = Moved(Cell::new(Some(waker)));
    let raw = RawWaker::new(ptr::from_ref(&waker).cast(), &MOVES);
    // SAFETY: the functions of `MOVES` take the address of a `Moved`, which outlives this waker:
    // `AtomicWaker::register` keeps only the waker's clone. The wrapper's drop would do nothing, so
    // the drop is skipped.
    let moves = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
    place.register(&moves);
}

/// Holds the waker until it is moved out.
struct Moved(Cell<Option<Waker>>);

static MOVES: RawWakerVTable = RawWakerVTable::new(take, wake, wake, |_| ());

/// Moves the waker out. If the waker was moved before, returns a waker that does nothing.
///
/// # Safety
///
/// `moved` must be the address of a live [`Moved`] that no other thread accesses.
unsafe fn take(moved: *const ()) -> RawWaker {
    // SAFETY: the caller promises a live `Moved` that only this thread accesses.
    let waker = unsafe { &*moved.cast::<Moved>() }.0.take();
    let waker = ManuallyDrop::new(waker.unwrap_or_else(|| Waker::noop().clone()));
    RawWaker::new(waker.data(), waker.vtable())
}

/// Wakes the waker, unless it was moved.
///
/// # Safety
///
/// As for [`take`].
unsafe fn wake(moved: *const ()) {
    // SAFETY: the caller promises a live `Moved` that only this thread accesses.
    if let Some(waker) = unsafe { &*moved.cast::<Moved>() }.0.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Control, Owned};
    use core::task::{RawWaker, RawWakerVTable, Waker};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// Whether a task that registers with a control is woken.
    fn wakes(control: &Control) -> bool {
        let woken = Arc::new(Woken(false.into()));
        control.waits(&Waker::from(woken.clone()));
        control.wake();
        woken.0.load(Ordering::SeqCst)
    }

    #[test]
    fn a_waker_that_panics_when_it_is_cloned_keeps_no_later_one_from_being_woken() {
        static PANICS: RawWakerVTable =
            RawWakerVTable::new(|_| panic!("a waker's bug"), |_| (), |_| (), |_| ());
        let owned = Owned::new();
        // SAFETY: the functions ignore the data pointer.
        let waker = unsafe { Waker::from_raw(RawWaker::new(core::ptr::null(), &PANICS)) };
        let waits = catch_unwind(AssertUnwindSafe(|| owned.0.waits(&waker)));
        waits.expect_err("the waker panics");
        assert!(wakes(owned.0));
    }

    #[test]
    fn a_waker_that_panics_when_it_is_dropped_keeps_no_later_one_from_being_woken() {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {}
        }
        impl Drop for Panics {
            fn drop(&mut self) {
                if !std::thread::panicking() {
                    panic!("a waker's bug");
                }
            }
        }
        let owned = Owned::new();
        owned.0.waits(&Waker::from(Arc::new(Panics)));
        let waits = catch_unwind(AssertUnwindSafe(|| owned.0.waits(Waker::noop())));
        waits.expect_err("the waker panics");
        assert!(wakes(owned.0));
    }

    #[test]
    fn a_waker_is_registered_once_and_dropped_once() {
        let owned = Owned::new();
        let woken = Arc::new(Woken(false.into()));
        for _ in 0..3 {
            owned.0.waits(&Waker::from(woken.clone()));
            assert_eq!(Arc::strong_count(&woken), 2);
        }
        owned.0.waits_no_more();
        assert_eq!(Arc::strong_count(&woken), 1);
        owned.0.wake();
        assert!(!woken.0.load(Ordering::SeqCst));
    }
}
