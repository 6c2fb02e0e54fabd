//! [`Watch`] and [`Watched`]: an instance that can be stopped, and a running call of that instance.

use super::bounds::Bounds;
use super::control::{Control, Owned};
use super::timer;
use super::word::Why;
use crate::switch::Registers;
use crate::switch::activation::Position;
use crate::switch::interrupt_flag::SLICE_IS_OVER;
use core::cell::Cell;
use core::ptr;
use core::task::Waker;
use std::io;

/// The right of one instance to use a control. Dropping the watch ends the control's generation.
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
    /// Takes a control for one generation. No other `Watch` may use the control, and `owned` must
    /// outlive this value.
    pub(crate) fn new(owned: &Owned) -> Self {
        Self {
            control: owned.0,
            bounds: Bounds::default(),
            registers: None,
        }
    }

    /// Returns the buffer for the guest's registers if the next call may need a buffer, otherwise
    /// null.
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

    /// The position at which the registers were saved, if they were saved.
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
        self.control.next_generation();
    }
}

/// A running call that can be stopped.
#[derive(Debug)]
pub(crate) struct Watched {
    control: &'static Control,
    /// Limits of the call.
    pub(crate) bounds: Bounds,
    timer: Option<timer::TimerEntry>,
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
        let call = control.begin(sliced).map_err(NotBegun::Stopped)?;
        let timer = (!bounds.is_none()).then(|| timer::TimerEntry::new(control, call, bounds));
        let suspended = Cell::new(false);
        Ok(Self {
            control,
            bounds,
            timer,
            suspended,
        })
    }

    /// Runs host code for the guest. While the host code runs, other threads can set the interrupt
    /// flag, but send no signal. The switch checks the flag when the host code returns. If the
    /// process forks in that code, the call continues in the fork.
    #[inline]
    pub(crate) fn in_host<R>(&self, run: impl FnOnce() -> R) -> R {
        self.control.enter_host();
        let result = run();
        if self.control.leave_host() {
            self.adopt();
        }
        result
    }

    /// Runs guest code in a nested call: the inverse of [`in_host`](Self::in_host). A kill or a
    /// limit interrupts that code. The end of the time slice is deferred.
    pub(crate) fn in_nested_call<R>(&self, run: impl FnOnce() -> R) -> R {
        struct InGuest<'a> {
            control: &'a Control,
            defers_slice: bool,
        }
        impl Drop for InGuest<'_> {
            fn drop(&mut self) {
                if self.defers_slice {
                    self.control.word.undefer_slice();
                }
                self.control.enter_host();
            }
        }
        if self.control.leave_host() {
            self.adopt();
        }
        let _in_guest = InGuest {
            control: self.control,
            defers_slice: self.control.word.defer_slice(),
        };
        run()
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
        self.control.word.flag() == SLICE_IS_OVER
    }

    /// The value of the interrupt flag.
    #[inline]
    pub(crate) fn flag(&self) -> u8 {
        self.control.word.flag()
    }

    /// Records that the call can be resumed after the guest leaves.
    pub(crate) fn suspend(&self) {
        self.suspended.set(true);
    }

    /// Remaining processor time in nanoseconds, if the processor time is limited.
    pub(crate) fn cpu_left_ns(&self) -> Option<u64> {
        self.timer.as_ref()?.cpu_left_ns()
    }
}

/// Ends the call.
impl Drop for Watched {
    fn drop(&mut self) {
        // The timer entry goes first, so that a limit reached before the call ends counts for this
        // call.
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
