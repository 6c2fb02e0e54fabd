//! Calls into guests: in, what they want of the host meanwhile, and every way out.
//!
//! The guest leaves by one path (see [`crate::switch`]), and what it wants is answered as by a call
//! from here. So host functions run on the host's stack; a panic of theirs is caught before it would
//! reach the guest, and is an error of the call.
//!
//! # Safety
//!
//! The only place that enters guests. Owns the fact that a guest is entered with the activation that
//! its context names, on its own slot's stack, while the call borrows every instance that it can
//! reach.
#![allow(unsafe_code)]

mod errors;
mod start;
pub(crate) mod steps;
mod waiting;

use super::bulk::{Bulk, Halt};
use super::exception::Refused;
use super::member::{Member, Target};
use super::{builtin, exception};
use crate::account::{Clocks, Stopwatch};
use crate::error::CallError;
use crate::host::func::{Answered, HostCode};
use crate::host::{Caller, HostError, HostPanic};
use crate::module::Module;
use crate::stop::{Bounds, Control, NotBegun, Watched, Why};
use crate::switch::floats::AsGuests;
use crate::switch::{self, Activation, Answer, Fault, Guest, HostEntry, Record, Registers};
use crate::sys;
use crate::trap::backtrace::Trace;
use crate::trap::handler::Running;
use crate::trap::{Exception, Trap, TrapCode};
use crate::value::Cell;
use core::any::Any;
use core::mem::{self, ManuallyDrop};
use core::panic::AssertUnwindSafe;
use core::{ptr, slice};
use errors::{host_error, left_behind, not_a_step, not_begun, stopped};
use pirn_format::exit::{self, Builtin, Kind};
pub(crate) use start::run_prepared;
use std::panic;
use steps::Progress;

/// A call that runs: what answers need of it, and what they leave.
///
/// The routines of [`crate::switch`] find the activation at its start.
#[repr(C)]
struct Call<'a, T> {
    activation: *mut Activation,
    members: &'a mut [Member<T>],
    data: &'a mut T,
    /// By which it may be stopped, if it may.
    watched: Option<&'a Watched>,
    /// Why an answer made the guest leave.
    end: Option<End>,
}

/// Why a guest was left before it returned.
enum End {
    /// It waits for a host function.
    Waits,
    /// It was stopped, or its slice of time is over, while a builtin wrote in bulk.
    Halted,
    /// It trapped.
    Trap(TrapCode),
    /// A host function gave an error.
    Host(HostError),
    /// It threw an exception.
    Throws,
    /// The call cannot go on.
    Invalid(CallError),
    /// A host function panicked.
    Panic(Box<dyn Any + Send>),
}

impl End {
    /// The end of a guest whose exception was neither thrown nor kept.
    fn refused(refused: &Refused) -> Self {
        match refused {
            Refused::Stopped => Self::Halted,
            Refused::Trap(trap) => match trap.host_bytes() {
                None => Self::Trap(trap.code()),
                Some(refused) => Self::Host(refused.into()),
            },
        }
    }
}

/// Calls a function on the stack of member `root`, whose `cells` hold the parameters, until it
/// returns: then they hold the results.
///
/// # Errors
///
/// What ended the call. The instance can be called again; what the guest changed stays.
#[inline(always)]
pub(crate) fn run<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
) -> Result<(), CallError> {
    sys::signal::prepare_thread()?;
    if !is_whole(members) {
        return Err(left_behind());
    }
    if members[root].clocks != Clocks::None {
        return run_timed(members, root, target, cells, data);
    }
    run_untimed(members, root, target, cells, data)
}

/// [`run`] of an instance whose calls are timed.
///
/// # Errors
///
/// As [`run`].
#[inline(never)]
fn run_timed<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
) -> Result<(), CallError> {
    timed(members, root, |members| {
        run_untimed(members, root, target, cells, data)
    })
}

