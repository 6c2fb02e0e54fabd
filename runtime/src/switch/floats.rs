//! How threads compute with floating point.
//!
//! Guests round to nearest, keep denormals and have nobody sent a signal (Core 4.4.2). That is how threads
//! begin (psABI 3.2.1; AAPCS64 6.1.2), and how they are left as a rule; but a library made with `-ffast-math`
//! flushes denormals to zero in the thread that loads it and those that this one makes, and a host that looks for mistakes has
//! exceptions raise signals. Then guests would compute wrong, or end the process.
//!
//! To look takes 5 ns on some processors, as much as a whole call. So a thread is looked at when it first
//! calls a guest and whenever an instance is made on it. Where it computes otherwise, each call looks again, and puts
//! the host's way aside for as long as it lasts.
//!
//! # Safety
//!
//! Owns the fact that the thread computes as Rust expects, or as its host has set it, whenever no guest runs.
#![allow(unsafe_code)]

use super::arch::{self, FloatControl};
use core::cell::Cell;

thread_local! {
    /// Whether this thread was found to compute as guests do, when it was last looked at.
    static PLAIN: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, the thread computes as guests do.
#[derive(Debug)]
pub(crate) struct AsGuests {
    /// The host's way, if that is put aside.
    host: Option<FloatControl>,
}

impl AsGuests {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        Self {
            host: if PLAIN.get() { None } else { put_aside() },
        }
    }
}

impl Drop for AsGuests {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(control) = self.host {
            // SAFETY: the host's own.
            unsafe { arch::set_float_control(control) };
            // A call that was made meanwhile has found otherwise.
            PLAIN.set(false);
        }
    }
}

#[cold]
fn put_aside() -> Option<FloatControl> {
    let control = arch::float_control();
    if arch::is_plain(control) {
        PLAIN.set(true);
        return None;
    }
    // SAFETY: what threads begin with. Beside generated code, host functions run so, which are told
    // (docs/EMBEDDING.md), until the host's is set again.
    unsafe { arch::set_float_control(arch::PLAIN) };
    Some(control)
}

/// Looks at the thread.
#[inline(always)]
pub(crate) fn look() {
    if !arch::is_plain(arch::float_control()) {
        PLAIN.set(false);
    }
}
