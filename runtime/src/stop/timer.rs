//! The timer thread: one for the process, for all deadlines and budgets.
//!
//! Each thread that runs guests has a node, in which it notes until when its call may run: a few stores,
//! and no lock. The timer thread sleeps until the earliest time that it was told of, and looks at all
//! nodes then. A call wakes it only if its own time ends before that, so of calls of like limits, one
//! after another, one in each such time wakes it, however short the calls are.
//!
//! ```text
//!   call                                     timer thread, at WAKES_AT
//!   node.until = T                           WAKES_AT = never
//!   T < WAKES_AT? WAKES_AT = min(T), wake    look at all nodes
//!                                            WAKES_AT = min(the earliest until)
//! ```
//!
//! Either the call sees that the thread would not wake in time, or the thread sees the call's time: both
//! write first, then read, with a fence in between.
//!
//! # Safety
//!
//! Owns the fact that nodes live as long as the process.
#![allow(unsafe_code)]

use super::word::{CPU_BUDGET, DEADLINE, SLICE};
use super::{Bounds, Control};
use crate::locks;
use crate::sys;
use crate::sys::fork::ForkMark;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, fence};
use core::{mem, ptr};
use once_cell::race::OnceBox;
use std::collections::{BTreeMap, btree_map};
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::thread::Thread;
use std::time::Duration;

/// A time that does not come, in nanoseconds.
const NEVER: u64 = u64::MAX;
/// After how many nanoseconds a thread is interrupted once more that still runs what was stopped.
pub(super) const AGAIN_NS: u64 = 500_000;
/// And one that was in a host function then, which may be for long.
pub(super) const PATIENCE_NS: u64 = 8_000_000;
/// How often a thread's processor time is looked at, at most: every so many nanoseconds.
const LOOK_NS: u64 = 1_000_000;
/// How many nanoseconds a thread is given to write into its node.
const WRITING_NS: u64 = 50_000;

/// What one thread runs until when. It is never freed: another thread may have it later.
///
/// The thread writes it, and counts that: an odd number says that it is writing.
#[derive(Debug)]
#[repr(align(128))]
struct Node {
    version: AtomicU64,
    /// When to look at it, by the monotonic clock, in nanoseconds.
    until: AtomicU64,
    /// When the call's wall time ends.
    wall: AtomicU64,
    /// When its processor time ends, by the thread's clock of that.
    cpu: AtomicU64,
    /// When its slice of time ends.
    slice: AtomicU64,
    control: AtomicPtr<Control>,
    stamp: AtomicU64,
    /// The thread's clock of that.
    clock: AtomicI32,
    taken: AtomicBool,
    next: AtomicPtr<Node>,
    /// The timer thread's own: the version that it has looked at, and when to look at that again.
    seen: AtomicU64,
    again: AtomicU64,
}

/// All nodes: a list that only grows.
static NODES: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());
/// When the timer thread wakes, unless it is woken.
static WAKES_AT: AtomicU64 = AtomicU64::new(NEVER);
/// The timer thread of this process, or of the one that it is a fork of.
static THREAD: Mutex<Option<Thread>> = Mutex::new(None);

impl Node {
    /// One for this thread.
    fn take() -> &'static Self {
        if let Some(node) = nodes().find(|node| !node.taken.swap(true, Acquire)) {
            // Acquire: what its last thread wrote there is done.
            return node;
        }
        let node: &'static Self = Box::leak(Box::new(Self {
            version: AtomicU64::new(0),
            until: AtomicU64::new(NEVER),
            wall: AtomicU64::new(NEVER),
            cpu: AtomicU64::new(NEVER),
            slice: AtomicU64::new(NEVER),
            control: AtomicPtr::new(ptr::null_mut()),
            stamp: AtomicU64::new(0),
            clock: AtomicI32::new(0),
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(NODES.load(Relaxed)),
            seen: AtomicU64::new(0),
            again: AtomicU64::new(NEVER),
        }));
        let this = ptr::from_ref(node).cast_mut();
        let mut first = node.next.load(Relaxed);
        while let Err(other) = NODES.compare_exchange_weak(first, this, Release, Relaxed) {
            first = other;
            node.next.store(first, Relaxed);
        }
        node
    }

    /// This thread's; `None` while the thread's own things are destroyed.
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
            stamp: self.stamp.load(Relaxed),
            clock: self.clock.load(Relaxed),
        }
    }

    /// Replaces what the thread runs, which alone does that.
    fn set(&self, content: &Content) {
        // Odd already if the process was forked while another thread wrote.
        let writing = self.version.load(Relaxed) | 1;
        self.version.store(writing, Relaxed);
        // Whoever reads any of what follows sees the odd number after it.
        fence(Release);
        self.wall.store(content.wall, Relaxed);
        self.cpu.store(content.cpu, Relaxed);
        self.slice.store(content.slice, Relaxed);
        self.control.store(content.control, Relaxed);
        self.stamp.store(content.stamp, Relaxed);
        self.clock.store(content.clock, Relaxed);
        self.until.store(content.until, Relaxed);
        self.version.store(writing + 1, Release);
        if content.until != NEVER {
            // As the timer thread does, between its write and what it reads.
            fence(SeqCst);
            wake_at(content.until);
        }
    }

    /// Its thread is gone.
    fn release(&self) {
        self.set(&Content::NONE);
        self.taken.store(false, Release);
    }

    /// Stops the call if its time is up; gives when to look again.
    fn look(&self, now: u64) -> u64 {
        let version = self.version.load(Acquire);
        let content = self.content();
        // What was read is of one version if that is still the node's.
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
    /// Stops the call if its time is up; gives when to look again.
    fn act(&self, now: u64) -> u64 {
        // SAFETY: controls are never freed.
        let Some(control) = (unsafe { self.control.as_ref() }) else {
            return NEVER;
        };
        if self.wall <= now {
            return overdue(control, self.stamp, DEADLINE, now);
        }
        let mut again = self.wall;
        if self.cpu != NEVER {
            let used = sys::clock::time_ns(self.clock);
            if self.cpu <= used {
                return overdue(control, self.stamp, CPU_BUDGET, now);
            }
            // Processor time goes by no faster than time, and perhaps not at all.
            let left = (self.cpu - used).max(LOOK_NS);
            again = again.min(now.saturating_add(left));
        }
        if self.slice <= now {
            return again.min(overdue(control, self.stamp, SLICE, now));
        }
        again.min(self.slice)
    }
}

