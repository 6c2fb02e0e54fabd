//! [`Ledger`]: the memory that the thread of a guest has allocated.

use std::sync::atomic::{AtomicIsize, Ordering};

/// Measures the allocations of the current thread. The program that runs the check provides the
/// allocator.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    /// Counts from 0 on, and forgets the maximum.
    pub start: fn(),
    /// The bytes allocated since the start, minus those freed.
    pub live: fn() -> isize,
    /// The maximum of `live` since the start.
    pub peak: fn() -> isize,
}

/// The bytes that a thread has allocated, over several measurements.
#[derive(Debug)]
pub(super) struct Ledger {
    meter: Meter,
    /// The bytes at the start of the measurement.
    base: AtomicIsize,
}

impl Ledger {
    /// Begins at 0.
    pub(super) fn new(meter: Meter) -> Self {
        (meter.start)();
        Self {
            meter,
            base: AtomicIsize::new(0),
        }
    }

    /// Starts a measurement.
    pub(super) fn mark(&self) {
        self.base.store(self.live(), Ordering::Relaxed);
        (self.meter.start)();
    }

    /// The live bytes.
    pub(super) fn live(&self) -> isize {
        self.base.load(Ordering::Relaxed) + (self.meter.live)()
    }

    /// The maximum of the live bytes since the last mark, minus those at the mark.
    pub(super) fn peak(&self) -> usize {
        usize::try_from((self.meter.peak)()).unwrap_or(0)
    }
}
