//! [`Node`]: the call that one thread runs, with its limits, for the timer thread.
//!
//! The package `runtime/loom` runs the tests of `node/orders.rs` with loom.
//!
//! # Safety
//!
//! Owns the fact that nodes live as long as the process.
#![allow(unsafe_code)]

#[cfg(all(test, loom))]
mod orders;

use super::alarm::NEVER;
use super::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use super::sync::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, fence};
use crate::stop::Control;
use crate::stop::word::{CPU_BUDGET, DEADLINE, SLICE};
use crate::sys;
use core::ptr;
use crossbeam_utils::CachePadded;

/// Minimum interval between two checks of a thread's processor time, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;
/// Nanoseconds until the timer thread checks a node again that its thread was writing.
const WRITING_NS: u64 = 50_000;

/// The call that one thread runs, with its limits. A node is never freed: another thread may get
/// the node later.
///
/// The node is a sequence lock. Its thread is the only writer, and an odd version means that the
/// thread is writing.
#[derive(Debug)]
pub(super) struct Node {
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
    /// Only the timer thread uses these fields: the version that it last checked, and the time to
    /// check that version again.
    seen: AtomicU64,
    again: AtomicU64,
}

/// A list of nodes that only grows.
#[derive(Debug)]
pub(super) struct Nodes {
    first: AtomicPtr<Node>,
}

impl Nodes {
    /// An empty list.
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Takes a free node for this thread, or makes a node.
    pub(super) fn take(&self) -> &'static Node {
        if let Some(node) = self.iter().find(|node| !node.taken.swap(true, Acquire)) {
            // Acquire: the writes of the node's previous thread are complete.
            return node;
        }
        let node: &'static Node = Box::leak(Box::new(CachePadded::new(Node {
            version: AtomicU64::new(0),
            until: AtomicU64::new(NEVER),
            wall: AtomicU64::new(NEVER),
            cpu: AtomicU64::new(NEVER),
            slice: AtomicU64::new(NEVER),
            control: AtomicPtr::new(ptr::null_mut()),
            call: AtomicU64::new(0),
            clock: AtomicI32::new(0),
            taken: AtomicBool::new(true),
            next: AtomicPtr::new(self.first.load(Relaxed)),
            seen: AtomicU64::new(0),
            again: AtomicU64::new(NEVER),
        })));
        let this = ptr::from_ref(node).cast_mut();
        let mut first = node.next.load(Relaxed);
        while let Err(other) = self
            .first
            .compare_exchange_weak(first, this, Release, Relaxed)
        {
            first = other;
            node.next.store(first, Relaxed);
        }
        node
    }

    /// All nodes of the list.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'static Node> {
        let mut at = self.first.load(Acquire);
        core::iter::from_fn(move || {
            // SAFETY: nodes are leaked, and the list only grows.
            let node = unsafe { at.as_ref() }?;
            at = node.next.load(Relaxed);
            Some(node)
        })
    }
}

impl Node {
    /// Copies the content. The copy mixes two writes if the node's thread writes meanwhile.
    pub(super) fn content(&self) -> Content {
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

    /// Replaces the content of the node. Only the node's own thread calls this method, or a fork in
    /// which that thread does not exist.
    ///
    /// If the content has a time limit, calls `wake_at` with the time of the next check afterwards.
    pub(super) fn set(&self, content: &Content, wake_at: impl FnOnce(u64)) {
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
            // This fence pairs with the timer thread's fence between its write and its reads.
            fence(SeqCst);
            wake_at(content.until);
        }
    }

    /// Releases the node of a thread that has ended.
    pub(super) fn release(&self, wake_at: impl FnOnce(u64)) {
        self.set(&Content::NONE, wake_at);
        self.taken.store(false, Release);
    }

    /// The content and its version, unless the node's thread is writing.
    fn read(&self) -> Option<(u64, Content)> {
        let version = self.version.load(Acquire);
        let content = self.content();
        // The content comes from one write if the node still has the version `version`.
        fence(Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        is_whole.then_some((version, content))
    }

    /// Stops the call if its time is up. Returns the time of the next check.
    pub(super) fn look(&self, now: u64) -> u64 {
        let Some((version, content)) = self.read() else {
            return now + WRITING_NS;
        };
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

/// Content of a [`Node`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    pub(super) until: u64,
    pub(super) wall: u64,
    pub(super) cpu: u64,
    pub(super) slice: u64,
    pub(super) control: *mut Control,
    pub(super) call: u64,
    /// With libc's type, because [`sys::clock::time_ns`] reads clocks by libc.
    pub(super) clock: libc::clockid_t,
}

impl Content {
    /// Content for a thread that runs no call with a limit.
    pub(super) const NONE: Self = Self {
        until: NEVER,
        wall: NEVER,
        cpu: NEVER,
        slice: NEVER,
        control: ptr::null_mut(),
        call: 0,
        clock: libc::CLOCK_MONOTONIC,
    };
}

impl Content {
    /// Stops the call if its time is up. Returns the time of the next check.
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

/// Sets the interrupt flag of a call, and interrupts its thread. Returns the time of the next
/// check.
fn overdue(control: &Control, call: u64, reason: u64, now: u64) -> u64 {
    if !control.word.stop(call, reason) {
        return NEVER;
    }
    // Without a thread, no call runs.
    control.interrupt().map_or(NEVER, |again| now + again)
}
