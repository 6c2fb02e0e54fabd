//! The signal handler: tells a guest's fault from everybody else's, and makes the guest leave.
//!
//! It touches exactly this: the thread's [`CURRENT`] activation, the context that holds it, its gate, the
//! place for its registers, the module's sorted, read-only trap table, and the lowest word of the thread's alternate
//! stack. It takes no lock and allocates nothing.
//!
//! A SIGBUS of the runtime's own touch of guest memory resumes where the touch reports the failure
//! ([`arch::touch`]).
//!
//! A fault is the guest's only if all of this holds: this thread runs a guest, the program counter is
//! in the text of a module that the running call can reach, and either the address is in the guard of
//! the running stack, or the instruction stands in the module's trap table *and* the address is in
//! the slot of a reachable instance. Everything else belongs to whoever handled the signal before.
//!
//! # Safety
//!
//! Owns the fact that `CURRENT` is null or points to the activation of a call that is running on this
//! thread: [`Running`] sets it, and its drop puts back what was there before.
#![allow(unsafe_code)]

use crate::region::reset::{self, Touched};
use crate::stop::{GO, SLICE_IS_OVER};
use crate::switch::activation::{Position, within};
use crate::switch::arch::{self, Interrupted};
use crate::switch::{Activation, Fault, Guest, Record};
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use core::{ptr, slice};
use pirn_format::exit::TrapCode;
use pirn_format::traps::TrapTable;
use std::io;

thread_local! {
    /// The activation of the call that runs on this thread, or null.
    static CURRENT: Cell<*mut Activation> = const { Cell::new(ptr::null_mut()) };
}

/// Installs the handler for the process, once.
///
/// # Errors
///
/// What sigaction(2) gives.
pub(crate) fn install() -> io::Result<()> {
    sys::signal::install(on_signal)
}

/// Whether a signal comes to this handler.
///
/// # Errors
///
/// What sigaction(2) gives.
pub(crate) fn gets(signal: i32) -> io::Result<bool> {
    sys::signal::is_handled(signal, on_signal)
}

/// While it lives, faults in guest code on this thread belong to one activation.
#[derive(Debug)]
pub(crate) struct Running {
    previous: *mut Activation,
}

impl Running {
    /// Announces an activation on this thread. Calls nest: a host function may run another instance.
    ///
    /// # Safety
    ///
    /// The activation must be that of a [`Record`] which stays in place until the value is dropped.
    #[inline]
    pub(crate) unsafe fn enter(activation: *mut Activation) -> Self {
        Self {
            previous: CURRENT.replace(activation),
        }
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        // Not `previous` itself where it is null: what is stored would wait for what was loaded when the
        // call began, and each call for the one before it.
        if self.previous.is_null() {
            CURRENT.set(ptr::null_mut());
        } else {
            nested(self.previous);
        }
    }
}

/// Ends a call that was made from another.
#[cold]
fn nested(previous: *mut Activation) {
    CURRENT.set(previous);
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to a handler installed with SA_SIGINFO, and the
    // context is a ucontext_t (sigaction(2)). The references end before the handler does.
    unsafe {
        let (fault, interrupted) = (&*info, &mut *context.cast::<libc::ucontext_t>());
        if signal == sys::signal::POKE {
            // Whoever sent it: where the queue of signals is full, ours do not say so. A thread that
            // never ran a guest is left alone.
            if sys::signal::is_poke(fault) || sys::signal::is_prepared(interrupted) {
                stop(interrupted, CURRENT.get());
            }
            // Also ours: of two that wait the kernel gives one, and that may have been another's, too.
            sys::signal::pass_on(signal, info, context);
            return;
        }
        if signal == libc::SIGBUS && arch::touch::fail(interrupted) {
            // The runtime populates the range, or reports that it cannot.
            return;
        }
        let touched = if signal == libc::SIGBUS && fault.si_code == libc::BUS_ADRERR {
            reset::populate(fault.si_addr() as usize, arch::wrote(interrupted))
        } else {
            Touched::Elsewhere
        };
        if touched == Touched::There {
            // Whoever touched it, the guest or the host: the instruction runs again.
            return;
        }
        let activation = CURRENT.get();
        match diagnose(signal, fault, interrupted, activation) {
            Some(code) => {
                let code = match touched {
                    Touched::Exhausted => TrapCode::MemoryExhausted,
                    _ => code,
                };
                let position = arch::interrupted(interrupted);
                leave(interrupted, activation, Some(code), position);
            }
            None => sys::signal::pass_on(signal, info, context),
        }
    }
}

