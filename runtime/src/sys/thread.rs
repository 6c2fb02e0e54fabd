//! A number for each thread: what is split by threads, so that they do not share cache lines, is split
//! by it.

use core::cell::Cell;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use once_cell::race::OnceNonZeroUsize;

/// Most parts that anything is split into.
const PARTS_MAX: usize = 64;

/// How many parts to split something into: a power of two, at least the number of processors or
/// [`PARTS_MAX`].
pub(crate) fn parts() -> usize {
    // Asked once: the answer costs a system call and the reading of several files.
    static PARTS: OnceNonZeroUsize = OnceNonZeroUsize::new();
    let count = || {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let parts = processors.min(PARTS_MAX).next_power_of_two();
        NonZeroUsize::new(parts).unwrap_or(NonZeroUsize::MIN)
    };
    PARTS.get_or_init(count).get()
}

/// A number for this thread: threads are numbered as they come.
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
    // Relaxed: any number would do.
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % (usize::MAX / 2);
    NUMBER.set(number);
    number
}
