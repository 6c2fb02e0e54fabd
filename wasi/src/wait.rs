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
    /// Whether the most recent call failed because its file was not ready at the end of an
    /// interval.
    static WAITING: Cell<bool> = const { Cell::new(false) };
}

/// Repeats a call until its file is ready, the call fails otherwise, or the guest is stopped.
pub(crate) fn retry_until_ready<T>(
    caller: &mut Caller<'_, T>,
    mut call: impl FnMut(&mut Caller<'_, T>) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    loop {
        let errno = call(caller)?;
        // A stopped guest never sees this errno.
        if !must_retry(errno) || caller.is_stopped() {
            return Ok(errno);
        }
    }
}

/// Whether a call returned `again` only because its file was not ready at the end of an interval.
/// Clears `WAITING`.
pub(crate) fn must_retry(errno: i32) -> bool {
    errno == AGAIN && WAITING.replace(false)
}

/// Waits until a file can be read or written, for one interval at most.
///
/// # Errors
///
/// `again` at the end of the interval. [`retry_until_ready`] then repeats the call.
pub(crate) fn wait(file: BorrowedFd<'_>, events: PollFlags) -> Result<(), Error> {
    if is_ready(file, events, LOOK)? {
        return Ok(());
    }
    WAITING.set(true);
    Err(Errno::Again.into())
}

/// Whether a file can be read or written within a time. Also true at the end of the file and after
/// an error of the file. The read or write then reports the end or the error.
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
