//! Waiting for files that a guest reads or writes, in intervals: between two of them the thread
//! checks whether the guest was stopped.
//!
//! A file that may block waits for one interval only, and then says that it is to be asked again.
//! The host function asks again, unless the guest was stopped.

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
    /// Whether the file that was asked last would have had to wait longer.
    static WAITING: Cell<bool> = const { Cell::new(false) };
}

/// Makes a call again and again, as long as a file has it wait and the guest is not stopped.
pub(crate) fn patiently<T>(
    caller: &mut Caller<'_, T>,
    mut call: impl FnMut(&mut Caller<'_, T>) -> Result<i32, HostError>,
) -> Result<i32, HostError> {
    loop {
        let errno = call(caller)?;
        // A stopped guest never sees the number.
        if !is_to_be_asked_again(errno) || caller.is_stopped() {
            return Ok(errno);
        }
    }
}

/// Whether a call answered with this number because a file has it wait longer.
pub(crate) fn is_to_be_asked_again(errno: i32) -> bool {
    errno == AGAIN && WAITING.replace(false)
}

/// Waits until a file can be read or written, for one interval at most.
///
/// # Errors
///
/// `again` at the end of the interval, whereupon [`patiently`] asks again.
pub(crate) fn wait(file: BorrowedFd<'_>, events: PollFlags) -> Result<(), Error> {
    if is_ready(file, events, LOOK)? {
        return Ok(());
    }
    WAITING.set(true);
    Err(Errno::Again.into())
}

/// Whether a file can be read or written within a time. At its end, or when it is broken, it can:
/// the call itself says so.
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
        // A signal of the host's.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
