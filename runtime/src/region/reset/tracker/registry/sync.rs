//! Atomics of the core library, or of loom in loom's tests, and how loom watches tables.

#[cfg(loom)]
pub(super) use crate::weakened::{AtomicPtr, AtomicUsize};
pub(super) use core::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(super) use core::sync::atomic::{AtomicPtr, AtomicUsize};

/// Marks a place that relies on the single order of all SeqCst operations. Loom models this order
/// only for fences, so under loom this function is a fence.
#[inline]
pub(super) fn in_one_order() {
    #[cfg(loom)]
    crate::weakened::fence(Ordering::SeqCst);
}

/// Tells loom of the accesses to one table. Loom reports a read that is not ordered with another
/// thread's write or free. Without loom, a watch is empty.
#[derive(Debug)]
pub(super) struct Watch {
    #[cfg(loom)]
    table: loom::cell::UnsafeCell<()>,
}

impl Watch {
    #[inline]
    #[cfg_attr(loom, track_caller)]
    pub(super) fn new() -> Self {
        Self {
            #[cfg(loom)]
            table: loom::cell::UnsafeCell::new(()),
        }
    }

    /// Tells loom that the table is read.
    #[inline]
    #[cfg_attr(loom, track_caller)]
    pub(super) fn read(&self) {
        #[cfg(loom)]
        self.table.with(|_| ());
    }

    /// Tells loom that the table is written for the last time, or freed.
    #[inline]
    #[cfg_attr(loom, track_caller)]
    pub(super) fn write(&self) {
        #[cfg(loom)]
        self.table.with_mut(|_| ());
    }
}

/// Frees a table. Under loom, the table's memory stays, so that loom can report a later read.
#[inline]
pub(super) fn free<T>(table: Box<T>) {
    #[cfg(loom)]
    std::mem::forget(table);
    #[cfg(not(loom))]
    drop(table);
}
