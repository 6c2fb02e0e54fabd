//! Atomics of the core library, or of loom in loom's tests.

#[cfg(loom)]
pub(super) use crate::weakened::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, fence};
pub(super) use core::sync::atomic::Ordering;
#[cfg(not(loom))]
pub(super) use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, fence};
