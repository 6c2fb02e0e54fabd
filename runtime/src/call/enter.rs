//! Calls into guests: how a guest is entered, how its exits are answered, and how a call ends.
//!
//! Every exit of a guest takes one path (see [`crate::switch`]). The runtime answers an exit by a
//! call on the host's stack. So host functions run on the host's stack. A panic of a host function
//! is caught before it can reach a guest frame, and becomes the error of the call.
//!
//! An answer resumes the guest, or the switch *leaves* the guest: it returns to the host although
//! the guest has not returned. A guest that was left by a step of a call can be resumed later.
//!
//! # Safety
//!
//! This file, `steps.rs` and `nested.rs` choose the entry routine of [`crate::switch`]. These files
//! own three facts. A guest is entered with the activation that its context names. The guest runs
//! on the stack of its own slot. The call borrows every instance that the guest can reach.
#![allow(unsafe_code)]

use super::entry::run_in;
use super::errors::{left_behind, not_begun};
use super::nested;
use super::running::{Call, is_whole};
use crate::account::{Account, Clocks, Stopwatch};
use crate::error::CallError;
use crate::signals::Running;
use crate::stop::{Bounds, Control, NotBegun, Watched, Why};
use crate::store::member::{Member, Target};
use crate::switch::{self, Activation, Answer, Record, Registers};
use crate::sys;
use core::mem::ManuallyDrop;
use core::ptr;

/// An invocation of a function: what its guest can reach, and where the guest runs.
pub(crate) struct Invocation<'a, T> {
    /// The instances that the guest can reach.
    pub(crate) members: &'a mut [Member<T>],
    /// The index of the called member. The guest runs on the stack of that member.
    pub(crate) root: usize,
    pub(crate) target: Target,
    /// The number of cells at the top of that stack that hold the parameters. After a return they
    /// hold the results.
    pub(crate) cells: usize,
    /// The host's data.
    pub(crate) data: &'a mut T,
}

/// Checks that this thread may call the guests of all members.
///
/// # Errors
///
/// The thread has no signal stack, or a fork did not inherit the memory of a member.
#[inline(always)]
pub(super) fn ready<T>(members: &[Member<T>]) -> Result<(), CallError> {
    sys::signal::prepare_thread()?;
    match is_whole(members) {
        true => Ok(()),
        false => Err(left_behind()),
    }
}

/// The account of a member.
fn account<T>(member: &Member<T>) -> &Account {
    // SAFETY: `vmctx` is an initialised context, and its guest does not run. The member keeps the
    // region alive.
    unsafe { Record::account(member.vmctx()) }
}

/// Runs `run`, a call of member `root` or a step of such a call, under the member's stopwatch. The
/// caller has checked that the member's clocks are not [`Clocks::None`]. `is_suspended` tells from
/// the result whether the call is suspended.
#[inline(always)]
pub(super) fn timed<T, R>(
    members: &mut [Member<T>],
    root: usize,
    run: impl FnOnce(&mut [Member<T>]) -> R,
    is_suspended: impl FnOnce(&R) -> bool,
) -> R {
    let stopwatch = Stopwatch::start(account(&members[root]), members[root].clocks);
    let result = run(members);
    stopwatch.stop(account(&members[root]), is_suspended(&result));
    result
}

/// Refuses a call whose time limit is zero.
#[inline]
pub(super) fn begin_in_time(bounds: Bounds) -> Result<(), NotBegun> {
    match (bounds.wall_ns, bounds.cpu_ns) {
        (Some(0), _) => Err(NotBegun::Stopped(Why::Deadline)),
        (_, Some(0)) => Err(NotBegun::Stopped(Why::CpuBudget)),
        _ => Ok(()),
    }
}

