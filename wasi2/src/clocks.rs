//! `wasi:clocks`: the monotonic clock and the wall clock.

use crate::poll::Pollable;
use crate::wasi::{View, Wasi};
use pirn_component::{LinkError, Linker, Own, Typed};
use pirn_runtime::HostError;
use std::time::{Duration, Instant, SystemTime};

const MONOTONIC: &str = "wasi:clocks/monotonic-clock@0.2.12";
const WALL: &str = "wasi:clocks/wall-clock@0.2.12";

/// `datetime`: a time since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
pub(crate) struct Datetime {
    pub(crate) seconds: u64,
    pub(crate) nanoseconds: u32,
}

impl From<Duration> for Datetime {
    fn from(since: Duration) -> Self {
        Self {
            seconds: since.as_secs(),
            nanoseconds: since.subsec_nanos(),
        }
    }
}

impl From<SystemTime> for Datetime {
    fn from(time: SystemTime) -> Self {
        // A `datetime` cannot express a time before 1970, so the result is 0.
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        Self::from(since.unwrap_or_default())
    }
}

/// The zero of the guest's monotonic clock.
fn began(wasi: &mut Wasi) -> Instant {
    *wasi.began.get_or_insert_with(Instant::now)
}

/// A pollable for a point in time. `None` stands for a time that an [`Instant`] cannot express. The
/// pollable then becomes ready after a century.
fn subscribe(wasi: &mut Wasi, when: Option<Instant>) -> Result<Own<Pollable>, HostError> {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let pollable = match when {
        Some(when) if when <= Instant::now() => Pollable::Ready,
        Some(when) => Pollable::until(when),
        None => Pollable::until(Instant::now() + CENTURY),
    };
    wasi.table.own(pollable)
}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.func(MONOTONIC, "now", |state, ()| {
        let began = began(state.data_mut().wasi());
        Ok(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    })?;
    linker.func(MONOTONIC, "resolution", |_, ()| Ok(1u64))?;
    linker.func(MONOTONIC, "subscribe-instant", |state, (when,): (u64,)| {
        let wasi = state.data_mut().wasi();
        let when = began(wasi).checked_add(Duration::from_nanos(when));
        subscribe(wasi, when)
    })?;
    linker.func(MONOTONIC, "subscribe-duration", |state, (time,): (u64,)| {
        let when = Instant::now().checked_add(Duration::from_nanos(time));
        subscribe(state.data_mut().wasi(), when)
    })?;
    linker.func(WALL, "now", |_, ()| Ok(Datetime::from(SystemTime::now())))?;
    linker.func(WALL, "resolution", |_, ()| {
        Ok(Datetime {
            seconds: 0,
            nanoseconds: 1,
        })
    })?;
    Ok(())
}
