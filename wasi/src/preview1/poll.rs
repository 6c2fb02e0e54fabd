//! [`Polled`]: the subscriptions of a `poll_oneoff`.

use super::abi::{EVENT_BYTES, SUBSCRIPTIONS_MAX, Version};
use super::call::Call;
use super::failure::Done;
use crate::clock::{Clock, Clocks, NEVER};
use crate::descriptors::Descriptor;
use crate::errno::{self, Errno};
use crate::stream::{LOOK, Stream};
use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::sync::Arc;
use std::time::Instant;

/// The subscriptions of a call, in two lists: clocks and descriptors.
pub(super) struct Polled {
    clocks: Vec<Timer>,
    files: Vec<Wanted>,
    /// The time at which the first clock expires.
    first: Option<Instant>,
    /// The time from the beginning of the call to the first clock.
    pub(super) left: Duration,
    /// The addresses of the events and of their number.
    results: (u32, u32),
}

type UserData = [u8; 8];

struct Timer {
    user_data: UserData,
    until: Instant,
}

/// A subscription to a descriptor.
struct Wanted {
    user_data: UserData,
    is_write: bool,
    /// An error number for a descriptor that cannot be polled.
    file: Result<Arc<Descriptor>, Errno>,
}

/// The layout of a `subscription`.
struct Layout {
    bytes: usize,
    /// The number of a clock; the numbers of its timeout and flags follow it.
    clock: usize,
}

const TAG: usize = 8;
const DESCRIPTOR: usize = 16;

fn layout(version: Version) -> Layout {
    match version {
        // A clock has user data of its own before its number.
        Version::Preview0 => Layout {
            bytes: 56,
            clock: 24,
        },
        Version::Preview1 => Layout {
            bytes: 48,
            clock: 16,
        },
    }
}

impl Polled {
    /// Parses the subscriptions of a call.
    ///
    /// # Errors
    ///
    /// `inval` for an empty or too long list, an unknown kind, or a clock that cannot be waited
    /// for; the error of an invalid pointer.
    pub(super) fn of(
        call: &Call<'_>,
        version: Version,
        [subscriptions, events, count, stored]: [u32; 4],
    ) -> Done<Self> {
        if count == 0 || count > SUBSCRIPTIONS_MAX {
            return Err(Errno::INVAL.into());
        }
        let layout = layout(version);
        call.memory.check(stored, 4, 1)?;
        call.memory
            .check(events, u64::from(count) * EVENT_BYTES as u64, 1)?;
        let mut bytes = vec![0; count as usize * layout.bytes];
        call.memory.read(subscriptions, &mut bytes)?;
        let now = Instant::now();
        let (mut clocks, mut files) = (vec![], vec![]);
        for subscription in bytes.chunks_exact(layout.bytes) {
            let user_data = number(subscription, 0).to_le_bytes();
            match subscription[TAG] {
                0 => clocks.push(Timer {
                    user_data,
                    until: now + time_left(&call.state.clocks, &subscription[layout.clock..])?,
                }),
                tag @ (1 | 2) => {
                    let fd = number(subscription, DESCRIPTOR) as u32;
                    let file = call.descriptor(fd);
                    files.push(Wanted {
                        user_data,
                        is_write: tag == 2,
                        file: file.and_then(|file| match &*file {
                            Descriptor::Folder(_) => Err(Errno::BADF),
                            _ => Ok(file),
                        }),
                    });
                }
                _ => return Err(Errno::INVAL.into()),
            }
        }
        let first = clocks.iter().map(|timer| timer.until).min();
        Ok(Self {
            left: first.map_or(Duration::ZERO, |first| first.duration_since(now)),
            clocks,
            files,
            first,
            results: (events, stored),
        })
    }

    /// The time at which the first clock expires, if the guest waits for clocks only.
    pub(super) fn sleeps_until(&self) -> Option<Instant> {
        self.first.filter(|_| self.files.is_empty())
    }

    /// The time of the next check: after an interval, or when the first clock expires.
    pub(super) fn next_look(&self) -> Instant {
        let interval = Instant::now() + LOOK;
        self.first.map_or(interval, |first| first.min(interval))
    }

    /// Waits until `until` at most, and returns the bytes of the events that happened.
    ///
    /// # Errors
    ///
    /// The error of poll(2).
    pub(super) fn look(&self, until: Instant) -> Result<Vec<u8>, Errno> {
        let left = until.saturating_duration_since(Instant::now());
        let mut events = self.ask(left)?;
        if self.first.is_some_and(|first| first <= Instant::now()) {
            self.expire(&mut events);
        }
        Ok(events)
    }

    /// Adds the events of expired clocks. The first clock has expired.
    pub(super) fn expire(&self, events: &mut Vec<u8>) {
        let now = Instant::now().max(self.first.unwrap_or_else(Instant::now));
        for timer in self.clocks.iter().filter(|timer| timer.until <= now) {
            events.extend(event(timer.user_data, 0, Ok((0, false))));
        }
    }

