//! Stopping guests from outside: [`kill::KillSwitch`], deadlines, budgets of processor time.
//!
//! A guest that can be stopped has a [`Control`]. To stop the guest, a thread writes to the
//! control's word. The lowest byte of that word is the *interrupt flag*, called `gate` in the code.
//! Unless the flag is [`GO`](crate::switch::interrupt_flag::GO), no guest code is entered or
//! resumed: the routines of [`crate::switch`] check it last. Any other value means that the flag is
//! set. Guest code itself never checks it. Instead, a signal is sent to the thread that runs the
//! guest. If the handler finds the flag set and the program counter in guest code, it makes the
//! guest leave.
//!
//! ```text
//!   killer, timer thread                     thread that runs the guest
//!   word |= KILL  (one atomic step) ───┐     word |= RUNNING (one atomic step): refused if set
//!   running? ── signal ────────────┐   └───▶ flag checked: on entry, after each host function
//!                                  └───────▶ handler: flag set and in guest code: leave
//! ```
//!
//! A signal that comes too early, too late, or to a thread that now runs something else does
//! nothing: it only requests a check of the flag. A signal can be lost because it arrives during
//! another signal's handler. The timer thread therefore repeats it as long as the call runs.
//!
//! # Safety
//!
//! Owns the fact that controls live as long as the process. So any thread that holds a control's
//! address may read it, and its word tells whether it still serves the same call.
#![allow(unsafe_code)]

pub(crate) mod kill;
mod registered;
pub(crate) mod timer;
mod word;

pub(crate) use word::Why;

use crate::switch::Registers;
use crate::switch::activation::Position;
use crate::switch::interrupt_flag::SLICE_IS_OVER;
use crate::sys;
use crate::sys::fork_lock::{ForkLock, Rank};
use atomic_waker::AtomicWaker;
use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};
use core::task::Waker;
use core::{mem, ptr};
use std::io;
use std::panic::catch_unwind;
use word::Word;

/// The control that stops one guest. It serves one instance at a time, and is never freed.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Control {
    /// The interrupt flag and the rest of the state that threads share.
    word: Word,
    /// Whether the guest is in a host function, so that it need not be interrupted again and again.
    /// Relaxed: a thread that reads an older value interrupts in vain, or interrupts again later.
    in_host: AtomicBool,
    /// Waker of the task that waits for the guest's host function, or in the guest for another
    /// guest. It is woken when the guest is stopped.
    waker: AtomicWaker,
}

/// Controls that no instance uses.
static FREE: ForkLock<Vec<&'static Control>> = ForkLock::new(Rank::new(7), Vec::new());

