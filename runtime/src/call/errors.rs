//! The errors of calls that did not begin, were stopped, or were ended by a host function.

use crate::account::HostBytesError;
use crate::error::HostError;
use crate::error::{CallError, StateError};
use crate::stop::{Bounds, NotBegun, Why};
use crate::trap::backtrace::Trace;
use crate::trap::{Stop, Trap, TrapCode};
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

#[cold]
pub(super) fn not_a_step() -> CallError {
    CallError::Invalid("the guest is suspended in a call that cannot be resumed here".to_owned())
}

/// The error of a call that was stopped.
pub(super) fn stopped(why: Why, bounds: Bounds, trace: Option<Box<Trace>>) -> CallError {
    let time = |ns: Option<u64>| Duration::from_nanos(ns.unwrap_or_default());
    match why {
        Why::Killed => CallError::Killed(Stop::new(None, trace)),
        Why::Deadline => CallError::Deadline(Stop::new(Some(time(bounds.wall_ns)), trace)),
        Why::CpuBudget => CallError::CpuBudget(Stop::new(Some(time(bounds.cpu_ns)), trace)),
    }
}

/// The error of a call that a host function ended.
pub(super) fn host_error(error: HostError, trace: impl FnOnce() -> Box<Trace>) -> CallError {
    let trap = |code, host_bytes| {
        let mut trace = trace();
        trace.host_bytes = host_bytes;
        CallError::Trap(Trap::with_trace(code, trace))
    };
    let error = match error.downcast::<Trap>() {
        Ok(made) => return trap(made.code(), made.host_bytes()),
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

#[cold]
pub(super) fn left_behind() -> CallError {
    CallError::Invalid(
        "instance was made by the process that this one is a fork of, which kept its memory; make \
         another"
            .to_owned(),
    )
}

/// The error for a parameter that is a reference of another instance.
#[cold]
pub(crate) fn foreign(reference: ForeignRef) -> CallError {
    CallError::Invalid(reference.to_string())
}
