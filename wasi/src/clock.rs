//! [`Clocks`]: the clocks of a guest.

use crate::virtual_clock::VirtualClock;
use core::time::Duration;
use rustix::time::ClockId;
use std::time::{Instant, SystemTime};

/// The clocks of a guest: the clocks of the kernel, or a virtual clock.
#[derive(Debug)]
pub(crate) enum Clocks {
    /// The monotonic clock begins at this time.
    Kernel(Instant),
    Virtual(VirtualClock),
}

/// A clock that a guest can read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Clock {
    /// The time since 1970.
    System,
    /// The time since the guest began.
    Monotonic,
}

impl Clocks {
    /// The time of a clock.
    pub(crate) fn now(&self, clock: Clock) -> Duration {
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

    /// The smallest difference between two times of a clock.
    pub(crate) fn resolution(&self, clock: Clock) -> Duration {
        let id = match (self, clock) {
            (Self::Virtual(_), _) => return VirtualClock::READING,
            (Self::Kernel(_), Clock::System) => ClockId::Realtime,
            (Self::Kernel(_), Clock::Monotonic) => ClockId::Monotonic,
        };
        let found = Duration::try_from(rustix::time::clock_getres(id));
        found.unwrap_or(Duration::from_nanos(1))
    }
}
