//! `poll_oneoff` for descriptors: [`Polled`] holds the guest's subscriptions, [`Sched`] asks the
//! kernel.
//!
//! Preview 1 defines the memory layouts (`subscription`: 48 bytes, `event`: 32 bytes).

use crate::abi::{EVENT_BYTES, SUBSCRIPTION_BYTES};
use crate::errno::{self, BADF};
use crate::memory_dir;
use crate::sleep::Sleep;
use crate::wait::LOOK;
use core::time::Duration;
use pirn_runtime::HostError;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FileType;
use std::io;
use std::time::Instant;
use wasi_common::file::WasiFile;
use wasi_common::sched::{Poll, RwEventFlags, Subscription, WasiSched};
use wasi_common::snapshots::preview_1::types::Errno;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;
use wasi_common::{Error, WasiCtx};
use wiggle::GuestMemory;

const TAG: usize = 8;
const TAG_CLOCK: u8 = 0;
const TAG_READ: u8 = 1;
const TAG_WRITE: u8 = 2;
const DESCRIPTOR: usize = 16;
/// Clock of the timeout that [`ask`] adds: 1 is the monotonic clock.
const SLICE_CLOCK: u32 = 1;
const TIMEOUT: usize = 24;
const EVENT_TYPE: usize = 10;
/// Alignment of the buffer in [`ask`].
const ALIGN: usize = 8;

/// The subscriptions of a call: clocks and descriptors.
pub(crate) struct Polled {
    clocks: Option<Sleep>,
    /// Subscriptions to open descriptors, one after the other.
    files: Vec<u8>,
    /// Error events for descriptors that are not open.
    errors: Vec<u8>,
}

impl Polled {
    /// Parses subscriptions.
    ///
    /// # Errors
    ///
    /// `inval` for an empty list, an unknown kind, or a clock that cannot be waited for.
    pub(crate) fn of(ctx: &WasiCtx, bytes: &[u8]) -> Result<Self, i32> {
        let (subscriptions, _) = bytes.as_chunks::<SUBSCRIPTION_BYTES>();
        let (mut clocks, mut files, mut errors) = (vec![], vec![], vec![]);
        for bytes in subscriptions {
            match bytes[TAG] {
                TAG_CLOCK => clocks.extend_from_slice(bytes),
                tag @ (TAG_READ | TAG_WRITE) => {
                    let [a, b, c, d, ..] = bytes[DESCRIPTOR..] else {
                        return Err(errno::INVAL);
                    };
                    if ctx.table().contains_key(u32::from_le_bytes([a, b, c, d])) {
                        files.extend_from_slice(bytes);
                    } else {
                        errors.extend(event(bytes, BADF as u16, tag));
                    }
                }
                _ => return Err(errno::INVAL),
            }
        }
        let clocks = match clocks.is_empty() {
            true => None,
            false => Some(Sleep::of(ctx, &clocks).ok_or(errno::INVAL)?),
        };
        if subscriptions.is_empty() {
            return Err(errno::INVAL);
        }
        Ok(Self {
            clocks,
            files,
            errors,
        })
    }

    /// The time of the next check: after an interval, or when the first clock expires.
    pub(crate) fn next_look(&self) -> Instant {
        let interval = Instant::now() + LOOK;
        let first = self.clocks.as_ref().map(|clocks| clocks.until);
        first.map_or(interval, |first| first.min(interval))
    }

    /// Waits until `until` at most, and returns the bytes of the events that happened.
    ///
    /// # Errors
    ///
    /// An error of wasi-common that has no errno.
    pub(crate) fn look(&self, ctx: &mut WasiCtx, until: Instant) -> Result<Vec<u8>, HostError> {
        let mut events = self.errors.clone();
        let left = match events.is_empty() {
            true => until.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        };
        if !self.files.is_empty() {
            events.extend(self.ask(ctx, left)?);
        } else if !left.is_zero() {
            std::thread::sleep(left);
        }
        if let Some(clocks) = &self.clocks
            && clocks.until <= Instant::now()
        {
            events.extend(clocks.events().0);
        }
        Ok(events)
    }

    /// Polls the descriptors for at most `time`.
    fn ask(&self, ctx: &mut WasiCtx, time: Duration) -> Result<Vec<u8>, HostError> {
        match ask(ctx, &self.files, time)? {
            Ok(events) => Ok(events),
            // A descriptor cannot be polled, such as a directory. Poll each descriptor alone, so
            // that only the faulty descriptor reports the error.
            Err(_) => {
                let (subscriptions, _) = self.files.as_chunks::<SUBSCRIPTION_BYTES>();
                let mut events = vec![];
                for bytes in subscriptions {
                    match ask(ctx, bytes, Duration::ZERO)? {
                        Ok(some) => events.extend(some),
                        Err(errno) => events.extend(event(bytes, errno as u16, bytes[TAG])),
                    }
                }
                Ok(events)
            }
        }
    }
}

