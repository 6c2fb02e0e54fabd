//! An allocator that counts the allocations of each thread, for checks that limit them.
#![allow(unsafe_code, reason = "an allocator that counts")]

use pirn_fuzz_checks::wasi::Meter;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the live bytes of each thread, and their maximum.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: usize) {
    LIVE.set(LIVE.get() + bytes.cast_signed());
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: each function passes its arguments unchanged to the system allocator and returns its
// result. Counting accesses only constant-initialised thread-locals, which need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::alloc`, which is also the
        // contract of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    // The default `alloc_zeroed` would write to every byte of a large allocation.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::alloc_zeroed`, which is also
        // the contract of `System.alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size().cast_signed());
        // SAFETY: the caller satisfies the contract of `GlobalAlloc::dealloc`, and `System`
        // allocated the pointer.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Measures with this allocator.
pub(crate) const METER: Meter = Meter {
    start: || {
        LIVE.set(0);
        PEAK.set(0);
    },
    peak: || PEAK.get().cast_unsigned(),
};
