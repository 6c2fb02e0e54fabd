//! The errors of calls that did not begin, were stopped, or were ended by a host function.

use crate::account::HostBytesError;
use crate::error::HostError;
use crate::error::{CallError, InvalidCall, StateError};
use crate::memory::ReadStrError;
use crate::stop::{Bounds, NotBegun, Why};
use crate::trap::backtrace::Trace;
use crate::trap::{Interruption, Trap, TrapCode};
use crate::value::ForeignRef;
use core::time::Duration;

/// The error of a call that did not begin, or was not resumed at the point that the backtrace
/// shows.
pub(super) fn not_begun(error: NotBegun, bounds: Bounds, trace: Option<Box<Trace>>) -> CallError {
    match error {
        NotBegun::Stopped(why) => stopped(why, bounds, trace),
        NotBegun::System(error) => CallError::System(error),
    }
}

/// The error of a call that cannot be suspended, although its guest waits.
#[cold]
pub(super) fn not_a_step() -> CallError {
    InvalidCall::NotResumable.into()
}

/// The error of a call that was stopped.
pub(super) fn stopped(why: Why, bounds: Bounds, trace: Option<Box<Trace>>) -> CallError {
    let time = |ns: Option<u64>| Duration::from_nanos(ns.unwrap_or_default());
    match why {
        Why::Killed => CallError::Killed(Interruption::new(None, trace)),
        Why::Deadline => CallError::Deadline(Interruption::new(Some(time(bounds.wall_ns)), trace)),
        Why::CpuBudget => CallError::CpuBudget(Interruption::new(Some(time(bounds.cpu_ns)), trace)),
    }
}

/// The error of a call that a host function ended.
///
/// `nested_failed` says whether the last nested call of the guest failed. If so, a [`CallError`] of
/// the host function becomes the error of the call. Otherwise that error may come from another
/// instance, and the result is [`CallError::Host`]. A [`CallError::State`] is always returned as it
/// is.
pub(super) fn host_error(
    error: HostError,
    nested_failed: bool,
    trace: impl FnOnce() -> Box<Trace>,
) -> CallError {
    let trap = |code, host_bytes| {
        let mut trace = trace();
        trace.host_bytes = host_bytes;
        CallError::Trap(Trap::with_trace(code, trace))
    };
    let error = match error.downcast::<CallError>() {
        Ok(error) if nested_failed || matches!(error, CallError::State(_)) => return error,
        Ok(error) => return CallError::Host(error.into()),
        Err(error) => error,
    };
    let error = match error.downcast::<Trap>() {
        Ok(made) => return trap(made.code(), made.host_bytes()),
        Err(error) => error,
    };
    let error = match error.downcast::<ReadStrError>() {
        Ok(ReadStrError::Trap(made)) => return trap(made.code(), made.host_bytes()),
        Ok(error) => return CallError::Host(error.into()),
        Err(error) => error,
    };
    let error = match error.downcast::<HostBytesError>() {
        Ok(refused) => return trap(TrapCode::HostMemoryExhausted, Some(refused)),
        Err(error) => error,
    };
    match error.downcast::<StateError>() {
        Ok(error) => CallError::State(error),
        Err(error) => CallError::Host(error),
    }
}

/// The error of a call in a fork that did not inherit the instance's memory.
#[cold]
pub(super) fn left_behind() -> CallError {
    InvalidCall::NotInherited.into()
}

/// The error for a parameter that is a reference of another instance.
#[cold]
pub(crate) fn foreign(ForeignRef: ForeignRef) -> CallError {
    InvalidCall::ForeignRef.into()
}
