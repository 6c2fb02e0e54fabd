//! [`CallAsync`]: a call as a future, on any executor.
//!
//! # Safety
//!
//! This file owns one fact. The future of an async host function borrows the data and the memory of
//! the instance. While it lives, this file accesses only the members and the watch, which the
//! future does not borrow.
//!
//! [`CallAsync`] stores the host function's future while the guest waits for it, and itself borrows
//! the instance. If a [`CallAsync`] is leaked (`mem::forget`), the stored future is leaked, too.
#![allow(unsafe_code)]

use super::owner::OwnerMut;
use super::suspended::Step;
use crate::call::TypedFunc;
use crate::call::host_state::{HostCall, Mode, Polled};
use crate::call::{HostFuture, steps};
use crate::error::{CallError, CallState, Operation, StateError};
use crate::memory::wait::{Waiting, Woken};
use crate::stop::{Bounds, Why, timer};
use crate::sys;
use crate::value::InstanceId;
use crate::value::typed::{Params, Results};
use core::fmt;
use core::future::Future;
use core::marker::PhantomData;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::task::{Context, Poll};
use std::panic::{catch_unwind, resume_unwind};

/// A call of a guest as a future, made by [`Instance::call_async`](crate::Instance::call_async).
/// `O` is the [`OwnerMut`] of the instance.
///
/// Each poll runs the guest on the polling thread. The poll ends when the guest returns, waits for
/// an async host function, or has used up its time slice. Dropping the future cancels the call.
#[must_use = "a future does nothing unless it is polled"]
pub struct CallAsync<'a, O: OwnerMut, P, R> {
    /// A pointer, not a reference: a host function's future borrows the host's data.
    owner: NonNull<O>,
    borrowed: PhantomData<&'a mut O>,
    func: TypedFunc<P, R>,
    state: Stage,
    /// The task context of the current poll, and the host function that the guest waits for.
    polled: Polled,
    /// The remaining limits. `until` replaces the wall time limit once the call runs.
    bounds: Bounds,
    /// The original limits.
    limits: Bounds,
    /// The deadline on the monotonic clock, once the call has begun.
    until: Option<u64>,
    /// Whether the timer thread has been told the deadline.
    timed: bool,
    /// Makes the future that yields to other tasks after a time slice.
    ///
    /// While the call yields, `turn` holds that future.
    others: Option<fn() -> HostFuture<'static, ()>>,
    turn: Option<HostFuture<'static, ()>>,
}

// SAFETY: the fields are a mutable borrow of a `Send` owner, and a host function's
// future that is `Send`.
unsafe impl<O: OwnerMut + Send, P, R> Send for CallAsync<'_, O, P, R> {}

/// The progress of the call.
enum Stage {
    /// The parameters have been stored, or could not be stored.
    New(Result<(), CallError>),
    /// The call is suspended.
    Suspended,
    /// The call is suspended, and the host function's future is being dropped or has panicked in
    /// its drop.
    Dropping,
    /// The call has ended.
    Ended,
}

impl<'a, O: OwnerMut, P: Params, R: Results> CallAsync<'a, O, P, R> {
    /// A call of a function of the instance of `owner`.
    pub(super) fn new(owner: &'a mut O, func: &TypedFunc<P, R>, params: P, bounds: Bounds) -> Self {
        let begun = owner.callee().begin(func, params);
        Self {
            state: Stage::New(begun),
            owner: NonNull::from(owner),
            borrowed: PhantomData,
            func: *func,
            polled: Polled {
                context: NonNull::dangling(),
                host: None,
            },
            bounds,
            limits: bounds,
            until: None,
            timed: false,
            others: None,
            turn: None,
        }
    }

    /// Makes the call await the future that `others` returns after each time slice, so that other
    /// tasks run.
    ///
    /// Without this method the task is woken at once. Not every executor then runs other tasks
    /// first. tokio polls a task that is woken during its own poll up to 61 times before it checks
    /// its sockets again. After tokio's `yield_now`, tokio checks its sockets first.
    ///
    /// A kill or the deadline ends the call during such a pause, too.
    pub fn yield_with(mut self, others: fn() -> HostFuture<'static, ()>) -> Self {
        self.others = Some(others);
        self
    }

