//! [`Progress`]: how far a compilation is, told to whoever asked.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts compiled functions and tells a callback. The callback is called from many threads.
pub(crate) struct Progress<'a> {
    /// Told (functions done, functions in all).
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

    /// There are this many functions.
    pub(crate) fn start(&self, total: usize) {
        // Relaxed: a number for people, nothing is ordered by it.
        self.total.store(total, Ordering::Relaxed);
        (self.tell)(0, total);
    }

    /// One more function is done.
    pub(crate) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.tell)(done, self.total.load(Ordering::Relaxed));
    }
}
