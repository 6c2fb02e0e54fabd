//! [`Callee`]: the borrowed state of a stepwise or asynchronous call. An
//! [`Instance`](super::Instance) or a [`Group`](super::Group) lends it.
//!
//! # Safety
//!
//! This file owns one fact. A call of a group's member enters a function of that member.
#![allow(unsafe_code)]

use super::suspended::{Step, Suspended};
use crate::account::Clocks;
use crate::call::host_state::Mode;
use crate::call::parameters::looked_up_elsewhere;
use crate::call::{HostState, Progress, TypedFunc, steps};
use crate::error::{CallError, CallState, Operation};
use crate::memory::wait::Blocking;
use crate::stop::{Bounds, Watch};
use crate::store::member::Member;
use crate::sys;
use crate::value::typed::{Params, Results};
use core::mem;

/// The instances that a call can reach, and the host's state of these instances.
pub(crate) struct Callee<'a, T, Q, A> {
    pub(super) members: &'a mut [Member<HostState<T, Q, A>>],
    /// The index of the called member. The call runs on the stack of that member.
    pub(super) root: usize,
    pub(super) store: &'a mut HostState<T, Q, A>,
    pub(super) suspended: &'a mut Option<Suspended>,
    /// The group's watch; `None` for a single instance, whose member has the watch.
    pub(super) group_watch: Option<&'a mut Option<Watch>>,
}

/// The type that a [`CallAsync`](crate::CallAsync) borrows. Only [`Instance`](crate::Instance) and
/// [`Group`](crate::Group) implement this trait.
///
/// Generic code is monomorphised for each owner, so the compiler knows that an instance has one
/// member and no watch of a group. With look-ups of members and watch in fields, a call by a future
/// took a tenth more time (bench `compare`, row "async call of null").
pub trait CallOwner: sealed::Parts {}

#[expect(
    private_interfaces,
    reason = "the crate's types, which only the crate uses"
)]
pub(crate) mod sealed {
    use super::{Callee, Watch};
    use crate::call::HostState;
    use crate::store::member::Member;
    use core::ptr::NonNull;

    /// The parts of an owner of calls.
    pub trait Parts {
        /// The host's data.
        type Data;
        /// A question of the guest.
        type Question;
        /// The host's answer.
        type Answer;

        /// Borrows the parts for a call. For a group, the call is of the member that was called
        /// last.
        fn callee(&mut self) -> Callee<'_, Self::Data, Self::Question, Self::Answer>;

        /// The instances, and the index of the called member.
        ///
        /// # Safety
        ///
        /// The caller must borrow `this` mutably for `'a`. A future of a host function may borrow
        /// the host's data and the memories at the same time.
        unsafe fn members<'a>(this: NonNull<Self>) -> (&'a [MemberOf<Self>], usize);

        /// The means to stop the call; `None` if the call cannot be stopped.
        ///
        /// # Safety
        ///
        /// As [`members`](Self::members), and the members must not be borrowed.
        unsafe fn watch<'a>(this: NonNull<Self>) -> Option<&'a mut Watch>;
    }

    /// A member of an owner of calls.
    pub(crate) type MemberOf<C> =
        Member<HostState<<C as Parts>::Data, <C as Parts>::Question, <C as Parts>::Answer>>;
}

