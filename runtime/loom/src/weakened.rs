//! Wraps loom's atomics and fences, so that a canary can weaken one kind of ordering.

use loom::sync::atomic::Ordering::{self, Relaxed};
use std::cell::Cell;

/// The orderings that a canary weakens to `Relaxed`, or the fences that it removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Loads,
    Stores,
    Updates,
    AcquireFences,
    ReleaseFences,
    SeqCstFences,
}

std::thread_local! {
    /// A thread-local of the standard library, because loom runs all threads of a model on one
    /// thread of the system.
    static WEAKENED: Cell<Option<Kind>> = const { Cell::new(None) };
}

/// Runs a model with one kind of ordering weakened, so that the model must fail. Panics with loom's
/// report.
pub(crate) fn weakened(kind: Kind, model: impl FnOnce()) {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            WEAKENED.set(None);
        }
    }
    WEAKENED.set(Some(kind));
    let _restore = Restore;
    model();
}

fn order(kind: Kind, order: Ordering) -> Ordering {
    if WEAKENED.get() == Some(kind) {
        Relaxed
    } else {
        order
    }
}

/// loom's fence, unless a canary removes it.
pub(crate) fn fence(order: Ordering) {
    let kind = match order {
        Ordering::Acquire => Kind::AcquireFences,
        Ordering::Release => Kind::ReleaseFences,
        _ => Kind::SeqCstFences,
    };
    if WEAKENED.get() != Some(kind) {
        loom::sync::atomic::fence(order);
    }
}

/// Wraps an atomic type of loom. Has only the operations that the runtime's files use.
macro_rules! atomic {
    ($name:ident $(<$generic:ident>)?, $value:ty, { $($update:ident)* }) => {
        #[derive(Debug)]
        pub(crate) struct $name $(<$generic>)? (loom::sync::atomic::$name $(<$generic>)?);

        impl $(<$generic>)? $name $(<$generic>)? {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, by: Ordering) -> $value {
                self.0.load(order(Kind::Loads, by))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, by: Ordering) {
                self.0.store(value, order(Kind::Stores, by));
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let success = order(Kind::Updates, success);
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            $(
                #[track_caller]
                pub(crate) fn $update(&self, value: $value, by: Ordering) -> $value {
                    self.0.$update(value, order(Kind::Updates, by))
                }
            )*
        }
    };
}

atomic!(AtomicBool, bool, { swap });
atomic!(AtomicI32, i32, {});
atomic!(AtomicU64, u64, { fetch_min });
atomic!(AtomicUsize, usize, { fetch_add fetch_sub });
atomic!(AtomicPtr<T>, *mut T, {});
