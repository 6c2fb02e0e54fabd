//! Stopping guests from outside: [`kill::KillSwitch`], deadlines, budgets of processor time.
//!
//! A guest that may be stopped has a [`Control`]. Whoever stops it writes into the control's word,
//! whose lowest byte is the *gate*: while it is not [`GO`], no guest code is entered or gone on with,
//! because the routines of [`crate::switch`] look at it last. Guest code itself never looks: the thread
//! that runs it is sent a signal, and the handler, which finds the gate closed and the program counter
//! in guest code, makes it leave.
//!
//! ```text
//!   killer, timer thread                     thread that runs the guest
//!   word |= KILL  (one atomic step) ───┐     word |= RUNNING (one atomic step): refused if closed
//!   running? ── signal ────────────┐   └───▶ gate looked at: on entry, after each host function
//!                                  └───────▶ handler: gate closed and in guest code: leave
//! ```
//!
//! A signal that comes too early or too late, or to a thread that runs something else by now, does
//! nothing: it only says "look at your gate". One that is lost, because it met another signal's
//! handler, is sent again by the timer thread as long as the call runs.
//!
//! # Safety
//!
//! Owns the fact that controls live as long as the process: whoever holds the address of one may look
//! at it, and its word tells whether it still is what was meant.
#![allow(unsafe_code)]

pub(crate) mod kill;
mod registered;
pub(crate) mod timer;
mod word;

pub(crate) use word::{GO, Why};

use crate::locks;
use crate::switch::Registers;
use crate::switch::activation::Position;
use crate::sys;
use atomic_waker::AtomicWaker;
use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU8};
use core::task::Waker;
use core::{mem, ptr};
use std::io;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard};
use word::{SLICE, Word};

/// The gate's value when nothing is wrong but that the guest's slice of time is over.
pub(crate) const SLICE_IS_OVER: u8 = GO | SLICE as u8;

/// Whether a gate is closed for good.
pub(crate) fn is_stopped(gate: &AtomicU8) -> bool {
    gate.load(SeqCst) & !(SLICE as u8) != GO
}

/// By which one guest is stopped. It serves one instance at a time, and is never freed.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Control {
    /// Its gate, and what else threads agree upon.
    word: Word,
    /// Whether it is in a host function: so that one is not interrupted over and over. Relaxed: who finds an
    /// older value interrupts in vain, or does so again later.
    in_host: AtomicBool,
    /// Who waits for the guest's host function, or with it for another guest, and wants to know that it was stopped.
    waker: AtomicWaker,
}

/// Controls of no instance.
static FREE: Mutex<Vec<&'static Control>> = Mutex::new(Vec::new());

