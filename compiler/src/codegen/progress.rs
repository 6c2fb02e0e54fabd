//! [`Progress`]: reports the progress of a compilation to a callback.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts compiled functions and reports the count to a callback. Many threads call the callback.
pub(crate) struct Progress<'a> {
    /// Receives (functions done, functions in all).
    report: &'a (dyn Fn(usize, usize) + Sync),
    done: AtomicUsize,
    total: AtomicUsize,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(report: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self {
            report,
            done: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
        }
    }

    /// Sets the number of functions.
    pub(crate) fn start(&self, total: usize) {
        // Relaxed: the number is only for display and orders nothing.
        self.total.store(total, Ordering::Relaxed);
        (self.report)(0, total);
    }

    /// Counts one more finished function.
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.report)(done, self.total.load(Ordering::Relaxed));
    }
}
