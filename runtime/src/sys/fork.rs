//! Forks: [`ForkMark`] tells whether this process made an object, or is a fork of the process that
//! made it.
//!
//! In a child process, a descriptor for the parent's memory still refers to the parent's memory.
//! The kernel wipes the mark in a child before the child runs any code (`MADV_WIPEONFORK`,
//! madvise(2)), whichever system call made the child.
//!
//! # Safety
//!
//! Owns the page that holds the mark.
#![allow(unsafe_code)]

use super::memory::{Access, Reservation};
use core::sync::atomic::{AtomicU8, Ordering};
use std::io;

/// Registers a function to call before each fork(2) of this process, and a function to call after
/// each fork(2) in both processes. Both functions run on the thread that forks (pthread_atfork(3)).
///
/// # Errors
///
/// The error of pthread_atfork(3), if there is no memory to register the functions.
pub(crate) fn around_forks(before: extern "C" fn(), after: extern "C" fn()) -> io::Result<()> {
    // nix lacks pthread_atfork(3).
    // SAFETY: the functions have the type that pthread_atfork(3) expects.
    match unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A mark that tells this process from its forks.
#[derive(Debug)]
pub(crate) struct ForkMark(Reservation);

impl ForkMark {
    /// Makes the mark.
    ///
    /// # Errors
    ///
    /// The error of mmap(2), mprotect(2) or madvise(2).
    pub(crate) fn new() -> io::Result<Self> {
        let page = Reservation::new(super::page_bytes())?;
        // SAFETY: the reservation was just made, and no other code knows its address.
        unsafe {
            page.protect(page.range(), Access::ReadWrite)?;
            page.wipe_on_fork(page.range())?;
        }
        let mark = Self(page);
        // Relaxed: another thread sees the mark only after this thread has handed the mark over.
        mark.byte().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// 1 in the process that made the mark, 0 in its forks.
    #[inline]
    pub(crate) fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page is readable and writable while `self` lives.
        unsafe { &*(self.0.range().start as *const AtomicU8) }
    }

    /// Sets the mark for this process.
    pub(crate) fn renew(&self) {
        self.byte().store(1, Ordering::Relaxed);
    }

    /// Whether this process made the mark.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        // Relaxed: the kernel wipes the byte before the child runs any code.
        self.byte().load(Ordering::Relaxed) == 1
    }
}
