//! `poll_oneoff` of descriptors: [`Polled`] is what a guest waits for, [`Sched`] asks the kernel.
//!
//! Layouts are those of preview 1 (`subscription`: 48 bytes, `event`: 32 bytes).

use crate::errno::{self, BADF};
use crate::preview1;
use crate::sleep::SUBSCRIPTION_BYTES;
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

pub(crate) const EVENT_BYTES: usize = 32;
const TAG: usize = 8;
const TAG_CLOCK: u8 = 0;
const TAG_READ: u8 = 1;
const TAG_WRITE: u8 = 2;
const DESCRIPTOR: usize = 16;
/// The clock of a wait that wasi-common makes: 1 is the monotonic one.
const SLICE_CLOCK: u32 = 1;
const TIMEOUT: usize = 24;
const EVENT_TYPE: usize = 10;
/// Alignment of a buffer of the host's.
const ALIGN: usize = 8;

/// What a guest waits for: clocks and descriptors.
pub(crate) struct Polled {
    clocks: Option<crate::sleep::Sleep>,
    /// Subscriptions of descriptors that are open, one after the other, with room for a clock
    /// behind them.
    files: Vec<u8>,
    /// Events of descriptors that are not.
    errors: Vec<u8>,
}

impl Polled {
    /// What the bytes of subscriptions ask for.
    ///
    /// # Errors
    ///
    /// `inval` for none at all, an unknown kind, or a clock that nobody can wait for.
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
            false => Some(crate::sleep::Sleep::of(ctx, &clocks).ok_or(errno::INVAL)?),
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

    /// When there is to be another look: after an interval, or when the first clock rings.
    pub(crate) fn next_look(&self) -> Instant {
        let interval = Instant::now() + LOOK;
        let first = self.clocks.as_ref().map(|clocks| clocks.until);
        first.map_or(interval, |first| first.min(interval))
    }

    /// Waits until `until` at most, and gives the bytes of the events that happened.
    ///
    /// # Errors
    ///
    /// An error of wasi-common's that has no errno.
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

    /// Asks for the descriptors' events, with a clock of our own behind them that ends the wait.
    fn ask(&self, ctx: &mut WasiCtx, time: Duration) -> Result<Vec<u8>, HostError> {
        match ask(ctx, &self.files, time)? {
            Ok(events) => Ok(events),
            // One of them cannot be waited for, such as a directory: that is told of it, and of no
            // other.
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

/// Asks wasi-common for the events of some subscriptions of descriptors within a time, or for an
/// errno.
fn ask(ctx: &mut WasiCtx, files: &[u8], time: Duration) -> Result<Result<Vec<u8>, i32>, HostError> {
    let count = files.len() / SUBSCRIPTION_BYTES + 1;
    let mut clock = [0; SUBSCRIPTION_BYTES];
    clock[TAG] = TAG_CLOCK;
    clock[DESCRIPTOR..][..4].copy_from_slice(&SLICE_CLOCK.to_le_bytes());
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    clock[TIMEOUT..][..8].copy_from_slice(&ns.to_le_bytes());
    // Subscriptions, events, and their number.
    let events = count * SUBSCRIPTION_BYTES;
    let stored = events + count * EVENT_BYTES;
    let mut buffer = vec![0; ALIGN + stored + 4];
    // wiggle looks at the alignment of the host's addresses.
    let aligned = buffer.as_ptr().align_offset(ALIGN);
    let memory = &mut buffer[aligned..][..stored + 4];
    memory[..files.len()].copy_from_slice(files);
    memory[files.len()..events].copy_from_slice(&clock);
    let [at, number, told] = [events, count, stored].map(|n| n as i32);
    let mut guest = GuestMemory::Unshared(memory);
    let polled = wasi::poll_oneoff(ctx, &mut guest, 0, at, number, told);
    match preview1::errno("poll_oneoff", polled)? {
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

/// The event that a subscription of a descriptor has failed.
fn event(subscription: &[u8; SUBSCRIPTION_BYTES], errno: u16, tag: u8) -> [u8; EVENT_BYTES] {
    let mut event = [0; EVENT_BYTES];
    event[..8].copy_from_slice(&subscription[..8]);
    event[8..10].copy_from_slice(&errno.to_le_bytes());
    event[EVENT_TYPE] = tag;
    event
}

/// Asks the kernel which descriptors are ready. A file that the kernel does not know, as one in
/// memory, always is.
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
            // After a signal of the host's nothing has happened, and the guest's wait goes on.
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
                tell(subscription, happened, is_known);
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

/// Longer than anybody waits.
const FAR: Timespec = Timespec {
    tv_sec: i32::MAX as i64,
    tv_nsec: 0,
};

/// The file of a subscription, and what it is to be ready for.
fn wanted<'a>(subscription: &Subscription<'a>) -> Option<(&'a dyn WasiFile, PollFlags)> {
    match subscription {
        Subscription::Read(wanted) => Some((wanted.file, PollFlags::IN)),
        Subscription::Write(wanted) => Some((wanted.file, PollFlags::OUT)),
        Subscription::MonotonicClock(_) => None,
    }
}

/// Notes what has happened to a descriptor.
fn tell(subscription: &mut Subscription<'_>, happened: PollFlags, is_known: bool) {
    let (wanted, bytes) = match subscription {
        Subscription::Read(wanted) => {
            let ready = wanted.file.num_ready_bytes().unwrap_or(0);
            // How much there is in memory nobody says: something.
            let bytes = if is_known { ready } else { ready.max(1) };
            (wanted, bytes)
        }
        Subscription::Write(wanted) => (wanted, 0),
        Subscription::MonotonicClock(_) => return,
    };
    if happened.contains(PollFlags::NVAL) {
        wanted.error(Errno::Badf.into());
    } else if happened.contains(PollFlags::ERR) {
        // Of a pipe this says that nobody reads any more.
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
