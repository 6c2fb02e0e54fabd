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
//! Only this module and its submodules enter guests. They own three facts. A guest is entered with
//! the activation that its context names. It runs on the stack of its own slot. The call borrows
//! every instance that the guest can reach.
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
use crate::error::{HostError, HostPanic};
use crate::host::Caller;
use crate::host::func::{Answered, HostCode};
use crate::module::Module;
use crate::signals::Running;
use crate::stop::{Bounds, Control, NotBegun, Watched, Why};
use crate::switch::floats::AsGuests;
use crate::switch::{self, Activation, Answer, Fault, Guest, HostEntry, Record, Registers};
use crate::sys;
use crate::trap::backtrace::Trace;
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

/// A running call: the state that answers need, and the reason why an answer ended it.
///
/// The routines of [`crate::switch`] expect the address of the activation in the first field.
#[repr(C)]
struct Call<'a, T> {
    activation: *mut Activation,
    members: &'a mut [Member<T>],
    data: &'a mut T,
    /// The means to stop the call; `None` if the call cannot be stopped.
    watched: Option<&'a Watched>,
    /// Why an answer made the switch leave the guest.
    end: Option<End>,
}

/// Why a guest was left before it returned.
enum End {
    /// The guest waits for a host function, or in `memory.atomic.wait`.
    Waits,
    /// The guest was stopped while the runtime worked for it, or its time slice ended during a bulk
    /// write.
    Halted,
    /// The guest trapped.
    Trap(TrapCode),
    /// A host function returned an error.
    Host(HostError),
    /// The guest threw an exception.
    Throws,
    /// The call cannot continue.
    Invalid(CallError),
    /// A host function panicked.
    Panic(Box<dyn Any + Send>),
}

impl End {
    /// The end of a call in which the runtime refused to throw or to keep an exception.
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

/// Calls a function on the stack of member `root`.
///
/// The top `cells` cells of that stack hold the parameters. After a return they hold the results.
///
/// # Errors
///
/// The reason why the call ended. The guest's changes stay. The instance can be called again,
/// except after a kill, or in a fork that did not inherit its memory.
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

/// Measures the time of a call. The clocks of member `root` say that its calls are timed.
fn timed<T, R>(
    members: &mut [Member<T>],
    root: usize,
    run: impl FnOnce(&mut [Member<T>]) -> R,
) -> R {
    // SAFETY: `vmctx` is an initialised context, and its guest does not run. The members keep the
    // region alive.
    let account = unsafe { Record::account(members[root].vmctx()) };
    let stopwatch = Stopwatch::start(account, members[root].clocks);
    let result = run(members);
    stopwatch.stop(false);
    result
}

/// [`run`] on a thread for which `prepare_thread` has succeeded.
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

/// Enters a function in a call that cannot be stopped.
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
    // SAFETY: the instance cannot be stopped, so its activation still has its original interrupt
    // flag.
    unsafe { enter(members, root, target, cells, data, None, ended) }
}

/// Refuses a call whose time limit is zero.
#[inline]
fn begin_in_time(bounds: Bounds) -> Result<(), NotBegun> {
    match (bounds.wall_ns, bounds.cpu_ns) {
        (Some(0), _) => Err(NotBegun::Stopped(Why::Deadline)),
        (_, Some(0)) => Err(NotBegun::Stopped(Why::CpuBudget)),
        _ => Ok(()),
    }
}

/// [`run`] of an instance that can be stopped.
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

/// Enters a function in a call that [`Watched::begin`] has announced.
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
    // SAFETY: `record` belongs to an initialised context, and its guest does not run. The registers
    // are cleared because they are unknown until the guest exits.
    unsafe { (*record).activation.guest_registers = Default::default() };
    let _gate = Gate::of(record, control, ptr::null_mut());
    // SAFETY: the activation uses the interrupt flag of `control`, which `watched` announced, until
    // the call has ended.
    unsafe { enter(members, root, target, cells, data, Some(watched), ended) }
}

/// Guard: while it lives, an activation uses the interrupt flag of a control. The activation also
/// gets the address to which the signal handler writes the registers of a preempted guest.
struct Gate(*mut Record);

impl Gate {
    fn of(record: *mut Record, control: &'static Control, registers: *mut Registers) -> Self {
        // SAFETY: `record` belongs to an initialised context, and its guest does not run.
        unsafe {
            (*record).activation.gate = control.gate();
            (*record).activation.registers = registers;
        }
        Self(record)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: `of` received the record of an initialised context, and the call has ended.
        unsafe {
            (*self.0).activation.gate = (*self.0).mark;
            (*self.0).activation.registers = ptr::null_mut();
        }
    }
}

