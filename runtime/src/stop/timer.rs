//! The timer thread of the process, for all deadlines and processor-time budgets.
//!
//! Each thread that runs guests has a node. The thread writes the time limit of its call to the
//! node, by a few stores and without a lock. The timer thread sleeps until the earliest time that
//! it knows, and then checks all nodes. A call wakes the timer thread only if the call's own time
//! ends earlier. So among successive calls with similar limits, only one call in the time of a
//! limit wakes the timer thread, however short the calls are.
//!
//! ```text
//!   call                                     timer thread, at WAKES_AT
//!   node.until = T                           WAKES_AT = never
//!   T < WAKES_AT? WAKES_AT = min(T), wake    check all nodes
//!                                            WAKES_AT = min(the earliest until)
//! ```
//!
//! Either the call sees that the timer thread would not wake in time, or the timer thread sees the
//! call's time. The reason is that both write first and then read, with a fence in between.

mod alarm;
mod node;
mod sync;

use super::bounds::Bounds;
use super::control::{AGAIN_NS, Control};
use crate::sys;
use crate::sys::fork::ForkMark;
use crate::sys::fork_lock::{ForkLock, Rank};
use alarm::{Alarm, NEVER};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};
use node::{Content, Node, Nodes};
use once_cell::race::OnceBox;
use std::collections::{BTreeMap, btree_map};
use std::io;
use std::thread::Thread;
use std::time::Duration;

/// All nodes: a list that only grows.
static NODES: Nodes = Nodes::new();
/// When the timer thread wakes by itself.
static WAKES_AT: Alarm = Alarm::new();
/// The timer thread of this process, or of the process from which this process was forked.
static THREAD: ForkLock<Option<Thread>> = ForkLock::new(Rank::new(4), None);

thread_local! {
    static MINE: Mine = Mine(NODES.take());
}

/// This thread's node; `None` while the thread's locals are being destroyed.
fn mine() -> Option<&'static Node> {
    MINE.try_with(|mine| mine.0).ok()
}

