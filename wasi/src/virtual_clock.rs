//! [`VirtualClock`]: a clock that stands still while the guest computes.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use wasi_common::WasiClocks;
use wasi_common::clocks::{WasiMonotonicClock, WasiMonotonicOffsetClock, WasiSystemClock};

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
    /// The time at the start, for the system's clock and for the monotonic clock.
    start: SystemTime,
    origin: Instant,
    elapsed_ns: AtomicU64,
}

/// Time that passes with each reading.
const READING: Duration = Duration::from_micros(1);

impl VirtualClock {
    /// A clock whose first reading is `start`. Its monotonic clock begins at 0.
    #[must_use]
    pub fn new(start: SystemTime) -> Self {
        Self(Arc::new(State {
            start,
            origin: Instant::now(),
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
    fn read(&self) -> Duration {
        let elapsed = Duration::from_nanos(self.0.elapsed_ns.load(Relaxed));
        self.advance(READING);
        elapsed
    }

    /// The two clocks of a context.
    pub(crate) fn clocks(&self) -> WasiClocks {
        WasiClocks {
            system: Some(Box::new(self.clone())),
            monotonic: Some(WasiMonotonicOffsetClock {
                creation_time: cap_std::time::Instant::from_std(self.0.origin),
                abs_clock: Box::new(self.clone()),
            }),
        }
    }
}

/// The longest time that the clock shows: 136 years, so that no sum with it overflows.
const ELAPSED_NS_MAX: u64 = (1 << 32) * 1_000_000_000;

impl WasiSystemClock for VirtualClock {
    fn resolution(&self) -> Duration {
        READING
    }

    fn now(&self, _precision: Duration) -> cap_std::time::SystemTime {
        cap_std::time::SystemTime::from_std(self.0.start + self.read())
    }
}

impl WasiMonotonicClock for VirtualClock {
    fn resolution(&self) -> Duration {
        READING
    }

    fn now(&self, _precision: Duration) -> cap_std::time::Instant {
        cap_std::time::Instant::from_std(self.0.origin + self.read())
    }
}
