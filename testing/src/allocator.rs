//! [`Counting`]: an allocator that counts the heap bytes and the allocations of each thread.
//!
//! # Safety
//!
//! Each method passes its arguments unchanged to the system allocator and returns its result.
//! Counting accesses only constant-initialised thread-local variables, which need no allocation.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator of a test program:
/// `#[global_allocator] static ALLOCATOR: Counting = Counting;`.
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static HEAP: Cell<isize> = const { Cell::new(0) };
}

/// Number of allocations of this thread so far. Freed allocations count, too.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Bytes that this thread has allocated, minus the bytes that it has freed.
pub fn live_bytes() -> isize {
    LIVE.get()
}

/// As [`live_bytes`], with the header and the padding that glibc's malloc(3) adds to each block.
pub fn heap_bytes() -> isize {
    HEAP.get()
}

/// Calls `f`. Returns its result, and how far this thread's live bytes rose during the call.
pub fn peak_of<R>(f: impl FnOnce() -> R) -> (R, isize) {
    let before = LIVE.get();
    PEAK.set(before);
    let result = f();
    (result, PEAK.get() - before)
}

/// Sets the live bytes and their maximum to 0.
pub fn start() {
    LIVE.set(0);
    PEAK.set(0);
}

/// The maximum of [`live_bytes`] since [`start`].
pub fn peak_bytes() -> isize {
    PEAK.get()
}

/// Bytes of a block of the heap: 8 bytes of header, 16 bytes of granularity.
fn heap_cost(bytes: usize) -> isize {
    (bytes + 16).next_multiple_of(16).cast_signed()
}

fn allocated(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    LIVE.set(LIVE.get() + bytes.cast_signed());
    PEAK.set(PEAK.get().max(LIVE.get()));
    HEAP.set(HEAP.get() + heap_cost(bytes));
}

fn freed(bytes: usize) {
    LIVE.set(LIVE.get() - bytes.cast_signed());
    HEAP.set(HEAP.get() - heap_cost(bytes));
}

// SAFETY: each function passes its arguments unchanged to the system allocator and returns its
// result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::alloc`, which is also the
        // contract of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    // The default `alloc_zeroed` would write to every byte of a large allocation.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::alloc_zeroed`, which is also
        // the contract of `System.alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        freed(layout.size());
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::dealloc`, and `System`
        // allocated the pointer.
        unsafe { System.dealloc(pointer, layout) }
    }
}
