//! [`VirtualClock`]: a clock that stands still while the guest computes.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

/// A clock that only the guest's calls advance, so that equal runs read equal times.
///
/// Each reading advances the clock by a microsecond, so a guest that polls the clock until a
/// deadline leaves its loop. A wait advances the clock by the time that the guest wants to wait,
/// and returns at once ([`link_virtual`](crate::link_virtual)). A guest with a virtual clock sees
/// no times of files.
///
/// Clones share one time.
#[derive(Debug, Clone)]
pub struct VirtualClock(Arc<State>);

#[derive(Debug)]
struct State {
    /// The system's clock at the start.
    start: SystemTime,
    elapsed_ns: AtomicU64,
}

impl VirtualClock {
    /// Time that passes with each reading.
    pub(crate) const READING: Duration = Duration::from_micros(1);

    /// A clock whose first reading is `start`. Its monotonic clock begins at 0.
    #[must_use]
    pub fn new(start: SystemTime) -> Self {
        Self(Arc::new(State {
            start,
            elapsed_ns: AtomicU64::new(0),
        }))
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Never wraps: a guest that waits for ever stays at the largest time.
        let pass = |now: u64| Some(now.saturating_add(ns).min(ELAPSED_NS_MAX));
        // Relaxed: the clock orders no other memory.
        let _ = self.0.elapsed_ns.fetch_update(Relaxed, Relaxed, pass);
    }

    /// Time since the start, without the microsecond of this reading.
    pub(crate) fn elapsed(&self) -> Duration {
        let elapsed = Duration::from_nanos(self.0.elapsed_ns.load(Relaxed));
        self.advance(Self::READING);
        elapsed
    }

    /// Time since 1970, without the microsecond of this reading.
    pub(crate) fn system(&self) -> Duration {
        let now = self.0.start + self.elapsed();
        now.duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
    }
}

/// The longest time that the clock shows: 136 years, so that no sum with it overflows.
const ELAPSED_NS_MAX: u64 = (1 << 32) * 1_000_000_000;
