//! [`Callee`]: the borrowed state of a call. The [`Owner`](super::Owner) of an instance lends it.
//!
//! # Safety
//!
//! This file owns two facts. Before a call of a group's member, each member's context gets the
//! address of the call's activation, and the signal handler gets a list of all members. A suspended
//! call is resumed in the member that was called.
#![allow(unsafe_code)]

use super::suspended::{Step, Suspended};
use crate::account::Clocks;
use crate::call::enter::Invocation;
use crate::call::host_state::Mode;
use crate::call::parameters::looked_up_elsewhere;
use crate::call::{Func, HostState, Progress, TypedFunc, Wanted, start, steps, untyped};
use crate::error::{CallError, CallState, Operation, StateError};
use crate::memory::wait::Blocking;
use crate::stop::kill::KillSwitch;
use crate::stop::{Bounds, Owned, Watch};
use crate::store::member::{Member, Target};
use crate::switch::Record;
use crate::switch::activation::LAST;
use crate::sys;
use crate::value::Value;
use crate::value::typed::{Params, Results};
use core::mem;
use pirn_format::layout::CONTEXT_ACTIVATION;

/// The instances that a call can reach, and the host's state of these instances.
pub(crate) struct Callee<'a, T, Q, A> {
    pub(super) members: &'a mut [Member<HostState<T, Q, A>>],
    /// The index of the called member. The call runs on the stack of that member.
    pub(super) root: usize,
    pub(super) store: &'a mut HostState<T, Q, A>,
    pub(super) suspended: &'a mut Option<Suspended>,
    /// The means to stop the calls of a group; `None` for a single instance, whose member has the
    /// watch.
    pub(super) group: Option<&'a mut GroupStop>,
}

/// The means to stop a call of any member of a group, created at the first use.
#[derive(Debug, Default)]
pub(crate) struct GroupStop {
    /// The watch must be dropped before `control`.
    pub(super) watch: Option<Watch>,
    control: Option<Owned>,
}

impl GroupStop {
    pub(super) fn watch(&mut self) -> &mut Watch {
        let control = self.control.get_or_insert_with(Owned::new);
        self.watch.get_or_insert_with(|| Watch::new(control))
    }
}

impl<'a, T, Q, A> Callee<'a, T, Q, A> {
    /// The called member.
    #[inline(always)]
    pub(super) fn member(&mut self) -> &mut Member<HostState<T, Q, A>> {
        &mut self.members[self.root]
    }

    /// The called member, and the host's data.
    #[inline(always)]
    pub(super) fn split(self) -> (&'a mut Member<HostState<T, Q, A>>, &'a mut T) {
        (&mut self.members[self.root], &mut self.store.data)
    }

    /// The means to stop the call, created at the first use.
    pub(super) fn watch(&mut self) -> &mut Watch {
        match &mut self.group {
            Some(group) => group.watch(),
            None => self.members[self.root].watch(),
        }
    }

    /// The means to stop the call; `None` if the call cannot be stopped.
    pub(super) fn watch_made(&self) -> Option<&Watch> {
        match &self.group {
            Some(group) => group.watch.as_ref(),
            None => self.members[self.root].watch.as_ref(),
        }
    }

    /// A switch that ends the running call, and prevents all later calls.
    pub(super) fn kill_switch(&mut self) -> KillSwitch {
        let is_suspended = self.suspended.is_some();
        let control = self.watch().control();
        if is_suspended {
            control.is_suspended();
        }
        KillSwitch::new(control)
    }

    /// Checks that no call is suspended.
    ///
    /// # Errors
    ///
    /// The error of an operation that the suspended call does not allow.
    #[inline]
    pub(super) fn refuse(&self, operation: Operation) -> Result<(), StateError> {
        Suspended::none(self.suspended.as_ref(), operation)
    }

    /// Prepares a call of a group's member. Every member's context gets the address of the call's
    /// activation. The signal handler gets a list of all members that begins at the called member.
    /// No call may be suspended.
    #[inline(always)]
    fn link(&mut self) {
        if self.group.is_some() {
            link(self.members, self.root);
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
        Ok(self.refuse(Operation::Call)?)
    }

    /// Prepares a call, and writes the parameters to the cells from which the call reads them.
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
        self.link();
        func.store(self.member(), params)
    }

    /// The target of a call of a function that [`begin`](Self::begin) has checked.
    #[inline(always)]
    fn target<P, R>(&mut self, func: &TypedFunc<P, R>) -> Target {
        let vmctx = self.member().vmctx();
        match &self.group {
            None => func.target(vmctx),
            // SAFETY: the members of a group are initialised, and `begin` compared the
            // preparations.
            Some(_) => unsafe { func.linked_target(vmctx) },
        }
    }

