//! [`Limited`]: one call of an instance, with limits.

use super::Instance;
use super::prepared::Func;
use crate::error::CallError;
use crate::stop::Bounds;
use crate::trap::Stop;
use crate::value::Value;
use crate::value::typed::{Params, Results};
use core::time::Duration;

/// One call of an instance, with limits. Made by [`Instance::deadline`] and [`Instance::cpu_budget`].
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
pub struct Limited<'a, T> {
    instance: &'a mut Instance<T>,
    bounds: Bounds,
}

impl<'a, T> Limited<'a, T> {
    pub(super) fn new(instance: &'a mut Instance<T>) -> Self {
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

    /// Calls a function within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call`]; [`CallError::Deadline`] and [`CallError::CpuBudget`] if a limit was
    /// reached, at once if it is 0.
    pub fn call<P: Params, R: Results>(self, func: &Func<P, R>, params: P) -> Result<R, CallError> {
        self.instance
            .within(self.bounds, |instance| instance.call(func, params))
    }

    /// Calls the exported function of a name within the limits.
    ///
    /// # Errors
    ///
    /// As [`Instance::call_values`] and [`call`](Self::call).
    pub fn call_values(self, name: &str, params: &[Value]) -> Result<Vec<Value>, CallError> {
        self.instance
            .within(self.bounds, |instance| instance.call_values(name, params))
    }
}

impl<T> Instance<T> {
    /// Does what calls a function, within limits.
    pub(super) fn within<R>(
        &mut self,
        bounds: Bounds,
        call: impl FnOnce(&mut Self) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        let none = Some(Duration::ZERO);
        if bounds.wall_ns == Some(0) {
            return Err(CallError::Deadline(Stop::new(none, None)));
        }
        if bounds.cpu_ns == Some(0) {
            return Err(CallError::CpuBudget(Stop::new(none, None)));
        }
        self.member.watch().bounds = bounds;
        let result = call(self);
        self.member.watch().bounds = Bounds::default();
        result
    }
}

/// What does not fit is never reached.
pub(super) fn nanoseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)
}
