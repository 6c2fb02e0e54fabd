//! Forks: [`ForkMark`], whether this process is the one that made something, or a fork of it.
//!
//! Descriptors that stand for the memory of a process stand for the parent's in a child. The kernel
//! wipes the mark in a child before the child runs at all (`MADV_WIPEONFORK`, madvise(2)), whatever
//! way it was forked.
//!
//! # Safety
//!
//! Owns the page of the mark.
#![allow(unsafe_code)]

use super::memory::{Access, Reservation};
use core::sync::atomic::{AtomicU8, Ordering};
use std::io;

/// Has one function called before each fork(2) of this process, and another after it in both processes, on
/// the thread that forks (pthread_atfork(3)).
///
/// # Errors
///
/// If there is no memory for it.
pub(crate) fn around_forks(before: extern "C" fn(), after: extern "C" fn()) -> io::Result<()> {
    // SAFETY: functions of the right type.
    match unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// A mark that a fork of this process does not have.
#[derive(Debug)]
pub(crate) struct ForkMark(Reservation);

impl ForkMark {
    /// Makes the mark.
    ///
    /// # Errors
    ///
    /// What mmap(2), mprotect(2) and madvise(2) give.
    pub(crate) fn new() -> io::Result<Self> {
        let page = Reservation::new(super::page_bytes())?;
        // SAFETY: a reservation of our own, which nobody else knows.
        unsafe {
            page.protect(page.range(), Access::ReadWrite)?;
            page.wipe_on_fork(page.range())?;
        }
        let mark = Self(page);
        // Relaxed: whoever else sees the mark was handed it later.
        mark.byte().store(1, Ordering::Relaxed);
        Ok(mark)
    }

    /// 1 in the process that made it, 0 in its forks.
    #[inline]
    pub(crate) fn byte(&self) -> &AtomicU8 {
        // SAFETY: the page is readable and writable while `self` lives.
        unsafe { &*(self.0.range().start as *const AtomicU8) }
    }

    /// From now on it is this process that made it.
    pub(crate) fn renew(&self) {
        self.byte().store(1, Ordering::Relaxed);
    }

    /// Whether this process made it.
    #[inline]
    pub(crate) fn is_ours(&self) -> bool {
        // Relaxed: the kernel wipes it before the child runs at all.
        self.byte().load(Ordering::Relaxed) == 1
    }
}
