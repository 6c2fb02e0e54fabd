//! [`Front`]: a place for one slot. One atomic exchange puts or takes the slot.
//!
//! # Safety
//!
//! Owns this invariant: the place holds either null or a pointer that came from a box and has no
//! other owner. An exchange gives the old pointer to exactly one thread.
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

    /// Puts a slot into the place, and returns the slot that was in the place before.
    ///
    /// The exchange is SeqCst. The documentation of [`super`] gives the reason.
    #[inline]
    pub(super) fn put(&self, slot: Box<T>) -> Option<Box<T>> {
        Self::own(self.0.swap(Box::into_raw(slot), Ordering::SeqCst))
    }

    /// Takes the slot in the place.
    ///
    /// If there is a slot, the exchange is SeqCst. The documentation of [`super`] gives the reason.
    #[inline]
    pub(super) fn take(&self) -> Option<Box<T>> {
        if self.is_empty() {
            return None;
        }
        Self::own(self.0.swap(ptr::null_mut(), Ordering::SeqCst))
    }

    /// Whether the place is empty at this moment.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst).is_null()
    }

    fn own(pointer: *mut T) -> Option<Box<T>> {
        // SAFETY: `put` made the pointer from a box, and the exchange gave the pointer to this
        // thread only.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

impl<T> Drop for Front<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}
