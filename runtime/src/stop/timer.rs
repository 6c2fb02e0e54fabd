//! The timer thread of the process, for all deadlines and processor-time budgets.
//!
//! Each thread that runs guests has a node. The thread notes there until when its call may run, by
//! a few stores and without a lock. The timer thread sleeps until the earliest time that it knows,
//! and then checks all nodes. A call wakes the timer thread only if the call's own time ends
//! earlier. So among successive calls with similar limits, only one per such period wakes it,
//! however short the calls are.
//!
//! ```text
//!   call                                     timer thread, at WAKES_AT
//!   node.until = T                           WAKES_AT = never
//!   T < WAKES_AT? WAKES_AT = min(T), wake    check all nodes
//!                                            WAKES_AT = min(the earliest until)
//! ```
//!
//! Either the call sees that the timer thread would not wake in time, or the timer thread sees the
//! call's time. Both write first and then read, with a fence in between.
//!
//! # Safety
//!
//! Owns the fact that nodes live as long as the process.
#![allow(unsafe_code)]

use super::bounds::Bounds;
use super::control::{AGAIN_NS, Control};
use super::word::{CPU_BUDGET, DEADLINE, SLICE};
use crate::sys;
use crate::sys::fork::ForkMark;
use crate::sys::fork_lock::{ForkLock, Rank};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, fence};
use core::{mem, ptr};
use crossbeam_utils::CachePadded;
use once_cell::race::OnceBox;
use std::collections::{BTreeMap, btree_map};
use std::io;
use std::thread::Thread;
use std::time::Duration;

/// A time that never comes, in nanoseconds.
const NEVER: u64 = u64::MAX;
/// Minimum interval between two checks of a thread's processor time, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;
/// Nanoseconds until the timer thread checks a node again that its thread was writing.
const WRITING_NS: u64 = 50_000;

/// The call that one thread runs, with its limits. Never freed: another thread may get it later.
///
/// The node is a sequence lock. Its thread is the only writer, and an odd version means that it is
/// writing.
#[derive(Debug)]
struct Node {
    version: AtomicU64,
    /// When to check the node, on the monotonic clock, in nanoseconds.
    until: AtomicU64,
    /// When the call's wall time ends.
    wall: AtomicU64,
    /// When the call's processor time ends, on the thread's processor-time clock.
    cpu: AtomicU64,
    /// When the call's time slice ends.
    slice: AtomicU64,
    control: AtomicPtr<Control>,
    call: AtomicU64,
    /// The thread's processor-time clock.
    clock: AtomicI32,
    taken: AtomicBool,
    next: AtomicPtr<Node>,
    /// Used by the timer thread alone: the version that it last checked, and when to check that
    /// version again.
    seen: AtomicU64,
    again: AtomicU64,
}

/// All nodes: a list that only grows.
static NODES: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());
/// When the timer thread wakes by itself.
static WAKES_AT: AtomicU64 = AtomicU64::new(NEVER);
/// The timer thread of this process, or of the process that it was forked from.
static THREAD: ForkLock<Option<Thread>> = ForkLock::new(Rank::new(4), None);

