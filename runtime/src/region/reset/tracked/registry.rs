//! [`Registry`]: whose memory an address is in, asked from a signal handler.
//!
//! Who asks takes no lock and never waits: it counts itself, reads the table that is valid at that
//! moment, and counts itself out. Who changes the table puts a new one in its place and keeps the old
//! one until nobody is counted: whoever comes later reads the new one, because the count and the table
//! are in one total order.
//!
//! # Safety
//!
//! Owns the tables. What an entry points to lives until [`Registry::remove`], and whoever touches memory
//! in the entry's range keeps it alive.
#![allow(unsafe_code)]

use crate::sys;
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Ranges of addresses, each with a pointer to what it belongs to.
#[derive(Debug)]
pub(super) struct Registry<T> {
    /// The table that is valid, or null.
    table: AtomicPtr<Vec<Entry<T>>>,
    /// Those who may be reading a table.
    readers: AtomicUsize,
    /// Tables that were valid and may still be read.
    old: Mutex<Old<T>>,
}

/// Tables, each boxed.
pub(super) type Old<T> = Vec<*mut Vec<Entry<T>>>;

// SAFETY: the tables are reached as its documentation says, whatever thread asks.
unsafe impl<T: Sync> Sync for Registry<T> {}

#[derive(Debug)]
pub(super) struct Entry<T> {
    range: Range<usize>,
    value: *const T,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            range: self.range.clone(),
            value: self.value,
        }
    }
}

impl<T> Registry<T> {
    pub(super) const fn new() -> Self {
        Self {
            table: AtomicPtr::new(ptr::null_mut()),
            readers: AtomicUsize::new(0),
            old: Mutex::new(vec![]),
        }
    }

    /// Adds ranges that belong to `value`, and that nobody else has.
    pub(super) fn add(&self, ranges: impl Iterator<Item = Range<usize>>, value: *const T) {
        self.change(|table| {
            table.extend(ranges.map(|range| Entry { range, value }));
            table.sort_by_key(|entry| entry.range.start);
        });
    }

    /// Takes out all that belongs to `value`.
    pub(super) fn remove(&self, value: *const T) {
        self.change(|table| table.retain(|entry| entry.value != value));
    }

    /// Takes the lock under which it is changed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Old<T>> {
        sys::lock(&self.old)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Entry<T>>)) {
        let mut old = self.lock();
        let current = self.table.load(Ordering::SeqCst);
        // SAFETY: null, or the valid table: only the holder of the lock replaces it.
        let mut table = unsafe { current.as_ref() }.cloned().unwrap_or_default();
        change(&mut table);
        let new = Box::into_raw(Box::new(table));
        self.table.store(new, Ordering::SeqCst);
        if !current.is_null() {
            old.push(current);
        }
        // A child that was forked while another thread read keeps its old tables for ever.
        if self.readers.load(Ordering::SeqCst) == 0 {
            for table in old.drain(..) {
                // SAFETY: made by `Box::into_raw`. It is not valid any more, and nobody reads it: who
                // counts itself from here on finds the new one.
                drop(unsafe { Box::from_raw(table) });
            }
        }
    }

    /// Runs `found` with what an address belongs to, if it belongs to anything.
    ///
    /// # Safety
    ///
    /// If the address is in a range of the registry, what that belongs to must not be removed meanwhile.
    pub(super) unsafe fn with<R>(
        &self,
        address: usize,
        found: impl FnOnce(&T, &Range<usize>) -> R,
    ) -> Option<R> {
        self.readers.fetch_add(1, Ordering::SeqCst);
        // SAFETY: null, or a table that stays while this reader is counted.
        let table = unsafe { self.table.load(Ordering::SeqCst).as_ref() };
        let result = table.and_then(|table| {
            let behind = table.partition_point(|entry| entry.range.start <= address);
            let entry = table.get(behind.checked_sub(1)?)?;
            if !entry.range.contains(&address) {
                return None;
            }
            // SAFETY: the caller's promise.
            Some(found(unsafe { &*entry.value }, &entry.range))
        });
        self.readers.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(registry: &Registry<u32>, address: usize) -> Option<(u32, Range<usize>)> {
        // SAFETY: the values of these tests outlive them.
        unsafe { registry.with(address, |value, range| (*value, range.clone())) }
    }

    #[test]
    fn an_address_is_in_the_range_that_holds_it_and_in_no_other() {
        let registry = Registry::new();
        let (one, two) = (&1, &2);
        assert_eq!(find(&registry, 10), None);
        registry.add([10..20, 40..50].into_iter(), one);
        registry.add(core::iter::once(20..30), two);
        for (address, expected) in [
            (9, None),
            (10, Some((1, 10..20))),
            (19, Some((1, 10..20))),
            (20, Some((2, 20..30))),
            (30, None),
            (39, None),
            (49, Some((1, 40..50))),
            (50, None),
        ] {
            assert_eq!(find(&registry, address), expected, "{address}");
        }
        registry.remove(one);
        assert_eq!(find(&registry, 10), None);
        assert_eq!(find(&registry, 25), Some((2, 20..30)));
        assert_eq!(registry.old.lock().unwrap().len(), 0, "nobody reads");
    }

    #[test]
    fn a_table_that_is_read_is_not_freed() {
        let registry = Registry::new();
        let (one, two) = (&1, &2);
        registry.add(core::iter::once(0..10), one);
        // SAFETY: as above.
        let inner = unsafe {
            registry.with(5, |value, _| {
                registry.add(core::iter::once(10..20), two);
                assert_eq!(registry.old.lock().unwrap().len(), 1, "it is being read");
                *value
            })
        };
        assert_eq!(inner, Some(1));
        registry.remove(one);
        assert_eq!(registry.old.lock().unwrap().len(), 0);
    }
}