    /// Polls the descriptors for at most `time`. Returns the bytes of their events.
    fn ask(&self, time: Duration) -> Result<Vec<u8>, Errno> {
        let mut fds = vec![];
        let mut is_ready = false;
        for wanted in &self.files {
            match wanted.pollable() {
                Some(fd) => fds.push(fd),
                None => is_ready |= wanted.is_ready(),
            }
        }
        let time = match is_ready {
            true => Duration::ZERO,
            false => time,
        };
        let time = Timespec::try_from(time).map_err(|_| Errno::INVAL)?;
        match rustix::event::poll(&mut fds, Some(&time)) {
            // A signal interrupted poll(2). Report no event; the caller polls again.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let mut events = vec![];
        let mut polled = fds.iter();
        for wanted in &self.files {
            let happened = match wanted.pollable() {
                Some(_) => polled.next().map_or(PollFlags::empty(), PollFd::revents),
                None if wanted.is_ready() => PollFlags::IN,
                None => PollFlags::empty(),
            };
            if !happened.is_empty() {
                let kind = 1 + u8::from(wanted.is_write);
                events.extend(event(wanted.user_data, kind, wanted.outcome(happened)));
            }
        }
        Ok(events)
    }

    /// Writes events and their number to the guest.
    pub(super) fn give(&self, call: &mut Call<'_>, events: &[u8]) -> Done {
        let number = (events.len() / EVENT_BYTES) as u32;
        call.memory.write(self.results.0, events)?;
        // The guest may have put the number anywhere.
        call.memory.write(self.results.1, &number.to_le_bytes())?;
        Ok(())
    }
}

impl Wanted {
    fn stream(&self) -> Option<&Stream> {
        match self.file.as_deref() {
            Ok(Descriptor::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    /// The descriptor of the host, with the events to wait for.
    fn pollable(&self) -> Option<PollFd<'_>> {
        let events = match self.is_write {
            true => PollFlags::OUT,
            false => PollFlags::IN,
        };
        let fd = self.stream()?.pollable()?;
        Some(PollFd::from_borrowed_fd(fd, events))
    }

    /// Whether a descriptor that poll(2) does not know is ready. A file and an error always are.
    fn is_ready(&self) -> bool {
        self.stream().is_none_or(Stream::is_ready)
    }

    /// The number of bytes that are there, and whether the peer has hung up; or an error number.
    fn outcome(&self, happened: PollFlags) -> Result<(u64, bool), Errno> {
        let file = self.file.as_ref().map_err(|errno| *errno)?;
        if happened.contains(PollFlags::NVAL) {
            return Err(Errno::BADF);
        }
        if happened.contains(PollFlags::ERR) {
            // For a pipe, POLLERR means that no reader is left.
            return Err(match self.stream().is_some_and(Stream::is_socket) {
                true => Errno::IO,
                false => Errno::PIPE,
            });
        }
        let bytes = match (self.is_write, &**file) {
            (true, _) | (_, Descriptor::Folder(_)) => 0,
            (false, Descriptor::Stream(stream)) => stream.ready_bytes(),
            // The position may lie after the end of the file.
            (false, Descriptor::File(open)) => open.file.size()?.saturating_sub(*open.position()),
        };
        Ok((bytes, happened.contains(PollFlags::HUP)))
    }
}

/// The 64-bit number at an offset.
fn number(bytes: &[u8], at: usize) -> u64 {
    let found = bytes[at..].first_chunk();
    found.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The time until a clock expires. `bytes` begins with the number of the clock.
///
/// # Errors
///
/// `inval` for a clock that cannot be waited for.
fn time_left(clocks: &Clocks, bytes: &[u8]) -> Result<Duration, Errno> {
    const ABSOLUTE: u16 = 1;
    let clock = number(bytes, 0) as u32;
    let timeout = Duration::from_nanos(number(bytes, 8));
    let is_absolute = number(bytes, 24) as u16 & ABSOLUTE != 0;
    match (clock, is_absolute) {
        // A relative timeout is the same on every clock (clock_nanosleep(2)).
        (0..=3, false) => Ok(timeout.min(NEVER)),
        (0, true) => Ok(clocks.left(Clock::System, timeout)),
        (1, true) => Ok(clocks.left(Clock::Monotonic, timeout)),
        _ => Err(Errno::INVAL),
    }
}

/// `event`
fn event(user_data: UserData, kind: u8, outcome: Result<(u64, bool), Errno>) -> [u8; EVENT_BYTES] {
    let mut event = [0; EVENT_BYTES];
    event[..8].copy_from_slice(&user_data);
    event[10] = kind;
    match outcome {
        Ok((bytes, is_hung_up)) => {
            event[16..24].copy_from_slice(&bytes.to_le_bytes());
            event[24] = is_hung_up.into();
        }
        Err(errno) => {
            let number = errno::number(errno) as u16;
            event[8..10].copy_from_slice(&number.to_le_bytes());
        }
    }
    event
}
