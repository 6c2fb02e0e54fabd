//! [`CallAsync`]: a call as a future, on any executor.
//!
//! # Safety
//!
//! This file owns one fact. The future of an async host function borrows the data and the memory of
//! the instance. It is dropped before anything else uses the instance.
//!
//! [`CallAsync`] stores that future when the guest waits for it, and itself borrows the instance.
//! If a [`CallAsync`] is forgotten, the future in it is forgotten, too.
#![allow(unsafe_code)]

use super::func::Func;
use super::handle::Instance;
use super::step::Step;
use crate::call::host_state::{HostCall, Mode, Polled};
use crate::call::{HostFuture, steps};
use crate::error::{CallError, Operation, State, StateError};
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
use core::ptr::NonNull;
use core::task::{Context, Poll};
use std::panic::{catch_unwind, resume_unwind};

/// A call of a guest as a future, made by [`Instance::call_async`].
///
/// Each poll runs the guest on the polling thread. The poll ends when the guest returns, waits for
/// an async host function, or has used up its time slice. Dropping the future cancels the call.
#[must_use = "a future does nothing unless it is polled"]
pub struct CallAsync<'a, T, Q, A, P, R> {
    /// A pointer, not a reference: a host function's future borrows the instance's data while it
    /// lives.
    instance: NonNull<Instance<T, Q, A>>,
    borrowed: PhantomData<&'a mut Instance<T, Q, A>>,
    func: Func<P, R>,
    state: Stage,
    /// State of the current poll, and the host function that the guest waits for.
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

// SAFETY: it is a mutable borrow of a `Send` instance, and a host function's future that is `Send`.
unsafe impl<T, Q, A, P, R> Send for CallAsync<'_, T, Q, A, P, R> where Instance<T, Q, A>: Send {}

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

impl<'a, T, Q, A, P: Params, R: Results> CallAsync<'a, T, Q, A, P, R> {
    pub(super) fn new(
        instance: &'a mut Instance<T, Q, A>,
        func: &Func<P, R>,
        params: P,
        bounds: Bounds,
    ) -> Self {
        Self {
            state: Stage::New(instance.begin(func, params)),
            instance: NonNull::from(instance),
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

    /// After each time slice, waits for the future that `others` returns, so that other tasks run.
    ///
    /// Without this method the task is woken at once. Not every executor then runs other tasks
    /// first. tokio polls a task that is woken during its own poll up to 61 times before it checks
    /// its sockets again. After tokio's `yield_now` it checks them first.
    ///
    /// A kill or the deadline ends the call during such a pause, too.
    pub fn yield_by(mut self, others: fn() -> HostFuture<'static, ()>) -> Self {
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
        // SAFETY: this future borrows the instance. A host function's future does not borrow the
        // member.
        let member = unsafe { &(*self.instance.as_ptr()).member };
        let Some(watch) = &member.watch else {
            return Ok(());
        };
        // Register the waker first, so that a stop after the checks below wakes the task.
        watch.control().waits(context.waker());
        let ended = |why| Err(steps::stopped_waiting(member, why, self.bounds));
        if watch.control().is_killed() {
            return ended(Why::Killed);
        }
        let Some(until) = self.until else {
            return Ok(());
        };
        if until <= sys::clock::now_ns() {
            return ended(Why::Deadline);
        }
        if !self.timed {
            timer::wake_waiting(watch.control(), until)?;
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
        // SAFETY: the host function's future was dropped, so only this future borrows the instance.
        let member = unsafe { &(*self.instance.as_ptr()).member };
        Poll::Ready(steps::ended_waiting(member, ended))
    }

    /// Treats `memory.atomic.wait` as a pending host call.
    fn begin_wait(&mut self) {
        // SAFETY: only this future borrows the instance, because there is no future of a host
        // function.
        let member = unsafe { &mut self.instance.as_mut().member };
        if let Some(Waiting { wait, cells }) = member.waiting.take().map(|waiting| *waiting) {
            let future = Box::pin(Woken::new(wait, member.watch().control()));
            // SAFETY: the cells belong to the call, whose guest has been left.
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
        // SAFETY: only this future borrows the instance, because there is no future of a host
        // function.
        let instance = unsafe { self.instance.as_mut() };
        if !bounds.is_none() {
            instance.member.watch().bounds = bounds;
        }
        self.polled.context = NonNull::from(&mut *context).cast();
        let mode = Mode::Async(NonNull::from(&mut self.polled));
        let step = instance.advance(&self.func, first, mode);
        // From here on, access only those fields that a host function's future does not borrow.
        if let Some(watch) = &mut instance.member.watch {
            self.bounds.cpu_ns = watch.bounds.cpu_ns;
            watch.bounds = Bounds::default();
        }
        match step.map_err(|error| error.limited_to(self.limits))? {
            Step::Returned(results) => Ok(Poll::Ready(results)),
            Step::Preempted if self.polled.host.is_some() => {
                self.watch(context)?;
                Ok(Poll::Pending)
            }
            Step::Preempted if instance.member.waiting.is_some() => {
                self.begin_wait();
                if self.poll_host(context)?.is_ready() {
                    context.waker().wake_by_ref();
                }
                Ok(Poll::Pending)
            }
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
                return Err(StateError::new(Operation::Poll, State::Ended).into());
            }
        };
        if self.polled.host.is_some() {
            // SAFETY: this future borrows the instance. A host function's future does not borrow
            // the member.
            steps::may_resume(unsafe { &(*self.instance.as_ptr()).member })?;
        }
        if self.poll_turn(context)?.is_pending() || self.poll_host(context)?.is_pending() {
            return Ok(Poll::Pending);
        }
        self.step(first, context)
    }
}

impl<T, Q, A, P, R> CallAsync<'_, T, Q, A, P, R> {
    /// Ends the call, if it has not.
    fn end(&mut self) {
        if self.polled.host.is_some() {
            // The drop of the host function's future may access the guest's memory, and faults need
            // the signal handler. If that cannot be prepared, the future is dropped all the same.
            let _ = sys::signal::prepare_thread();
        }
        // The host function's future borrows the instance, so it is dropped first.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.polled.host = None;
            self.turn = None;
        }));
        self.state = Stage::Ended;
        // SAFETY: the host function's future was dropped, so only this future borrows the instance.
        let instance = unsafe { self.instance.as_mut() };
        instance.cancel();
        if let Some(watch) = &instance.member.watch {
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

impl<T, Q, A, P: Params, R: Results> Future for CallAsync<'_, T, Q, A, P, R> {
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

impl<T, Q, A, P, R> Drop for CallAsync<'_, T, Q, A, P, R> {
    fn drop(&mut self) {
        if !matches!(self.state, Stage::Ended | Stage::New(_)) {
            self.end();
        }
    }
}

impl<T, Q, A, P, R> fmt::Debug for CallAsync<'_, T, Q, A, P, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallAsync")
            .field("waits", &self.polled.host.is_some())
            .finish_non_exhaustive()
    }
}
