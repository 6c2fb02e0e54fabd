//! [`pirn_caller_t`]: a host function's access to the instance that calls it.
//!
//! # Safety
//!
//! This file owns two facts. The handle of an instance stays at one address as long as the
//! instance. [`Runner`] names the thread of the host function that may use the handle.
#![allow(unsafe_code)]

use crate::error::{Fallible, PIRN_ERROR_BUSY, pirn_error_t};
use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// A host function's access to the instance that calls the function. The library owns this handle.
/// It is valid until the host function returns, on the thread that runs the function.
pub struct pirn_caller_t {
    /// The caller of the running host function; null while another function borrows it, and while
    /// no host function runs.
    pub(crate) current: Cell<*mut c_void>,
    pub(crate) runner: Runner,
}

impl pirn_caller_t {
    pub(crate) fn new() -> Self {
        Self {
            current: Cell::new(ptr::null_mut()),
            runner: Runner::default(),
        }
    }
}

/// The thread that runs a host function with a handle; 0 while no host function runs.
#[derive(Default)]
pub(crate) struct Runner(AtomicUsize);

impl Runner {
    /// Makes this thread the runner, until the returned value ends.
    pub(crate) fn begin(&self) -> Running<'_> {
        let before = self.0.load(Relaxed);
        self.0.store(thread(), Relaxed);
        Running(self, before)
    }

    /// Checks that this thread is the runner.
    ///
    /// # Errors
    ///
    /// If another thread or no thread is the runner.
    pub(crate) fn check(&self) -> Fallible<()> {
        match self.0.load(Relaxed) == thread() {
            true => Ok(()),
            false => Err(unlent()),
        }
    }
}

/// Restores the previous runner when dropped, also during unwinding.
pub(crate) struct Running<'a>(&'a Runner, usize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.0.store(self.1, Relaxed);
    }
}

/// A number that no other running thread has.
fn thread() -> usize {
    thread_local! {
        static PLACE: u8 = const { 0 };
    }
    PLACE.with(|place| ptr::from_ref(place).addr())
}

/// The error of a handle that is not lent to its user.
#[cold]
pub(crate) fn unlent() -> Box<pirn_error_t> {
    pirn_error_t::text(
        PIRN_ERROR_BUSY,
        "`caller` is used outside its host function, or on another thread; use it in the function \
         that got it, before that function returns",
    )
}

/// Owns the handle that the host functions of an instance get, at an address that never changes.
pub(crate) struct CallerPlace<H>(NonNull<H>);

// SAFETY: a thread that uses the handle has exclusive access to the instance. On another thread,
// `Runner::check` refuses the handle, and touches only the atomic runner.
unsafe impl<H> Send for CallerPlace<H> {}

impl<H> CallerPlace<H> {
    pub(crate) fn new(handle: H) -> Self {
        Self(NonNull::from(Box::leak(Box::new(handle))))
    }

    /// The handle, which lives as long as this value.
    pub(crate) fn handle(&self) -> NonNull<H> {
        self.0
    }
}

impl<H> Drop for CallerPlace<H> {
    fn drop(&mut self) {
        // SAFETY: `new` made the box. The instance owns this value and ends, so no host function
        // uses the box.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

const _: () = assert!(size_of::<pirn_caller_t>() == 2 * size_of::<usize>());