impl Control {
    /// Ends a generation: a thread that has the old generation's number cannot stop the next
    /// instance.
    fn next_tenant(&self) {
        self.word.next_tenant();
        // Only a call that was leaked has left a waker. The waker's drop is code of the embedder
        // and may panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.waits_no_more())) {
            mem::forget(panic);
        }
    }

    /// Address of the interrupt flag: the lowest byte of the word.
    pub(crate) fn gate(&self) -> *const AtomicU8 {
        self.word.gate()
    }

    /// Announces a call on this thread and returns its number. `sliced` tells whether the call has
    /// a time slice.
    ///
    /// # Errors
    ///
    /// The reason why the guest must not run.
    fn begin(&self, sliced: bool) -> Result<u64, Why> {
        self.in_host.store(false, Relaxed);
        self.word.begin(sys::clock::thread_id(), sliced)
    }

    /// Records that the suspended call will not be resumed.
    pub(crate) fn cancel(&self) {
        self.word.cancel();
    }

    /// Whether a kill has been requested.
    pub(crate) fn is_killed(&self) -> bool {
        self.word.why() == Some(Why::Killed)
    }

    /// Wakes the waiting task, if there is one.
    pub(crate) fn wake(&self) {
        // The waker is code of the embedder and may panic. A panic must not end this thread: it may
        // be the timer thread, which stops guests for the whole process.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.waker.wake())) {
            // Dropping the panic's payload could panic as well.
            mem::forget(panic);
        }
    }

    /// Registers the waker to wake if the guest is stopped while it waits for a host function or
    /// another guest.
    pub(crate) fn waits(&self, waker: &Waker) {
        // A waker's clone and drop are code of the embedder and may panic. A panic inside
        // `AtomicWaker::register` would leave its lock taken. Then no later instance with this
        // control would ever be woken.
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

    /// Removes the registered waker.
    pub(crate) fn waits_no_more(&self) {
        drop(self.waker.take());
    }

    /// Records that a call of this generation is suspended.
    pub(crate) fn is_suspended(&self) {
        self.word.suspended();
    }

    /// Interrupts the thread that runs the guest, so that it checks the interrupt flag. A guest in
    /// a host function is not interrupted: it checks the flag when the function returns. Returns
    /// after how many nanoseconds to interrupt again, or `None` if there is no thread.
    fn poke(&self) -> Option<u64> {
        if self.in_host.load(Relaxed) {
            // The guest may be in the host because it waits for another guest.
            self.wake();
            return Some(timer::PATIENCE_NS);
        }
        sys::signal::poke(self.word.thread()).then_some(timer::AGAIN_NS)
    }

    /// Records that the guest enters a host function.
    #[inline]
    fn enter_host(&self) {
        self.in_host.store(true, Relaxed);
    }

    /// Records that the guest leaves a host function. Returns whether this is a fork of the process
    /// that entered it.
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

/// A control that no other thread owns.
#[derive(Debug)]
pub(crate) struct Owned(&'static Control);

impl Owned {
    pub(crate) fn new() -> Self {
        let mut free = FREE.take();
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
        let mut free = FREE.take();
        free.push(self.0);
    }
}

/// Lets an instance be stopped: the instance uses the control while this value lives.
#[derive(Debug)]
pub(crate) struct Watch {
    control: &'static Control,
    /// Limits of the next call.
    pub(crate) bounds: Bounds,
    /// Buffer for the guest's registers when its time slice is over. Allocated for the first call
    /// with a slice.
    registers: Option<Box<Registers>>,
}

impl Watch {
    /// Begins a generation of a control. The control must not be in use, and must be owned for
    /// longer than this value lives.
    pub(crate) fn new(owned: &Owned) -> Self {
        Self {
            control: owned.0,
            bounds: Bounds::default(),
            registers: None,
        }
    }

    /// Returns the buffer for the guest's registers if the next call may need one, otherwise null.
    pub(crate) fn registers(&mut self) -> *mut Registers {
        if self.bounds.slice_ns.is_some() {
            let new = || Box::new(Registers::none());
            return &raw mut **self.registers.get_or_insert_with(new);
        }
        self.taken()
    }

    /// Returns the buffer if there is one, otherwise null.
    pub(crate) fn taken(&mut self) -> *mut Registers {
        let registers = self.registers.as_deref_mut();
        registers.map_or(ptr::null_mut(), ptr::from_mut)
    }

    /// The position at which the registers were taken, if they were.
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

/// Limits of a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bounds {
    /// Wall time from its start, in nanoseconds.
    pub(crate) wall_ns: Option<u64>,
    /// Processor time of its thread, in nanoseconds.
    pub(crate) cpu_ns: Option<u64>,
    /// Wall time after which the call is suspended, in nanoseconds.
    pub(crate) slice_ns: Option<u64>,
}

impl Bounds {
    /// Whether there is no limit.
    pub(crate) fn is_none(&self) -> bool {
        self.wall_ns.is_none() && self.cpu_ns.is_none() && self.slice_ns.is_none()
    }
}

/// A running call that can be stopped.
#[derive(Debug)]
pub(crate) struct Watched {
    control: &'static Control,
    /// Limits of the call.
    pub(crate) bounds: Bounds,
    timer: Option<timer::Entry>,
    /// Whether the call can be resumed.
    suspended: Cell<bool>,
}

impl Watched {
    /// Announces a call on this thread.
    ///
    /// # Errors
    ///
    /// The reason why the guest must not run, or an error of the system.
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

    /// Runs a request of the guest to the host, without an interruption. If the process forks
    /// during the request, the call continues in the fork.
    #[inline]
    pub(crate) fn in_host<R>(&self, run: impl FnOnce() -> R) -> R {
        self.control.enter_host();
        let result = run();
        if self.control.leave_host() {
            self.adopt();
        }
        result
    }

    /// Continues the call in a fork of the process that began it.
    #[cold]
    fn adopt(&self) {
        if let Some(timer) = &self.timer {
            timer.adopt();
        }
    }

    /// The reason to stop the call, if there is one.
    pub(crate) fn why(&self) -> Option<Why> {
        self.control.word.why()
    }

    /// Registers the waker to wake when the call is stopped, or its time slice is over.
    pub(crate) fn waits(&self, waker: &Waker) {
        self.control.waits(waker);
    }

    /// Removes the registered waker.
    pub(crate) fn waits_no_more(&self) {
        self.control.waits_no_more();
    }

    /// Whether the end of the time slice is the only reason to stop.
    pub(crate) fn slice_is_over(&self) -> bool {
        self.control.word.in_gate() == SLICE_IS_OVER
    }

    /// The value of the interrupt flag.
    #[inline]
    pub(crate) fn flag(&self) -> u8 {
        self.control.word.in_gate()
    }

    /// Records that the call can be resumed after the guest leaves.
    pub(crate) fn suspend(&self) {
        self.suspended.set(true);
    }

    /// Remaining processor time in nanoseconds, if it is limited.
    pub(crate) fn cpu_left_ns(&self) -> Option<u64> {
        self.timer.as_ref()?.cpu_left_ns()
    }
}

/// Ends the call.
impl Drop for Watched {
    fn drop(&mut self) {
        // The timer entry goes first, so that a limit reached until then counts for this call.
        self.timer = None;
        self.control.word.end(self.suspended.get());
    }
}

/// The reason why a call did not begin.
#[derive(Debug)]
pub(crate) enum NotBegun {
    /// The guest was stopped before.
    Stopped(Why),
    /// The system cannot provide the timer thread.
    System(io::Error),
}
