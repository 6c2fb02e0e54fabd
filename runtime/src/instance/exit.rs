//! The exit loop: every way in which control comes back from a guest, and what is done then.
//!
//! The guest leaves by one path (see [`crate::switch`]), and to the host each exit is an ordinary
//! return of `start` or `resume`. So host functions run here, on the host's stack, as ordinary calls:
//! their panics unwind through Rust frames alone.
//!
//! # Safety
//!
//! The only place that enters guests. Owns the fact that a guest is entered with the activation that
//! its context names, on its own slot's stack, while the loop borrows every instance that it can
//! reach.
#![allow(unsafe_code)]

use super::builtin;
use super::member::{Member, Target};
use crate::error::CallError;
use crate::host::{Caller, HostError};
use crate::module::Module;
use crate::switch::{self, Activation, Guest, Record};
use crate::sys;
use crate::trap::handler::Running;
use crate::trap::{Frame, Trap, TrapCode, backtrace};
use crate::value::Cell;
use core::slice;
use pirn_format::exit::{self, Builtin, Kind};

/// Calls a function on the stack of member `root`, whose `cells` hold the parameters, until it
/// returns: then they hold the results.
///
/// # Errors
///
/// What ended the call. The instance can be called again; what the guest changed stays.
#[inline]
pub(crate) fn run<T>(
    members: &mut [Member<T>],
    root: usize,
    target: Target,
    cells: usize,
    data: &mut T,
) -> Result<(), CallError> {
    sys::signal::prepare_thread()?;
    check_whole(members)?;
    let record = Record::of(members[root].vmctx());
    let activation = record.cast::<Activation>();
    let cells = members[root].cells_address(cells);
    // SAFETY: the record of an initialised context, which the borrow of `members` keeps in place.
    let _running = unsafe { Running::enter(activation) };
    let Target { code, entry, vmctx } = target;
    // SAFETY: code, entry and context are a function of a loaded module and its own instance, see
    // `Member::target`; the stack below the cells is free, and 16-byte aligned as they are.
    unsafe { switch::start(activation, vmctx, entry, code, cells as *mut u8) };
    // SAFETY: the guest has left, so nobody else uses the activation.
    if unsafe { (*activation).reason } == exit::reason(Kind::Return, 0) {
        return Ok(());
    }
    answer(members, record, data)
}

/// Does what the guest left for, and resumes it, until it returns.
///
/// # Errors
///
/// As [`run`].
#[inline(never)]
fn answer<T>(
    members: &mut [Member<T>],
    record: *mut Record,
    data: &mut T,
) -> Result<(), CallError> {
    let activation = record.cast::<Activation>();
    loop {
        // SAFETY: the guest has left, so nobody else uses the activation.
        let left = unsafe { &*activation };
        // Host calls are what guests leave for most.
        if let Some((Kind::HostCall, import)) = exit::split(left.reason) {
            if let Err(error) = host_call(members, left, import, data) {
                return Err(host_error(members, record, error));
            }
            // The host function may have forked.
            check_whole(members)?;
        } else if answer_others(members, record, left)? {
            return Ok(());
        }
        // SAFETY: the guest left by a host call or a builtin, and its results are in their cells.
        unsafe { switch::resume(activation) };
    }
}

/// Does what the guest left for if that was no host call, and tells whether it has returned.
///
/// # Errors
///
/// As [`run`].
#[inline(never)]
fn answer_others<T>(
    members: &mut [Member<T>],
    record: *mut Record,
    left: &Activation,
) -> Result<bool, CallError> {
    match exit::split(left.reason) {
        Some((Kind::Return, _)) => Ok(true),
        Some((Kind::Builtin, number)) => match run_builtin(members, left, number) {
            Ok(()) => Ok(false),
            Err(code) => Err(trap(members, record, code)),
        },
        Some((Kind::Trap, number)) => {
            // A code that this runtime does not know would be a module of another version, which
            // `open` refuses.
            let code = TrapCode::from_number(number).unwrap_or(TrapCode::Unreachable);
            Err(trap(members, record, code))
        }
        Some((Kind::HostCall, _)) | None => {
            let reason = left.reason;
            Err(CallError::Invalid(format!(
                "guest left with reason {reason:#x}"
            )))
        }
    }
}

