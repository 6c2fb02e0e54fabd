//! Calls step by step: [`Instance::start`], [`Instance::resume`], [`Step`].

use super::func::Func;
use super::handle::Instance;
use super::suspended::Suspended;
use crate::account::Clocks;
use crate::call::errors::foreign;
use crate::call::host_state::Mode;
use crate::call::{Progress, steps};
use crate::error::{CallError, Operation, State, StateError};
use crate::memory::wait::Blocking;
use crate::stop::Bounds;
use crate::sys;
use crate::value::typed::{Params, Results, sealed};

/// The progress of a call after one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a call that is suspended goes on only if it is resumed"]
pub enum Step<R, Q = core::convert::Infallible> {
    /// The call has returned these results.
    Returned(R),
    /// The guest called a function of [`Linker::func_ask`](crate::Linker::func_ask) and waits for
    /// the answer. Give it by [`Instance::resume_with`].
    Asked(Q),
    /// The time slice of the call has ended. Continue by [`Instance::resume`].
    Preempted,
}

impl<T, Q, A> Instance<T, Q, A> {
    /// Starts a call of a function.
    ///
    /// The guest may ask the host. It may be preempted if the call has a
    /// [`timeslice`](Self::timeslice). Until the call returns, the instance cannot make another
    /// call. It can be inspected, sent to another thread, and dropped.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); [`CallError::State`] if another call is already suspended. After
    /// any error the new call has ended.
    pub fn start<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        params: P,
    ) -> Result<Step<R, Q>, CallError> {
        self.begin(func, params)?;
        self.advance(func, true, Mode::Steps)
    }

    /// Resumes a preempted call. `func` must be the function that the call was started with.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); [`CallError::State`] if no call of this function was preempted.
    /// That error changes nothing.
    pub fn resume<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
    ) -> Result<Step<R, Q>, CallError> {
        self.expect(func, Operation::Resume, State::Preempted)?;
        self.advance(func, false, Mode::Steps)
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
        func: &Func<P, R>,
        answer: A,
    ) -> Result<Step<R, Q>, CallError> {
        self.expect(func, Operation::ResumeWith, State::Asked)?;
        let Some(reply) = self.store.reply.take() else {
            return Err(StateError::new(Operation::ResumeWith, State::Idle).into());
        };
        let given = steps::may_resume(&self.member)
            .and_then(|()| steps::reply(&self.member, reply, &mut self.store.data, answer));
        match given {
            Ok(()) => self.advance(func, false, Mode::Steps),
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
        if self.suspended.take().is_some() {
            self.give_up();
        }
    }

    /// Discards all state of a call that has ended.
    fn give_up(&mut self) {
        let question = self.store.question.take();
        self.store.reply = None;
        self.member.waiting = None;
        if self.member.clocks != Clocks::None {
            self.member.account().end_suspension(sys::clock::now_ns());
        }
        self.member.bulk = None;
        if let Some(watch) = &self.member.watch {
            watch.control().cancel();
        }
        // The drop comes last: it is the embedder's code and may panic.
        drop(question);
    }

    /// Writes the parameters to the cells from which a call reads them.
    pub(super) fn begin<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        params: P,
    ) -> Result<(), CallError> {
        self.check(func, Operation::Call)?;
        let instance_id = self.member.instance_id(func.needs_instance_id());
        let cells = self.member.cells(func.cells());
        sealed::List::store(params, cells, instance_id).map_err(foreign)
    }

    /// Checks that a call of this function is suspended in the wanted state.
    fn expect<P, R>(
        &self,
        func: &Func<P, R>,
        operation: Operation,
        wanted: State,
    ) -> Result<(), CallError> {
        let state = match &self.suspended {
            None => State::Idle,
            Some(call) if call.state != wanted => call.state,
            Some(call) if func.prepared == self.member.inner.id && func.identity() == call.func => {
                return Ok(());
            }
            Some(_) => State::Another,
        };
        Err(StateError::new(operation, state).into())
    }

    /// Makes a step: the first one or the next one.
    ///
    /// After the step, a pending async host function may borrow parts of the store. This method
    /// then accesses only the parts that such a function does not borrow.
    #[inline(always)]
    pub(super) fn advance<P: Params, R: Results>(
        &mut self,
        func: &Func<P, R>,
        first: bool,
        mode: Mode,
    ) -> Result<Step<R, Q>, CallError> {
        let count = func.cells();
        self.suspended = None;
        self.store.mode = mode;
        self.member.blocking = match mode {
            Mode::Call => Blocking::Blocks,
            Mode::Steps => Blocking::UntilSliceIsOver,
            Mode::Async(_) => Blocking::Leaves,
        };
        let target = func.target(self.member.vmctx());
        let stepped = steps::step(&mut self.member, target, first, count, &mut self.store);
        self.store.mode = Mode::Call;
        self.member.blocking = Blocking::Blocks;
        let progress = match stepped {
            Ok(progress) => progress,
            Err(error) => {
                self.give_up();
                return Err(error);
            }
        };
        let (step, state) = match (progress, self.store.question.take()) {
            (Progress::Returned, _) => {
                let instance_id = self.member.instance_id(func.needs_instance_id());
                let results = <R as sealed::List>::load(self.member.cells(count), instance_id);
                return Ok(Step::Returned(results));
            }
            (Progress::Waits, Some(question)) => (Step::Asked(question), State::Asked),
            // The guest waits for another guest, and continues the wait in the next time slice.
            (Progress::Waits, None) if matches!(mode, Mode::Steps) => {
                (Step::Preempted, State::Preempted)
            }
            // The future of the call reports this state; it is an error only if that future was
            // forgotten.
            (Progress::Waits, None) => (Step::Preempted, State::Forgotten),
            (Progress::Preempted, _) => (Step::Preempted, State::Preempted),
        };
        let func = func.identity();
        self.suspended = Some(Suspended { func, state });
        Ok(step)
    }

    /// Runs `call`, which makes a step, with the limits `bounds`.
    pub(super) fn within<R>(
        &mut self,
        bounds: Bounds,
        call: impl FnOnce(&mut Self) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        self.member.watch().bounds = bounds;
        let limited = LimitedCall(self);
        call(limited.0)
    }
}

/// Removes the limits from the instance when the call has ended, also during unwinding: the drop of
/// a question is the embedder's code and may panic.
struct LimitedCall<'a, T, Q, A>(&'a mut Instance<T, Q, A>);

impl<T, Q, A> Drop for LimitedCall<'_, T, Q, A> {
    fn drop(&mut self) {
        self.0.member.watch().bounds = Bounds::default();
    }
}