impl Node {
    /// Takes a free node for this thread, or makes one.
    fn take() -> &'static Self {
        if let Some(node) = nodes().find(|node| !node.taken.swap(true, Acquire)) {
            // Acquire: the writes of the node's previous thread are complete.
            return node;
        }
        let node: &'static Self = Box::leak(Box::new(CachePadded::new(Self {
            version: AtomicU64::new(0),
            until: AtomicU64::new(NEVER),
            wall: AtomicU64::new(NEVER),
            cpu: AtomicU64::new(NEVER),
            slice: AtomicU64::new(NEVER),
            control: AtomicPtr::new(ptr::null_mut()),
            call: AtomicU64::new(0),
            clock: AtomicI32::new(0),
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(NODES.load(Relaxed)),
            seen: AtomicU64::new(0),
            again: AtomicU64::new(NEVER),
        })));
        let this = ptr::from_ref(node).cast_mut();
        let mut first = node.next.load(Relaxed);
        while let Err(other) = NODES.compare_exchange_weak(first, this, Release, Relaxed) {
            first = other;
            node.next.store(first, Relaxed);
        }
        node
    }

    /// This thread's node; `None` while the thread's locals are being destroyed.
    fn mine() -> Option<&'static Self> {
        MINE.try_with(|mine| mine.0).ok()
    }

    fn content(&self) -> Content {
        Content {
            until: self.until.load(Relaxed),
            wall: self.wall.load(Relaxed),
            cpu: self.cpu.load(Relaxed),
            slice: self.slice.load(Relaxed),
            control: self.control.load(Relaxed),
            call: self.call.load(Relaxed),
            clock: self.clock.load(Relaxed),
        }
    }

    /// Replaces the content of the node. Only the node's own thread calls this, or a fork in which
    /// that thread does not exist.
    fn set(&self, content: &Content) {
        // The version is already odd if the process was forked while another thread wrote.
        let writing = self.version.load(Relaxed) | 1;
        self.version.store(writing, Relaxed);
        // A reader that sees one of the following stores also sees the odd version afterwards.
        fence(Release);
        self.wall.store(content.wall, Relaxed);
        self.cpu.store(content.cpu, Relaxed);
        self.slice.store(content.slice, Relaxed);
        self.control.store(content.control, Relaxed);
        self.call.store(content.call, Relaxed);
        self.clock.store(content.clock, Relaxed);
        self.until.store(content.until, Relaxed);
        self.version.store(writing + 1, Release);
        if content.until != NEVER {
            // Pairs with the fence of the timer thread, between its write and its reads.
            fence(SeqCst);
            wake_at(content.until);
        }
    }

    /// Releases the node of a thread that has ended.
    fn release(&self) {
        self.set(&Content::NONE);
        self.taken.store(false, Release);
    }

    /// Stops the call if its time is up. Returns when to check again.
    fn look(&self, now: u64) -> u64 {
        let version = self.version.load(Acquire);
        let content = self.content();
        // The content that was read is of one version if the node still has that version.
        fence(Acquire);
        if !version.is_multiple_of(2) || self.version.load(Relaxed) != version {
            return now + WRITING_NS;
        }
        let due = if self.seen.load(Relaxed) == version {
            self.again.load(Relaxed)
        } else {
            content.until
        };
        let again = if due <= now { content.act(now) } else { due };
        self.seen.store(version, Relaxed);
        self.again.store(again, Relaxed);
        again
    }
}

impl Content {
    /// Stops the call if its time is up. Returns when to check again.
    fn act(&self, now: u64) -> u64 {
        // SAFETY: controls are never freed.
        let Some(control) = (unsafe { self.control.as_ref() }) else {
            return NEVER;
        };
        if self.wall <= now {
            return overdue(control, self.call, DEADLINE, now);
        }
        let mut again = self.wall;
        if self.cpu != NEVER {
            let used = sys::clock::time_ns(self.clock);
            if self.cpu <= used {
                return overdue(control, self.call, CPU_BUDGET, now);
            }
            // Processor time advances at most as fast as wall time, and may not advance at all.
            let left = (self.cpu - used).max(LOOK_NS);
            again = again.min(now.saturating_add(left));
        }
        if self.slice <= now {
            return again.min(overdue(control, self.call, SLICE, now));
        }
        again.min(self.slice)
    }
}

/// Sets the interrupt flag of a call, and interrupts its thread. Returns when to check again.
fn overdue(control: &Control, call: u64, reason: u64, now: u64) -> u64 {
    if !control.word.stop(call, reason) {
        return NEVER;
    }
    // If there is no thread, nothing runs.
    control.interrupt().map_or(NEVER, |again| now + again)
}

/// Content of a [`Node`].
#[derive(Debug, Clone, Copy)]
struct Content {
    until: u64,
    wall: u64,
    cpu: u64,
    slice: u64,
    control: *mut Control,
    call: u64,
    /// As libc has it, because [`sys::clock::time_ns`] reads clocks by libc.
    clock: libc::clockid_t,
}

impl Content {
    /// Content for a thread that runs no call with a limit.
    const NONE: Self = Self {
        until: NEVER,
        wall: NEVER,
        cpu: NEVER,
        slice: NEVER,
        control: ptr::null_mut(),
        call: 0,
        clock: libc::CLOCK_MONOTONIC,
    };
}

thread_local! {
    static MINE: Mine = Mine(Node::take());
}