    /// Checks whether the call must end while the guest waits. Registers the task's waker for a
    /// later kill or deadline.
    ///
    /// # Errors
    ///
    /// Why the call ends.
    fn watch(&mut self, context: &Context<'_>) -> Result<(), CallError> {
        // SAFETY: this future borrows the owner.
        let Some(watch) = (unsafe { O::watch_only(self.owner) }) else {
            return Ok(());
        };
        let control = watch.control();
        // Register the waker first, so that a stop after the checks below wakes the task.
        control.waits(context.waker());
        let bounds = self.bounds;
        // SAFETY: this future borrows the owner.
        let (members, root) = unsafe { O::members_only(self.owner) };
        let ended = |why| Err(steps::stopped_waiting(members, root, why, bounds));
        if control.is_killed() {
            return ended(Why::Killed);
        }
        let Some(until) = self.until else {
            return Ok(());
        };
        if until <= sys::clock::now_ns() {
            return ended(Why::Deadline);
        }
        if !self.timed {
            timer::wake_waiting(control, until)?;
            self.timed = true;
        }
        // A fork has no timer thread, so start one.
        timer::start()?;
        Ok(())
    }

    /// Polls the host function that the guest waits for.
    ///
    /// # Errors
    ///
    /// Why the call ends.
    fn poll_host(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        if self.polled.host.is_none() {
            return Poll::Ready(Ok(()));
        }
        self.watch(context)?;
        let Some(host) = &mut self.polled.host else {
            return Poll::Ready(Ok(()));
        };
        let ended = match catch_unwind(AssertUnwindSafe(|| host.poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(ended)) => Ok(ended),
            Err(panic) => Err(panic),
        };
        // If the drop panics, there are no results and the call cannot be resumed.
        self.state = Stage::Dropping;
        self.polled.host = None;
        self.state = Stage::Suspended;
        // SAFETY: this future borrows the owner.
        let (members, root) = unsafe { O::members_only(self.owner) };
        Poll::Ready(steps::ended_waiting(members, root, ended))
    }

    /// Whether the guest waits in `memory.atomic.wait32` or `memory.atomic.wait64`.
    fn waits_in_memory(&self) -> bool {
        // SAFETY: this future borrows the owner.
        let (members, _) = unsafe { O::members_only(self.owner) };
        members.iter().any(|member| member.waiting.is_some())
    }

    /// Treats `memory.atomic.wait` as a pending host call.
    fn begin_wait(&mut self) {
        // SAFETY: only this future borrows the owner, because there is no future of a host
        // function.
        let mut callee = unsafe { self.owner.as_mut() }.callee();
        let mut waits = callee.members.iter_mut().filter_map(|m| m.waiting.take());
        if let Some(Waiting { wait, cells }) = waits.next().map(|waiting| *waiting) {
            let future = Box::pin(Woken::new(wait, callee.watch().control()));
            // The result of the wait.
            let cells = ptr::slice_from_raw_parts_mut(cells, 1);
            // SAFETY: the cells belong to the call, whose guest has exited, so nothing else uses
            // them.
            self.polled.host = Some(unsafe { HostCall::new(future, cells, InstanceId(0)) });
        }
    }

