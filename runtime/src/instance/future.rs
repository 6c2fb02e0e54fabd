//! [`CallAsync`]: a call as a future, on any executor.
//!
//! # Safety
//!
//! Owns the fact that the future of an async host function, which borrows the instance's data and memory, is
//! dropped before anything else is done with the instance: it is put here when the guest waits for it, and
//! this borrows the instance. If this is forgotten, so is that.
#![allow(unsafe_code)]

use super::Instance;
use super::exit::steps;
use super::prepared::Func;
use super::step::Step;
use crate::error::{CallError, Operation, State, StateError};
use crate::host::HostFuture;
use crate::host::store::{HostCall, Mode, Polled};
use crate::shared::wait::{Waiting, Woken};
use crate::stop::{Bounds, Why, timer};
use crate::sys;
use crate::value::Stamp;
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

/// A call of a guest as a future, made by [`Instance::call_async`]. It runs the guest when it is polled, on the
/// thread that polls it, until the guest returns, waits for an async host function, or has used up its slice
/// of time. Dropping it cancels the call.
#[must_use = "a future does nothing unless it is polled"]
pub struct CallAsync<'a, T, Q, A, P, R> {
    /// Not a reference: while a host function's future lives, its data is borrowed by that.
    instance: NonNull<Instance<T, Q, A>>,
    borrowed: PhantomData<&'a mut Instance<T, Q, A>>,
    func: Func<P, R>,
    state: Stage,
    /// The poll that is under way, and the host function that the guest waits for.
    polled: Polled,
    /// What is left of the limits; the deadline is in `until`.
    bounds: Bounds,
    /// The limits.
    limits: Bounds,
    /// When the deadline passes, once it runs.
    until: Option<u64>,
    /// Whether the timer knows that.
    timed: bool,
    /// What lets others have their turn after a slice of time, and that turn while it lasts.
    others: Option<fn() -> HostFuture<'static, ()>>,
    turn: Option<HostFuture<'static, ()>>,
}

// SAFETY: it is a mutable borrow of the instance, and a future that is `Send`.
unsafe impl<T, Q, A, P, R> Send for CallAsync<'_, T, Q, A, P, R> where Instance<T, Q, A>: Send {}

/// How far the call is.
enum Stage {
    /// The parameters are in place, or why they are not.
    New(Result<(), CallError>),
    /// It was suspended.
    Suspended,
    /// It was suspended, and its host function's future is being dropped, or panicked then.
    Dropping,
    /// It has ended.
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

    /// Has others have their turn, whenever a slice of time is over, until the future ends that `others` gives. Without
    /// this the task is woken at once, which not all executors take for giving way: tokio polls a task that is
    /// woken while it is polled up to 61 times before it looks at its sockets again, but looks at them first after
    /// its `yield_now`.
    ///
    /// A kill or the deadline ends the call during such a turn, too.
    pub fn yield_by(mut self, others: fn() -> HostFuture<'static, ()>) -> Self {
        self.others = Some(others);
        self
    }

    /// Whether the call is to end while the guest waits, and who is to be woken if so later.
    ///
    /// # Errors
    ///
    /// Why it ends.
    fn watch(&mut self, context: &Context<'_>) -> Result<(), CallError> {
        // SAFETY: the borrow; the member is no part of what a host function's future borrows.
        let member = unsafe { &(*self.instance.as_ptr()).member };
        let Some(watch) = &member.watch else {
            return Ok(());
        };
        // First: who stops it from here on wakes it.
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
        // A fork has none.
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
        // If its drop panics there are no results to go on with.
        self.state = Stage::Dropping;
        self.polled.host = None;
        self.state = Stage::Suspended;
        // SAFETY: the borrow, which is this one's alone again.
        let member = unsafe { &(*self.instance.as_ptr()).member };
        Poll::Ready(steps::ended_waiting(member, ended))
    }

    /// Has the guest's waiting for another guest be a host function that it waits for.
    fn begin_wait(&mut self) {
        // SAFETY: the borrow, which is this one's alone: there is no future of a host function.
        let member = unsafe { &mut self.instance.as_mut().member };
        if let Some(Waiting { wait, cells }) = member.waiting.take().map(|waiting| *waiting) {
            let future = Box::pin(Woken::new(wait, member.watch().control()));
            // SAFETY: the cells of the call, whose guest is left.
            self.polled.host = Some(unsafe { HostCall::new(future, cells, Stamp(0)) });
        }
    }

    /// Polls the turn of others, if it is theirs.
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

    /// Runs the guest. A host function that it waits for is kept.
    ///
    /// # Errors
    ///
    /// Why the call ends.
    fn step(&mut self, first: bool, context: &mut Context<'_>) -> Result<Poll<R>, CallError> {
        let bounds = self.bounds_now();
        // SAFETY: the borrow, which is this one's alone: there is no future of a host function.
        let instance = unsafe { self.instance.as_mut() };
        if !bounds.is_none() {
            instance.member.watch().bounds = bounds;
        }
        self.polled.context = NonNull::from(&mut *context).cast();
        let mode = Mode::Async(NonNull::from(&mut self.polled));
        let step = instance.advance(&self.func, first, mode);
        // From here on only fields that a future does not borrow.
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

    /// What is left of the limits.
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
                // Another call may be suspended.
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
            // SAFETY: the borrow; the member is no part of what a host function's future borrows.
            steps::may_go_on(unsafe { &(*self.instance.as_ptr()).member })?;
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
            // Its drop may look at the guest's memory. Where that cannot be had, it may still not.
            let _ = sys::signal::prepare_thread();
        }
        // It borrows the instance.
        let dropped = catch_unwind(AssertUnwindSafe(|| {
            self.polled.host = None;
            self.turn = None;
        }));
        self.state = Stage::Ended;
        // SAFETY: the borrow, which is this one's alone again.
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