/// This thread's node. It is free for another thread once this value is dropped.
struct Mine(&'static Node);

impl Drop for Mine {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A running call with a limit on this thread.
#[derive(Debug)]
pub(crate) struct TimerEntry {
    node: &'static Node,
    /// Whether the node belongs to this call alone. Destructors of thread locals may run guests
    /// after the thread's own node is gone.
    alone: bool,
    /// Content of the node for the outer call from which this one was made, if that has a limit.
    outer: Content,
}

impl TimerEntry {
    pub(crate) fn new(control: &'static Control, call: u64, bounds: Bounds) -> Self {
        let mine = Node::mine();
        let node = mine.unwrap_or_else(Node::take);
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
        node.set(&content);
        Self {
            node,
            alone: mine.is_none(),
            outer,
        }
    }

    /// Remaining processor time of the call in nanoseconds, if it is limited.
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
        self.node.set(&content);
        // On failure, the fork has no timer thread.
        let _ = start();
    }
}

impl Drop for TimerEntry {
    fn drop(&mut self) {
        if self.alone {
            self.node.release();
        } else {
            self.node.set(&self.outer);
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

/// Wakes the waiting tasks whose time has come. Returns when the next time comes.
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

/// Interrupts a call again if it still runs some time from now.
pub(crate) fn look_after(control: &'static Control, call: u64) {
    // Without a timer thread, there is no second interrupt.
    if start().is_ok() {
        KILLED.take().push((control, call));
        wake_at(sys::clock::now_ns().saturating_add(AGAIN_NS));
    }
}

/// Whether the timer thread of this process runs. Relaxed: it changes only under the lock of
/// [`THREAD`], and a thread that reads false takes that lock and reads again.
static RUNS: AtomicBool = AtomicBool::new(false);
/// Tells whether this is the process that [`RUNS`] describes, and not a fork of it.
static SAME: OnceBox<ForkMark> = OnceBox::new();

/// Starts the timer thread if this process has none.
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
        let mine = Node::mine();
        nodes()
            .filter(|node| !mine.is_some_and(|mine| ptr::eq(*node, mine)))
            .for_each(Node::release);
        KILLED.take().clear();
        RUNS.store(false, Relaxed);
        same.renew();
    }
    if RUNS.load(Relaxed) {
        return Ok(());
    }
    // The new thread checks all nodes first.
    WAKES_AT.store(0, SeqCst);
    let timer = std::thread::Builder::new().name("pirn-timer".to_owned());
    let handle = timer.spawn(|| {
        // Signals sent to the process are for its other threads.
        sys::signal::block_all();
        sys::clock::wake_in_time();
        run()
    })?;
    *thread = Some(handle.thread().clone());
    RUNS.store(true, Relaxed);
    Ok(())
}

/// Makes the timer thread check all nodes at this time, or earlier.
#[inline]
fn wake_at(time: u64) {
    if time < WAKES_AT.load(SeqCst) && time < WAKES_AT.fetch_min(time, SeqCst) {
        wake();
    }
}

/// Makes the timer thread recompute when to wake.
#[cold]
fn wake() {
    let thread = THREAD.take();
    if let Some(thread) = &*thread {
        thread.unpark();
    }
}

fn run() -> ! {
    loop {
        let (at, now) = (WAKES_AT.load(SeqCst), sys::clock::now_ns());
        if at == NEVER {
            std::thread::park();
        } else if at > now {
            std::thread::park_timeout(Duration::from_nanos(at - now));
        } else {
            WAKES_AT.store(NEVER, SeqCst);
            // The reads that follow see the node of every call that saw an older `WAKES_AT`.
            fence(SeqCst);
            WAKES_AT.fetch_min(look_at_all(now), SeqCst);
        }
    }
}

fn nodes() -> impl Iterator<Item = &'static Node> {
    let mut at = NODES.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: nodes are leaked, and the list only grows.
        let node = unsafe { at.as_ref() }?;
        at = node.next.load(Relaxed);
        Some(node)
    })
}

/// Stops the calls whose time is up. Returns when to check again.
fn look_at_all(now: u64) -> u64 {
    // An interrupt may wake another thread, which may kill other calls and take this lock.
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
    nodes().map(|node| node.look(now)).fold(again, u64::min)
}
