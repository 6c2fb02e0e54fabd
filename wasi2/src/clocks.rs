//! `wasi:clocks`: the monotonic clock and the wall clock.

use crate::poll::Pollable;
use crate::wasi::{View, Wasi};
use pirn_component::{LinkError, Linker, Own, Typed};
use pirn_runtime::HostError;
use pirn_wasi::Clock;
use std::time::{Duration, Instant};

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

/// A pollable for the end of a wait. A time in nanoseconds ends before the largest [`Instant`].
fn subscribe(wasi: &mut Wasi, left: Duration) -> Result<Own<Pollable>, HostError> {
    wasi.table.own(match left {
        Duration::ZERO => Pollable::Ready,
        left => Pollable::until(Instant::now() + left),
    })
}

/// Nanoseconds, for 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    linker.func(MONOTONIC, "now", |state, ()| {
        Ok(nanoseconds(
            state.data_mut().wasi().clocks.now(Clock::Monotonic),
        ))
    })?;
    linker.func(MONOTONIC, "resolution", |state, ()| {
        let clocks = &state.data_mut().wasi().clocks;
        Ok(nanoseconds(clocks.resolution(Clock::Monotonic)))
    })?;
    linker.func(MONOTONIC, "subscribe-instant", |state, (when,): (u64,)| {
        let wasi = state.data_mut().wasi();
        let left = wasi
            .clocks
            .left(Clock::Monotonic, Duration::from_nanos(when));
        subscribe(wasi, left)
    })?;
    linker.func(MONOTONIC, "subscribe-duration", |state, (time,): (u64,)| {
        subscribe(state.data_mut().wasi(), Duration::from_nanos(time))
    })?;
    linker.func(WALL, "now", |state, ()| {
        Ok(Datetime::from(
            state.data_mut().wasi().clocks.now(Clock::System),
        ))
    })?;
    linker.func(WALL, "resolution", |state, ()| {
        Ok(Datetime::from(
            state.data_mut().wasi().clocks.resolution(Clock::System),
        ))
    })?;
    Ok(())
}