/// Measures the time of a call of an instance whose calls are timed.
fn timed<T, R>(
    members: &mut [Member<T>],
    root: usize,
    run: impl FnOnce(&mut [Member<T>]) -> R,
) -> R {
    // SAFETY: an initialised context, whose guest does not run. The members keep their region.
    let account = unsafe { Record::account(members[root].vmctx()) };
    let stopwatch = Stopwatch::start(account, members[root].clocks);
    let result = run(members);
    stopwatch.stop(false);
    result
}

/// [`run`] on a thread that is prepared.
///
/// # Errors
///
/// As [`run`].
#[inline(always)]
fn run_untimed<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
) -> Result<(), CallError> {
    if let Some(watch) = &members[root].watch {
        let (control, bounds) = (watch.control(), watch.bounds);
        begin_in_time(bounds).map_err(|error| not_begun(error, bounds, None))?;
        return run_watched(members, root, target, cells, data, control, bounds);
    }
    enter_unwatched(members, root, target, cells, data)
}

/// Enters a function in a call that nobody stops.
///
/// # Errors
///
/// As [`run`].
#[inline(always)]
fn enter_unwatched<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
) -> Result<(), CallError> {
    // SAFETY: the instance may not be stopped, so its activation has the gate that it was made with.
    unsafe { enter(members, root, target, cells, data, None, ended) }
}

/// Refuses a call without time.
#[inline]
fn begin_in_time(bounds: Bounds) -> Result<(), NotBegun> {
    match (bounds.wall_ns, bounds.cpu_ns) {
        (Some(0), _) => Err(NotBegun::Stopped(Why::Deadline)),
        (_, Some(0)) => Err(NotBegun::Stopped(Why::CpuBudget)),
        _ => Ok(()),
    }
}

/// [`run`] of an instance that may be stopped.
///
/// # Errors
///
/// As [`run`].
#[inline(never)]
fn run_watched<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
    control: &'static Control,
    bounds: Bounds,
) -> Result<(), CallError> {
    let watched = Watched::begin(control, bounds);
    let watched = watched.map_err(|error| not_begun(error, bounds, None))?;
    enter_watched(members, root, target, cells, data, control, &watched)
}

/// Enters a function in a call that was announced.
///
/// # Errors
///
/// As [`run`].
fn enter_watched<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
    control: &'static Control,
    watched: &Watched,
) -> Result<(), CallError> {
    let record = Record::of(members[root].vmctx());
    // SAFETY: the record of an initialised context, whose guest does not run. Where it left is not known
    // before it has.
    unsafe { (*record).activation.guest_registers = Default::default() };
    let _gate = Gate::of(record, control, ptr::null_mut());
    // SAFETY: the gate is open or closed, and stays the activation's until the call has ended.
    unsafe { enter(members, root, target, cells, data, Some(watched), ended) }
}

/// While it lives, an activation has a control's gate, and a place for the guest's registers.
struct Gate(*mut Record);

impl Gate {
    fn of(record: *mut Record, control: &'static Control, registers: *mut Registers) -> Self {
        // SAFETY: the record of an initialised context, whose guest does not run.
        unsafe {
            (*record).activation.gate = control.gate();
            (*record).activation.registers = registers;
        }
        Self(record)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: as in `of`; the call has ended.
        unsafe {
            (*self.0).activation.gate = (*self.0).mark;
            (*self.0).activation.registers = ptr::null_mut();
        }
    }
}

/// What became of a call that did not return, and cannot be gone on with.
fn ended<T>(call: &mut Call<'_, T>) -> Result<(), CallError> {
    Err(call.left())
}

/// Enters the guest, and comes back when it returned or was left; `left` gives what became of it then.
///
/// # Errors
///
/// Those of `left`.
///
/// # Safety
///
/// The root's activation must have the gate of `watched`, or the one that it was made with if there is
/// none.
#[inline(always)]
unsafe fn enter<T, R: Default>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
    watched: Option<&Watched>,
    left: impl FnOnce(&mut Call<'_, T>) -> Result<R, CallError>,
) -> Result<R, CallError> {
    let Target { code, entry, vmctx } = target;
    let start = |activation, cells, answer, call| {
        // SAFETY: code, entry and context are a function of a loaded module and its own instance, see
        // `Member::target`; the rest is as `enter_by` gives it.
        unsafe { switch::start(activation, vmctx, entry, code, cells, answer, call) }
    };
    // SAFETY: passed on.
    unsafe { enter_by(members, root, cells, data, watched, start, left) }
}