/// The error of a call that did not return and cannot be resumed.
fn ended<T>(call: &mut Call<'_, T>) -> Result<(), CallError> {
    Err(call.left())
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
/// The activation of member `root` must use the interrupt flag of `watched`. Without `watched`, it
/// must use its original flag.
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
        // SAFETY: code, entry and context belong to a function of a loaded module and to its
        // instance, see `Member::target`. `enter_by` supplies valid values for the other arguments.
        unsafe { switch::start(activation, vmctx, entry, code, cells, answer, call) }
    };
    // SAFETY: the caller ensures that the activation uses the right interrupt flag.
    unsafe { enter_by(members, root, cells, data, watched, start, left) }
}

/// Like [`enter`], but the closure `by` chooses the entry routine of [`crate::switch`].
///
/// # Errors
///
/// The errors of `left`.
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
    // `left` takes the contents of the call. After a return there is nothing to drop.
    let mut call = ManuallyDrop::new(Call {
        activation,
        members,
        data,
        watched,
        end: None,
    });
    // SAFETY: the record belongs to an initialised context. The borrow of `members` keeps it in
    // place.
    let _running = unsafe { Running::enter(activation) };
    // The stack below the cells is free, and 16-byte aligned like the cells. `answer::<T>` matches
    // the type of `call`.
    let floats = AsGuests::begin();
    let (cells, of_call) = (cells as *mut u8, (&raw mut *call).cast());
    let mut returned = by(activation, cells, answer::<T>, of_call);
    while !returned && call.catches() {
        // SAFETY: the guest has exited. It continues in the same call, where it catches its
        // exception.
        returned = unsafe { switch::resume(activation, ptr::null(), cells, answer::<T>, of_call) };
    }
    drop(floats);
    if returned {
        Ok(R::default())
    } else {
        left(&mut call)
    }
}