impl<T> Invocation<'_, T> {
    /// The called member.
    #[inline(always)]
    pub(super) fn member(&self) -> &Member<T> {
        &self.members[self.root]
    }

    /// Calls the function.
    ///
    /// # Errors
    ///
    /// The reason why the call ended. The guest's changes stay. The instance can be called again,
    /// except after a kill, or in a fork that did not inherit its memory.
    #[inline(always)]
    pub(crate) fn run(self) -> Result<(), CallError> {
        ready(self.members)?;
        if self.member().clocks != Clocks::None {
            return self.run_timed();
        }
        self.run_untimed()
    }

    /// [`run`](Self::run) of an instance whose calls are timed.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    #[inline(never)]
    fn run_timed(self) -> Result<(), CallError> {
        let Self {
            members,
            root,
            target,
            cells,
            data,
        } = self;
        let run = |members: &mut [Member<T>]| {
            let invocation = Invocation {
                members,
                root,
                target,
                cells,
                data,
            };
            invocation.run_untimed()
        };
        timed(members, root, run, |_| false)
    }

    /// [`run`](Self::run) on a thread that is [`ready`].
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    #[inline(always)]
    fn run_untimed(self) -> Result<(), CallError> {
        if let Some(watch) = &self.member().watch {
            let (control, bounds) = (watch.control(), watch.bounds);
            begin_in_time(bounds).map_err(|error| not_begun(error, bounds, None))?;
            return self.run_watched(control, bounds);
        }
        self.enter_unwatched()
    }

    /// Enters a function in a call that cannot be stopped.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    #[inline(always)]
    pub(super) fn enter_unwatched(self) -> Result<(), CallError> {
        // SAFETY: the instance cannot be stopped, so its activation still has its original
        // interrupt flag.
        unsafe { self.enter(None, ended) }
    }

    /// [`run`](Self::run) of an instance that can be stopped.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    #[inline(never)]
    fn run_watched(self, control: &'static Control, bounds: Bounds) -> Result<(), CallError> {
        let watched = Watched::begin(control, bounds);
        let watched = watched.map_err(|error| not_begun(error, bounds, None))?;
        self.enter_watched(control, &watched)
    }

    /// Enters a function in a call that [`Watched::begin`] has announced.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(super) fn enter_watched(
        self,
        control: &'static Control,
        watched: &Watched,
    ) -> Result<(), CallError> {
        let record = Record::of(self.member().vmctx());
        // The switch may refuse to enter the guest.
        // SAFETY: `record` belongs to an initialised context, and its guest does not run.
        unsafe { (*record).activation.forget_exit() };
        // SAFETY: `record` belongs to the called member, which this call borrows, so it stays in
        // place until the guard is dropped. Its guest does not run.
        let _flag = unsafe { FlagInUse::of(record, control, ptr::null_mut()) };
        // SAFETY: the activation uses the interrupt flag of `control`, which `watched` announced,
        // until the call has ended.
        unsafe { self.enter(Some(watched), ended) }
    }

    /// Enters the guest, and comes back when the guest has returned or has been left.
    ///
    /// If the guest was left, `left` computes the result.
    ///
    /// # Errors
    ///
    /// The errors of `left`.
    ///
    /// # Safety
    ///
    /// The activation of the called member must use the interrupt flag of `watched`. Without
    /// `watched`, it must use its original flag.
    #[inline(always)]
    pub(super) unsafe fn enter<R: Default>(
        self,
        watched: Option<&Watched>,
        left: impl FnOnce(&mut Call<'_, T>) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        let Target { code, entry, vmctx } = self.target;
        let start = |activation, cells, answer, call| {
            // SAFETY: code, entry and context belong to a function of a loaded module and to its
            // instance, see `Member::target`. `enter_by` supplies valid values for the other
            // arguments.
            unsafe { switch::start(activation, vmctx, entry, code, cells, answer, call) }
        };
        // SAFETY: the caller ensures that the activation uses the right interrupt flag.
        unsafe { self.enter_by(watched, start, left) }
    }

    /// Like [`enter`](Self::enter), but the closure `by` chooses the entry routine of
    /// [`crate::switch`].
    ///
    /// # Errors
    ///
    /// The errors of `left`.
    ///
    /// # Safety
    ///
    /// As [`enter`](Self::enter).
    #[inline(always)]
    pub(super) unsafe fn enter_by<R: Default>(
        self,
        watched: Option<&Watched>,
        by: impl FnOnce(*mut Activation, *mut u8, Answer, *mut ()) -> bool,
        left: impl FnOnce(&mut Call<'_, T>) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        let activation = Record::of(self.member().vmctx()).cast::<Activation>();
        let cells = self.member().cells_address(self.cells);
        // `left` takes the contents of the call. After a return there is nothing to drop.
        let mut call = ManuallyDrop::new(Call::new(
            activation,
            self.members,
            self.data,
            watched,
            nested::functions::<T>(),
        ));
        // SAFETY: the record belongs to an initialised context. The borrow of `members` keeps it
        // in place.
        let _running = unsafe { Running::enter(activation) };
        // SAFETY: the activation was announced. The stack below the cells is free, and 16-byte
        // aligned like the cells.
        if unsafe { run_in(&mut call, cells as *mut u8, by) } {
            Ok(R::default())
        } else {
            left(&mut call)
        }
    }
}

/// Guard: while it lives, an activation uses the interrupt flag of a control. The activation also
/// gets the address to which the signal handler writes the registers of a preempted guest.
pub(super) struct FlagInUse(*mut Record);

impl FlagInUse {
    /// # Safety
    ///
    /// `record` must belong to an initialised context that outlives the guard, and its guest must
    /// not run now. `registers` must be null, or valid for writes until the guard is dropped.
    pub(super) unsafe fn of(
        record: *mut Record,
        control: &'static Control,
        registers: *mut Registers,
    ) -> Self {
        // SAFETY: the caller ensures that `record` belongs to an initialised context, whose guest
        // does not run.
        unsafe {
            (*record).activation.interrupt_flag = control.interrupt_flag();
            (*record).activation.registers = registers;
        }
        Self(record)
    }
}

impl Drop for FlagInUse {
    fn drop(&mut self) {
        // SAFETY: the caller of `of` ensured that the context outlives the guard. The call has
        // ended.
        unsafe {
            (*self.0).activation.interrupt_flag = (*self.0).mark;
            (*self.0).activation.registers = ptr::null_mut();
        }
    }
}

/// The error of a call that did not return and cannot be resumed.
fn ended<T>(call: &mut Call<'_, T>) -> Result<(), CallError> {
    Err(call.left())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trap::{Trap, TrapCode};
    use crate::{Instance, Linker, Module, Region, Reset};
    use core::slice;
    use pirn_compiler::{Options, compile, parse_text};

    const TEXT: &str = r#"(module
      (import "host" "fails" (func $fails))
      (func (export "nothing"))
      (func $inner (call $fails))
      (func (export "leave") (call $inner)))"#;

    /// Calls "nothing" of the instance, which is killed when the call has begun and the guest has
    /// not been entered. Returns the number of frames in the backtrace.
    fn frames_of_killed_call(guest: &mut Instance<()>) -> usize {
        let switch = guest.kill_switch();
        let members = slice::from_mut(&mut guest.owner.member);
        let func = members[0].exported_func("nothing").expect("an export");
        let target = members[0].target(func).expect("a function of the module");
        let control = members[0].watch().control();
        let watched = Watched::begin(control, Bounds::default());
        let watched = watched.unwrap_or_else(|_| panic!("nothing has stopped the instance"));
        switch.kill().expect("the instance lives");
        let invocation = Invocation {
            members,
            root: 0,
            target,
            cells: 0,
            data: &mut guest.owner.store,
        };
        let ended = invocation.enter_watched(control, &watched);
        let Err(CallError::Killed(interruption)) = ended else {
            panic!("{ended:?}");
        };
        interruption.backtrace().len()
    }

    /// The backtrace has no frames of an earlier call, whether of this instance or of the previous
    /// instance in the slot.
    #[test]
    fn a_call_stopped_before_its_guest_is_entered_has_no_frames() {
        let wasm = parse_text(TEXT.as_bytes()).expect("the text is well-formed");
        let so = compile(&wasm, &Options::default()).expect("the module compiles");
        let module = Module::from_bytes(&so).expect("the module opens");
        let mut linker = Linker::new();
        linker
            .func("host", "fails", || {
                Err::<(), _>(Trap::new(TrapCode::Unreachable))
            })
            .expect("the name is free");
        for reset in Reset::ALL {
            let region = Region::builder().slots(1).reset(reset).build();
            let Ok(region) = region else { continue };
            let prepared = region.prepare(&module, &linker).expect("it fits");
            let new = || prepared.try_instantiate(()).expect("the slot is free");
            let leaves = |guest: &mut Instance<()>| {
                let error = guest
                    .call_values("leave", &[])
                    .expect_err("the host ends it");
                let CallError::Trap(trap) = error else {
                    panic!("{error}");
                };
                assert_eq!(trap.backtrace().len(), 2);
            };
            let mut guest = new();
            leaves(&mut guest);
            drop(guest);
            assert_eq!(frames_of_killed_call(&mut new()), 0, "{reset:?}");
            let mut guest = new();
            leaves(&mut guest);
            assert_eq!(frames_of_killed_call(&mut guest), 0, "{reset:?}");
        }
    }
}
