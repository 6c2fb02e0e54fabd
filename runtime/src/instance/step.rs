//! Calls step by step: [`Instance::start`] and [`Instance::resume`].

use super::handle::Instance;
use super::suspended::Step;
use crate::call::host_state::Mode;
use crate::call::{TypedFunc, steps};
use crate::error::{CallError, CallState, Operation, StateError};
use crate::stop::Bounds;
use crate::value::typed::{Params, Results};
use core::slice;

impl<T, Q, A> Instance<T, Q, A> {
    /// Starts a call of a function.
    ///
    /// The guest may ask the host. The guest may be preempted if the call has a
    /// [`timeslice`](Self::timeslice). Until the call returns, the instance cannot make another
    /// call. The instance can be inspected, sent to another thread, and dropped.
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
        let mut callee = self.callee();
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
        self.expect(func, Operation::Resume, CallState::Preempted)?;
        self.callee().advance(func, false, Mode::Steps)
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
        self.expect(func, Operation::ResumeWith, CallState::Asked)?;
        let Some(reply) = self.store.reply.take() else {
            return Err(StateError::new(Operation::ResumeWith, CallState::Idle).into());
        };
        let given = steps::may_resume(slice::from_ref(&self.member), 0)
            .and_then(|()| steps::reply(&self.member, reply, &mut self.store.data, answer));
        match given {
            Ok(()) => self.callee().advance(func, false, Mode::Steps),
            Err(error) => {
                self.cancel();
                Err(error)
            }
        }
    }

    /// Whether a call is suspended.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// Ends the suspended call, if there is one. The guest's changes stay, as after a deadline.
    pub fn cancel(&mut self) {
        self.callee().cancel();
    }

    /// Checks that a call of this function is suspended in the wanted state.
    fn expect<P, R>(
        &self,
        func: &TypedFunc<P, R>,
        operation: Operation,
        wanted: CallState,
    ) -> Result<(), CallError> {
        let state = match &self.suspended {
            None => CallState::Idle,
            Some(call) if call.state != wanted => call.state,
            Some(call) if func.prepared == self.member.inner.id && func.identity() == call.func => {
                return Ok(());
            }
            Some(_) => CallState::Another,
        };
        Err(StateError::new(operation, state).into())
    }

    /// Runs `call`, which makes a step, with the limits `bounds`.
    pub(super) fn within<R>(
        &mut self,
        bounds: Bounds,
        call: impl FnOnce(&mut Self) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        self.member.watch().bounds = bounds;
        let limited = ClearLimits(self);
        call(limited.0)
    }
}

/// Removes the limits from the instance when the call has ended, also during unwinding: the drop of
/// a question is the embedder's code and may panic.
struct ClearLimits<'a, T, Q, A>(&'a mut Instance<T, Q, A>);

impl<T, Q, A> Drop for ClearLimits<'_, T, Q, A> {
    fn drop(&mut self) {
        self.0.member.watch().bounds = Bounds::default();
    }
}
