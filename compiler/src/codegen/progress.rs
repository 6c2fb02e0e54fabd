//! [`Progress`]: reports the progress of a compilation to a callback.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts compiled functions and reports the count to a callback. Many threads call the callback.
pub(crate) struct Progress<'a> {
    /// Receives (functions done, functions in all).
    tell: &'a (dyn Fn(usize, usize) + Sync),
    done: AtomicUsize,
    total: AtomicUsize,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(tell: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self {
            tell,
            done: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
        }
    }

    /// Sets the number of functions.
    pub(crate) fn start(&self, total: usize) {
        // Relaxed: the number is only for display and orders nothing.
        self.total.store(total, Ordering::Relaxed);
        (self.tell)(0, total);
    }

    /// Counts one more finished function.
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.tell)(done, self.total.load(Ordering::Relaxed));
    }
}