/// This thread's node. The node is free for another thread once this value is dropped.
struct Mine(&'static Node);

impl Drop for Mine {
    fn drop(&mut self) {
        self.0.release(wake_at);
    }
}

/// A running call with a limit on this thread.
#[derive(Debug)]
pub(crate) struct TimerEntry {
    node: &'static Node,
    /// Whether the node belongs to this call alone. Destructors of thread locals may run guests
    /// after the thread's own node is gone.
    alone: bool,
    /// Content of the node for the outer call from which this call was made, if the outer call has
    /// a limit.
    outer: Content,
}

impl TimerEntry {
    pub(crate) fn new(control: &'static Control, call: u64, bounds: Bounds) -> Self {
        let mine = mine();
        let node = mine.unwrap_or_else(|| NODES.take());
        let outer = node.content();
        let now = sys::clock::now_ns();
        let after = |ns: Option<u64>| ns.map_or(NEVER, |ns| now.saturating_add(ns));
        let (wall, slice) = (after(bounds.wall_ns), after(bounds.slice_ns));
        let mut content = Content {
            until: wall.min(slice),
            wall,
            slice,
            control: ptr::from_ref(control).cast_mut(),
            call,
            ..Content::NONE
        };
        if let Some(ns) = bounds.cpu_ns {
            content.clock = sys::clock::cpu_clock();
            content.cpu = sys::clock::time_ns(content.clock).saturating_add(ns);
            content.until = content.until.min(now.saturating_add(ns));
        }
        node.set(&content, wake_at);
        Self {
            node,
            alone: mine.is_none(),
            outer,
        }
    }

    /// Remaining processor time of the call in nanoseconds, if the processor time is limited.
    pub(crate) fn cpu_left_ns(&self) -> Option<u64> {
        let content = self.node.content();
        let left = || {
            content
                .cpu
                .saturating_sub(sys::clock::time_ns(content.clock))
        };
        (content.cpu != NEVER).then(left)
    }

    /// Continues the call in a fork of the process that began it. The fork has another kernel
    /// thread.
    pub(crate) fn adopt(&self) {
        let mut content = self.node.content();
        if content.cpu != NEVER {
            // The processor time of a fork starts at zero.
            content.clock = sys::clock::cpu_clock();
        }
        self.node.set(&content, wake_at);
        // If `start` fails, the fork has no timer thread.
        let _ = start();
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        if self.alone {
            self.node.release(wake_at);
        } else {
            self.node.set(&self.outer, wake_at);
        }
    }
}

/// Calls that were killed while they ran.
static KILLED: ForkLock<Vec<(&'static Control, u64)>> = ForkLock::new(Rank::new(5), Vec::new());

/// Calls that wait for an async host function, by their deadlines, with the generations of their
/// controls. An entry stays until its time comes, unless [`forget_waiting`] removes it.
static WAITING: ForkLock<WaitingTasks> = ForkLock::new(Rank::new(6), WaitingTasks::new());

type WaitingTasks = BTreeMap<u64, Vec<(&'static Control, u64)>>;

/// Schedules a wake-up of the task that waits with this control, at a time of
/// [`sys::clock::now_ns`].
///
/// # Errors
///
/// As [`start`].
pub(crate) fn wake_waiting(control: &'static Control, time: u64) -> io::Result<()> {
    start()?;
    let generation = control.word.generation();
    let mut waiting = WAITING.take();
    waiting.entry(time).or_default().push((control, generation));
    drop(waiting);
    wake_at(time);
    Ok(())
}

/// Cancels one [`wake_waiting`] of this control's generation.
pub(crate) fn forget_waiting(control: &'static Control, time: u64) {
    let generation = control.word.generation();
    let mut waiting = WAITING.take();
    if let btree_map::Entry::Occupied(mut at) = waiting.entry(time) {
        let waits = at.get_mut();
        let this =
            |(other, of): &(&'static Control, u64)| ptr::eq(*other, control) && *of == generation;
        if let Some(position) = waits.iter().position(this) {
            waits.swap_remove(position);
        }
        if waits.is_empty() {
            at.remove();
        }
    }
}

/// Wakes the waiting tasks whose time has come. Returns the next time.
fn wake_all_waiting(now: u64) -> u64 {
    loop {
        let mut waiting = WAITING.take();
        let Some(first) = waiting.first_entry() else {
            return NEVER;
        };
        if *first.key() > now {
            return *first.key();
        }
        let due = first.remove();
        // A woken task may make a call that takes this lock.
        drop(waiting);
        for (control, generation) in due {
            if control.word.generation() == generation {
                control.wake();
            }
        }
    }
}

/// Interrupts a call again if the call still runs after `AGAIN_NS` nanoseconds.
pub(crate) fn look_after(control: &'static Control, call: u64) {
    // Without a timer thread, there is no second interrupt.
    if start().is_ok() {
        KILLED.take().push((control, call));
        wake_at(sys::clock::now_ns().saturating_add(AGAIN_NS));
    }
}

/// Whether the timer thread of this process runs. Relaxed, because the flag changes only under the
/// lock of [`THREAD`], and a thread that reads false takes that lock and reads again.
static RUNS: AtomicBool = AtomicBool::new(false);
/// Tells whether [`RUNS`] describes this process, and not the parent of this fork.
static SAME: OnceBox<ForkMark> = OnceBox::new();

/// Starts the timer thread if this process has no timer thread.
///
/// # Errors
///
/// The error of mmap(2) or pthread_create(3).
#[inline]
pub(crate) fn start() -> io::Result<()> {
    match SAME.get() {
        Some(mark) if mark.is_ours() && RUNS.load(Relaxed) => Ok(()),
        _ => start_first(),
    }
}

#[cold]
fn start_first() -> io::Result<()> {
    let mut thread = THREAD.take();
    let same = SAME.get_or_try_init(|| ForkMark::new().map(Box::new))?;
    if !same.is_ours() {
        // In a fork, only the current thread exists.
        let mine = mine();
        NODES
            .iter()
            .filter(|node| !mine.is_some_and(|mine| ptr::eq(*node, mine)))
            .for_each(|node| node.release(wake_at));
        KILLED.take().clear();
        RUNS.store(false, Relaxed);
        same.renew();
    }
    if RUNS.load(Relaxed) {
        return Ok(());
    }
    // The new thread checks all nodes first.
    WAKES_AT.set(0);
    let timer = std::thread::Builder::new().name("pirn-timer".to_owned());
    let handle = timer.spawn(|| {
        // Signals that are sent to the process are for its other threads.
        sys::signal::block_all();
        sys::clock::wake_in_time();
        run()
    })?;
    *thread = Some(handle.thread().clone());
    RUNS.store(true, Relaxed);
    Ok(())
}

/// Makes the timer thread check all nodes at the time `time`, or earlier.
#[inline]
fn wake_at(time: u64) {
    if WAKES_AT.bring_forward(time) {
        wake();
    }
}

/// Makes the timer thread recompute its next wake-up.
#[cold]
fn wake() {
    let thread = THREAD.take();
    if let Some(thread) = &*thread {
        thread.unpark();
    }
}

fn run() -> ! {
    loop {
        let (at, now) = (WAKES_AT.get(), sys::clock::now_ns());
        if at == NEVER {
            std::thread::park();
        } else if at > now {
            std::thread::park_timeout(Duration::from_nanos(at - now));
        } else {
            WAKES_AT.rearm(|| look_at_all(now));
        }
    }
}

/// Stops the calls whose time is up. Returns the time of the next check.
fn look_at_all(now: u64) -> u64 {
    // The lock is free during the interrupts: an interrupt may wake another thread, which may kill
    // other calls and take this lock.
    let mut killed = mem::take(&mut *KILLED.take());
    let mut again = NEVER;
    killed.retain(|(control, call)| {
        let next = control
            .word
            .runs(*call)
            .then(|| control.interrupt())
            .flatten();
        again = again.min(next.map_or(NEVER, |next| now + next));
        next.is_some()
    });
    KILLED.take().append(&mut killed);
    again = again.min(wake_all_waiting(now));
    NODES
        .iter()
        .map(|node| node.look(now))
        .fold(again, u64::min)
}