/// Polls descriptors through wasi-common for at most `time`. Returns the events, or an errno.
///
/// A clock subscription after the descriptors ends the wait.
fn ask(ctx: &mut WasiCtx, files: &[u8], time: Duration) -> Result<Result<Vec<u8>, i32>, HostError> {
    let count = files.len() / SUBSCRIPTION_BYTES + 1;
    let mut clock = [0; SUBSCRIPTION_BYTES];
    clock[TAG] = TAG_CLOCK;
    clock[DESCRIPTOR..][..4].copy_from_slice(&SLICE_CLOCK.to_le_bytes());
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    clock[TIMEOUT..][..8].copy_from_slice(&ns.to_le_bytes());
    // Buffer layout: subscriptions, events, number of events.
    let events = count * SUBSCRIPTION_BYTES;
    let stored = events + count * EVENT_BYTES;
    let mut buffer = vec![0; ALIGN + stored + 4];
    // wiggle checks the alignment of host addresses.
    let aligned = buffer.as_ptr().align_offset(ALIGN);
    let memory = &mut buffer[aligned..][..stored + 4];
    memory[..files.len()].copy_from_slice(files);
    memory[files.len()..events].copy_from_slice(&clock);
    let [at, number, told] = [events, count, stored].map(|n| n as i32);
    let mut guest = GuestMemory::Unshared(memory);
    let polled = wasi::poll_oneoff(ctx, &mut guest, 0, at, number, told);
    match errno::of_call("poll_oneoff", polled)? {
        0 => {}
        errno => return Ok(Err(errno)),
    }
    let (happened, _) = memory[events..stored].as_chunks::<EVENT_BYTES>();
    let number = memory[stored..]
        .first_chunk()
        .map_or(0, |n| u32::from_le_bytes(*n));
    let happened = happened.iter().take(number as usize);
    let files = happened.filter(|event| event[EVENT_TYPE] != TAG_CLOCK);
    Ok(Ok(files.flatten().copied().collect()))
}

/// The event that reports an error of a descriptor's subscription.
fn event(subscription: &[u8; SUBSCRIPTION_BYTES], errno: u16, tag: u8) -> [u8; EVENT_BYTES] {
    let mut event = [0; EVENT_BYTES];
    event[..8].copy_from_slice(&subscription[..8]);
    event[8..10].copy_from_slice(&errno.to_le_bytes());
    event[EVENT_TYPE] = tag;
    event
}

/// Asks the kernel which descriptors are ready. A file without a descriptor, such as a file in
/// memory, is always ready.
pub(crate) struct Sched;

#[async_trait::async_trait]
impl WasiSched for Sched {
    async fn poll_oneoff<'a>(&self, poll: &mut Poll<'a>) -> Result<(), Error> {
        let (mut fds, mut is_ready) = (vec![], false);
        for subscription in poll.rw_subscriptions() {
            let Some((file, events)) = wanted(subscription) else {
                continue;
            };
            match file.pollable() {
                Some(fd) => fds.push(PollFd::from_borrowed_fd(fd, events)),
                None => is_ready = true,
            }
        }
        let left = match poll.earliest_clock_deadline() {
            _ if is_ready => Some(Duration::ZERO),
            Some(clock) => Some(clock.duration_until().unwrap_or_default()),
            None => None,
        };
        let time = left.map(|left| Timespec::try_from(left).unwrap_or(FAR));
        match rustix::event::poll(&mut fds, time.as_ref()) {
            // A signal interrupted poll(2). Report no event; the caller polls again.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let mut fds = fds.iter();
        for subscription in poll.rw_subscriptions() {
            let Some((file, events)) = wanted(subscription) else {
                continue;
            };
            let is_known = file.pollable().is_some();
            let happened = match is_known {
                true => fds.next().map_or(events, PollFd::revents),
                false => events,
            };
            if !happened.is_empty() {
                tell(
                    subscription,
                    happened,
                    is_known || memory_dir::is_file(file),
                );
            }
        }
        Ok(())
    }

    async fn sched_yield(&self) -> Result<(), Error> {
        std::thread::yield_now();
        Ok(())
    }

    async fn sleep(&self, time: Duration) -> Result<(), Error> {
        std::thread::sleep(time);
        Ok(())
    }
}

/// A timeout that is longer than any real wait.
const FAR: Timespec = Timespec {
    tv_sec: i32::MAX as i64,
    tv_nsec: 0,
};

/// The file of a subscription, and the poll(2) events to wait for.
fn wanted<'a>(subscription: &Subscription<'a>) -> Option<(&'a dyn WasiFile, PollFlags)> {
    match subscription {
        Subscription::Read(wanted) => Some((wanted.file, PollFlags::IN)),
        Subscription::Write(wanted) => Some((wanted.file, PollFlags::OUT)),
        Subscription::MonotonicClock(_) => None,
    }
}

/// Records the events of a descriptor.
fn tell(subscription: &mut Subscription<'_>, happened: PollFlags, is_known: bool) {
    let (wanted, bytes) = match subscription {
        Subscription::Read(wanted) => {
            let ready = wanted.file.num_ready_bytes().unwrap_or(0);
            // A pipe in memory does not report its size. Report at least one byte.
            let bytes = if is_known { ready } else { ready.max(1) };
            (wanted, bytes)
        }
        Subscription::Write(wanted) => (wanted, 0),
        Subscription::MonotonicClock(_) => return,
    };
    if happened.contains(PollFlags::NVAL) {
        wanted.error(Errno::Badf.into());
    } else if happened.contains(PollFlags::ERR) {
        // For a pipe, POLLERR means that no reader is left.
        wanted.error(
            if is_socket(wanted.file) {
                Errno::Io
            } else {
                Errno::Pipe
            }
            .into(),
        );
    } else if happened.contains(PollFlags::HUP) {
        wanted.complete(bytes, RwEventFlags::HANGUP);
    } else {
        wanted.complete(bytes, RwEventFlags::empty());
    }
}

fn is_socket(file: &dyn WasiFile) -> bool {
    let stat = file.pollable().and_then(|fd| rustix::fs::fstat(fd).ok());
    let is_socket = |mode| FileType::from_raw_mode(mode) == FileType::Socket;
    stat.is_some_and(|stat| is_socket(stat.st_mode))
}
