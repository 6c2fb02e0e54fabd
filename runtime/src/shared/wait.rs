//! Waiting and waking in shared memories (the threads proposal, `memory.atomic.wait32`, `wait64` and `notify`).
//!
//! Who waits is in a list of the memory, by address and then by when it came. It is compared and entered under one lock,
//! which whoever wakes takes, too: so who changes a number and wakes then misses nobody who found the old one. Who is woken is
//! taken from the list by whoever wakes, and finds that it is not there any more.
//!
//! # Safety
//!
//! The address that is compared at lies in a memory of an instance that the call borrows.
#![allow(unsafe_code)]

use super::SharedMemory;
use crate::stop::{Control, Watched, timer};
use crate::sys;
use crate::value::Cell;
use core::mem;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

/// Answers of a wait.
pub(crate) const WOKEN: u32 = 0;
pub(crate) const NOT_EQUAL: u32 = 1;
pub(crate) const TIMED_OUT: u32 = 2;

/// Who waits in a memory.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    /// Whom to wake, by address and number.
    waiting: BTreeMap<(u64, u64), Waker>,
    /// The next number.
    next: u64,
}

impl SharedMemory {
    /// How many guests wait at an address.
    #[must_use]
    pub fn waiters(&self, address: u64) -> usize {
        let waiters = sys::lock(&self.0.waiters);
        let here = (address, 0)..=(address, u64::MAX);
        waiters.waiting.range(here).count()
    }

    /// Wakes so many that wait at an address; tells how many.
    pub(crate) fn wake(&self, address: u64, count: u32) -> u32 {
        let mut waiters = sys::lock(&self.0.waiters);
        let here = (address, 0)..=(address, u64::MAX);
        let first = waiters.waiting.range(here).take(count as usize);
        let first: Vec<_> = first.map(|(key, _)| *key).collect();
        let remove = |key| waiters.waiting.remove(&key);
        let woken: Vec<_> = first.into_iter().filter_map(remove).collect();
        // What a waker does may be to wake others.
        drop(waiters);
        let number = woken.len() as u32;
        woken.into_iter().for_each(tell);
        number
    }
}

/// Wakes one of those that are woken.
fn tell(waker: Waker) {
    // What a waker does is its maker's, and the others are to be woken, too.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
        // Its drop might panic.
        mem::forget(panic);
    }
}

/// What a guest expects at an address.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    Bits32(u32),
    Bits64(u64),
}

impl Expected {
    /// Bytes of it.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Bits32(_) => 4,
            Self::Bits64(_) => 8,
        }
    }

    /// Whether it is there.
    ///
    /// # Safety
    ///
    /// The address must be accessible, and aligned for it.
    unsafe fn is_at(self, place: *mut u8) -> bool {
        // SAFETY: by the caller; guests have no references.
        unsafe {
            match self {
                Self::Bits32(bits) => AtomicU32::from_ptr(place.cast()).load(SeqCst) == bits,
                Self::Bits64(bits) => AtomicU64::from_ptr(place.cast()).load(SeqCst) == bits,
            }
        }
    }
}

/// A guest that waits. Dropping it is to wait no more.
#[derive(Debug)]
pub(crate) struct Wait {
    /// Where; `None` in a memory of a slot, in which nobody else can wake it.
    place: Option<(SharedMemory, (u64, u64))>,
    /// Until when, by [`sys::clock::now_ns`].
    pub(crate) until: Option<u64>,
}

impl Wait {
    /// Begins to wait at an address, for so many nanoseconds unless they are negative, if what is expected is there.
    ///
    /// # Safety
    ///
    /// `place` must be where that address of the memory is, accessible, and aligned for what is expected.
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
            // SAFETY: passed on.
            let waits = unsafe { expected.is_at(place) };
            return waits.then_some(Self { place: None, until });
        };
        let mut waiters = sys::lock(&memory.0.waiters);
        // SAFETY: passed on.
        if !unsafe { expected.is_at(place) } {
            return None;
        }
        let key = (address, waiters.next);
        waiters.next += 1;
        waiters.waiting.insert(key, Waker::noop().clone());
        drop(waiters);
        let place = Some((memory.clone(), key));
        Some(Self { place, until })
    }

    /// The answer, if there is one by now; if not, who is to be told once there is, but for the time.
    pub(crate) fn answer(&self, waker: &Waker) -> Option<u32> {
        let is_over = self
            .until
            .is_some_and(|until| until <= sys::clock::now_ns());
        let Some((memory, key)) = &self.place else {
            return is_over.then_some(TIMED_OUT);
        };
        // Not under the lock: a waker is its maker's.
        let waker = waker.clone();
        let mut waiters = sys::lock(&memory.0.waiters);
        let Some(known) = waiters.waiting.get_mut(key) else {
            drop(waiters);
            return Some(WOKEN);
        };
        if is_over {
            let known = waiters.waiting.remove(key);
            drop(waiters);
            drop(known);
            return Some(TIMED_OUT);
        }
        let known = mem::replace(known, waker);
        drop(waiters);
        drop(known);
        None
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some((memory, key)) = &self.place {
            let known = sys::lock(&memory.0.waiters).waiting.remove(key);
            // Not under the lock: a waker is its maker's.
            drop(known);
        }
    }
}

/// A guest that was left while it waits, and where it looks for the answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) wait: Wait,
    pub(crate) cells: *mut Cell,
}

impl Waiting {
    /// Gives the guest its answer.
    ///
    /// # Safety
    ///
    /// Its instance must be borrowed, and the guest wait still.
    pub(crate) unsafe fn give(self, answer: u32) {
        // SAFETY: by the caller: the cells lie on the stack that the guest left.
        unsafe { self.cells.write(Cell::from_u64(answer.into())) };
    }
}

// SAFETY: the cells are on the stack of the instance's own slot, and looked at by whoever has the instance.
unsafe impl Send for Waiting {}
// SAFETY: nothing is looked at through a shared reference.
unsafe impl Sync for Waiting {}

/// A guest that waits on no thread: a future of the answer.
#[derive(Debug)]
pub(crate) struct Woken {
    wait: Wait,
    /// By which whoever polls this is woken when the time is over.
    control: &'static Control,
    /// Whether the timer thread knows of it.
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
            // A fork has no timer thread.
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

/// How long a guest may keep its thread by waiting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until it is woken or stopped.
    #[default]
    Blocks,
    /// Also no longer than its slice of time.
    UntilSliceIsOver,
    /// Not at all: it is left at once.
    Leaves,
}

/// How a guest came to wait no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// With this answer.
    Answered(u32),
    /// It is stopped.
    Stopped,
    /// Its slice of time is over; it waits on.
    SliceIsOver,
}

/// Keeps this thread until there is an answer, or the call ends for now or for good.
pub(crate) fn block(wait: &Wait, watched: Option<&Watched>, patience: Patience) -> Blocked {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    let blocked = loop {
        // First: who stops it from here on wakes it.
        if let Some(watched) = watched {
            watched.waits(&waker);
            if watched.why().is_some() {
                break Blocked::Stopped;
            }
        }
        // However short the slices are, a guest that has its answer goes on.
        if let Some(answer) = wait.answer(&waker) {
            break Blocked::Answered(answer);
        }
        let slice_is_over = || watched.is_some_and(Watched::slice_is_over);
        if patience == Patience::UntilSliceIsOver && slice_is_over() {
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

/// A thread that waits.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