/// Makes the guest that runs on this thread leave if its gate is closed and it was interrupted in guest
/// code: for good, or, if only its slice of time is over, with its registers taken. Anywhere else the gate
/// is looked at before the guest is gone on with.
///
/// # Safety
///
/// `activation` must be null or that of the call which runs on this thread.
unsafe fn stop(context: &mut libc::ucontext_t, activation: *mut Activation) {
    if activation.is_null() {
        return;
    }
    // SAFETY: an activation is the first field of its record, and it is of a running call, which keeps
    // its gate and, if there is, the place for its registers.
    unsafe {
        let record = activation.cast::<Record>();
        let gate = (*activation).gate;
        if gate == (*record).mark {
            return;
        }
        let (why, registers) = ((*gate).load(Ordering::SeqCst), (*activation).registers);
        if why == GO {
            return;
        }
        let (position, taken) = match arch::guest_position(context, activation) {
            Interrupted::At(position) => (position, false),
            Interrupted::Restoring => ((*registers).position(), true),
            Interrupted::Entering => return,
        };
        let mut reachable = Guest::chain(&raw const (*record).guest);
        if !reachable.any(|guest| within(guest.text, position.pc)) {
            return;
        }
        if why != SLICE_IS_OVER || registers.is_null() {
            return leave(context, activation, None, position);
        }
        if !taken {
            (*registers).take(context, activation, position);
        }
        (*activation).guest_sp = 0;
        arch::redirect(context, activation);
    }
}

/// Makes the guest leave from where it was interrupted.
///
/// # Safety
///
/// `activation` must be that of the call which runs on this thread, and the guest's code have been
/// interrupted.
unsafe fn leave(
    context: &mut libc::ucontext_t,
    activation: *mut Activation,
    code: Option<TrapCode>,
    at: Position,
) {
    // SAFETY: the caller's promise.
    unsafe { (*activation).fault = Some(Fault { code, at }) };
    arch::redirect(context, activation);
}

/// Which trap of the running guest a signal tells of, if any.
///
/// # Safety
///
/// `activation` must be null or that of the call which runs on this thread.
unsafe fn diagnose(
    signal: i32,
    info: &libc::siginfo_t,
    context: &libc::ucontext_t,
    activation: *mut Activation,
) -> Option<TrapCode> {
    // A signal that was sent is no fault, whatever was interrupted.
    if activation.is_null() || sys::signal::was_sent(info) {
        return None;
    }
    // SAFETY: an activation is the first field of its record, and it is of a running call.
    let first = unsafe { &raw const (*activation.cast::<Record>()).guest };
    let pc = arch::interrupted(context).pc;
    // SAFETY: the links are set before a call starts and stay until it ends.
    let (mut chain, root) = unsafe { (Guest::chain(first), &*first) };
    let guest = chain.find(|guest| within(guest.text, pc))?;
    let by_address = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    // SAFETY: si_addr is set for these signals (sigaction(2)).
    let address = unsafe { info.si_addr() } as usize;
    if by_address && within(root.stack_guard, address) {
        return Some(TrapCode::StackOverflow);
    }
    let offset = u32::try_from(pc - guest.text[0]).ok()?;
    // SAFETY: the trap table of a loaded module, mapped for as long as an instance of it exists.
    let traps = unsafe { slice::from_raw_parts(guest.traps[0] as *const u8, guest.traps[1]) };
    let code = TrapTable::view(traps).code(offset)?;
    // SAFETY: as above.
    let mut reachable = unsafe { Guest::chain(first) };
    // SAFETY: as above.
    if by_address && !reachable.any(|guest| unsafe { guest.reaches(address) }) {
        return None;
    }
    TrapCode::from_number(code)
}
