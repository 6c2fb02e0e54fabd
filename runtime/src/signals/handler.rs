//! The signal handler: fills pages of guest memory, decides whether a fault belongs to a guest, and
//! makes guests leave.
//!
//! It takes no lock and allocates nothing. It touches only:
//!
//! * the activation of the call that runs on this thread, and the pointer to it;
//! * the records of the instances that the call can reach;
//! * the call's interrupt flag, and the place for the guest's registers;
//! * the sorted, read-only trap tables of the modules of those instances;
//! * the address ranges of the shared memories that those instances import;
//! * the page-fault hook; where slots are tracked, the table of trackers, the tracker's fork mark,
//!   and the page counters, the page bitmap, the list of dirty pages and the module's image of the
//!   slot that contains the address;
//! * the handlers that were found installed before, and this thread's record of the signal that it
//!   forwards to them (`PASSING`);
//! * the places of the routines that copy and fill for guests (`ACCESSES`);
//! * the lowest word of the thread's alternate stack.
//!
//! Invariant 5 in `docs/internals/invariants.md` gives the same list, and a test compares the two.
//!
//! The runtime's own accesses to guest memory may raise SIGBUS. The handler then resumes the access
//! routine where it reports the failure ([`arch::touch`]). It does the same to a routine that
//! copies or fills memory for a guest ([`arch::bulk`]).
//!
//! A fault belongs to the guest only if all of these conditions hold. No process sent the signal.
//! This thread runs a guest. The program counter is in the text of a module that the running call
//! can reach. The address of a SIGSEGV or SIGBUS is in the guard of the running stack, or else the
//! module's trap table lists the instruction. In the latter case a SIGSEGV or SIGBUS also needs an
//! address that a reachable instance can access, in its slot or in a shared memory, or an address
//! in the lowest page. A mask against speculation may replace an address by null. The handler
//! forwards every other fault to the handler that was installed before.
//!
//! The arguments have libc's types: nix has no types for `siginfo_t` and `ucontext_t`.
//!
//! # Safety
//!
//! Owns the fact that `CURRENT` is null or points to the activation of a call that is running on
//! this thread. [`Running`] sets it, and the drop of [`Running`] restores the previous value.
#![allow(unsafe_code)]

use super::page_fault::{self, Touched};
use crate::switch::activation::{Position, within};
use crate::switch::arch::{self, Interrupted};
use crate::switch::interrupt_flag::{GO, SLICE_IS_OVER, is_stopped};
use crate::switch::{Activation, Fault, Guest, Record};
use crate::sys;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use core::{ptr, slice};
use nix::sys::signal::Signal;
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
/// The error of sigaction(2).
pub(crate) fn install() -> io::Result<()> {
    arch::bulk::measure();
    sys::signal::install(on_signal)
}

/// Whether this handler is installed for a signal.
///
/// # Errors
///
/// The error of sigaction(2).
pub(crate) fn handles(signal: Signal) -> io::Result<bool> {
    sys::signal::is_handled(signal, on_signal)
}

/// While this value lives, faults in guest code on this thread belong to one activation.
#[derive(Debug)]
pub(crate) struct Running {
    previous: *mut Activation,
}

impl Running {
    /// Announces an activation on this thread. Calls nest: a host function may run another
    /// instance.
    ///
    /// # Safety
    ///
    /// The activation must belong to a [`Record`] that stays in place until the value is dropped.
    #[inline]
    pub(crate) unsafe fn enter(activation: *mut Activation) -> Self {
        Self {
            previous: CURRENT.replace(activation),
        }
    }

    /// Whether this activation is the current activation of this thread.
    pub(crate) fn is(activation: *const Activation) -> bool {
        ptr::eq(CURRENT.get(), activation)
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        // The common case stores a constant null. Storing `previous` would wait for the load at the
        // beginning of the call, and so chain each call to the call before it.
        if self.previous.is_null() {
            CURRENT.set(ptr::null_mut());
        } else {
            nested(self.previous);
        }
    }
}