/// Closes the gate of a call, and interrupts it; gives when to look again.
fn overdue(control: &Control, stamp: u64, reason: u64, now: u64) -> u64 {
    if !control.word.stop(stamp, reason) {
        return NEVER;
    }
    // Without a thread there is nobody to stop.
    control.poke().map_or(NEVER, |again| now + again)
}

/// What a [`Node`] says.
#[derive(Debug, Clone, Copy)]
struct Content {
    until: u64,
    wall: u64,
    cpu: u64,
    slice: u64,
    control: *mut Control,
    stamp: u64,
    clock: libc::clockid_t,
}

impl Content {
    /// Of a thread that runs nothing that is limited.
    const NONE: Self = Self {
        until: NEVER,
        wall: NEVER,
        cpu: NEVER,
        slice: NEVER,
        control: ptr::null_mut(),
        stamp: 0,
        clock: libc::CLOCK_MONOTONIC,
    };
}

thread_local! {
    static MINE: Mine = Mine(Node::take());
}

/// This thread's node, which another has once this ends.
struct Mine(&'static Node);

impl Drop for Mine {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// A call with a limit, while it runs on this thread.
#[derive(Debug)]
pub(crate) struct Entry {
    node: &'static Node,
    /// Whether the node is the call's alone: other destructors of a thread's own things may run guests
    /// when its node is gone.
    alone: bool,
    /// The call that this one was made from, if that has a limit.
    outer: Content,
}

impl Entry {
    pub(crate) fn new(control: &'static Control, stamp: u64, bounds: Bounds) -> Self {
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
            stamp,
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

    /// How many nanoseconds are left of the call's processor time, if that is limited.
    pub(crate) fn cpu_left_ns(&self) -> Option<u64> {
        let content = self.node.content();
        let left = || {
            content
                .cpu
                .saturating_sub(sys::clock::time_ns(content.clock))
        };
        (content.cpu != NEVER).then(left)
    }

    /// The call goes on in a fork of the process that it began in, on another thread of the kernel's.
    pub(crate) fn adopt(&self) {
        let mut content = self.node.content();
        if content.cpu != NEVER {
            // The processor time of a fork begins anew.
            content.clock = sys::clock::cpu_clock();
        }
        self.node.set(&content);
        // If there is no timer thread now, there is none.
        let _ = start();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.alone {
            self.node.release();
        } else {
            self.node.set(&self.outer);
        }
    }
}

/// Calls that were killed while they ran.
static KILLED: Mutex<Vec<(&'static Control, u64)>> = Mutex::new(Vec::new());

/// Calls that wait for an async host function, by their deadlines, with the tenants of the controls. One
/// stays until its time comes.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting::new());

type Waiting = BTreeMap<u64, Vec<(&'static Control, u64)>>;

/// The locks of this module.
pub(super) type Locks = (
    MutexGuard<'static, Option<Thread>>,
    MutexGuard<'static, Vec<(&'static Control, u64)>>,
    MutexGuard<'static, Waiting>,
);

/// Takes the locks of this module, in the order in which [`start`] takes them.
pub(super) fn lock() -> Locks {
    let thread = sys::lock(&THREAD);
    let killed = sys::lock(&KILLED);
    let waiting = sys::lock(&WAITING);
    (thread, killed, waiting)
}

/// Has whoever waits for this tenant of a control be woken at a time of [`sys::clock::now_ns`].
///
/// # Errors
///
/// As [`start`].
pub(crate) fn wake_waiting(control: &'static Control, time: u64) -> io::Result<()> {
    start()?;
    let tenant = control.word.tenant();
    let mut waiting = locks::take(&WAITING);
    waiting.entry(time).or_default().push((control, tenant));
    drop(waiting);
    wake_at(time);
    Ok(())
}

/// Takes back one [`wake_waiting`] of this tenant.
pub(crate) fn forget_waiting(control: &'static Control, time: u64) {
    let tenant = control.word.tenant();
    let mut waiting = locks::take(&WAITING);
    if let btree_map::Entry::Occupied(mut at) = waiting.entry(time) {
        let waits = at.get_mut();
        let this =
            |(other, of): &(&'static Control, u64)| ptr::eq(*other, control) && *of == tenant;
        if let Some(position) = waits.iter().position(this) {
            waits.swap_remove(position);
        }
        if waits.is_empty() {
            at.remove();
        }
    }
}

/// Wakes those who wait and whose time has come; gives when the next comes.
fn wake_all_waiting(now: u64) -> u64 {
    loop {
        let mut waiting = locks::take(&WAITING);
        let Some(first) = waiting.first_entry() else {
            return NEVER;
        };
        if *first.key() > now {
            return *first.key();
        }
        let due = first.remove();
        // Who is woken may make a call that waits.
        drop(waiting);
        for (control, tenant) in due {
            if control.word.tenant() == tenant {
                control.wake();
            }
        }
    }
}

/// Interrupts a call once more if it still runs some time from now.
pub(crate) fn look_after(control: &'static Control, stamp: u64) {
    // Without a timer thread there is no second interrupt.
    if start().is_ok() {
        locks::take(&KILLED).push((control, stamp));
        wake_at(sys::clock::now_ns().saturating_add(AGAIN_NS));
    }
}

/// Whether the timer thread of this process runs. Relaxed: changed under the lock of [`THREAD`], which is
/// taken by whoever finds that it does not.
static RUNS: AtomicBool = AtomicBool::new(false);
/// Whether this process is that of [`RUNS`], and no fork of it.
static SAME: OnceBox<ForkMark> = OnceBox::new();

/// Starts the timer thread if this process has none.
///
/// # Errors
///
/// What mmap(2) or pthread_create(3) gives.
#[inline]
pub(crate) fn start() -> io::Result<()> {
    match SAME.get() {
        Some(mark) if mark.is_ours() && RUNS.load(Relaxed) => Ok(()),
        _ => start_first(),
    }
}

#[cold]
fn start_first() -> io::Result<()> {
    let mut thread = locks::take(&THREAD);
    let same = SAME.get_or_try_init(|| ForkMark::new().map(Box::new))?;
    if !same.is_ours() {
        // Of the threads of the process that this is a fork of there is this one.
        let mine = Node::mine();
        nodes()
            .filter(|node| !mine.is_some_and(|mine| ptr::eq(*node, mine)))
            .for_each(Node::release);
        locks::take(&KILLED).clear();
        RUNS.store(false, Relaxed);
        same.renew();
    }
    if RUNS.load(Relaxed) {
        return Ok(());
    }
    // It looks at all nodes first.
    WAKES_AT.store(0, SeqCst);
    let timer = std::thread::Builder::new().name("pirn-timer".to_owned());
    let handle = timer.spawn(|| {
        // Signals of the process are for its other threads.
        sys::signal::block_all();
        sys::clock::wake_in_time();
        run()
    })?;
    *thread = Some(handle.thread().clone());
    RUNS.store(true, Relaxed);
    Ok(())
}

/// Has the timer thread look at all nodes at a time, at the latest.
#[inline]
fn wake_at(time: u64) {
    if time < WAKES_AT.load(SeqCst) && time < WAKES_AT.fetch_min(time, SeqCst) {
        wake();
    }
}

/// Has the timer thread find out when to wake.
#[cold]
fn wake() {
    let thread = locks::take(&THREAD);
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
            // What is read next is at least as new as what a call wrote that saw another time.
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

/// Stops the calls whose time is up; gives when to look again.
fn look_at_all(now: u64) -> u64 {
    // Who is interrupted may be woken thereby, and kill others then.
    let mut killed = mem::take(&mut *locks::take(&KILLED));
    let mut again = NEVER;
    killed.retain(|(control, stamp)| {
        let next = control.word.runs(*stamp).then(|| control.poke()).flatten();
        again = again.min(next.map_or(NEVER, |next| now + next));
        next.is_some()
    });
    locks::take(&KILLED).append(&mut killed);
    again = again.min(wake_all_waiting(now));
    nodes().map(|node| node.look(now)).fold(again, u64::min)
}