/// Answers an exit of the guest, on the host's stack: an [`Answer`].
///
/// # Safety
///
/// `call` must be the [`Call`] of a running guest, with the same `T`. `vmctx`, `reason` and `cells`
/// must come from an exit of that guest.
unsafe extern "C" fn answer<T>(
    vmctx: *mut u8,
    reason: u64,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation {
    // SAFETY: the caller ensures that `call` is valid. `run` is inside `start`, and its guest
    // waits.
    let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
    let wanted = exit::split(reason);
    let watched = call.watched;
    // SAFETY: the caller ensures that `vmctx` and `cells` come from the guest's exit.
    let answer = AssertUnwindSafe(|| match unsafe { call.answer(vmctx, wanted, cells) } {
        // A limiter may have forked the process, just as a host function may.
        Ok(()) => call.go_on_whole(),
        Err(end) => call.leave(end),
    });
    let answered = match watched {
        Some(watched) => watched.in_host(|| panic::catch_unwind(answer)),
        None => panic::catch_unwind(answer),
    };
    answered.unwrap_or_else(|panic| call.leave(End::Panic(panic)))
}

/// Answers a call of a host function, on the host's stack: a
/// [`HostAnswer`](switch::activation::HostAnswer).
///
/// # Safety
///
/// `call` must be the [`Call`] of a running guest, with the same `T`. `vmctx`, `entry` and `cells`
/// must come from an exit of that guest. The entry must belong to a `C`, and `cells` must point to
/// as many cells as that host function has.
pub(crate) unsafe extern "C" fn answer_host<T, C: HostCode<T>>(
    vmctx: *mut u8,
    entry: *const HostEntry,
    cells: *mut Cell,
    call: *mut (),
) -> *mut Activation {
    // SAFETY: the caller ensures that `call` is valid. `run` is inside `start`, and its guest
    // waits.
    let call = unsafe { &mut *call.cast::<Call<'_, T>>() };
    // SAFETY: the caller ensures that the entry belongs to a `C`.
    let code = unsafe { &*(*entry).func.cast::<C>() };
    if let Some(watched) = call.watched {
        // SAFETY: the caller ensures that `vmctx` and `cells` belong to the guest's call of `code`.
        return unsafe { answer_watched(call, watched, code, vmctx, cells) };
    }
    // SAFETY: the caller ensures that `vmctx` and `cells` belong to the guest's call of `code`.
    let answered = unsafe { call.host(code, vmctx, cells) };
    match answered {
        // With one memory, the interrupt flag tells the switch whether the host function has
        // forked.
        Ok(Ok(Answered::Done)) if call.members.len() == 1 => ptr::null_mut(),
        Ok(Ok(Answered::Done)) => call.go_on_whole(),
        Ok(Ok(Answered::Later)) => call.leave(End::Waits),
        Ok(Err(error)) => call.leave(End::Host(error)),
        Err(panic) => call.leave(End::Panic(panic)),
    }
}

/// [`answer_host`] for a call that can be stopped. It is a separate function, so that the common
/// path saves few registers.
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
    // SAFETY: the caller ensures that `vmctx` and `cells` belong to the guest's call of `code`.
    let answered = watched.in_host(|| unsafe { call.host(code, vmctx, cells) });
    match answered {
        Ok(Ok(Answered::Done)) => call.go_on_whole(),
        Ok(Ok(Answered::Later)) => call.leave(End::Waits),
        Ok(Err(error)) => call.leave(End::Host(error)),
        Err(panic) => call.leave(End::Panic(panic)),
    }
}

/// The entry of an import that is not a host function.
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
        // SAFETY: the caller ensures that `call` is valid. `run` is inside `start`, and its guest
        // waits.
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
    /// The panic of the host function, or the error that it returned.
    ///
    /// # Safety
    ///
    /// `vmctx` must be the context of the calling instance, which must be a member of this call.
    /// `cells` must point to as many cells as the function has.
    #[inline(always)]
    unsafe fn host<C: HostCode<T>>(
        &mut self,
        code: &C,
        vmctx: *mut u8,
        cells: *mut Cell,
    ) -> std::thread::Result<Result<Answered, HostError>> {
        // SAFETY: the caller ensures that `cells` points to that many cells.
        let cells = unsafe { slice::from_raw_parts_mut(cells, code.cells()) };
        // SAFETY: the call borrows the instance, whose guest waits. The call holds no view of its
        // memory.
        let caller = unsafe { Caller::new(vmctx, self.data) };
        panic::catch_unwind(AssertUnwindSafe(|| code.call(caller, cells)))
    }

    /// Lets the guest continue, unless the embedder's code has forked and a memory was not
    /// inherited.
    #[inline(never)]
    fn go_on_whole(&mut self) -> *mut Activation {
        if is_whole(self.members) {
            ptr::null_mut()
        } else {
            self.leave(End::Invalid(left_behind()))
        }
    }

    /// Runs a builtin of the runtime that the guest has called.
    ///
    /// # Errors
    ///
    /// Why the guest must be left.
    ///
    /// # Safety
    ///
    /// `vmctx` and `cells` must come from the guest's exit.
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
        // SAFETY: the trampoline of the builtin passes an address on the guest's stack. There is
        // room for every parameter, and for at least one result. The guest does not run.
        let cells = unsafe { slice::from_raw_parts_mut(cells, builtin.params().max(1)) };
        match builtin {
            Builtin::MemoryWait32 | Builtin::MemoryWait64 => self.wait(at, builtin, cells),
            Builtin::Throw => {
                // SAFETY: generated code supplies as many cells as the tag has values.
                let thrown = unsafe {
                    exception::throw(self.members, left, at, cells[0].u32(), cells[1].u64())
                };
                Err(thrown.map_or_else(|refused| End::refused(&refused), |()| End::Throws))
            }
            Builtin::ThrowRef => {
                // SAFETY: the guest has exited by this call of the builtin, and the reference is in
                // its cells.
                let thrown = unsafe { exception::throw_ref(self.members, left, cells[0].u64()) };
                Err(thrown.map_or_else(|refused| End::refused(&refused), |()| End::Throws))
            }
            Builtin::Rethrow => Err(End::Throws),
            Builtin::Keep => {
                // SAFETY: the guest has exited by this call of the builtin.
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

    /// Performs the bulk write of a builtin of member `at`.
    ///
    /// # Errors
    ///
    /// Why the guest must be left. If only its time slice ended, the member keeps the rest of the
    /// write.
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

    /// Whether a guest that was left continues in a handler for the exception that it threw.
    #[inline]
    fn catches(&mut self) -> bool {
        matches!(self.end, Some(End::Throws)) && self.goes_on()
    }

    #[cold]
    fn goes_on(&mut self) -> bool {
        // SAFETY: the guest has exited through an answer, in this call.
        let goes_on = unsafe { exception::land(self.members, self.activation) };
        if goes_on {
            self.end = None;
        }
        goes_on
    }

    /// Answers an exit that is not a call of a host function.
    ///
    /// # Errors
    ///
    /// Why the guest must be left.
    ///
    /// # Safety
    ///
    /// `vmctx` and `cells` must come from the guest's exit.
    unsafe fn answer(
        &mut self,
        vmctx: *mut u8,
        wanted: Option<(Kind, u32)>,
        cells: *mut Cell,
    ) -> Result<(), End> {
        match wanted {
            Some((Kind::Builtin, number)) => {
                // SAFETY: the caller ensures that `vmctx` and `cells` come from the guest's exit.
                unsafe { self.builtin(vmctx, number, cells) }
            }
            // Only a module of another version has unknown trap codes, and `open` refuses such a
            // module.
            Some((Kind::Trap, number)) => Err(End::Trap(
                TrapCode::from_number(number).unwrap_or(TrapCode::Unreachable),
            )),
            None => Err(End::Invalid(CallError::Invalid(
                "guest left for what no guest leaves for".to_owned(),
            ))),
        }
    }

    /// Notes the end of a guest. The switch leaves the guest of the activation that this returns.
    #[inline]
    fn leave(&mut self, end: End) -> *mut Activation {
        // `goes_on` clears the old value before a guest continues, so there is nothing to drop.
        mem::forget(self.end.replace(end));
        self.activation
    }

    /// The error that ended the call, once the guest was left. A trap gets the guest's backtrace.
    ///
    /// Callers pass the error on unchanged, so that it is built where the result of `call` lies. A
    /// copy on the way takes some 5 ns (bench `trap`).
    #[cold]
    fn left(&mut self) -> CallError {
        // SAFETY: the guest has been left, so nothing else uses the activation.
        if let Some(Fault { code, .. }) = unsafe { (*self.activation).fault } {
            let Some(code) = code else {
                return self.stopped();
            };
            let trap = self.trap(code);
            // SAFETY: the guest has been left, so nothing else uses the activation. The fault is
            // cleared because the next trap may not come from a signal.
            unsafe { (*self.activation).fault = None };
            return trap;
        }
        // Otherwise an answer ended the call, or the switch refused to enter or resume the guest.
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

    /// The progress of a step, once the guest was left.
    ///
    /// # Errors
    ///
    /// As [`left`](Self::left), if the call cannot be resumed.
    #[inline]
    fn left_step(&mut self) -> Result<Progress, CallError> {
        match (&self.end, self.watched) {
            // If the call was stopped during a host function, the result of that function is
            // discarded.
            (Some(End::Waits), watched) if watched.and_then(Watched::why).is_none() => {
                Ok(Progress::Waits)
            }
            // A trap that a signal reported in the meantime has priority: such a guest cannot be
            // resumed.
            (None | Some(End::Halted), Some(watched))
                if watched.slice_is_over() && !self.has_faulted() =>
            {
                Ok(Progress::Preempted)
            }
            _ => Err(self.left()),
        }
    }

    /// Whether a signal ended the guest: such a guest cannot be resumed.
    fn has_faulted(&self) -> bool {
        // SAFETY: the guest has been left, so nothing else uses the activation.
        unsafe { (*self.activation).fault.is_some() }
    }

    /// The error of a call whose interrupt flag was set.
    fn stopped(&mut self) -> CallError {
        self.locate();
        let trace = self.trace();
        // SAFETY: the guest has been left, so nothing else uses the activation.
        unsafe { (*self.activation).fault = None };
        match self.watched.map(|watched| (watched.why(), watched.bounds)) {
            Some((Some(why), bounds)) => stopped(why, bounds, Some(trace)),
            // Only a fork sets the interrupt flag of a call that cannot be stopped.
            _ => left_behind(),
        }
    }

    /// Records the position of a guest that a signal suspended and that will not be resumed.
    fn locate(&mut self) {
        // SAFETY: the guest has been left, so nothing else uses the activation or its saved
        // registers.
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

    /// The error of a call whose guest threw an exception that nothing caught.
    fn uncaught(&mut self) -> CallError {
        let (tag, values, pcs) = exception::uncaught(self.members);
        let trace = Trace::of_pcs(&pcs, self.modules());
        CallError::Exception(Exception::new(tag, values, trace))
    }

    fn trap(&self, code: TrapCode) -> CallError {
        CallError::Trap(Trap::with_trace(code, self.trace()))
    }

    /// The modules of all instances that the call can reach.
    fn modules(&self) -> impl Iterator<Item = Module> + use<'_, T> {
        let members = self.members.iter();
        members.map(|member| member.inner.module.clone())
    }

    /// The guest's backtrace at its exit.
    fn trace(&self) -> Box<Trace> {
        let modules = self.modules();
        // SAFETY: the record belongs to the running call, whose guest has been left.
        unsafe {
            let root: *const Guest = &raw const (*self.activation.cast::<Record>()).guest;
            Trace::of(&*self.activation, root, modules)
        }
    }
}

/// Whether this process has the memory of every member. A fork does not inherit the memory of
/// [tracked](crate::Reset::Tracked) slots.
#[inline]
fn is_whole<T>(members: &[Member<T>]) -> bool {
    // SAFETY: the records belong to initialised contexts. The members keep their regions alive.
    let whole = |member: &Member<T>| unsafe { (*Record::of(member.vmctx())).is_whole() };
    match members {
        [only] => whole(only),
        several => several.iter().all(whole),
    }
}

/// The index of the member that has this context.
fn member_of<T>(members: &[Member<T>], vmctx: *mut u8) -> Option<usize> {
    if let [only] = members {
        return (only.vmctx() == vmctx).then_some(0);
    }
    members.iter().position(|member| member.vmctx() == vmctx)
}
