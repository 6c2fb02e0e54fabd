//! Steps of calls: the first, and those that go on where the guest was suspended.
//!
//! # Safety
//!
//! Owns the fact that a guest is gone on with only from where it left, in the call that it left.
#![allow(unsafe_code)]

use super::errors::{host_error, left_behind, not_begun, stopped};
use super::waiting::{Next, wait_on};
use super::{Gate, Member, Target, begin_in_time, enter, enter_by, is_whole};
use crate::account::{Clocks, Stopwatch};
use crate::error::CallError;
use crate::host::store::Reply;
use crate::host::{HostError, HostPanic};
use crate::instance::bulk::Halt;
use crate::stop::{Bounds, Control, Watched, Why};
use crate::switch::{self, Fault, Record, Registers};
use crate::sys;
use crate::trap::Trap;
use crate::trap::backtrace::Trace;
use core::panic::AssertUnwindSafe;
use core::{iter, ptr, slice};
use std::panic;

/// How far a step of a call came. A word, as [`Answered`](crate::host::func::Answered) is.
#[repr(u64)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// To its end: the cells hold the results.
    #[default]
    Returned,
    /// To a host function that the guest waits for.
    Waits,
    /// To the end of its slice of time.
    Preempted,
}

/// Makes a step of a call of a function: its first, or the next, from where the guest was suspended.
///
/// # Errors
///
/// What ended the call, as with [`run`](super::run).
#[inline(always)]
pub(crate) fn step<T>(
    member: &mut Member<T>,
    target: Target,
    first: bool,
    cells: usize,
    data: &mut T,
) -> Result<Progress, CallError> {
    sys::signal::prepare_thread()?;
    let members = slice::from_mut(member);
    if !is_whole(members) {
        return Err(left_behind());
    }
    if members[0].clocks != Clocks::None {
        return step_timed(members, target, first, cells, data);
    }
    step_untimed(members, target, first, cells, data)
}

/// [`step`] of an instance whose calls are timed.
///
/// # Errors
///
/// As [`step`].
#[inline(never)]
fn step_timed<T>(
    members: &mut [Member<T>],
    target: Target,
    first: bool,
    cells: usize,
    data: &mut T,
) -> Result<Progress, CallError> {
    // SAFETY: an initialised context, whose guest does not run. The member keeps its region.
    let account = unsafe { Record::account(members[0].vmctx()) };
    let stopwatch = Stopwatch::start(account, members[0].clocks);
    let stepped = step_untimed(members, target, first, cells, data);
    stopwatch.stop(matches!(stepped, Ok(Progress::Waits | Progress::Preempted)));
    stepped
}

/// [`step`] on a thread that is prepared.
///
/// # Errors
///
/// As [`step`].
#[inline(always)]
fn step_untimed<T>(
    members: &mut [Member<T>],
    target: Target,
    first: bool,
    cells: usize,
    data: &mut T,
) -> Result<Progress, CallError> {
    let Some(watch) = &mut members[0].watch else {
        // SAFETY: as in `run`.
        return unsafe { enter_step(members, target, first, cells, data, None) };
    };
    let (control, bounds, registers) = (watch.control(), watch.bounds, watch.registers());
    step_watched(
        members,
        target,
        first,
        cells,
        data,
        (control, bounds, registers),
    )
}