/// Ends a call that was made inside another call.
#[cold]
fn nested(previous: *mut Activation) {
    CURRENT.set(previous);
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to a handler installed with SA_SIGINFO, and the
    // context is a ucontext_t (sigaction(2)). The references end before the handler does.
    unsafe {
        let (fault, interrupted) = (&*info, &mut *context.cast::<libc::ucontext_t>());
        if signal == sys::signal::INTERRUPT as i32 {
            // The interrupt flag decides, not the sender: if the signal queue is full, our signal
            // arrives without its mark. Without the mark, the handler skips a thread that never ran
            // a guest, because the thread's thread-local variables may not be allocated.
            if sys::signal::is_interrupt(fault) || sys::signal::is_prepared(interrupted) {
                stop(interrupted, CURRENT.get());
            }
            // Other code may have sent the signal as well: the kernel merges pending signals. So
            // the signal is always forwarded.
            sys::signal::pass_on(signal, info, context);
            return;
        }
        if signal == libc::SIGBUS && arch::touch::fail(interrupted) {
            // The access routine reports the failure. Its caller then fills the pages, or returns
            // an error.
            return;
        }
        let is_missing = signal == libc::SIGBUS && fault.si_code == libc::BUS_ADRERR;
        if is_missing && arch::bulk::fail(interrupted) {
            // The guest exits, and the runtime fills the pages, or returns an error.
            return;
        }
        let touched = match page_fault::hook().filter(|_| is_missing) {
            Some(hook) => hook(fault.si_addr() as usize, arch::wrote(interrupted)),
            None => Touched::Elsewhere,
        };
        if touched == Touched::There {
            // The guest or the host touched the page: the instruction runs again.
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

/// Makes the guest on this thread leave if its interrupt flag is set and the signal interrupted
/// guest code. If only the guest's time slice is over, the guest's registers are saved so that the
/// guest can be resumed. Otherwise the guest cannot be resumed. If the signal interrupted other
/// code, the flag is checked before the guest is resumed. At the end of a time slice, a routine
/// that copies or fills for the guest is such code.
///
/// # Safety
///
/// `activation` must be null, or belong to the call that runs on this thread.
unsafe fn stop(context: &mut libc::ucontext_t, activation: *mut Activation) {
    if activation.is_null() {
        return;
    }
    // SAFETY: an activation is the first field of its record. The call is running, so its interrupt
    // flag is valid, and its register buffer is valid or null.
    unsafe {
        let record = Record::with(activation);
        let flag = (*activation).interrupt_flag;
        if flag == (*record).mark {
            return;
        }
        let (why, registers) = ((*flag).load(Ordering::SeqCst), (*activation).registers);
        if why == GO {
            return;
        }
        let (position, taken) = match arch::guest_position(context, activation) {
            Interrupted::At(position) => (position, false),
            // The guest cannot be resumed within the routine.
            Interrupted::Copying(position) if is_stopped(why) => (position, false),
            Interrupted::Copying(_) => return,
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

/// Makes the guest leave at the instruction where the signal interrupted it.
///
/// # Safety
///
/// `activation` must belong to the call that runs on this thread, and the signal must have
/// interrupted guest code.
unsafe fn leave(
    context: &mut libc::ucontext_t,
    activation: *mut Activation,
    code: Option<TrapCode>,
    at: Position,
) {
    // SAFETY: the caller promises that the activation belongs to the running call.
    unsafe { (*activation).fault = Some(Fault { code, at }) };
    arch::redirect(context, activation);
}

/// Returns the trap of the running guest that a signal reports, if any.
///
/// # Safety
///
/// `activation` must be null, or belong to the call that runs on this thread.
unsafe fn diagnose(
    signal: i32,
    info: &libc::siginfo_t,
    context: &libc::ucontext_t,
    activation: *mut Activation,
) -> Option<TrapCode> {
    // A signal from a process is not a fault, whatever code the signal interrupted.
    if activation.is_null() || sys::signal::was_sent(info) {
        return None;
    }
    // SAFETY: an activation is the first field of its record, and the call is running.
    let first = unsafe { &raw const (*Record::with(activation)).guest };
    let pc = arch::interrupted(context).pc;
    // SAFETY: the links are set before a call starts and stay valid until it ends.
    let (mut chain, root) = unsafe { (Guest::chain(first), &*first) };
    let guest = chain.find(|guest| within(guest.text, pc))?;
    let by_address = matches!(signal, libc::SIGSEGV | libc::SIGBUS);
    // SAFETY: the kernel sets `si_addr` for these signals (sigaction(2)).
    let address = unsafe { info.si_addr() } as usize;
    if by_address && within(root.stack_guard, address) {
        return Some(TrapCode::StackOverflow);
    }
    let offset = u32::try_from(pc - guest.text[0]).ok()?;
    // SAFETY: `guest.traps` is the trap table of a loaded module, mapped as long as an instance of
    // the module exists.
    let traps = unsafe { slice::from_raw_parts(guest.traps[0] as *const u8, guest.traps[1]) };
    let code = TrapTable::view(traps).code(offset)?;
    // SAFETY: the links are set before a call starts and stay valid until it ends.
    let mut reachable = unsafe { Guest::chain(first) };
    // SAFETY: the running call can reach each guest in the chain.
    let mut is_reached = || reachable.any(|guest| unsafe { guest.reaches(address) });
    if by_address && !is_null_page(info, address) && !is_reached() {
        return None;
    }
    TrapCode::from_number(code)
}

/// Whether a fault is an access to the lowest page, where nothing is mapped. Null plus a short
/// displacement is an address in that page. For a fault without an address, the kernel reports
/// address 0 and another `si_code` (sigaction(2)).
fn is_null_page(info: &libc::siginfo_t, address: usize) -> bool {
    const SEGV_MAPERR: i32 = 1;
    const PAGE_BYTES: usize = 4096;
    info.si_signo == libc::SIGSEGV && info.si_code == SEGV_MAPERR && address < PAGE_BYTES
}