/// Sees that no memory was left behind in the process that this one is a fork of.
#[inline]
fn check_whole<T>(members: &[Member<T>]) -> Result<(), CallError> {
    // SAFETY: the records of initialised contexts, whose regions the members keep alive.
    let whole = |member: &Member<T>| unsafe { (*Record::of(member.vmctx())).is_whole() };
    let all = match members {
        [only] => whole(only),
        several => several.iter().all(whole),
    };
    if all { Ok(()) } else { Err(left_behind()) }
}

#[cold]
fn left_behind() -> CallError {
    CallError::Invalid(
        "instance was made by the process that this one is a fork of, which kept its memory; make \
         another"
            .to_owned(),
    )
}

/// Calls the host function that the guest asked for.
fn host_call<T>(
    members: &[Member<T>],
    left: &Activation,
    import: u32,
    data: &mut T,
) -> Result<(), HostError> {
    let vmctx = left.vmctx as *mut u8;
    let host =
        member_of(members, vmctx).and_then(|at| members[at].inner.hosts.get(import as usize));
    let Some(Some(func)) = host else {
        return Err(HostError::message(format!(
            "guest called import {import}, which is not the host's"
        )));
    };
    // SAFETY: the import's trampoline passes the address of as many cells as its type needs, on the
    // guest's stack; the guest does not run.
    let cells = unsafe { slice::from_raw_parts_mut(left.payload as *mut Cell, func.cells) };
    // SAFETY: the instance that calls is borrowed by `members`, its guest has left, and the exit loop
    // holds no view of its memory.
    let caller = unsafe { Caller::new(vmctx, data) };
    (func.call)(caller, cells)
}

/// Does what the guest asked of the runtime.
fn run_builtin<T>(
    members: &mut [Member<T>],
    left: &Activation,
    number: u32,
) -> Result<(), TrapCode> {
    let at = member_of(members, left.vmctx as *mut u8);
    let (Some(at), Some(builtin)) = (at, Builtin::from_number(number)) else {
        return Err(TrapCode::Unreachable);
    };
    // SAFETY: the builtin's trampoline passes the address of at least as many cells as it has
    // parameters, and one for a result, on the guest's stack; the guest does not run.
    let cells =
        unsafe { slice::from_raw_parts_mut(left.payload as *mut Cell, builtin.params().max(1)) };
    builtin::run(members, at, builtin, cells)
}

/// The member whose context this is.
fn member_of<T>(members: &[Member<T>], vmctx: *mut u8) -> Option<usize> {
    if let [only] = members {
        return (only.vmctx() == vmctx).then_some(0);
    }
    members.iter().position(|member| member.vmctx() == vmctx)
}

/// The error of a call that a host function ended.
fn host_error<T>(members: &[Member<T>], record: *mut Record, error: HostError) -> CallError {
    match error.downcast::<Trap>() {
        Ok(made) => trap(members, record, made.code()),
        Err(error) => CallError::Host(error),
    }
}

/// The error of a call that trapped, with the guest's backtrace.
fn trap<T>(members: &[Member<T>], record: *mut Record, code: TrapCode) -> CallError {
    let frames = frames(members, record);
    // SAFETY: as in `frames`. The next trap may be none that a signal tells of.
    unsafe { (*record).activation.fault_pc = 0 };
    CallError::Trap(Trap::with_backtrace(code, frames))
}

fn frames<T>(members: &[Member<T>], record: *mut Record) -> (Vec<Frame>, bool) {
    let module_of = |pc: usize| -> Option<&Module> {
        let modules = members.iter().map(|member| &member.inner.module);
        modules
            .into_iter()
            .find(|module| module.text().contains(&pc))
    };
    // SAFETY: the record of the running call, whose guest has left.
    unsafe {
        let root: *const Guest = &raw const (*record).guest;
        backtrace::walk(&(*record).activation, root, module_of)
    }
}
