//! [`LimitedCall`]: one call of an instance, with limits.

use super::future::CallAsync;
use super::handle::Instance;
use super::owner::OwnerMut;
use super::suspended::Step;
use crate::call::{Func, TypedFunc};
use crate::error::{CallError, CallState, Operation, StateError};
use crate::stop::Bounds;
use crate::value::typed::{Params, Results};
use crate::value::{FuncRef, Value};
use core::time::Duration;

/// One call, or one step of a call, with limits. [`Instance::deadline`], [`Instance::cpu_budget`]
/// and [`Instance::timeslice`] make a limited call. `C` is a mutable reference to the instance.
///
/// ```no_run
/// # use std::time::Duration;
/// # use pirn_runtime::{CallError, Instance, TypedFunc};
/// # fn f(instance: &mut Instance<()>, handle: &TypedFunc<(), u32>) -> Result<(), CallError> {
/// let status = instance
///     .deadline(Duration::from_millis(50))
///     .cpu_budget(Duration::from_millis(10))
///     .call(handle, ())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "limits apply only to a call that is made by this value"]
pub struct LimitedCall<C> {
    pub(super) callee: C,
    pub(super) bounds: Bounds,
}

impl<C> LimitedCall<C> {
    pub(super) fn new(callee: C) -> Self {
        let bounds = Bounds::default();
        Self { callee, bounds }
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

    /// Checks that there is no time slice: the call runs until it returns.
    ///
    /// # Errors
    ///
    /// [`CallState::Called`] if there is a time slice.
    pub(super) fn whole(self) -> Result<Self, StateError> {
        match self.bounds.slice_ns {
            None => Ok(self),
            Some(_) => Err(StateError::new(Operation::Slice, CallState::Called)),
        }
    }
}

impl<T, Q, A, O: OwnerMut<Data = T, Question = Q, Answer = A>> Instance<T, Q, A, O> {
    /// Calls a function as a future, on any executor.
    ///
    /// Async host functions ([`Linker::func_async`](crate::Linker::func_async)) suspend the guest.
    /// Meanwhile the executor's thread can run other tasks.
    ///
    /// A kill of a waiting guest calls the task's waker on the thread that kills. A deadline calls
    /// the waker on the only timer thread. So a waker that does more than wake its task delays the
    /// deadlines of other calls.
    ///
    /// # Errors
    ///
    /// The future returns errors as [`call`](Self::call) does.
    pub fn call_async<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> CallAsync<'_, O, P, R> {
        LimitedCall::new(self).call_async(func, params)
    }

    /// Limits the wall time of the next call: after that time the call ends with
    /// [`CallError::Deadline`].
    ///
    /// Guest code is interrupted at any instruction. A host function first runs to its end, and its
    /// result is discarded.
    pub fn deadline(&mut self, limit: Duration) -> LimitedCall<&mut Self> {
        LimitedCall::new(self).deadline(limit)
    }

    /// Limits the processor time of the next call: after that time the call ends with
    /// [`CallError::CpuBudget`].
    ///
    /// The limit counts the processor time that the call's thread uses for the call. The guest is
    /// interrupted as by a [`deadline`](Self::deadline).
    pub fn cpu_budget(&mut self, limit: Duration) -> LimitedCall<&mut Self> {
        LimitedCall::new(self).cpu_budget(limit)
    }

    /// Suspends the next call each time that it has run for the time `slice`, at any instruction.
    ///
    /// The time slice applies to calls by [`LimitedCall::start`] and [`LimitedCall::call_async`].
    pub fn timeslice(&mut self, slice: Duration) -> LimitedCall<&mut Self> {
        LimitedCall::new(self).timeslice(slice)
    }
}

impl<'a, T, Q, A, O> LimitedCall<&'a mut Instance<T, Q, A, O>>
where
    O: OwnerMut<Data = T, Question = Q, Answer = A>,
{
    /// Calls a function within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call`]; [`CallError::Deadline`] and [`CallError::CpuBudget`] if a limit was
    /// reached, at once for a limit of 0; [`CallError::State`] if a time slice was set.
    pub fn call<P: Params, R: Results>(
        self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
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

    /// [`Instance::call_func`] within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_func`] and [`call`](Self::call).
    pub fn call_func(self, func: &Func, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.whole()?
            .step(|instance| instance.call_func(func, params))
    }

    /// [`Instance::call_ref`] within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_ref`] and [`call`](Self::call).
    pub fn call_ref(self, reference: FuncRef, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.whole()?
            .step(|instance| instance.call_ref(reference, params))
    }

    /// [`Instance::start`] within the limits. The limits apply to this step only.
    ///
    /// # Errors
    ///
    /// As [`Instance::start`], and the errors of limits as [`call`](Self::call).
    pub fn start<P: Params, R: Results>(
        self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<Step<R, Q>, CallError> {
        self.step(|instance| instance.start(func, params))
    }

    /// [`Instance::resume`] within the limits. The limits apply to this step only.
    ///
    /// # Errors
    ///
    /// As [`Instance::resume`], and the errors of limits as [`call`](Self::call).
    pub fn resume<P: Params, R: Results>(
        self,
        func: &TypedFunc<P, R>,
    ) -> Result<Step<R, Q>, CallError> {
        self.step(|instance| instance.resume(func))
    }

    /// [`Instance::resume_with`] within the limits. The limits apply to this step only.
    ///
    /// # Errors
    ///
    /// As [`Instance::resume_with`], and the errors of limits as [`call`](Self::call).
    pub fn resume_with<P: Params, R: Results>(
        self,
        func: &TypedFunc<P, R>,
        answer: A,
    ) -> Result<Step<R, Q>, CallError> {
        self.step(|instance| instance.resume_with(func, answer))
    }

    /// [`Instance::call_async`] within the limits.
    ///
    /// A deadline applies to the whole call. Its time begins at the first poll of the future. A
    /// deadline also ends a wait of the guest. A processor-time budget applies to the whole call,
    /// too. The budget counts the time of the guest and its host functions, but not the time of the
    /// functions' futures. After each time slice the future lets other tasks run.
    pub fn call_async<P: Params, R: Results>(
        self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> CallAsync<'a, O, P, R> {
        CallAsync::new(&mut self.callee.owner, func, params, self.bounds)
    }

    fn step<R>(
        self,
        call: impl FnOnce(&mut Instance<T, Q, A, O>) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        self.callee.within(self.bounds, call)
    }
}

/// The limit in nanoseconds. A limit that does not fit into 64 bits becomes the largest number,
/// which is never reached.
pub(super) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
