//! Waiting and waking in shared memories (the threads proposal: `memory.atomic.wait32`, `wait64`
//! and `notify`).
//!
//! A waiter is in a list of the memory, sorted by address and then by arrival. The comparison and
//! the entry into the list happen under one lock, which a waking thread takes as well if there are
//! waiters. So a thread that changes a number and then wakes does not miss a waiter that found the
//! old number. The waking thread removes the waiter from the list, and the waiter finds that the
//! list no longer has it.
//!
//! # Safety
//!
//! The compared address lies in a memory of an instance that the call borrows.
#![allow(unsafe_code)]

use super::shared::SharedMemory;
use crate::stop::{Control, Watched, timer};
use crate::sys;
use crate::value::Cell;
use core::mem;
use core::pin::Pin;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

/// Results of a wait.
pub(crate) const WOKEN: u32 = 0;
pub(crate) const NOT_EQUAL: u32 = 1;
pub(crate) const TIMED_OUT: u32 = 2;

/// The number that a guest expects at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    Bits32(u32),
    Bits64(u64),
}

impl Expected {
    /// Size of the number in bytes.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Bits32(_) => 4,
            Self::Bits64(_) => 8,
        }
    }

    /// Whether an address holds the number.
    ///
    /// # Safety
    ///
    /// The address must be accessible, and aligned for the number.
    unsafe fn is_at(self, place: *mut u8) -> bool {
        // SAFETY: the caller promises an accessible, aligned address. Guests hold no Rust
        // references.
        unsafe {
            match self {
                Self::Bits32(bits) => AtomicU32::from_ptr(place.cast()).load(SeqCst) == bits,
                Self::Bits64(bits) => AtomicU64::from_ptr(place.cast()).load(SeqCst) == bits,
            }
        }
    }
}

/// A guest that waits. Dropping the value ends the wait.
#[derive(Debug)]
pub(crate) struct Wait {
    /// The memory and the key in its list. `None` in a memory of a slot, where no other thread can
    /// wake the guest.
    place: Option<(SharedMemory, (u64, u64))>,
    /// End of the wait, in the time of [`sys::clock::now_ns`].
    pub(crate) until: Option<u64>,
}

impl Wait {
    /// Begins to wait at an address if the address holds the expected number. Waits at most
    /// `timeout_ns` nanoseconds, or without limit if `timeout_ns` is negative.
    ///
    /// # Safety
    ///
    /// `place` must be the address of `address` in the memory, accessible, and aligned for the
    /// expected number.
    pub(crate) unsafe fn begin(
        memory: Option<&SharedMemory>,
        address: u64,
        place: *mut u8,
        expected: Expected,
        timeout_ns: i64,
    ) -> Option<Self> {
        let until = u64::try_from(timeout_ns).ok();
        let until = until.map(|timeout| sys::clock::now_ns().saturating_add(timeout));
        let Some(memory) = memory else {
            // SAFETY: the caller promises that `place` is accessible and aligned.
            let waits = unsafe { expected.is_at(place) };
            return waits.then_some(Self { place: None, until });
        };
        // SAFETY: the caller promises that `place` is accessible and aligned.
        let key = memory.begin_waiting(address, || unsafe { expected.is_at(place) })?;
        let place = Some((memory.clone(), key));
        Some(Self { place, until })
    }

    /// Returns the result if the wait is over. If not, registers the waker for a wake-up, but not
    /// for the timeout.
    pub(crate) fn answer(&self, waker: &Waker) -> Option<u32> {
        let is_over = self
            .until
            .is_some_and(|until| until <= sys::clock::now_ns());
        let Some((memory, key)) = &self.place else {
            return is_over.then_some(TIMED_OUT);
        };
        // The waker is cloned before the lock is taken, because a waker is code of the embedder.
        let waker = waker.clone();
        if is_over {
            // The waker is dropped after the lock is released, because a waker is code of the
            // embedder.
            let known = memory.end_waiting(key);
            return Some(if known.is_some() { TIMED_OUT } else { WOKEN });
        }
        let mut waiters = memory.waiting();
        let Some(known) = waiters.waiting.get_mut(key) else {
            return Some(WOKEN);
        };
        let known = mem::replace(known, waker);
        drop(waiters);
        drop(known);
        None
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some((memory, key)) = &self.place {
            // The waker is dropped after the lock is released, because a waker is code of the
            // embedder.
            drop(memory.end_waiting(key));
        }
    }
}

