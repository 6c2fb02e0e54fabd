//! Putting a waker into an [`AtomicWaker`] without running the code of whoever made the waker.
//!
//! [`AtomicWaker::register`] clones the waker that it is given while it holds its lock, and does not
//! release the lock if that panics. So it is given a wrapper. To clone the wrapper
//! moves the waker out of it, which runs no code of others.
//!
//! # Safety
//!
//! Owns the fact that the waker that is moved is moved once, and that the waker which moves it does not
//! outlive the call.
#![allow(unsafe_code)]

use atomic_waker::AtomicWaker;
use core::cell::Cell;
use core::mem::ManuallyDrop;
use core::ptr;
use core::task::{RawWaker, RawWakerVTable, Waker};

/// Puts a waker into a place that has none, unless it is woken at once.
pub(super) fn register(place: &AtomicWaker, waker: Waker) {
    let waker = Moved(Cell::new(Some(waker)));
    let raw = RawWaker::new(ptr::from_ref(&waker).cast(), &MOVES);
    // SAFETY: the functions of `MOVES` take an address of a `Moved`, which outlives this waker: `register`
    // keeps nothing but its clone. Its drop, which does nothing, is left out.
    let moves = ManuallyDrop::new(unsafe { Waker::from_raw(raw) });
    place.register(&moves);
}

/// The waker, until it was moved.
struct Moved(Cell<Option<Waker>>);

static MOVES: RawWakerVTable = RawWakerVTable::new(take, wake, wake, |_| ());

/// Moves the waker out; a waker that does nothing if it was moved before.
///
/// # Safety
///
/// The address of a [`Moved`] that lives, and that no other thread looks at.
unsafe fn take(moved: *const ()) -> RawWaker {
    // SAFETY: by the caller.
    let waker = unsafe { &*moved.cast::<Moved>() }.0.take();
    let waker = ManuallyDrop::new(waker.unwrap_or_else(|| Waker::noop().clone()));
    RawWaker::new(waker.data(), waker.vtable())
}

/// Wakes, if the waker was not moved.
///
/// # Safety
///
/// As for [`take`].
unsafe fn wake(moved: *const ()) {
    // SAFETY: by the caller.
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

    /// Whether a task that waits by a control is woken.
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
        // SAFETY: the functions look at no data.
        let waker = unsafe { Waker::from_raw(RawWaker::new(core::ptr::null(), &PANICS)) };
        let waits = catch_unwind(AssertUnwindSafe(|| owned.0.waits(&waker)));
        waits.expect_err("it panics");
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
        waits.expect_err("it panics");
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