    /// Makes a call that runs until it returns.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin), and the reason why the call ended.
    #[inline(always)]
    pub(super) fn call<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        params: P,
    ) -> Result<R, CallError> {
        self.begin(func, params)?;
        let target = self.target(func);
        let invocation = |members, data| Invocation {
            members,
            root: self.root,
            target,
            cells: func.cells(),
            data,
        };
        // Not by `lend`: with two calls of its closure, a call of an instance alone is not inlined,
        // and a null call executes 17 more instructions.
        match &mut self.group {
            None => invocation(self.members, self.store).run(),
            Some(group) => {
                let lent = LentWatch::to(self.members, self.root, &mut group.watch);
                invocation(lent.members, self.store).run()
            }
        }?;
        Ok(func.load(self.member()))
    }

    /// Makes a call with untyped values. A function that was looked up before, or that a reference
    /// refers to, is called in its own member.
    ///
    /// # Errors
    ///
    /// The function or the values are invalid, a call is suspended, or the reason why the call
    /// ended.
    pub(super) fn call_untyped(
        &mut self,
        wanted: Wanted<'_>,
        params: &[Value],
    ) -> Result<Vec<Value>, CallError> {
        self.refuse(Operation::Call)?;
        let referred;
        let wanted = match wanted {
            Wanted::Export(name) => Wanted::Export(name),
            Wanted::Func(func) => {
                self.root = func.member(self.members)?;
                Wanted::Func(func)
            }
            Wanted::Reference(reference) => {
                (self.root, referred) = Func::referred(self.members, reference)?;
                Wanted::Func(&referred)
            }
        };
        self.link();
        let root = self.root;
        self.lend(|members, store| untyped::call(members, root, wanted, params, store))
    }

    /// Runs the rest of the start of the member: see [`start::start`].
    pub(super) fn start(&mut self) -> Result<(), CallError> {
        self.link();
        let root = self.root;
        self.lend(|members, store| start::start(members, root, store))
    }

    /// Runs a call, during which the called member has the watch of its group.
    fn lend<R>(
        &mut self,
        run: impl FnOnce(&mut [Member<HostState<T, Q, A>>], &mut HostState<T, Q, A>) -> R,
    ) -> R {
        match &mut self.group {
            None => run(self.members, self.store),
            Some(group) => {
                let lent = LentWatch::to(self.members, self.root, &mut group.watch);
                run(lent.members, self.store)
            }
        }
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
        let target = self.target(func);
        let invocation = |members, data| Invocation {
            members,
            root: self.root,
            target,
            cells: func.cells(),
            data,
        };
        // Not by `lend`, as in `call`.
        let stepped = match &mut self.group {
            None => invocation(self.members, self.store).step(first),
            Some(group) => {
                let lent = LentWatch::to(self.members, self.root, &mut group.watch);
                invocation(lent.members, self.store).step(first)
            }
        };
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
        // A region has at most 2^32 slots.
        let root = self.root as u32;
        *self.suspended = Some(Suspended { func, state, root });
        Ok(step)
    }

    /// Checks that a call of this function of the called member is suspended in the wanted state.
    ///
    /// # Errors
    ///
    /// The state of the instance, or of its group.
    pub(super) fn expect<P, R>(
        &self,
        func: &TypedFunc<P, R>,
        operation: Operation,
        wanted: CallState,
    ) -> Result<(), StateError> {
        let state = match &*self.suspended {
            None => CallState::Idle,
            Some(call) if call.state != wanted => call.state,
            Some(call)
                if (call.root as usize, call.func) == (self.root, func.identity())
                    && func.prepared == self.members[self.root].inner.id =>
            {
                return Ok(());
            }
            Some(_) => CallState::Another,
        };
        Err(StateError::new(operation, state))
    }

    /// Resumes a call that has asked, and gives it the answer.
    ///
    /// # Errors
    ///
    /// As [`expect`](Self::expect), and the reason why the call ended.
    pub(super) fn answer<P: Params, R: Results>(
        &mut self,
        func: &TypedFunc<P, R>,
        answer: A,
    ) -> Result<Step<R, Q>, CallError> {
        self.expect(func, Operation::ResumeWith, CallState::Asked)?;
        let Some(reply) = self.store.reply.take() else {
            return Err(StateError::new(Operation::ResumeWith, CallState::Idle).into());
        };
        let root = self.root;
        let given = self.lend(|members, store| {
            steps::may_resume(members, root)?;
            steps::reply(members, root, reply, &mut store.data, answer)
        });
        match given {
            Ok(()) => self.advance(func, false, Mode::Steps),
            Err(error) => {
                self.cancel();
                Err(error)
            }
        }
    }

    /// Ends the suspended call, if there is one. The guest's changes stay, as after a deadline.
    pub(super) fn cancel(&mut self) {
        if let Some(call) = self.suspended.take() {
            self.root = call.root as usize;
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

/// Links the members of a group for a call of member `root`.
fn link<T>(members: &[Member<T>], root: usize) {
    let activation = Record::of(members[root].vmctx());
    let mut next = LAST;
    let others = (0..members.len()).filter(|at| *at != root);
    for at in others.chain([root]) {
        let member = &members[at];
        let record = Record::of(member.vmctx());
        // SAFETY: record and context belong to an initialised member, and no guest runs or is
        // suspended.
        unsafe {
            (*record).guest.next = next;
            next = &raw const (*record).guest;
            member
                .cell::<u64>(CONTEXT_ACTIVATION)
                .write(activation as u64);
        }
    }
}

/// While this value lives, the called member has the watch of its group.
struct LentWatch<'a, T> {
    members: &'a mut [Member<T>],
    root: usize,
    watch: &'a mut Option<Watch>,
}

impl<'a, T> LentWatch<'a, T> {
    fn to(members: &'a mut [Member<T>], root: usize, watch: &'a mut Option<Watch>) -> Self {
        mem::swap(watch, &mut members[root].watch);
        Self {
            members,
            root,
            watch,
        }
    }
}

/// Gives the watch back to the group, also during unwinding. Otherwise a panic of the embedder's
/// code would make the group's kill switch ineffective.
impl<T> Drop for LentWatch<'_, T> {
    fn drop(&mut self) {
        mem::swap(self.watch, &mut self.members[self.root].watch);
    }
}
