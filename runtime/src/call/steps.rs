//! Steps of calls: the first step, and the steps that resume a suspended guest.
//!
//! # Safety
//!
//! This file owns one fact. A guest is resumed only at the point where it left, and in the call
//! that it left.
#![allow(unsafe_code)]

use super::enter::{FlagInUse, Invocation, begin_in_time, ready, timed};
use super::errors::{host_error, not_begun, stopped};
use super::host_state::Reply;
use super::running::{Call, Progress};
use super::wait::{Next, wait_on};
use crate::account::Clocks;
use crate::error::{CallError, HostError, HostPanic};
use crate::stop::{Bounds, Control, Halt, Watched, Why};
use crate::store::member::{Member, Target};
use crate::switch::{self, Fault, Record, Registers};
use crate::trap::Trap;
use crate::trap::backtrace::Trace;
use core::panic::AssertUnwindSafe;
use core::ptr;
use std::panic;

impl<T> Invocation<'_, T> {
    /// Makes a step of the call. `first` says whether the call begins or the suspended guest is
    /// resumed.
    ///
    /// # Errors
    ///
    /// The reason why the call ended, as with [`run`](Self::run).
    #[inline(always)]
    pub(crate) fn step(self, first: bool) -> Result<Progress, CallError> {
        ready(self.members)?;
        if self.member().clocks != Clocks::None {
            return self.step_timed(first);
        }
        self.step_untimed(first)
    }

    /// [`step`](Self::step) of an instance whose calls are timed.
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step).
    #[inline(never)]
    fn step_timed(self, first: bool) -> Result<Progress, CallError> {
        let Self {
            members,
            root,
            target,
            cells,
            data,
        } = self;
        let step = |members: &mut [Member<T>]| {
            let invocation = Invocation {
                members,
                root,
                target,
                cells,
                data,
            };
            invocation.step_untimed(first)
        };
        timed(members, root, step, |stepped| {
            matches!(stepped, Ok(Progress::Waits | Progress::Preempted))
        })
    }

    /// [`step`](Self::step) on a thread that is [`ready`].
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step).
    #[inline(always)]
    fn step_untimed(self, first: bool) -> Result<Progress, CallError> {
        if let Some(watch) = &mut self.members[self.root].watch {
            let limits = (watch.control(), watch.bounds, watch.registers());
            let Self {
                members,
                root,
                target,
                cells,
                data,
            } = self;
            return step_watched(members, root, target, first, cells, data, limits);
        }
        // SAFETY: the instance cannot be stopped, so its activation has its original interrupt
        // flag. If this is not the first step, the caller has checked that the guest is suspended
        // in a call of `target`.
        unsafe { self.enter_step(first, None) }
    }

    /// [`enter`](Self::enter) for a step.
    ///
    /// # Errors
    ///
    /// The reason why the step ended.
    ///
    /// # Safety
    ///
    /// As [`enter`](Self::enter). If this is not the first step, the guest must be suspended in a
    /// call of `target`.
    #[inline(always)]
    unsafe fn enter_step(
        self,
        first: bool,
        watched: Option<&Watched>,
    ) -> Result<Progress, CallError> {
        let vmctx = self.member().vmctx();
        // SAFETY: the record belongs to an initialised context, and its guest does not run.
        let activation = unsafe { &mut (*Record::of(vmctx)).activation };
        let registers = activation.registers;
        // SAFETY: `registers` is null or the address that `step_watched` gave the activation. The
        // guest does not run.
        let mut taken = unsafe { registers.as_mut() };
        if first {
            activation.forget_exit();
            if let Some(registers) = &mut taken {
                registers.taken = false;
            }
        }
        // If an answer made the guest exit, its state is newer than the registers that a signal
        // saved earlier.
        let answered = activation.guest_sp != 0;
        if !answered && !taken.is_some_and(|registers| registers.taken) {
            // The guest has not been entered yet.
            // SAFETY: the caller ensures what `enter` requires.
            return unsafe { self.enter(watched, left_step) };
        }
        let registers = if answered { ptr::null_mut() } else { registers };
        let resume = |activation, cells, answer, call| {
            // SAFETY: the caller ensures that the guest is suspended in this call, so it left at
            // that point.
            unsafe { switch::resume(activation, registers, cells, answer, call) }
        };
        // SAFETY: the caller ensures what `enter_by` requires.
        unsafe { self.enter_by(watched, resume, left_step) }
    }
}

/// The result of a step that did not return.
fn left_step<T>(call: &mut Call<'_, T>) -> Result<Progress, CallError> {
    call.left_step()
}

