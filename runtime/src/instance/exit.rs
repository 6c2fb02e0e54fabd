//! Calls into guests: in, what they want of the host meanwhile, and every way out.
//!
//! The guest leaves by one path (see [`crate::switch`]), and what it wants is answered as by a call
//! from here. So host functions run on the host's stack; a panic of theirs is caught before it would
//! reach the guest, and goes on once the guest has been left.
//!
//! # Safety
//!
//! The only place that enters guests. Owns the fact that a guest is entered with the activation that
//! its context names, on its own slot's stack, while the call borrows every instance that it can
//! reach.
#![allow(unsafe_code)]

use super::builtin;
use super::member::{Member, Target};
use crate::error::CallError;
use crate::host::func::HostCode;
use crate::host::{Caller, HostError};
use crate::switch::{self, Activation, Fault, Guest, HostEntry, Record};
use crate::sys;
use crate::trap::backtrace::Trace;
use crate::trap::handler::Running;
use crate::trap::{Trap, TrapCode};
use crate::value::Cell;
use core::any::Any;
use core::mem::ManuallyDrop;
use core::panic::AssertUnwindSafe;
use core::{ptr, slice};
use pirn_format::exit::{self, Builtin, Kind};
use std::panic;

/// A call that runs: what answers need of it, and what they leave.
struct Call<'a, T> {
    members: &'a mut [Member<T>],
    data: &'a mut T,
    activation: *mut Activation,
    /// Why an answer made the guest leave.
    end: Option<End>,
}

/// Why a guest was left before it returned.
enum End {
    /// It trapped.
    Trap(TrapCode),
    /// A host function gave an error.
    Host(HostError),
    /// The call cannot go on.
    Invalid(CallError),
    /// A host function panicked.
    Panic(Box<dyn Any + Send>),
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
    let activation = Record::of(members[root].vmctx()).cast::<Activation>();
    let cells = members[root].cells_address(cells);
    let Target { code, entry, vmctx } = target;
    // Dropped by `error`: there is nothing to drop after a return.
    let mut call = ManuallyDrop::new(Call {
        members,
        data,
        activation,
        end: None,
    });
    // SAFETY: the record of an initialised context, which the borrow of `members` keeps in place.
    let _running = unsafe { Running::enter(activation) };
    // SAFETY: code, entry and context are a function of a loaded module and its own instance, see
    // `Member::target`; the stack below the cells is free, and 16-byte aligned as they are. The answer
    // is that of the call's type.
    let returned = unsafe {
        let call = (&raw mut *call).cast();
        switch::start(
            activation,
            vmctx,
            entry,
            code,
            cells as *mut u8,
            answer::<T>,
            call,
        )
    };
    if returned { Ok(()) } else { Err(call.error()) }
}

/// Answers an exit, on the host's stack: an [`Answer`](switch::Answer).
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
    let answered = panic::catch_unwind(AssertUnwindSafe(|| call.answer(vmctx, wanted, cells)));
    match answered {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(end)) => call.leave(end),
        Err(panic) => call.leave(End::Panic(panic)),
    }
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
    let (code, cells) = unsafe {
        let code = &*(*entry).func.cast::<C>();
        (code, slice::from_raw_parts_mut(cells, code.cells()))
    };
    // SAFETY: the call borrows the instance, whose guest waits, and holds no view of its memory.
    let caller = unsafe { Caller::new(vmctx, call.data) };
    match panic::catch_unwind(AssertUnwindSafe(|| code.call(caller, cells))) {
        // The host function may have forked.
        Ok(Ok(())) if is_whole(call.members) => ptr::null_mut(),
        Ok(Ok(())) => call.leave(End::Invalid(left_behind())),
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
    /// Does what the guest wants.
    ///
    /// # Errors
    ///
    /// Why the guest is to be left.
    fn answer(
        &mut self,
        vmctx: *mut u8,
        wanted: Option<(Kind, u32)>,
        cells: *mut Cell,
    ) -> Result<(), End> {
        match wanted {
            Some((Kind::Builtin, number)) => {
                run_builtin(self.members, vmctx, number, cells).map_err(End::Trap)
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
    #[cold]
    fn leave(&mut self, end: End) -> *mut Activation {
        self.end = Some(end);
        self.activation
    }

    /// The error of a call whose guest was left, with the guest's backtrace if it trapped.
    ///
    /// # Panics
    ///
    /// With the panic of a host function, if that was why.
    #[cold]
    fn error(&mut self) -> CallError {
        // SAFETY: the guest has left, so nobody else uses the activation.
        if let Some(Fault { code, .. }) = unsafe { (*self.activation).fault } {
            let error = self.trap(code);
            // SAFETY: as above. The next trap may be none that a signal tells of.
            unsafe { (*self.activation).fault = None };
            return error;
        }
        // Who has not trapped by a signal has left by an answer.
        if let Some(End::Trap(code)) = self.end {
            return self.trap(code);
        }
        match self.end.take() {
            Some(End::Host(error)) => match error.downcast::<Trap>() {
                Ok(made) => self.trap(made.code()),
                Err(error) => CallError::Host(error),
            },
            Some(End::Invalid(error)) => error,
            Some(End::Panic(panic)) => panic::resume_unwind(panic),
            Some(End::Trap(_)) | None => {
                CallError::Invalid("guest left without a reason".to_owned())
            }
        }
    }

    fn trap(&self, code: TrapCode) -> CallError {
        let modules = self.members.iter();
        let modules = modules.map(|member| member.inner.module.clone()).collect();
        // SAFETY: the record of the running call, whose guest has left.
        let trace = unsafe {
            let root: *const Guest = &raw const (*self.activation.cast::<Record>()).guest;
            Trace::of(&*self.activation, root, modules)
        };
        CallError::Trap(Trap::with_trace(code, trace))
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

#[cold]
fn left_behind() -> CallError {
    CallError::Invalid(
        "instance was made by the process that this one is a fork of, which kept its memory; make \
         another"
            .to_owned(),
    )
}

/// Does what the guest asked of the runtime.
fn run_builtin<T>(
    members: &mut [Member<T>],
    vmctx: *mut u8,
    number: u32,
    cells: *mut Cell,
) -> Result<(), TrapCode> {
    let at = member_of(members, vmctx);
    let (Some(at), Some(builtin)) = (at, Builtin::from_number(number)) else {
        return Err(TrapCode::Unreachable);
    };
    // SAFETY: the builtin's trampoline passes the address of at least as many cells as it has
    // parameters, and one for a result, on the guest's stack; the guest does not run.
    let cells = unsafe { slice::from_raw_parts_mut(cells, builtin.params().max(1)) };
    builtin::run(members, at, builtin, cells)
}

/// The member whose context this is.
fn member_of<T>(members: &[Member<T>], vmctx: *mut u8) -> Option<usize> {
    if let [only] = members {
        return (only.vmctx() == vmctx).then_some(0);
    }
    members.iter().position(|member| member.vmctx() == vmctx)
}
