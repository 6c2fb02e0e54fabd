//! [`pirn_caller_t`]: a host function's access to the instance that calls it.
//!
//! # Safety
//!
//! This file owns one fact. The handle of an instance stays at one address as long as the instance.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};

/// A host function's access to the instance that calls it. The library owns it. It is valid until
/// the host function returns, on the thread that runs the function.
pub struct pirn_caller_t {
    /// The caller of the running host function; null while another function borrows it, and while
    /// no host function runs.
    pub(crate) current: Cell<*mut c_void>,
    /// The thread that runs the host function.
    pub(crate) thread: Cell<usize>,
}

/// Owns the [`pirn_caller_t`] of an instance, at an address that never changes.
pub(crate) struct CallerPlace(NonNull<pirn_caller_t>);

// SAFETY: the handle is used only by the thread that runs a host function of the instance, which
// `lent` checks. That thread has exclusive access to the instance.
unsafe impl Send for CallerPlace {}

impl CallerPlace {
    pub(crate) fn new() -> Self {
        let handle = Box::new(pirn_caller_t {
            current: Cell::new(ptr::null_mut()),
            thread: Cell::new(0),
        });
        Self(NonNull::from(Box::leak(handle)))
    }

    /// The handle, which lives as long as this value.
    pub(crate) fn handle(&self) -> NonNull<pirn_caller_t> {
        self.0
    }
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        // SAFETY: `new` made the box, and the instance ends, so no host function of it runs.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

const _: () = assert!(size_of::<pirn_caller_t>() == 2 * size_of::<usize>());