impl Control {
    /// Ends a tenancy: nobody who meant the tenant can stop another.
    fn next_tenant(&self) {
        self.word.next_tenant();
        // Only a call that was forgotten has left one. Its drop is its maker's, and may panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.waits_no_more())) {
            mem::forget(panic);
        }
    }

    /// The gate: the lowest byte of the word.
    pub(crate) fn gate(&self) -> *const AtomicU8 {
        self.word.gate()
    }

    /// Announces a call on this thread, which may have slices of time; gives its stamp.
    ///
    /// # Errors
    ///
    /// Why it is not to be made.
    fn begin(&self, sliced: bool) -> Result<u64, Why> {
        self.in_host.store(false, Relaxed);
        self.word.begin(sys::clock::thread_id(), sliced)
    }

    /// The suspended call is not gone on with.
    pub(crate) fn cancel(&self) {
        self.word.cancel();
    }

    /// Whether a kill has been asked for.
    pub(crate) fn is_killed(&self) -> bool {
        self.word.why() == Some(Why::Killed)
    }

    /// Wakes whoever waits, if anybody does.
    pub(crate) fn wake(&self) {
        // What a waker does is its maker's; who stops guests does so for all.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.waker.wake())) {
            // Its drop might panic.
            mem::forget(panic);
        }
    }

    /// Whom to wake when the guest is stopped while it waits for a host function, or for another guest.
    pub(crate) fn waits(&self, waker: &Waker) {
        // A waker's clone and drop are code of others, and may panic. Where one does inside of
        // `register`, the place stays locked, and no later instance with this control is ever
        // woken.
        let known = self.waker.take();
        let waker = match known {
            Some(known) if known.will_wake(waker) => known,
            other => {
                drop(other);
                waker.clone()
            }
        };
        registered::register(&self.waker, waker);
    }

    /// Nobody is to be woken.
    pub(crate) fn waits_no_more(&self) {
        drop(self.waker.take());
    }

    /// A call of its tenant is suspended.
    pub(crate) fn is_suspended(&self) {
        self.word.suspended();
    }

    /// Interrupts the thread that runs the guest, for it to look at the gate, unless it is in a host
    /// function: then it will look. Gives in how many nanoseconds to do so again, if there is a thread.
    fn poke(&self) -> Option<u64> {
        if self.in_host.load(Relaxed) {
            // It may be there because it waits for another guest.
            self.wake();
            return Some(timer::PATIENCE_NS);
        }
        sys::signal::poke(self.word.thread()).then_some(timer::AGAIN_NS)
    }

    /// Says that the guest is in a host function.
    #[inline]
    fn enter_host(&self) {
        self.in_host.store(true, Relaxed);
    }

    /// Says that it is no longer; tells whether it is in a fork of the process that it was in.
    #[inline]
    fn leave_host(&self) -> bool {
        self.in_host.store(false, Relaxed);
        let thread = sys::clock::thread_id();
        let forked = self.word.thread() != thread;
        if forked {
            self.word.moved(thread);
        }
        forked
    }
}

/// The locks of this module.
pub(crate) struct Locks {
    _timer: timer::Locks,
    _free: MutexGuard<'static, Vec<&'static Control>>,
}

/// Takes them, in the order in which they are taken.
pub(crate) fn lock() -> Locks {
    Locks {
        _timer: timer::lock(),
        _free: sys::lock(&FREE),
    }
}

/// A control that nobody else has.
#[derive(Debug)]
pub(crate) struct Owned(&'static Control);

impl Owned {
    pub(crate) fn new() -> Self {
        let mut free = locks::take(&FREE);
        Self(free.pop().unwrap_or_else(|| {
            Box::leak(Box::new(Control {
                word: Word::new(),
                in_host: AtomicBool::new(false),
                waker: AtomicWaker::new(),
            }))
        }))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut free = locks::take(&FREE);
        free.push(self.0);
    }
}

/// What an instance that may be stopped holds: it is a control's tenant as long as this lives.
#[derive(Debug)]
pub(crate) struct Watch {
    control: &'static Control,
    /// What its next call is limited to.
    pub(crate) bounds: Bounds,
    /// Where its guest's registers are put when its slice of time is over, once it has had one.
    registers: Option<Box<Registers>>,
}

impl Watch {
    /// The tenancy of a control that has no tenant, and is owned for longer than this lives.
    pub(crate) fn new(owned: &Owned) -> Self {
        Self {
            control: owned.0,
            bounds: Bounds::default(),
            registers: None,
        }
    }

    /// The place for its guest's registers, if its next call may need one.
    pub(crate) fn registers(&mut self) -> *mut Registers {
        if self.bounds.slice_ns.is_some() {
            let new = || Box::new(Registers::none());
            return &raw mut **self.registers.get_or_insert_with(new);
        }
        self.taken()
    }

    /// That place, if there is one.
    pub(crate) fn taken(&mut self) -> *mut Registers {
        let registers = self.registers.as_deref_mut();
        registers.map_or(ptr::null_mut(), ptr::from_mut)
    }

    /// Where they were taken, if they were.
    pub(crate) fn preempted(&self) -> Option<Position> {
        let registers = self.registers.as_deref()?;
        registers.taken.then(|| registers.position())
    }

    pub(crate) fn control(&self) -> &'static Control {
        self.control
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.control.next_tenant();
    }
}