impl<T, Q, A> Callee<'_, T, Q, A> {
    fn member(&mut self) -> &mut Member<HostState<T, Q, A>> {
        &mut self.members[self.root]
    }

    /// The means to stop the call, created at the first use.
    pub(super) fn watch(&mut self) -> &mut Watch {
        match &mut self.group_watch {
            // The group makes its watch before each call with limits and each call by a future.
            Some(Some(watch)) => watch,
            _ => self.members[self.root].watch(),
        }
    }

    /// The means to stop the call; `None` if the call cannot be stopped.
    pub(super) fn watch_made(&self) -> Option<&Watch> {
        match &self.group_watch {
            Some(watch) => watch.as_ref(),
            None => self.members[self.root].watch.as_ref(),
        }
    }

    /// Checks that a function belongs to the preparation of the called instance, and that no call
    /// is suspended.
    ///
    /// # Errors
    ///
    /// [`CallError::Invalid`] or [`CallError::State`] if one of these conditions does not hold.
    #[inline]
    fn check<P, R>(&self, func: &TypedFunc<P, R>) -> Result<(), CallError> {
        if func.prepared != self.members[self.root].inner.id {
            return Err(looked_up_elsewhere());
        }
        Ok(Suspended::none(self.suspended.as_ref(), Operation::Call)?)
    }

    /// Writes the parameters to the cells from which a call reads them.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and if a parameter is a reference of another instance.
    #[inline(always)]
    pub(super) fn begin<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<(), CallError> {
        self.check(func)?;
        func.store(self.member(), params)
    }

    /// Runs a call or a step, during which the called member has the watch of its group.
    #[inline(always)]
    pub(super) fn lend<R>(
        &mut self,
        run: impl FnOnce(&mut [Member<HostState<T, Q, A>>], &mut HostState<T, Q, A>) -> R,
    ) -> R {
        let group_watch = self.group_watch.as_deref_mut();
        let lent = LentWatch::to(self.members, self.root, group_watch);
        run(lent.members, self.store)
    }

    /// Sets the limits of the next call or step.
    pub(super) fn limit(&mut self, bounds: Bounds) {
        if !bounds.is_none() || self.watch_made().is_some() {
            self.watch().bounds = bounds;
        }
    }

    /// Makes a step of the call: the first step or the next step.
    ///
    /// After the step, a pending async host function may borrow parts of the store. This method
    /// then accesses only the parts that such a function does not borrow.
    #[inline(always)]
    pub(super) fn advance<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        first: bool,
        mode: Mode,
    ) -> Result<Step<R, Q>, CallError> {
        let count = func.cells();
        *self.suspended = None;
        self.store.mode = mode;
        let blocking = match mode {
            Mode::Call => Blocking::Blocks,
            Mode::Steps => Blocking::UntilSliceIsOver,
            Mode::Async(_) => Blocking::Leaves,
        };
        for member in &mut *self.members {
            member.blocking = blocking;
        }
        let vmctx = self.member().vmctx();
        let target = match &self.group_watch {
            None => func.target(vmctx),
            // SAFETY: the members of a group are initialised, and `begin` compared the
            // preparations.
            Some(_) => unsafe { func.linked_target(vmctx) },
        };
        let root = self.root;
        let stepped =
            self.lend(|members, store| steps::step(members, root, target, first, count, store));
        self.store.mode = Mode::Call;
        for member in &mut *self.members {
            member.blocking = Blocking::Blocks;
        }
        let progress = match stepped {
            Ok(progress) => progress,
            Err(error) => {
                self.give_up();
                return Err(error);
            }
        };
        let (step, state) = match (progress, self.store.question.take()) {
            (Progress::Returned, _) => return Ok(Step::Returned(func.load(self.member()))),
            (Progress::Waits, Some(question)) => (Step::Asked(question), CallState::Asked),
            // The guest waits in `memory.atomic.wait32` or `memory.atomic.wait64`, and continues
            // the wait in the next time slice.
            (Progress::Waits, None) if matches!(mode, Mode::Steps) => {
                (Step::Preempted, CallState::Preempted)
            }
            // While the future lives, nothing else can reach the call. So the embedder sees this
            // state only after the future was leaked.
            (Progress::Waits, None) => (Step::Preempted, CallState::Forgotten),
            (Progress::Preempted, _) => (Step::Preempted, CallState::Preempted),
        };
        let func = func.identity();
        *self.suspended = Some(Suspended { func, state });
        Ok(step)
    }

    /// Ends the suspended call, if there is one. The guest's changes stay, as after a deadline.
    pub(super) fn cancel(&mut self) {
        if self.suspended.take().is_some() {
            self.give_up();
        }
    }

    /// Discards all state of a call that has ended.
    fn give_up(&mut self) {
        let question = self.store.question.take();
        self.store.reply = None;
        if self.member().clocks != Clocks::None {
            self.member().account().end_suspension(sys::clock::now_ns());
        }
        for member in &mut *self.members {
            member.waiting = None;
            member.bulk = None;
            member.note_failure();
        }
        if let Some(watch) = self.watch_made() {
            watch.control().cancel();
        }
        // The drop comes last: it is the embedder's code and may panic.
        drop(question);
    }
}

/// While this value lives, the called member has the watch of its group.
struct LentWatch<'a, T> {
    members: &'a mut [Member<T>],
    root: usize,
    group_watch: Option<&'a mut Option<Watch>>,
}

impl<'a, T> LentWatch<'a, T> {
    #[inline(always)]
    fn to(
        members: &'a mut [Member<T>],
        root: usize,
        mut group_watch: Option<&'a mut Option<Watch>>,
    ) -> Self {
        if let Some(watch) = &mut group_watch {
            mem::swap(*watch, &mut members[root].watch);
        }
        Self {
            members,
            root,
            group_watch,
        }
    }
}

/// Gives the watch back to the group, also during unwinding. Otherwise a panic of the embedder's
/// code would make the group's kill switch ineffective.
impl<T> Drop for LentWatch<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(watch) = &mut self.group_watch {
            mem::swap(*watch, &mut self.members[self.root].watch);
        }
    }
}