/// As [`enter`], by an entry of [`crate::switch`].
///
/// # Errors
///
/// Those of `left`.
///
/// # Safety
///
/// As [`enter`].
#[inline(always)]
unsafe fn enter_by<T, R: Default>(
    members: &mut [Member<T>],
    root: usize,
    cells: usize,
    data: &mut T,
    watched: Option<&Watched>,
    by: impl FnOnce(*mut Activation, *mut u8, Answer, *mut ()) -> bool,
    left: impl FnOnce(&mut Call<'_, T>) -> Result<R, CallError>,
) -> Result<R, CallError> {
    let activation = Record::of(members[root].vmctx()).cast::<Activation>();
    let cells = members[root].cells_address(cells);
    // Dropped by `left`: there is nothing to drop after a return.
    let mut call = ManuallyDrop::new(Call {
        activation,
        members,
        data,
        watched,
        end: None,
    });
    // SAFETY: the record of an initialised context, which the borrow of `members` keeps in place.
    let _running = unsafe { Running::enter(activation) };
    // The stack below the cells is free, and 16-byte aligned as they are. The answer is that of the call's
    // type.
    let floats = AsGuests::begin();
    let (cells, of_call) = (cells as *mut u8, (&raw mut *call).cast());
    let mut returned = by(activation, cells, answer::<T>, of_call);
    while !returned && call.catches() {
        // SAFETY: the guest has left, and goes on where it catches, in the same call.
        returned = unsafe { switch::resume(activation, ptr::null(), cells, answer::<T>, of_call) };
    }
    drop(floats);
    if returned {
        Ok(R::default())
    } else {
        left(&mut call)
    }
}

/// Answers an exit, on the host's stack: an [`Answer`].
///
/// # Safety
///
/// `call` must be the [`Call`] of a guest that runs, of the same `T`, and the exit that guest's.
unsafe extern "C" fn answer<T>(
    vmctx: *mut u8,
    reason: u64,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation {
    // SAFETY: by the caller; `run` is in `start`, and its guest waits.
    let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
    let wanted = exit::split(reason);
    let watched = call.watched;
    // SAFETY: by the caller.
    let answer = AssertUnwindSafe(|| match unsafe { call.answer(vmctx, wanted, cells) } {
        // A limiter may have forked, as a host function may.
        Ok(()) => call.go_on_whole(),
        Err(end) => call.leave(end),
    });
    let answered = match watched {
        Some(watched) => watched.in_host(|| panic::catch_unwind(answer)),
        None => panic::catch_unwind(answer),
    };
    answered.unwrap_or_else(|panic| call.leave(End::Panic(panic)))
}

/// Answers a call of a host function, on the host's stack: a [`HostAnswer`](switch::HostAnswer).
///
/// # Safety
///
/// `call` must be the [`Call`] of a guest that runs, of the same `T`, and the exit that guest's; the
/// entry that of a `C`, and `cells` as many cells as it has.
pub(crate) unsafe extern "C" fn answer_host<T, C: HostCode<T>>(
    vmctx: *mut u8,
    entry: *const HostEntry,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation {
    // SAFETY: by the caller; `run` is in `start`, and its guest waits.
    let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
    // SAFETY: by the caller.
    let code = unsafe { &*(*entry).func.cast::<C>() };
    if let Some(watched) = call.watched {
        // SAFETY: passed on.
        return unsafe { answer_watched(call, watched, code, vmctx, cells) };
    }
    // SAFETY: passed on.
    let answered = unsafe { call.host(code, vmctx, cells) };
    match answered {
        // The gate tells if the host function has forked, unless there are several memories.
        Ok(Ok(Answered::Done)) if call.members.len() == 1 => ptr::null_mut(),
        Ok(Ok(Answered::Done)) => call.go_on_whole(),
        Ok(Ok(Answered::Later)) => call.leave(End::Waits),
        Ok(Err(error)) => call.leave(End::Host(error)),
        Err(panic) => call.leave(End::Panic(panic)),
    }
}

/// The same for a call that may be stopped: out of line, so that little has to be saved for the others.
///
/// # Safety
///
/// As [`answer_host`].
#[inline(never)]
unsafe fn answer_watched<T, C: HostCode<T>>(
    call: &mut Call<'_, T>,
    watched: &Watched,
    code: &C,
    vmctx: *mut u8,
    cells: *mut Cell,
) -> *mut Activation {
    // SAFETY: passed on.
    let answered = watched.in_host(|| unsafe { call.host(code, vmctx, cells) });
    match answered {
        Ok(Ok(Answered::Done)) => call.go_on_whole(),
        Ok(Ok(Answered::Later)) => call.leave(End::Waits),
        Ok(Err(error)) => call.leave(End::Host(error)),
        Err(panic) => call.leave(End::Panic(panic)),
    }
}

/// The entry of an import that is no function of the host.
pub(crate) fn not_of_the_host<T>() -> HostEntry {
    /// # Safety
    ///
    /// As [`answer_host`].
    unsafe extern "C" fn answer<T>(
        _: *mut u8,
        _: *const HostEntry,
        _: *mut Cell,
        call: *mut (),
    ) -> *mut Activation {
        // SAFETY: by the caller; `run` is in `start`, and its guest waits.
        let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
        let message = "guest called an import of another instance as the host's";
        call.leave(End::Invalid(CallError::Invalid(message.to_owned())))
    }
    HostEntry {
        answer: answer::<T>,
        func: ptr::null(),
    }
}

impl<T> Call<'_, T> {
    /// Calls a host function.
    ///
    /// # Errors
    ///
    /// What it panicked with, or else gave as an error.
    ///
    /// # Safety
    ///
    /// `vmctx` must be the context of the instance that calls, one of the call's, and `cells` as many
    /// cells as the function has.
    #[inline(always)]
    unsafe fn host<C: HostCode<T>>(
        &mut self,
        code: &C,
        vmctx: *mut u8,
        cells: *mut Cell,
    ) -> std::thread::Result<Result<Answered, HostError>> {
        // SAFETY: by the caller.
        let cells = unsafe { slice::from_raw_parts_mut(cells, code.cells()) };
        // SAFETY: the call borrows the instance, whose guest waits, and holds no view of its memory.
        let caller = unsafe { Caller::new(vmctx, self.data) };
        panic::catch_unwind(AssertUnwindSafe(|| code.call(caller, cells)))
    }

    /// Has the guest go on, unless the embedder's code has forked and a memory was left behind.
    #[inline(never)]
    fn go_on_whole(&mut self) -> *mut Activation {
        if is_whole(self.members) {
            ptr::null_mut()
        } else {
            self.leave(End::Invalid(left_behind()))
        }
    }

    /// Does what the guest asks of the runtime.
    ///
    /// # Errors
    ///
    /// Why the guest is to be left.
    ///
    /// # Safety
    ///
    /// `cells` must be those of the guest's exit.
    unsafe fn builtin(&mut self, vmctx: *mut u8, number: u32, cells: *mut Cell) -> Result<(), End> {
        let at = member_of(self.members, vmctx);
        let (Some(at), Some(builtin)) = (at, Builtin::from_number(number)) else {
            return Err(End::Trap(TrapCode::Unreachable));
        };
        let left = exception::Left {
            activation: self.activation,
            cells,
            watched: self.watched,
        };
        // SAFETY: the builtin's trampoline passes the address of at least as many cells as it has
        // parameters, and one for a result, on the guest's stack; the guest does not run.
        let cells = unsafe { slice::from_raw_parts_mut(cells, builtin.params().max(1)) };
        match builtin {
            Builtin::MemoryWait32 | Builtin::MemoryWait64 => self.wait(at, builtin, cells),
            Builtin::Throw => {
                // SAFETY: generated code gives as many cells as the tag has values.
                let thrown = unsafe {
                    exception::throw(self.members, left, at, cells[0].u32(), cells[1].u64())
                };
                Err(thrown.map_or_else(|refused| End::refused(&refused), |()| End::Throws))
            }
            Builtin::ThrowRef => {
                // SAFETY: the guest has left by this exit, and the reference is among its cells.
                let thrown = unsafe { exception::throw_ref(self.members, left, cells[0].u64()) };
                Err(thrown.map_or_else(|refused| End::refused(&refused), |()| End::Throws))
            }
            Builtin::Rethrow => Err(End::Throws),
            Builtin::Keep => {
                // SAFETY: the guest has left by this exit.
                let kept = unsafe { exception::keep(self.members, left) };
                cells[0] = Cell::from_u64(kept.map_err(|refused| End::refused(&refused))?);
                Ok(())
            }
            other => {
                let bulk = builtin::run(self.members, at, other, cells, self.data);
                match bulk.map_err(End::Trap)? {
                    None => Ok(()),
                    Some(bulk) => self.bulk(at, bulk),
                }
            }
        }
    }

    /// Writes what a builtin of member `at` has to write.
    ///
    /// # Errors
    ///
    /// Why the guest is to be left. If only its slice of time is over, the member keeps the rest.
    #[inline]
    fn bulk(&mut self, at: usize, mut bulk: Bulk) -> Result<(), End> {
        match bulk.run(&self.members[at], self.watched) {
            Ok(()) => Ok(()),
            Err(Halt::Trap(code)) => Err(End::Trap(code)),
            Err(Halt::Stopped) => Err(End::Halted),
            Err(Halt::SliceIsOver) => {
                self.members[at].bulk = Some(Box::new(bulk));
                Err(End::Halted)
            }
        }
    }

    /// Whether a guest that was left goes on where it catches what it threw.
    #[inline]
    fn catches(&mut self) -> bool {
        matches!(self.end, Some(End::Throws)) && self.goes_on()
    }

    #[cold]
    fn goes_on(&mut self) -> bool {
        // SAFETY: the guest has left by an answer, in this call.
        let goes_on = unsafe { exception::land(self.members, self.activation) };
        if goes_on {
            self.end = None;
        }
        goes_on
    }

    /// Does what the guest wants.
    ///
    /// # Errors
    ///
    /// Why the guest is to be left.
    ///
    /// # Safety
    ///
    /// `cells` must be those of the guest's exit.
    unsafe fn answer(
        &mut self,
        vmctx: *mut u8,
        wanted: Option<(Kind, u32)>,
        cells: *mut Cell,
    ) -> Result<(), End> {
        match wanted {
            Some((Kind::Builtin, number)) => {
                // SAFETY: passed on.
                unsafe { self.builtin(vmctx, number, cells) }
            }
            // A code that this runtime does not know would be a module of another version, which
            // `open` refuses.
            Some((Kind::Trap, number)) => Err(End::Trap(
                TrapCode::from_number(number).unwrap_or(TrapCode::Unreachable),
            )),
            None => Err(End::Invalid(CallError::Invalid(
                "guest left for what no guest leaves for".to_owned(),
            ))),
        }
    }

    /// Has the guest left.
    #[inline]
    fn leave(&mut self, end: End) -> *mut Activation {
        // Who has left does not leave again: there is nothing to drop.
        mem::forget(self.end.replace(end));
        self.activation
    }

    /// How the call ended, once its guest was left, with the guest's backtrace if it trapped.
    ///
    /// The error is what `call` gives, and goes there at once: each copy on the way would wait for the
    /// one before, some 5 ns (bench `trap`).
    #[cold]
    fn left(&mut self) -> CallError {
        // SAFETY: the guest has left, so nobody else uses the activation.
        if let Some(Fault { code, .. }) = unsafe { (*self.activation).fault } {
            let Some(code) = code else {
                return self.stopped();
            };
            let trap = self.trap(code);
            // SAFETY: as above. The next trap may be none that a signal tells of.
            unsafe { (*self.activation).fault = None };
            return trap;
        }
        // Who has not left by a signal has left by an answer, or was not let in or on.
        if let Some(End::Trap(code)) = self.end {
            return self.trap(code);
        }
        match self.end.take() {
            Some(End::Host(error)) => host_error(error, || self.trace()),
            Some(End::Invalid(error)) => error,
            Some(End::Throws) => self.uncaught(),
            Some(End::Panic(payload)) => CallError::Panic(HostPanic::new(payload, self.trace())),
            Some(End::Waits) if self.watched.and_then(Watched::why).is_none() => not_a_step(),
            Some(End::Trap(_) | End::Waits | End::Halted) | None => self.stopped(),
        }
    }

    /// How far a step came, once its guest was left.
    ///
    /// # Errors
    ///
    /// As [`left`](Self::left), if it cannot be gone on with.
    #[inline]
    fn left_step(&mut self) -> Result<Progress, CallError> {
        match (&self.end, self.watched) {
            // What a host function gives after the call was stopped is lost.
            (Some(End::Waits), watched) if watched.and_then(Watched::why).is_none() => {
                Ok(Progress::Waits)
            }
            // A trap that a signal told of meanwhile counts: there is nothing to go on with.
            (None | Some(End::Halted), Some(watched))
                if watched.slice_is_over() && !self.has_faulted() =>
            {
                Ok(Progress::Preempted)
            }
            _ => Err(self.left()),
        }
    }

    /// Whether a signal made the guest leave for good.
    fn has_faulted(&self) -> bool {
        // SAFETY: the guest has left, so nobody else uses the activation.
        unsafe { (*self.activation).fault.is_some() }
    }

    /// The error of a call whose gate was closed.
    fn stopped(&mut self) -> CallError {
        self.locate();
        let trace = self.trace();
        // SAFETY: the guest has left, so nobody else uses the activation.
        unsafe { (*self.activation).fault = None };
        match self.watched.map(|watched| (watched.why(), watched.bounds)) {
            Some((Some(why), bounds)) => stopped(why, bounds, Some(trace)),
            // Nothing but a fork closes the gate of a call that may not be stopped.
            _ => left_behind(),
        }
    }

    /// Notes where the guest was if it left by a signal that suspended it, and is not gone on with.
    fn locate(&mut self) {
        // SAFETY: the guest has left, so nobody else uses the activation and the place for its registers.
        unsafe {
            let activation = &mut *self.activation;
            if let Some(registers) = activation.registers.as_ref()
                && registers.taken
                && activation.guest_sp == 0
                && activation.fault.is_none()
            {
                let (code, at) = (None, registers.position());
                activation.fault = Some(Fault { code, at });
            }
        }
    }

    /// The error of a call whose guest threw what nothing caught.
    fn uncaught(&mut self) -> CallError {
        let (tag, values, pcs) = exception::uncaught(self.members);
        let trace = Trace::of_pcs(&pcs, self.modules());
        CallError::Exception(Exception::new(tag, values, trace))
    }

    fn trap(&self, code: TrapCode) -> CallError {
        CallError::Trap(Trap::with_trace(code, self.trace()))
    }

    /// The modules of all instances that it can reach.
    fn modules(&self) -> impl Iterator<Item = Module> + use<'_, T> {
        let members = self.members.iter();
        members.map(|member| member.inner.module.clone())
    }

    /// Where the guest was when it left.
    fn trace(&self) -> Box<Trace> {
        let modules = self.modules();
        // SAFETY: the record of the running call, whose guest has left.
        unsafe {
            let root: *const Guest = &raw const (*self.activation.cast::<Record>()).guest;
            Trace::of(&*self.activation, root, modules)
        }
    }
}

/// Whether no memory was left behind in the process that this one is a fork of.
#[inline]
fn is_whole<T>(members: &[Member<T>]) -> bool {
    // SAFETY: the records of initialised contexts, whose regions the members keep alive.
    let whole = |member: &Member<T>| unsafe { (*Record::of(member.vmctx())).is_whole() };
    match members {
        [only] => whole(only),
        several => several.iter().all(whole),
    }
}

/// The member whose context this is.
fn member_of<T>(members: &[Member<T>], vmctx: *mut u8) -> Option<usize> {
    if let [only] = members {
        return (only.vmctx() == vmctx).then_some(0);
    }
    members.iter().position(|member| member.vmctx() == vmctx)
}