/// What a call is limited to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// Wall time from its start, in nanoseconds.
    pub(crate) wall_ns: Option<u64>,
    /// Processor time of its thread, in nanoseconds.
    pub(crate) cpu_ns: Option<u64>,
    /// Wall time until it is suspended, in nanoseconds.
    pub(crate) slice_ns: Option<u64>,
}

impl Bounds {
    /// Whether it is not limited.
    pub(crate) fn is_none(&self) -> bool {
        self.wall_ns.is_none() && self.cpu_ns.is_none() && self.slice_ns.is_none()
    }
}

/// A call that may be stopped, while it runs.
#[derive(Debug)]
pub(crate) struct Watched {
    control: &'static Control,
    /// What it is limited to.
    pub(crate) bounds: Bounds,
    timer: Option<timer::Entry>,
    /// Whether the call can be gone on with.
    suspended: Cell<bool>,
}

impl Watched {
    /// Announces a call on this thread.
    ///
    /// # Errors
    ///
    /// Why it is not to be made, or what the system gives.
    pub(crate) fn begin(control: &'static Control, bounds: Bounds) -> Result<Self, NotBegun> {
        if !bounds.is_none() {
            timer::start().map_err(NotBegun::System)?;
        }
        let sliced = bounds.slice_ns.is_some();
        let stamp = control.begin(sliced).map_err(NotBegun::Stopped)?;
        let timer = (!bounds.is_none()).then(|| timer::Entry::new(control, stamp, bounds));
        let suspended = Cell::new(false);
        Ok(Self {
            control,
            bounds,
            timer,
            suspended,
        })
    }

    /// Does what the guest wants of the host: it is not interrupted meanwhile. If the process has forked then,
    /// the call goes on in the fork.
    #[inline]
    pub(crate) fn in_host<R>(&self, run: impl FnOnce() -> R) -> R {
        self.control.enter_host();
        let result = run();
        if self.control.leave_host() {
            self.adopt();
        }
        result
    }

    /// The call goes on in a fork of the process that it began in.
    #[cold]
    fn adopt(&self) {
        if let Some(timer) = &self.timer {
            timer.adopt();
        }
    }

    /// Why it is to be stopped, if it is.
    pub(crate) fn why(&self) -> Option<Why> {
        self.control.word.why()
    }

    /// Whom to wake when it is stopped, or its slice of time is over.
    pub(crate) fn waits(&self, waker: &Waker) {
        self.control.waits(waker);
    }

    /// Nobody is to be woken.
    pub(crate) fn waits_no_more(&self) {
        self.control.waits_no_more();
    }

    /// Whether nothing is wrong but that its slice of time is over.
    pub(crate) fn slice_is_over(&self) -> bool {
        self.control.word.in_gate() == SLICE_IS_OVER
    }

    /// The value of the interrupt flag.
    #[inline]
    pub(crate) fn flag(&self) -> u8 {
        self.control.word.in_gate()
    }

    /// It can be gone on with when it has been left.
    pub(crate) fn suspend(&self) {
        self.suspended.set(true);
    }

    /// How many nanoseconds are left of its processor time, if that is limited.
    pub(crate) fn cpu_left_ns(&self) -> Option<u64> {
        self.timer.as_ref()?.cpu_left_ns()
    }
}

/// Ends the call.
impl Drop for Watched {
    fn drop(&mut self) {
        // First: a limit that is reached is this call's.
        self.timer = None;
        self.control.word.end(self.suspended.get());
    }
}

/// Why a call did not begin.
#[derive(Debug)]
pub(crate) enum NotBegun {
    /// It had been stopped before.
    Stopped(Why),
    /// The system gives no timer.
    System(io::Error),
}
