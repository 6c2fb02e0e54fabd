//! [`LimitedCall`] of a member of a [`Group`].

use super::future::CallAsync;
use super::group::{Group, MemberId};
use super::limited::LimitedCall;
use crate::call::{Func, TypedFunc, Wanted};
use crate::error::CallError;
use crate::stop::Bounds;
use crate::value::typed::{Params, Results};
use crate::value::{FuncRef, Value};
use core::time::Duration;

impl<T: 'static, Q: 'static, A: 'static> Group<T, Q, A> {
    /// Calls a function of an instance as a future, as
    /// [`Instance::call_async`](crate::Instance::call_async).
    ///
    /// # Errors
    ///
    /// The future returns errors as [`call`](Self::call) does.
    pub fn call_async<P: Params, R: Results>(
        &mut self,
        member: MemberId,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> CallAsync<'_, Self, P, R> {
        self.call_async_within(Bounds::default(), member, func, params)
    }

    /// Limits the wall time of the next call, as
    /// [`Instance::deadline`](crate::Instance::deadline).
    pub fn deadline(&mut self, limit: Duration) -> LimitedCall<&mut Group<T, Q, A>> {
        LimitedCall::new(self).deadline(limit)
    }

    /// Limits the processor time of the next call, as
    /// [`Instance::cpu_budget`](crate::Instance::cpu_budget).
    pub fn cpu_budget(&mut self, limit: Duration) -> LimitedCall<&mut Group<T, Q, A>> {
        LimitedCall::new(self).cpu_budget(limit)
    }

    /// Suspends the next call each time that it has run for the time `slice`, so that other tasks
    /// can run.
    ///
    /// The time slice applies to calls by [`LimitedCall::call_async`]. See
    /// [`Instance::timeslice`](crate::Instance::timeslice).
    pub fn timeslice(&mut self, slice: Duration) -> LimitedCall<&mut Group<T, Q, A>> {
        LimitedCall::new(self).timeslice(slice)
    }
}

/// Calls of members. The limits apply to the whole call, whichever members of the group it enters.
impl<'a, T: 'static, Q: 'static, A: 'static> LimitedCall<&'a mut Group<T, Q, A>> {
    /// Calls a function of an instance within the limits.
    ///
    /// # Errors
    ///
    /// As [`Group::call`]; [`CallError::Deadline`] and [`CallError::CpuBudget`] if a limit was
    /// reached, at once for a limit of 0; [`CallError::State`] if a time slice was set.
    pub fn call<P: Params, R: Results>(
        self,
        member: MemberId,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        let Self { callee, bounds } = self.whole()?;
        callee.call_within(bounds, member, func, params)
    }

    /// Calls the exported function `name` of an instance within the limits.
    ///
    /// # Errors
    ///
    /// As [`Group::call_values`] and [`call`](Self::call).
    pub fn call_values(
        self,
        member: MemberId,
        name: &str,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        let Self { callee, bounds } = self.whole()?;
        let at = callee.position(member)?;
        callee.call_untyped_within(bounds, at, Wanted::Export(name), params)
    }

    /// [`Group::call_func`] within the limits.
    ///
    /// # Errors
    ///
    /// As [`Group::call_func`] and [`call`](Self::call).
    pub fn call_func(self, func: &Func, params: &[Value]) -> Result<Vec<Value>, CallError> {
        let Self { callee, bounds } = self.whole()?;
        callee.call_func_within(bounds, func, params)
    }

    /// [`Group::call_ref`] within the limits.
    ///
    /// # Errors
    ///
    /// As [`Group::call_ref`] and [`call`](Self::call).
    pub fn call_ref(self, reference: FuncRef, params: &[Value]) -> Result<Vec<Value>, CallError> {
        let Self { callee, bounds } = self.whole()?;
        callee.call_ref_within(bounds, reference, params)
    }

    /// [`Group::call_async`] within the limits, as
    /// [`LimitedCall::call_async`](crate::LimitedCall::call_async).
    pub fn call_async<P: Params, R: Results>(
        self,
        member: MemberId,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> CallAsync<'a, Group<T, Q, A>, P, R> {
        self.callee
            .call_async_within(self.bounds, member, func, params)
    }
}
