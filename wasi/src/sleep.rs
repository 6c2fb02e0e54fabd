//! `poll_oneoff` of guests that wait for clocks only. The wait ends when the guest is stopped.
//!
//! Preview 1 defines the memory layouts (`subscription`: 48 bytes, `event`: 32 bytes).

use crate::abi::{EVENT_BYTES, SUBSCRIPTION_BYTES};
use crate::wait::LOOK;
use core::time::Duration;
use pirn_runtime::Caller;
use std::thread;
use std::time::{Instant, SystemTime};
use wasi_common::WasiCtx;

/// Most subscriptions of one call. Subscriptions take host memory here, and more host memory in
/// wasi-common. wasi-common also does not end its wait when the guest is stopped.
pub(crate) const SUBSCRIPTIONS_MAX: u32 = 1024;

const TAG_CLOCK: u8 = 0;
const CLOCK_REALTIME: u32 = 0;
const CLOCK_MONOTONIC: u32 = 1;
/// The largest clock id of preview 1: the CPU time of a thread.
const CLOCK_MAX: u32 = 3;
const FLAG_ABSOLUTE: u16 = 1;

/// The clocks of a call that waits for clocks only.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// For each subscription, its user data and its deadline.
    timers: Vec<([u8; 8], Instant)>,
    /// The earliest deadline.
    pub(crate) until: Instant,
    /// Time to the earliest deadline when the call began.
    pub(crate) left: Duration,
}

impl Sleep {
    /// Parses at most [`SUBSCRIPTIONS_MAX`] subscriptions. Returns `None` if there are no
    /// subscriptions, or if a subscription is not a clock that wasi-common knows.
    pub(crate) fn of(ctx: &WasiCtx, bytes: &[u8]) -> Option<Self> {
        let now = Instant::now();
        let (subscriptions, _) = bytes.as_chunks::<SUBSCRIPTION_BYTES>();
        let timers = subscriptions.iter().map(|bytes| timer(ctx, bytes, now));
        let timers = timers.collect::<Option<Vec<_>>>()?;
        let until = timers.iter().map(|(_, until)| *until).min()?;
        Some(Self {
            timers,
            until,
            left: until.duration_since(now),
        })
    }

    /// Waits on this thread until the first deadline, or until the guest is stopped.
    pub(crate) fn wait<T>(&self, caller: &Caller<'_, T>) {
        while !caller.is_stopped() {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(LOOK));
        }
    }

    /// The bytes of the events for expired clocks, and their number.
    pub(crate) fn events(&self) -> (Vec<u8>, u32) {
        let now = Instant::now().max(self.until);
        let over = self.timers.iter().filter(|(_, until)| *until <= now);
        let mut told = Vec::with_capacity(self.timers.len() * EVENT_BYTES);
        for (userdata, _) in over {
            told.extend_from_slice(userdata);
            // No error; type "clock"; the fields for descriptors are zero.
            told.extend_from_slice(&[0; EVENT_BYTES - 8]);
        }
        let number = (told.len() / EVENT_BYTES) as u32;
        (told, number)
    }
}

/// User data and deadline of a subscription; `None` if the subscription is no supported clock.
fn timer(
    ctx: &WasiCtx,
    bytes: &[u8; SUBSCRIPTION_BYTES],
    now: Instant,
) -> Option<([u8; 8], Instant)> {
    let (userdata, rest) = bytes.split_first_chunk()?;
    let (tag, rest) = rest.split_first_chunk::<8>()?;
    let (clock, rest) = rest.split_first_chunk::<8>()?;
    let (timeout, rest) = rest.split_first_chunk()?;
    let (_precision, rest) = rest.split_first_chunk::<8>()?;
    let (flags, _) = rest.split_first_chunk()?;
    let timeout = Duration::from_nanos(u64::from_le_bytes(*timeout));
    let clock = u32::from_le_bytes(*clock.first_chunk()?);
    let absolute = u16::from_le_bytes(*flags) & FLAG_ABSOLUTE != 0;
    // A relative timeout is the same on every clock (clock_nanosleep(2)).
    let left = match (tag[0], clock, absolute) {
        (TAG_CLOCK, ..=CLOCK_MAX, false) => timeout,
        (TAG_CLOCK, CLOCK_REALTIME, true) => {
            let now = ctx.clocks.system().ok()?.now(Duration::ZERO).into_std();
            let now = now.duration_since(SystemTime::UNIX_EPOCH);
            timeout.saturating_sub(now.unwrap_or_default())
        }
        (TAG_CLOCK, CLOCK_MONOTONIC, true) => {
            let clock = ctx.clocks.monotonic().ok()?;
            let elapsed = clock.abs_clock.now(Duration::ZERO);
            timeout.saturating_sub(elapsed.duration_since(clock.creation_time))
        }
        _ => return None,
    };
    // Cap the time: a longer wait never ends in practice.
    let never = Duration::from_secs(u64::from(u32::MAX));
    Some((*userdata, now.checked_add(left.min(never))?))
}