    /// Polls the future that yields to other tasks, if there is one.
    ///
    /// # Errors
    ///
    /// Why the call ends.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, CallError> {
        if let Some(turn) = &mut self.turn {
            if turn.as_mut().poll(context).is_pending() {
                self.watch(context)?;
                return Ok(Poll::Pending);
            }
            self.turn = None;
        }
        Ok(Poll::Ready(()))
    }

    /// Runs the guest. If the guest waits for a host function, `polled` keeps that function's
    /// future.
    ///
    /// # Errors
    ///
    /// Why the call ends.
    fn step(&mut self, first: bool, context: &mut Context<'_>) -> Result<Poll<R>, CallError> {
        let bounds = self.bounds_now();
        // SAFETY: only this future borrows the owner, because there is no future of a host
        // function.
        let mut callee = unsafe { self.owner.as_mut() }.callee();
        callee.limit(bounds);
        self.polled.context = NonNull::from(&mut *context).cast();
        let mode = Mode::Async(NonNull::from(&mut self.polled));
        let step = callee.advance(&self.func, first, mode);
        // From this point on, access only parts that a host function's future does not borrow.
        // SAFETY: this future borrows the owner.
        if let Some(watch) = unsafe { O::watch_only(self.owner) } {
            self.bounds.cpu_ns = watch.bounds.cpu_ns;
            watch.bounds = Bounds::default();
        }
        match step.map_err(|error| error.limited_to(self.limits))? {
            Step::Returned(results) => Ok(Poll::Ready(results)),
            Step::Preempted if self.polled.host.is_some() => {
                self.watch(context)?;
                Ok(Poll::Pending)
            }
            Step::Preempted if self.waits_in_memory() => {
                self.begin_wait();
                if self.poll_host(context)?.is_ready() {
                    context.waker().wake_by_ref();
                }
                Ok(Poll::Pending)
            }
            // `Asked` cannot occur: a host function that asks fails in a call by a future.
            Step::Preempted | Step::Asked(_) => {
                self.turn = self.others.map(|others| others());
                if self.poll_turn(context)?.is_ready() {
                    context.waker().wake_by_ref();
                }
                Ok(Poll::Pending)
            }
        }
    }

    /// The remaining limits.
    fn bounds_now(&mut self) -> Bounds {
        let mut bounds = self.bounds;
        if let Some(limit) = self.bounds.wall_ns {
            let now = sys::clock::now_ns();
            let until = *self.until.get_or_insert(now.saturating_add(limit));
            bounds.wall_ns = Some(until.saturating_sub(now));
        }
        bounds
    }

    fn advance(&mut self, context: &mut Context<'_>) -> Result<Poll<R>, CallError> {
        let first = match mem::replace(&mut self.state, Stage::Suspended) {
            Stage::New(Ok(())) => true,
            Stage::New(Err(error)) => {
                // The instance may have another suspended call, which must stay.
                self.state = Stage::Ended;
                return Err(error);
            }
            Stage::Suspended => false,
            ended @ (Stage::Dropping | Stage::Ended) => {
                self.state = ended;
                return Err(StateError::new(Operation::Poll, CallState::Ended).into());
            }
        };
        if self.polled.host.is_some() {
            // SAFETY: this future borrows the owner.
            let (members, root) = unsafe { O::members_only(self.owner) };
            steps::may_resume(members, root)?;
        }
        if self.poll_turn(context)?.is_pending() || self.poll_host(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        self.step(first, context)
    }
}

impl<O: OwnerMut, P, R> CallAsync<'_, O, P, R> {
    /// Ends the call, unless it has ended.
    fn end(&mut self) {
        if self.polled.host.is_some() {
            // The drop of the host function's future may access the guest's memory, and faults need
            // the signal handler. If the thread cannot be prepared, the future is dropped all the
            // same.
            let _ = sys::signal::prepare_thread();
        }
        // The host function's future borrows the instance, so it is dropped first.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.polled.host = None;
            self.turn = None;
        }));
        self.state = Stage::Ended;
        // SAFETY: the host function's future was dropped, so only this future borrows the owner.
        let mut callee = unsafe { self.owner.as_mut() }.callee();
        callee.cancel();
        if let Some(watch) = callee.watch_made() {
            if let (true, Some(until)) = (self.timed, self.until) {
                timer::forget_waiting(watch.control(), until);
            }
            watch.control().waits_no_more();
        }
        if let Err(panic) = dropped {
            resume_unwind(panic);
        }
    }
}

impl<O: OwnerMut, P: Params, R: Results> Future for CallAsync<'_, O, P, R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match self.advance(context) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(results)) => Ok(results),
            Err(error) => Err(error),
        };
        if !matches!(self.state, Stage::Ended) {
            self.end();
        }
        Poll::Ready(result)
    }
}

impl<O: OwnerMut, P, R> Drop for CallAsync<'_, O, P, R> {
    fn drop(&mut self) {
        if !matches!(self.state, Stage::Ended | Stage::New(_)) {
            self.end();
        }
    }
}

impl<O: OwnerMut, P, R> fmt::Debug for CallAsync<'_, O, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallAsync")
            .field("waits", &self.polled.host.is_some())
            .finish_non_exhaustive()
    }
}
