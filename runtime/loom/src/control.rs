//! Replaces the runtime's `Control`. The state word is the real one; the signal to the thread is a
//! flag.

use super::word::Word;
use loom::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Debug)]
pub(crate) struct Control {
    pub(super) word: Word,
    pub(super) is_signalled: AtomicBool,
}

impl Control {
    pub(super) fn new() -> Self {
        Self {
            word: Word::new(),
            is_signalled: AtomicBool::new(false),
        }
    }

    /// Interrupts the thread that runs the guest.
    pub(super) fn interrupt(&self) -> Option<u64> {
        self.is_signalled.store(true, SeqCst);
        Some(500_000)
    }
}
