//! [`Call`]: a running call, and how the runtime answers the exits of its guest.
//!
//! # Safety
//!
//! This file owns one fact. The call borrows every instance that the guest can reach, and the guest
//! waits while the runtime works for it.
#![allow(unsafe_code)]

use super::caller::Caller;
use super::end::End;
use super::errors::{host_error, left_behind, not_a_step, stopped};
use super::host_code::{Answered, HostCode};
use super::untyped_func::Wanted;
use super::wait::wait;
use super::{builtin, exception};
use crate::error::{CallError, HostError, HostPanic, InvalidCall};
use crate::module::Module;
use crate::stop::{Halt, Watched};
use crate::store::bulk::Bulk;
use crate::store::member::{Member, Target};
use crate::switch::{Activation, Fault, Guest, Record};
use crate::trap::backtrace::Trace;
use crate::trap::{Exception, Trap, TrapCode};
use crate::value::{Cell, InstanceId, Value};
use core::mem;
use core::panic::AssertUnwindSafe;
use core::{ptr, slice};
use pirn_format::exit::{Builtin, Kind};
use pirn_format::layout::MemoryDesc;
use std::panic;

/// A running call: the state that answers need, and the reason why an answer ended it.
///
/// The routines of [`crate::switch`] expect the address of the activation in the first field.
#[repr(C)]
pub(super) struct Call<'a, T> {
    pub(super) header: Header,
    pub(super) members: &'a mut [Member<T>],
    /// A pointer, not a reference: the host function that runs has a pointer to a part of the data.
    /// A nested call of that function reaches the data through this pointer.
    pub(super) data: *mut T,
    /// The means to stop the call; `None` if the call cannot be stopped.
    pub(super) watched: Option<&'a Watched>,
    /// Why an answer made the switch leave the guest.
    pub(super) end: Option<End>,
}

/// The first fields of a [`Call`]. These fields do not depend on the type of the host's data.
#[repr(C)]
pub(super) struct Header {
    pub(super) activation: *mut Activation,
    /// The vtable for nested calls, for the data type of this call.
    pub(super) nested: &'static Nested,
}

/// The vtable for nested calls of a [`Call`] with one type of host data.
///
/// A [`Caller`] needs the vtable, because the caller's data type can differ from the data type of
/// the call (see `Caller::of_data`). The first argument of each function is the address of the
/// running [`Call`].
pub(super) struct Nested {
    /// Checks that a preparation made the instance with a context.
    pub(super) check: unsafe fn(*mut (), *mut u8, InstanceId) -> NestedResult<()>,
    /// The module of the instance with a context, and the id of its preparation.
    pub(super) module: unsafe fn(*mut (), *mut u8) -> NestedResult<(Module, InstanceId)>,
    /// The descriptor of an exported memory of the instance with a context.
    pub(super) memory: unsafe fn(*mut (), *mut u8, &str) -> Option<*const MemoryDesc>,
    /// Calls a function whose parameters are in the cells at an address.
    pub(super) enter: unsafe fn(*mut (), Target, *mut u8) -> NestedResult<()>,
    /// Calls a function of the instance with a context.
    pub(super) values: CallValues,
}