/// [`step`] of an instance that may be stopped.
///
/// # Errors
///
/// As [`step`].
#[inline(never)]
fn step_watched<T>(
    members: &mut [Member<T>],
    target: Target,
    first: bool,
    cells: usize,
    data: &mut T,
    (control, bounds, registers): (&'static Control, Bounds, *mut Registers),
) -> Result<Progress, CallError> {
    let begun = begin_in_time(bounds).and_then(|()| Watched::begin(control, bounds));
    let watched = begun.map_err(|error| {
        let trace = (!first).then(|| trace_of(&members[0]));
        not_begun(error, bounds, trace)
    })?;
    let gate = Gate::of(Record::of(members[0].vmctx()), control, registers);
    let stepped = match wait_on(&mut members[0], &watched) {
        Next::GoesOn => match finish_bulk(&mut members[0], &watched) {
            // SAFETY: `gate` gave the activation the gate of `watched`; if this is not the first step,
            // the caller has seen that the guest is suspended in a call of the target.
            Ok(()) => unsafe { enter_step(members, target, first, cells, data, Some(&watched)) },
            Err(Halt::SliceIsOver) => Ok(Progress::Preempted),
            Err(Halt::Stopped) => {
                let why = watched.why().unwrap_or(Why::Killed);
                Err(stopped_waiting(&members[0], why, bounds))
            }
            Err(Halt::Trap(code)) => {
                let trace = trace_of(&members[0]);
                Err(CallError::Trap(Trap::with_trace(code, trace)))
            }
        },
        Next::Waits => Ok(Progress::Waits),
        Next::Stopped => {
            let why = watched.why().unwrap_or(Why::Killed);
            Err(stopped_waiting(&members[0], why, bounds))
        }
    };
    drop(gate);
    if !matches!(stepped, Ok(Progress::Returned) | Err(_)) {
        watched.suspend();
        if let (Some(watch), Some(left)) = (&mut members[0].watch, watched.cpu_left_ns()) {
            watch.bounds.cpu_ns = Some(left);
        }
    }
    stepped
}

/// Does what a builtin of the suspended guest still has to write.
///
/// # Errors
///
/// Why it ended before its end; after [`Halt::SliceIsOver`] the member keeps the rest.
fn finish_bulk<T>(member: &mut Member<T>, watched: &Watched) -> Result<(), Halt> {
    let Some(mut bulk) = member.bulk.take() else {
        return Ok(());
    };
    let done = watched.in_host(|| bulk.run(member, Some(watched)));
    if done == Err(Halt::SliceIsOver) {
        member.bulk = Some(bulk);
    }
    done
}

/// [`enter`] for a step.
///
/// # Errors
///
/// What ended the step.
///
/// # Safety
///
/// As [`enter`]. If it is not the first, the guest must be suspended in a call of the target.
#[inline(always)]
unsafe fn enter_step<T>(
    members: &mut [Member<T>],
    target: Target,
    first: bool,
    cells: usize,
    data: &mut T,
    watched: Option<&Watched>,
) -> Result<Progress, CallError> {
    let vmctx = members[0].vmctx();
    // SAFETY: the record of an initialised context, whose guest does not run.
    let activation = unsafe { &mut (*Record::of(vmctx)).activation };
    let registers = activation.registers;
    // SAFETY: the place that `step` has, whose guest does not run.
    let mut taken = unsafe { registers.as_mut() };
    if first {
        // Where the guest left is not known before it has.
        activation.guest_registers = Default::default();
        activation.guest_sp = 0;
        if let Some(registers) = &mut taken {
            registers.taken = false;
        }
    }
    // An answer that made it leave is newer than what was taken before.
    let answered = activation.guest_sp != 0;
    if !answered && !taken.is_some_and(|registers| registers.taken) {
        // It has not been let in yet.
        // SAFETY: passed on.
        return unsafe {
            enter(members, 0, target, cells, data, watched, |call| {
                call.left_step()
            })
        };
    }
    let registers = if answered { ptr::null_mut() } else { registers };
    let go_on = |activation, cells, answer, call| {
        // SAFETY: the caller's promise: the guest left there.
        unsafe { switch::resume(activation, registers, cells, answer, call) }
    };
    // SAFETY: passed on.
    unsafe {
        enter_by(members, 0, cells, data, watched, go_on, |call| {
            call.left_step()
        })
    }
}

/// Whether what a suspended guest waits for may be looked at, on this thread.
///
/// # Errors
///
/// Why its call ends.
pub(crate) fn may_go_on<T>(member: &Member<T>) -> Result<(), CallError> {
    // The host's function may look at the guest's memory.
    sys::signal::prepare_thread()?;
    if !is_whole(slice::from_ref(member)) {
        return Err(left_behind());
    }
    match &member.watch {
        Some(watch) if watch.control().is_killed() => {
            Err(stopped_waiting(member, Why::Killed, watch.bounds))
        }
        _ => Ok(()),
    }
}

/// Gives a suspended guest the answer that it waits for.
///
/// # Errors
///
/// The error of its call, if the host function gives one or panics.
pub(crate) fn reply<T, D, A>(
    member: &Member<T>,
    reply: Reply<D, A>,
    data: &mut D,
    answer: A,
) -> Result<(), CallError> {
    // SAFETY: the guest waits for the answer since the reply was noted, and whoever has its data borrows its
    // instance.
    let given = panic::catch_unwind(AssertUnwindSafe(|| unsafe { reply.give(data, answer) }));
    ended_waiting(member, given)
}

/// What became of a host function that a suspended guest waits for.
///
/// # Errors
///
/// The error of its call, if the host function gave one or panicked.
pub(crate) fn ended_waiting<T>(
    member: &Member<T>,
    ended: std::thread::Result<Result<(), HostError>>,
) -> Result<(), CallError> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(host_error(error, || trace_of(member))),
        Err(panic) => Err(CallError::Panic(HostPanic::new(panic, trace_of(member)))),
    }
}

/// The error of a call that was stopped while its guest waits.
pub(crate) fn stopped_waiting<T>(member: &Member<T>, why: Why, bounds: Bounds) -> CallError {
    stopped(why, bounds, Some(trace_of(member)))
}

/// Where a suspended guest was when it left.
fn trace_of<T>(member: &Member<T>) -> Box<Trace> {
    let modules = iter::once(member.inner.module.clone());
    let record = Record::of(member.vmctx());
    // SAFETY: the record of an initialised context, whose guest does not run.
    unsafe {
        // An answer that made it leave is newer than what was taken before.
        let preempted = match (&member.watch, (*record).activation.guest_sp) {
            (Some(watch), 0) => watch.preempted(),
            _ => None,
        };
        (*record).activation.fault = preempted.map(|at| Fault { code: None, at });
        let trace = Trace::of(&(*record).activation, &raw const (*record).guest, modules);
        (*record).activation.fault = None;
        trace
    }
}
