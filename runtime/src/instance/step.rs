//! Calls step by step: [`Instance::start`] and [`Instance::resume`].

use super::handle::Instance;
use super::owner::OwnerMut;
use super::suspended::Step;
use crate::call::TypedFunc;
use crate::call::host_state::Mode;
use crate::error::{CallError, CallState, Operation};
use crate::stop::Bounds;
use crate::value::typed::{Params, Results};

impl<T, Q, A, O: OwnerMut<Data = T, Question = Q, Answer = A>> Instance<T, Q, A, O> {
    /// Starts a call of a function.
    ///
    /// The guest may ask the host. The guest may be preempted if the call has a
    /// [`timeslice`](Self::timeslice). Until the call returns, the instance cannot make another
    /// call. The instance can be inspected, sent to another thread, and dropped. A call of a
    /// group's member suspends the whole group.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); [`CallError::State`] if another call is already suspended. After
    /// any error, the new call has ended.
    pub fn start<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<Step<R, Q>, CallError> {
        let mut callee = self.owner.callee();
        callee.begin(func, params)?;
        callee.advance(func, true, Mode::Steps)
    }

    /// Resumes a preempted call. `func` must be the function that the call was started with.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); [`CallError::State`] if no call of this function was preempted.
    /// That error changes nothing.
    pub fn resume<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
    ) -> Result<Step<R, Q>, CallError> {
        let mut callee = self.owner.callee();
        callee.expect(func, Operation::Resume, CallState::Preempted)?;
        callee.advance(func, false, Mode::Steps)
    }

    /// Resumes a call that has asked, and gives it the answer. `func` must be the function that the
    /// call was started with.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and the error that the host function returns for this answer.
    /// [`CallError::State`] if no call of this function has asked. That error changes nothing.
    pub fn resume_with<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        answer: A,
    ) -> Result<Step<R, Q>, CallError> {
        self.owner.callee().answer(func, answer)
    }

    /// Ends the suspended call, if there is one. The guest's changes stay, as after a deadline.
    pub fn cancel(&mut self) {
        self.owner.callee().cancel();
    }

    /// Runs `call`, which makes a call or a step, with the limits `bounds`.
    pub(super) fn within<R>(
        &mut self,
        bounds: Bounds,
        call: impl FnOnce(&mut Self) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        self.owner.callee().watch().bounds = bounds;
        let limited = ClearLimits(self);
        call(limited.0)
    }
}

/// Removes the limits from the instance when the call has ended, also during unwinding: the drop of
/// a question is the embedder's code and may panic.
struct ClearLimits<'a, O: OwnerMut>(&'a mut Instance<O::Data, O::Question, O::Answer, O>);

impl<O: OwnerMut> Drop for ClearLimits<'_, O> {
    fn drop(&mut self) {
        self.0.owner.callee().watch().bounds = Bounds::default();
    }
}
