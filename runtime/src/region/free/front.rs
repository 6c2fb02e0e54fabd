//! [`Front`]: a place for one slot, which is put and taken by one atomic exchange.
//!
//! # Safety
//!
//! Owns the fact that the place holds null or a pointer that came from a box and that nobody else has:
//! an exchange gives what was there to exactly one.
#![allow(unsafe_code)]

use super::sync::{AtomicPtr, Ordering};
use core::ptr;

/// A place for one slot.
#[derive(Debug)]
pub(super) struct Front<T>(AtomicPtr<T>);

impl<T> Front<T> {
    /// An empty place.
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Puts a slot there, and gives what was there before.
    ///
    /// In the one order of all exchanges, see the documentation of [`super`].
    #[inline]
    pub(super) fn put(&self, slot: Box<T>) -> Option<Box<T>> {
        Self::own(self.0.swap(Box::into_raw(slot), Ordering::SeqCst))
    }

    /// Takes what is there.
    ///
    /// In the one order of all exchanges, if there is anything.
    #[inline]
    pub(super) fn take(&self) -> Option<Box<T>> {
        if self.is_empty() {
            return None;
        }
        Self::own(self.0.swap(ptr::null_mut(), Ordering::SeqCst))
    }

    /// Whether nothing is there at this moment.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst).is_null()
    }

    fn own(pointer: *mut T) -> Option<Box<T>> {
        // SAFETY: it came from a box in `put`, and the exchange gave it to nobody else.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

impl<T> Drop for Front<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
