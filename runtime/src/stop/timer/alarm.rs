//! [`Alarm`]: the time at which the timer thread wakes by itself. Calls bring that time forward.

use super::sync::Ordering::SeqCst;
use super::sync::{AtomicU64, fence};

/// A time that never comes, in nanoseconds.
pub(super) const NEVER: u64 = u64::MAX;

/// A time at which the timer thread wakes, in nanoseconds.
#[derive(Debug)]
pub(super) struct Alarm(AtomicU64);

impl Alarm {
    /// An alarm that never comes.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    #[cfg(loom)]
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }

    pub(super) fn set(&self, time: u64) {
        self.0.store(time, SeqCst);
    }

    /// Makes the alarm come at the time `time` or earlier. Returns whether the timer thread must be
    /// woken, because it may sleep until a later time.
    #[inline]
    pub(super) fn bring_forward(&self, time: u64) -> bool {
        time < self.0.load(SeqCst) && time < self.0.fetch_min(time, SeqCst)
    }

    /// Checks all calls after the alarm came, and sets the alarm to the next time, which `check`
    /// returns.
    pub(super) fn rearm(&self, check: impl FnOnce() -> u64) {
        self.0.store(NEVER, SeqCst);
        // The reads that follow see the node of every call that saw an older alarm.
        fence(SeqCst);
        self.0.fetch_min(check(), SeqCst);
    }
}
