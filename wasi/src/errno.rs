//! Calls of wasi-common, and errnos for errors with which wasi-common would end the guest.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use pirn_runtime::HostError;
use rustix::io::Errno as Os;
use std::io;
use wasi_common::WasiCtx;
use wasi_common::snapshots::preview_1::types::Errno;
use wiggle::GuestError;

/// No such descriptor.
pub(crate) const BADF: i32 = Errno::Badf as i32;
/// An invalid argument.
pub(crate) const INVAL: i32 = Errno::Inval as i32;
/// No data to read yet, or no room to write.
pub(crate) const AGAIN: i32 = Errno::Again as i32;
/// A path longer than `PATH_MAX`.
pub(crate) const NAMETOOLONG: i32 = Errno::Nametoolong as i32;
/// A socket function was called for a descriptor that is no socket.
const NOTSOCK: i32 = Errno::Notsock as i32;

/// Runs a function of wasi-common and returns its errno.
pub(crate) fn of_call(
    name: &str,
    answer: impl Future<Output = Result<i32, wiggle::error::Error>>,
) -> Result<i32, HostError> {
    ready(answer)?.or_else(|error| of(name, &error))
}

/// The value of a future that is ready at once, as all futures of a synchronous context are.
fn ready<F: Future>(future: F) -> Result<F::Output, HostError> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => Err(HostError::message(
            "the WASI context is asynchronous; make it with WasiCtxBuilder",
        )),
    }
}

/// The errno for an error of wasi-common.
///
/// Handles kernel errors for which wasi-common has no errno, and argument values that preview 1
/// does not define. Other errors, such as a pointer outside the memory, end the call.
fn of(name: &str, error: &wiggle::error::Error) -> Result<i32, HostError> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return Ok(from_os(error) as i32);
    }
    if let Some(error) = error.downcast_ref::<GuestError>()
        && is_invalid(error)
    {
        return Ok(INVAL);
    }
    Err(HostError::message(format!("{name}: {error:#}")))
}

/// Whether the error is an undefined value of a type, such as an unknown flag, clock or signal.
fn is_invalid(error: &GuestError) -> bool {
    match error {
        GuestError::InvalidFlagValue(_)
        | GuestError::InvalidEnumValue(_)
        | GuestError::TryFromIntError(_) => true,
        GuestError::InFunc { err, .. } => is_invalid(err),
        _ => false,
    }
}

/// Maps kernel errors that wasi-common does not map. Errors without a number in preview 1 become
/// `io`.
fn from_os(error: &io::Error) -> Errno {
    match error.raw_os_error().map(Os::from_raw_os_error) {
        Some(Os::ROFS) => Errno::Rofs,
        Some(Os::XDEV) => Errno::Xdev,
        Some(Os::NXIO) => Errno::Nxio,
        Some(Os::TXTBSY) => Errno::Txtbsy,
        Some(Os::NOTTY) => Errno::Notty,
        Some(Os::NODEV) => Errno::Nodev,
        Some(Os::NOSYS) => Errno::Nosys,
        Some(Os::NOLCK) => Errno::Nolck,
        Some(Os::DEADLK) => Errno::Deadlk,
        _ => Errno::Io,
    }
}

/// Corrects `badf` to `notsock` if the descriptor exists: wasi-common reports `badf` for a
/// descriptor that is no socket.
pub(crate) fn of_socket(ctx: &WasiCtx, fd: i32, errno: i32) -> i32 {
    match errno {
        BADF if ctx.table().contains_key(fd.cast_unsigned()) => NOTSOCK,
        errno => errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_that_waits_is_refused() {
        let error = ready(core::future::pending::<()>()).unwrap_err();
        assert!(error.to_string().contains("asynchronous"));
    }

    #[test]
    fn what_the_kernel_refuses_has_a_number() {
        let numbers = [Os::ROFS, Os::XDEV, Os::NXIO, Os::TXTBSY, Os::NODEV]
            .map(|error| from_os(&error.into()) as i32);
        assert_eq!(numbers, [69, 75, 60, 74, 43]);
        // EUCLEAN, for which preview 1 has no number.
        assert_eq!(from_os(&io::Error::from_raw_os_error(117)) as i32, 29);
        assert_eq!(from_os(&io::Error::other("no number")) as i32, 29);
    }
}