type NestedResult<R> = Result<R, CallError>;
type CallValues = unsafe fn(*mut (), *mut u8, Wanted<'_>, &[Value]) -> NestedResult<Vec<Value>>;

/// Calls a host function.
///
/// While the function runs, no reference to the [`Call`] may exist, because the function may make a
/// nested call.
///
/// # Errors
///
/// The panic of the host function, or the error that it returned.
///
/// # Safety
///
/// `vmctx` must be the context of the calling instance, which must be a member of the running call.
/// `data` must be the data of that call. `cells` must point to the function's cells.
#[inline(always)]
pub(super) unsafe fn host<T, C: HostCode<T>>(
    data: *mut T,
    code: &C,
    vmctx: *mut u8,
    cells: *mut Cell,
) -> std::thread::Result<Result<Answered, HostError>> {
    // SAFETY: the caller ensures that `cells` points to `code.cells()` cells.
    let cells = unsafe { slice::from_raw_parts_mut(cells, code.cells()) };
    // SAFETY: the call borrows the instance, whose guest waits. The call holds no view of the
    // instance's memory. The call uses the data only in nested calls, which borrow the `Caller`
    // mutably.
    let caller = unsafe { Caller::new(vmctx, data) };
    panic::catch_unwind(AssertUnwindSafe(|| code.call(caller, cells)))
}

impl<'a, T> Call<'a, T> {
    /// Creates a call that has not begun.
    #[inline(always)]
    pub(super) fn new(
        activation: *mut Activation,
        members: &'a mut [Member<T>],
        data: *mut T,
        watched: Option<&'a Watched>,
        nested: &'static Nested,
    ) -> Self {
        Self {
            header: Header { activation, nested },
            members,
            data,
            watched,
            end: None,
        }
    }
}

impl<T> Call<'_, T> {
    /// Returns null, so that the guest continues. If a fork did not inherit the memory of a member,
    /// leaves the guest instead.
    #[inline(never)]
    pub(super) fn continue_whole(&mut self) -> *mut Activation {
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
            activation: self.header.activation,
            cells,
            watched: self.watched,
        };
        // SAFETY: the trampoline of the builtin passes an address on the guest's stack. The address
        // has room for every parameter, and for at least one result. The guest does not run.
        let cells = unsafe { slice::from_raw_parts_mut(cells, builtin.params().max(1)) };
        match builtin {
            Builtin::MemoryWait32 | Builtin::MemoryWait64 => {
                // SAFETY: the guest has exited, so nothing else uses the activation.
                let is_nested = unsafe { (*Record::with(self.header.activation)).nested_calls > 0 };
                wait(self.members, at, self.watched, builtin, cells, is_nested)
            }
            Builtin::Throw => {
                // SAFETY: generated code supplies one cell for each value of the tag.
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
                // SAFETY: the data is borrowed for the call, and no running host function has a
                // pointer to the data.
                let data = unsafe { &mut *self.data };
                let bulk = builtin::run(self.members, at, other, cells, data);
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

    /// Makes a guest that threw continue in its handler. Returns whether there is a handler.
    #[inline]
    pub(super) fn catches(&mut self) -> bool {
        matches!(self.end, Some(End::Throws)) && self.lands()
    }

    #[cold]
    fn lands(&mut self) -> bool {
        // SAFETY: the guest has exited through an answer, in this call.
        let lands = unsafe { exception::land(self.members, self.header.activation) };
        if lands {
            self.end = None;
        }
        lands
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
    pub(super) unsafe fn answer(
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
            None => Err(End::Invalid(InvalidCall::UnknownExit.into())),
        }
    }

    /// Records why the guest must be left. Returns the guest's activation, which tells the switch
    /// to leave the guest.
    #[inline]
    pub(super) fn leave(&mut self, end: End) -> *mut Activation {
        // `lands` clears the old value before a guest continues, so there is nothing to drop.
        mem::forget(self.end.replace(end));
        self.header.activation
    }

    /// The error that ended the call, once the guest was left. A trap gets the guest's backtrace.
    ///
    /// Callers return the error unchanged, so that it is built in the place of the caller's result.
    /// A copy takes 5 ns (bench `trap`).
    #[cold]
    pub(super) fn left(&mut self) -> CallError {
        for member in &mut *self.members {
            member.note_failure();
        }
        // SAFETY: the guest has been left, so nothing else uses the activation.
        if let Some(Fault { code, .. }) = unsafe { (*self.header.activation).fault } {
            let Some(code) = code else {
                return self.stopped();
            };
            let trap = self.trap(code);
            // SAFETY: the guest has been left, so nothing else uses the activation. The fault is
            // cleared because the next trap may not come from a signal.
            unsafe { (*self.header.activation).fault = None };
            return trap;
        }
        // Otherwise an answer ended the call, or the switch refused to enter or resume the guest.
        if let Some(End::Trap(code)) = self.end {
            return self.trap(code);
        }
        match self.end.take() {
            Some(End::Host(error)) => {
                // SAFETY: the guest has been left, so nothing else uses the activation.
                let nested_failed = unsafe {
                    mem::take(&mut (*Record::with(self.header.activation)).nested_failed)
                };
                host_error(error, nested_failed, || self.trace())
            }
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
    pub(super) fn left_step(&mut self) -> Result<Progress, CallError> {
        match (&self.end, self.watched) {
            // A call that was stopped meanwhile does not wait: it ends below, and the host
            // function's result is discarded.
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
        unsafe { (*self.header.activation).fault.is_some() }
    }

    /// The error of a call whose interrupt flag was set.
    fn stopped(&mut self) -> CallError {
        self.locate();
        let trace = self.trace();
        // SAFETY: the guest has been left, so nothing else uses the activation.
        unsafe { (*self.header.activation).fault = None };
        match self.watched.map(|watched| (watched.why(), watched.bounds)) {
            Some((Some(why), bounds)) => stopped(why, bounds, Some(trace)),
            // The interrupt flag of a call that cannot be stopped changes only in a fork, where the
            // kernel wipes it.
            _ => left_behind(),
        }
    }

    /// Records the position of a guest that a signal suspended and that will not be resumed.
    fn locate(&mut self) {
        // SAFETY: the guest has been left, so nothing else uses the activation or its saved
        // registers.
        unsafe {
            let activation = &mut *self.header.activation;
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

    /// The error of a call whose guest threw an exception that no handler caught.
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
            let root: *const Guest = &raw const (*Record::with(self.header.activation)).guest;
            Trace::of(&*self.header.activation, root, modules)
        }
    }
}

/// Whether this process has the memory of every member. A fork does not inherit the memory of
/// [tracked](crate::Reset::Tracked) slots.
#[inline]
pub(crate) fn is_whole<T>(members: &[Member<T>]) -> bool {
    // SAFETY: the records belong to initialised contexts. The members keep their regions alive.
    let whole = |member: &Member<T>| unsafe { (*Record::of(member.vmctx())).is_whole() };
    match members {
        [only] => whole(only),
        several => several.iter().all(whole),
    }
}

/// The index of the member that has this context.
pub(super) fn member_of<T>(members: &[Member<T>], vmctx: *mut u8) -> Option<usize> {
    if let [only] = members {
        return (only.vmctx() == vmctx).then_some(0);
    }
    members.iter().position(|member| member.vmctx() == vmctx)
}

/// The progress of a step. The progress is one word wide, like [`Answered`].
#[repr(u64)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The call has returned: the cells hold the results.
    #[default]
    Returned,
    /// The guest waits for a host function, or in `memory.atomic.wait`.
    Waits,
    /// The time slice has ended.
    Preempted,
}
