//! [`Control`]: the state by which other threads stop one guest.
//!
//! Controls live as long as the process. So any thread that holds a control's address may read it,
//! and the control's word tells whether the control still serves the same call. `timer/node.rs`
//! relies on this lifetime in unsafe code.

use super::registered;
use super::word::{Why, Word};
use crate::sys;
use crate::sys::fork_lock::{ForkLock, Rank};
use atomic_waker::AtomicWaker;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8};
use core::task::Waker;
use crossbeam_utils::CachePadded;
use std::panic::catch_unwind;

/// Nanoseconds until a thread that still runs a stopped call is interrupted again.
pub(super) const AGAIN_NS: u64 = 500_000;
/// Nanoseconds until a thread that was in a host function, perhaps for long, is interrupted again.
pub(super) const HOST_AGAIN_NS: u64 = 8_000_000;

/// The control that stops one guest. A control serves one instance at a time, and is never freed.
#[derive(Debug)]
pub(crate) struct Control {
    /// The interrupt flag and the rest of the state that threads share.
    pub(super) word: Word,
    /// Whether the guest is in a host function, so that its thread need not be interrupted again
    /// and again. Relaxed: a thread that reads an older value interrupts in vain, or interrupts
    /// again later.
    pub(super) in_host: AtomicBool,
    /// Waker of the task that waits for the guest's host function, or in the guest for another
    /// guest. The task is woken when the guest is stopped.
    pub(super) waker: AtomicWaker,
}

/// Controls that no instance uses. Each control has cache lines of its own.
static FREE: ForkLock<Vec<&'static Control>> = ForkLock::new(Rank::new(7), Vec::new());

impl Control {
    /// Ends a generation: a thread that has the old generation's number cannot stop the next
    /// instance.
    pub(super) fn next_generation(&self) {
        self.word.next_generation();
        // Only a call that was leaked has left a waker. The waker's drop is code of the embedder
        // and may panic.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.waits_no_more())) {
            mem::forget(panic);
        }
    }

    /// Address of the interrupt flag: the lowest byte of the word.
    pub(crate) fn interrupt_flag(&self) -> *const AtomicU8 {
        self.word.flag_address()
    }

    /// Announces a call on this thread and returns its number. `sliced` tells whether the call has
    /// a time slice.
    ///
    /// # Errors
    ///
    /// The reason why the guest must not run.
    pub(super) fn begin(&self, sliced: bool) -> Result<u64, Why> {
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
        // The waker is code of the embedder and may panic. A panic must not end this thread, which
        // may be the timer thread, which stops guests for the whole process.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.waker.wake())) {
            // Dropping the panic's payload could panic as well.
            mem::forget(panic);
        }
    }

    /// Registers the waker to wake if the guest is stopped while it waits for a host function or
    /// another guest.
    pub(crate) fn waits(&self, waker: &Waker) {
        // A waker's clone and drop are code of the embedder and may panic. A panic inside
        // `AtomicWaker::register` would leave the `AtomicWaker` locked. Then no later instance with
        // this control would ever be woken.
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
    /// a host function is not interrupted: the switch checks the flag when the function returns.
    /// Returns the nanoseconds until the next interrupt, or `None` if there is no thread.
    pub(super) fn interrupt(&self) -> Option<u64> {
        if self.in_host.load(Relaxed) {
            // The guest may be in the host because it waits for another guest.
            self.wake();
            return Some(HOST_AGAIN_NS);
        }
        sys::signal::interrupt(self.word.thread()).then_some(AGAIN_NS)
    }

    /// Records that the guest enters a host function.
    #[inline]
    pub(super) fn enter_host(&self) {
        self.in_host.store(true, Relaxed);
    }

    /// Records that the guest leaves a host function. Returns whether this process is a fork of the
    /// process that entered the function.
    #[inline]
    pub(super) fn leave_host(&self) -> bool {
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
pub(crate) struct Owned(pub(super) &'static Control);

impl Owned {
    pub(crate) fn new() -> Self {
        let mut free = FREE.take();
        Self(free.pop().unwrap_or_else(|| {
            Box::leak(Box::new(CachePadded::new(Control {
                word: Word::new(),
                in_host: AtomicBool::new(false),
                waker: AtomicWaker::new(),
            })))
        }))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut free = FREE.take();
        free.push(self.0);
    }
}
