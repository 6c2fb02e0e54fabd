//! Waits for files that a guest reads or writes, in intervals. Between two intervals the thread
//! checks whether the guest was stopped.
//!
//! A file that would block waits for one interval only, and then fails with `again`. The host
//! function repeats the call, unless the guest was stopped.

use crate::errno::AGAIN;
use core::cell::Cell;
use core::time::Duration;
use pirn_runtime::{Caller, HostError};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::BorrowedFd;
use std::io;
use wasi_common::Error;
use wasi_common::snapshots::preview_1::types::Errno;

/// The interval after which a waiting thread checks whether its guest was stopped.
pub(crate) const LOOK: Duration = Duration::from_millis(1);

thread_local! {
    /// Whether the most recent call failed because its file would have to wait longer.
    static WAITING: Cell<bool> = const { Cell::new(false) };
}

/// Repeats a call as long as its file makes it wait and the guest is not stopped.
pub(crate) fn patiently<T>(
    caller: &mut Caller<'_, T>,
    mut call: impl FnMut(&mut Caller<'_, T>) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    loop {
        let errno = call(caller)?;
        // A stopped guest never sees this errno.
        if !is_to_be_asked_again(errno) || caller.is_stopped() {
            return Ok(errno);
        }
    }
}

/// Whether a call returned `again` because its file has to wait longer. Clears the flag.
pub(crate) fn is_to_be_asked_again(errno: i32) -> bool {
    errno == AGAIN && WAITING.replace(false)
}

/// Waits until a file can be read or written, for one interval at most.
///
/// # Errors
///
/// `again` at the end of the interval. [`patiently`] then repeats the call.
pub(crate) fn wait(file: BorrowedFd<'_>, events: PollFlags) -> Result<(), Error> {
    if is_ready(file, events, LOOK)? {
        return Ok(());
    }
    WAITING.set(true);
    Err(Errno::Again.into())
}

/// Whether a file can be read or written within a time. This is also true at its end or after an
/// error, which the read or write then reports.
pub(crate) fn is_ready(
    file: BorrowedFd<'_>,
    events: PollFlags,
    time: Duration,
) -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(file, events)];
    let time = Timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    };
    match rustix::event::poll(&mut fds, Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        // A signal interrupted poll(2).
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
