//! An allocator that counts what each thread has allocated, for checks that bound it.
#![allow(unsafe_code, reason = "an allocator that counts")]

use pirn_fuzz_checks::wasi::Meter;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what each thread has allocated, and the most of it at once.
struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn add(bytes: usize) {
    LIVE.set(LIVE.get() + bytes.cast_signed());
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: each function passes its arguments on to the system's allocator unchanged, and gives what
// that returns; counting touches only constants of the thread, which need no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps to the contract of this function, which is the system
        // allocator's.
        unsafe { System.alloc(layout) }
    }

    // Not the default, which would write to every byte of a large allocation.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps to the contract of this function, which is the system
        // allocator's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size().cast_signed());
        // SAFETY: the caller keeps to the contract of this function, which is the system
        // allocator's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Measures by that allocator.
pub(crate) const METER: Meter = Meter {
    start: || {
        LIVE.set(0);
        PEAK.set(0);
    },
    peak: || PEAK.get().cast_unsigned(),
};
