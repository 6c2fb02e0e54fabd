//! The floating-point control register of threads that run guests.
//!
//! Guests need rounding to nearest, denormals, and no signal for floating-point exceptions (Core
//! 4.4.2). Threads start with this setting (psABI 3.2.1; AAPCS64 6.1.2), and most hosts never
//! change it. But a library built with `-ffast-math` flushes denormals to zero, in the thread that
//! loads the library and in the threads which that thread creates. A host that searches for errors
//! lets exceptions raise signals. With these settings, guests would compute wrong results or end
//! the process.
//!
//! Reading the register takes 5 ns on some processors, as long as a whole call. So the runtime
//! reads the register when a thread first calls a guest, and whenever an instance is made on the
//! thread. If the setting differs, each later call reads the register again, and replaces the
//! host's setting for the duration of the call.
//!
//! # Safety
//!
//! Owns the fact that a thread has the setting that Rust expects, or the host's own setting,
//! whenever no guest runs.
#![allow(unsafe_code)]

use super::arch::{self, FloatControl};
use core::cell::Cell;

thread_local! {
    /// Whether this thread had the guests' setting when its register was last read.
    static PLAIN: Cell<bool> = const { Cell::new(false) };
}

/// While this value lives, the thread has the floating-point setting of guests.
#[derive(Debug)]
pub(crate) struct AsGuests {
    /// The host's setting, if it was replaced.
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
            // SAFETY: `put_aside` read this value from the register.
            unsafe { arch::set_float_control(control) };
            // A call inside this call saw the guests' setting and set `PLAIN`.
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
    // SAFETY: `PLAIN` is the initial value of threads. Host functions also run with this value, as
    // docs/guide/first-sandbox.md says, until the host's setting is restored.
    unsafe { arch::set_float_control(arch::PLAIN) };
    Some(control)
}

/// Reads the thread's register again.
#[inline(always)]
pub(crate) fn look() {
    if !arch::is_plain(arch::float_control()) {
        PLAIN.set(false);
    }
}