/// [`step`](Invocation::step) of an instance that can be stopped.
///
/// The parameters are the fields of an invocation. If this function took the invocation, callers
/// would write it to memory: a step would execute 9 more instructions, and 68 more if the instance
/// can be stopped.
///
/// # Errors
///
/// As [`step`](Invocation::step).
#[inline(never)]
fn step_watched<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    first: bool,
    cells: usize,
    data: &mut T,
    (control, bounds, registers): (&'static Control, Bounds, *mut Registers),
) -> Result<Progress, CallError> {
    let begun = begin_in_time(bounds).and_then(|()| Watched::begin(control, bounds));
    let watched = begun.map_err(|error| {
        let trace = (!first).then(|| trace_of(members, root));
        not_begun(error, bounds, trace)
    })?;
    let record = Record::of(members[root].vmctx());
    // SAFETY: the record belongs to the called member, which this call borrows, so it stays in
    // place until the guard is dropped. Its guest does not run. `registers` belongs to the
    // member's watch, or is null.
    let flag = unsafe { FlagInUse::of(record, control, registers) };
    let stepped = match wait_on(members, &watched) {
        Next::Continues => match finish_bulk(members, &watched) {
            Ok(()) => {
                let invocation = Invocation {
                    members: &mut *members,
                    root,
                    target,
                    cells,
                    data,
                };
                // SAFETY: `flag` gave the activation the interrupt flag of `watched`. If this
                // is not the first step, the caller has checked that the guest is suspended in
                // a call of `target`.
                unsafe { invocation.enter_step(first, Some(&watched)) }
            }
            Err(Halt::SliceIsOver) => Ok(Progress::Preempted),
            Err(Halt::Stopped) => {
                let why = watched.why().unwrap_or(Why::Killed);
                Err(stopped_waiting(members, root, why, bounds))
            }
            Err(Halt::Trap(code)) => {
                let trace = trace_of(members, root);
                Err(CallError::Trap(Trap::with_trace(code, trace)))
            }
        },
        Next::Waits => Ok(Progress::Waits),
        Next::Stopped => {
            let why = watched.why().unwrap_or(Why::Killed);
            Err(stopped_waiting(members, root, why, bounds))
        }
    };
    drop(flag);
    if !matches!(stepped, Ok(Progress::Returned) | Err(_)) {
        watched.suspend();
        if let (Some(watch), Some(left)) = (&mut members[root].watch, watched.cpu_left_ns()) {
            watch.bounds.cpu_ns = Some(left);
        }
    }
    stepped
}

/// Completes the bulk write of a builtin that the suspended guest has called, if there is such a
/// write.
///
/// # Errors
///
/// Why the write stopped early. After [`Halt::SliceIsOver`] the member keeps the rest of the write.
fn finish_bulk<T>(members: &mut [Member<T>], watched: &Watched) -> Result<(), Halt> {
    let mut writes = members
        .iter_mut()
        .filter_map(|member| member.bulk.take().map(|bulk| (member, bulk)));
    let Some((member, mut bulk)) = writes.next() else {
        return Ok(());
    };
    let done = watched.in_host(|| bulk.run(member, Some(watched)));
    if done == Err(Halt::SliceIsOver) {
        member.bulk = Some(bulk);
    }
    done
}

/// Whether this thread may poll or answer the host function that a suspended guest waits for.
///
/// # Errors
///
/// Why the guest's call ends.
pub(crate) fn may_resume<T>(members: &[Member<T>], root: usize) -> Result<(), CallError> {
    // The host function may access the guest's memory, and its faults need the signal handler.
    ready(members)?;
    match &members[root].watch {
        Some(watch) if watch.control().is_killed() => {
            Err(stopped_waiting(members, root, Why::Killed, watch.bounds))
        }
        _ => Ok(()),
    }
}

/// Gives a suspended guest the answer that it waits for.
///
/// # Errors
///
/// The error of the guest's call, if the host function returns an error or panics.
pub(crate) fn reply<T, D, A>(
    members: &[Member<T>],
    root: usize,
    reply: Reply<D, A>,
    data: &mut D,
    answer: A,
) -> Result<(), CallError> {
    // SAFETY: the guest has waited for the answer since the reply was stored. The caller's borrow
    // of the host data implies a borrow of the instance or its group.
    let given = panic::catch_unwind(AssertUnwindSafe(|| unsafe { reply.give(data, answer) }));
    ended_waiting(members, root, given)
}

/// The result of a host function that a suspended guest waited for.
///
/// # Errors
///
/// The error of the guest's call, if the host function returned an error or panicked.
pub(crate) fn ended_waiting<T>(
    members: &[Member<T>],
    root: usize,
    ended: std::thread::Result<Result<(), HostError>>,
) -> Result<(), CallError> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(host_error(error, false, || trace_of(members, root))),
        Err(panic) => {
            let trace = trace_of(members, root);
            Err(CallError::Panic(HostPanic::new(panic, trace)))
        }
    }
}

/// The error of a call that was stopped while its guest waited.
pub(crate) fn stopped_waiting<T>(
    members: &[Member<T>],
    root: usize,
    why: Why,
    bounds: Bounds,
) -> CallError {
    stopped(why, bounds, Some(trace_of(members, root)))
}

/// The backtrace at the exit of a guest that is suspended in a call of member `root`.
fn trace_of<T>(members: &[Member<T>], root: usize) -> Box<Trace> {
    let modules = members.iter().map(|member| member.inner.module.clone());
    let member = &members[root];
    let record = Record::of(member.vmctx());
    // SAFETY: the record belongs to an initialised context, and its guest does not run.
    unsafe {
        // If an answer made the guest exit, its state is newer than the registers that a signal
        // saved earlier.
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