/// A guest that was left while it waits, and the cells where it expects the result.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) wait: Wait,
    pub(crate) cells: *mut Cell,
}

impl Waiting {
    /// Gives the guest the result.
    ///
    /// # Safety
    ///
    /// The caller must borrow the guest's instance, and the guest must still be waiting.
    pub(crate) unsafe fn give(self, answer: u32) {
        // SAFETY: the guest is still waiting, so the cells are on the stack that it left.
        unsafe { self.cells.write(Cell::from_u64(answer.into())) };
    }
}

// SAFETY: the cells are on the stack of the instance's own slot, and only the owner of the instance
// uses them.
unsafe impl Send for Waiting {}
// SAFETY: no method accesses the cells through a shared reference.
unsafe impl Sync for Waiting {}

/// A guest that waits without occupying a thread: a future of the result.
#[derive(Debug)]
pub(crate) struct Woken {
    wait: Wait,
    /// The control whose waker is woken when the time is over.
    control: &'static Control,
    /// Whether the timer thread has an entry for this wait.
    timed: bool,
}

impl Woken {
    pub(crate) fn new(wait: Wait, control: &'static Control) -> Self {
        Self {
            wait,
            control,
            timed: false,
        }
    }
}

impl Future for Woken {
    type Output = io::Result<u32>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let (Some(until), false) = (self.wait.until, self.timed) {
            timer::wake_waiting(self.control, until)?;
            self.timed = true;
        }
        if self.timed {
            // A fork has no timer thread, so start one.
            timer::start()?;
        }
        match self.wait.answer(context.waker()) {
            Some(answer) => Poll::Ready(Ok(answer)),
            None => Poll::Pending,
        }
    }
}

impl Drop for Woken {
    fn drop(&mut self) {
        if let (Some(until), true) = (self.wait.until, self.timed) {
            timer::forget_waiting(self.control, until);
        }
    }
}

/// How long a waiting guest may block its thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Until the guest is woken or stopped.
    #[default]
    Blocks,
    /// As `Blocks`, but no longer than the guest's time slice.
    UntilSliceIsOver,
    /// Not at all: the guest is left at once.
    Leaves,
}

/// How a wait on the thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// The wait has this result.
    Answered(u32),
    /// The guest is stopped.
    Stopped,
    /// The guest's time slice is over, and the guest still waits.
    SliceIsOver,
}

/// Blocks this thread until the wait has a result, or the call is suspended or stopped.
pub(crate) fn block(wait: &Wait, watched: Option<&Watched>, blocking: Blocking) -> Blocked {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let blocked = loop {
        // The waker is registered first, so that a later stop wakes this thread.
        if let Some(watched) = watched {
            watched.waits(&waker);
            if watched.why().is_some() {
                break Blocked::Stopped;
            }
        }
        // The answer is checked before the slice: a guest that has its result continues, however
        // short the slices are.
        if let Some(answer) = wait.answer(&waker) {
            break Blocked::Answered(answer);
        }
        let slice_is_over = || watched.is_some_and(Watched::slice_is_over);
        if blocking == Blocking::UntilSliceIsOver && slice_is_over() {
            break Blocked::SliceIsOver;
        }
        match wait.until {
            None => thread::park(),
            Some(until) => {
                let left = until.saturating_sub(sys::clock::now_ns());
                thread::park_timeout(Duration::from_nanos(left));
            }
        }
    };
    if let Some(watched) = watched {
        watched.waits_no_more();
    }
    blocked
}

/// A blocked thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
