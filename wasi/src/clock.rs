//! [`Clocks`]: the clocks of a guest.

use crate::virtual_clock::VirtualClock;
use core::time::Duration;
use rustix::time::ClockId;
use std::time::{Instant, SystemTime};

/// The longest wait: a longer one never ends in practice.
pub(crate) const NEVER: Duration = Duration::from_secs(u32::MAX as u64);

/// The clocks of a guest: the clocks of the kernel, or a virtual clock.
#[derive(Debug)]
pub enum Clocks {
    /// The clocks of the kernel. The monotonic clock begins at this time.
    Kernel(Instant),
    /// A clock that only the guest's calls advance.
    Virtual(VirtualClock),
}

/// A clock that a guest can read.
#[derive(Debug, Clone, Copy)]
pub enum Clock {
    /// The time since 1970.
    System,
    /// The time since the guest began.
    Monotonic,
}

impl Clocks {
    /// The time of a clock.
    #[must_use]
    pub fn now(&self, clock: Clock) -> Duration {
        match (self, clock) {
            (Self::Kernel(_), Clock::System) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                now.unwrap_or_default()
            }
            (Self::Kernel(began), Clock::Monotonic) => began.elapsed(),
            (Self::Virtual(clock), Clock::System) => clock.system(),
            (Self::Virtual(clock), Clock::Monotonic) => clock.elapsed(),
        }
    }

    /// The time from now to the time `until` of a clock, at most the longest wait, 136 years.
    #[must_use]
    pub fn left(&self, clock: Clock, until: Duration) -> Duration {
        until.saturating_sub(self.now(clock)).min(NEVER)
    }

    /// The smallest difference between two times of a clock.
    #[must_use]
    pub fn resolution(&self, clock: Clock) -> Duration {
        let id = match (self, clock) {
            (Self::Virtual(_), _) => return VirtualClock::READING,
            (Self::Kernel(_), Clock::System) => ClockId::Realtime,
            (Self::Kernel(_), Clock::Monotonic) => ClockId::Monotonic,
        };
        let found = Duration::try_from(rustix::time::clock_getres(id));
        found.unwrap_or(Duration::from_nanos(1))
    }
}
