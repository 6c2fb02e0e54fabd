//! [`Limited`]: one call of an instance, with limits.

use super::func::Func;
use super::future::CallAsync;
use super::handle::Instance;
use super::step::Step;
use crate::error::{CallError, Operation, State, StateError};
use crate::stop::Bounds;
use crate::value::Value;
use crate::value::typed::{Params, Results};
use core::convert::Infallible;
use core::time::Duration;

/// One call of an instance, or one step of it, with limits. Made by [`Instance::deadline`],
/// [`Instance::cpu_budget`] and [`Instance::timeslice`].
///
/// ```no_run
/// # use std::time::Duration;
/// # use pirn_runtime::{Func, Instance};
/// # fn f(instance: &mut Instance<()>, handle: &Func<(), u32>) -> Result<(), pirn_runtime::CallError> {
/// let status = instance
///     .deadline(Duration::from_millis(50))
///     .cpu_budget(Duration::from_millis(10))
///     .call(handle, ())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it limits the call that is made by it, and does nothing by itself"]
pub struct Limited<'a, T, Q = Infallible, A = Infallible> {
    instance: &'a mut Instance<T, Q, A>,
    bounds: Bounds,
}

impl<T, Q, A> Instance<T, Q, A> {
    /// Calls a function as a future, on any executor.
    ///
    /// Async host functions ([`Linker::func_async`](crate::Linker::func_async)) suspend the guest.
    /// Meanwhile the executor's thread can run other tasks.
    ///
    /// A kill of a waiting guest calls the task's waker on the thread that kills. A deadline calls
    /// it on the timer thread, of which there is one. So a waker that does more than wake delays
    /// others.
    ///
    /// # Errors
    ///
    /// The future returns errors as [`call`](Self::call) does.
    pub fn call_async<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        params: P,
    ) -> CallAsync<'_, T, Q, A, P, R> {
        Limited::new(self).call_async(func, params)
    }

    /// Limits the wall time of the next call: after that time it ends with [`CallError::Deadline`].
    ///
    /// Guest code is interrupted at any instruction. A host function first runs to its end, and its
    /// result is discarded.
    pub fn deadline(&mut self, limit: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).deadline(limit)
    }

    /// Limits the processor time of the next call: after that time it ends with
    /// [`CallError::CpuBudget`].
    ///
    /// The limit counts the processor time that the call's thread uses for it. The guest is
    /// interrupted as by a [`deadline`](Self::deadline).
    pub fn cpu_budget(&mut self, limit: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).cpu_budget(limit)
    }

    /// Suspends the next call each time that it has run for this long, at any instruction.
    ///
    /// This applies to calls by [`Limited::start`] and [`Limited::call_async`].
    pub fn timeslice(&mut self, slice: Duration) -> Limited<'_, T, Q, A> {
        Limited::new(self).timeslice(slice)
    }
}

impl<'a, T, Q, A> Limited<'a, T, Q, A> {
    pub(super) fn new(instance: &'a mut Instance<T, Q, A>) -> Self {
        let bounds = Bounds::default();
        Self { instance, bounds }
    }

    /// As [`Instance::deadline`].
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.bounds.wall_ns = Some(nanoseconds(limit));
        self
    }

    /// As [`Instance::cpu_budget`].
    pub fn cpu_budget(mut self, limit: Duration) -> Self {
        self.bounds.cpu_ns = Some(nanoseconds(limit));
        self
    }

    /// As [`Instance::timeslice`].
    pub fn timeslice(mut self, slice: Duration) -> Self {
        self.bounds.slice_ns = Some(nanoseconds(slice));
        self
    }

    /// Calls a function within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call`]; [`CallError::Deadline`] and [`CallError::CpuBudget`] if a limit was
    /// reached, at once for a limit of 0; [`CallError::State`] if a time slice was set.
    pub fn call<P: Params, R: Results>(self, func: &Func<P, R>, params: P) -> Result<R, CallError> {
        self.whole()?.step(|instance| instance.call(func, params))
    }

    /// Calls the exported function `name` within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_values`] and [`call`](Self::call).
    pub fn call_values(self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.whole()?
            .step(|instance| instance.call_values(name, params))
    }

    /// [`Instance::start`] within the limits. They apply to this step only.
    ///
    /// # Errors
    ///
    /// As [`Instance::start`], and the errors of limits as [`call`](Self::call).
    pub fn start<P: Params, R: Results>(
        self,
        func: &Func<P, R>,
        params: P,
    ) -> Result<Step<R, Q>, CallError> {
        self.step(|instance| instance.start(func, params))
    }

    /// [`Instance::resume`] within the limits. They apply to this step only.
    ///
    /// # Errors
    ///
    /// As [`Instance::resume`], and the errors of limits as [`call`](Self::call).
    pub fn resume<P: Params, R: Results>(self, func: &Func<P, R>) -> Result<Step<R, Q>, CallError> {
        self.step(|instance| instance.resume(func))
    }

    /// [`Instance::resume_with`] within the limits. They apply to this step only.
    ///
    /// # Errors
    ///
    /// As [`Instance::resume_with`], and the errors of limits as [`call`](Self::call).
    pub fn resume_with<P: Params, R: Results>(
        self,
        func: &Func<P, R>,
        answer: A,
    ) -> Result<Step<R, Q>, CallError> {
        self.step(|instance| instance.resume_with(func, answer))
    }

    /// [`Instance::call_async`] within the limits.
    ///
    /// A deadline applies to the whole call. It begins at the first poll of the future, and also
    /// ends a wait of the guest. A processor-time budget applies to the whole call, too. It counts
    /// the time of the guest and its host functions, but not the time of their futures. After each
    /// time slice the future lets other tasks run.
    pub fn call_async<P: Params, R: Results>(
        self,
        func: &Func<P, R>,
        params: P,
    ) -> CallAsync<'a, T, Q, A, P, R> {
        CallAsync::new(self.instance, func, params, self.bounds)
    }

    fn step<R>(
        self,
        call: impl FnOnce(&mut Instance<T, Q, A>) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        self.instance.within(self.bounds, call)
    }

    /// Checks that there is no time slice: the call runs until it returns.
    fn whole(self) -> Result<Self, CallError> {
        match self.bounds.slice_ns {
            None => Ok(self),
            Some(_) => Err(StateError::new(Operation::Slice, State::Called).into()),
        }
    }
}

/// A limit that does not fit into 64 bits is never reached.
pub(super) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
