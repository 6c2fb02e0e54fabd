//! A number for each thread. The number selects the thread's part in data that is split to avoid
//! false sharing.

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use once_cell::race::OnceNonZeroUsize;

/// Maximum number of parts.
const PARTS_MAX: usize = 64;

/// Number of parts to split data into: the number of processors, at most [`PARTS_MAX`], rounded up
/// to a power of two.
pub(crate) fn parts() -> usize {
    // Computed once: the computation makes a system call and reads several files.
    static PARTS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let count = || {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = processors.min(PARTS_MAX).next_power_of_two();
        NonZeroUsize::new(parts).unwrap_or(NonZeroUsize::MIN)
    };
    PARTS.get_or_init(count).get()
}

/// This thread's number. Threads are numbered in the order of their first call.
#[inline]
pub(crate) fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let number = NUMBER.get();
    if number != usize::MAX {
        return number;
    }
    // Relaxed: any number is correct.
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % (usize::MAX / 2);
    NUMBER.set(number);
    number
}
