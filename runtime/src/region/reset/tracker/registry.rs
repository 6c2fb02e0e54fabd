//! [`Registry`]: maps an address to the owner of its memory range, for use in a signal handler.
//!
//! A reader takes no lock and never waits. The reader increments the reader count, reads the
//! current table, and decrements the count. A writer installs a new table and keeps the old table
//! until the reader count is zero. A later reader gets the new table, because all accesses to the
//! count and the table pointer are in the SeqCst order.
//!
//! The package `runtime/loom` runs the tests of `registry/orders.rs` with loom.
//!
//! # Safety
//!
//! Owns the tables. The value that an entry points to lives until [`Registry::remove`]. A thread
//! that touches memory in the entry's range keeps that value alive.
#![allow(unsafe_code)]

#[cfg(all(test, loom))]
mod orders;
mod sync;

use crate::sys::fork_lock::{ForkLock, Rank};
use core::ops::Range;
use core::ptr;
use sync::{AtomicPtr, AtomicUsize, Ordering, Watch};

/// Address ranges, each with a pointer to its owner.
#[derive(Debug)]
pub(super) struct Registry<T> {
    /// The current table, or null.
    table: AtomicPtr<Table<T>>,
    /// Number of readers that may be reading a table.
    readers: AtomicUsize,
    /// Replaced tables that a reader may still be reading.
    old: ForkLock<Old<T>>,
}

/// Replaced tables, each allocated by a `Box`.
type Old<T> = Vec<*mut Table<T>>;

#[derive(Debug)]
struct Table<T> {
    /// Sorted by their starts.
    entries: Vec<RangeEntry<T>>,
    watch: Watch,
}

// SAFETY: every thread reaches the tables by the protocol in the module documentation.
unsafe impl<T: Sync> Sync for Registry<T> {}

#[derive(Debug)]
pub(super) struct RangeEntry<T> {
    range: Range<usize>,
    value: *const T,
}

impl<T> Clone for RangeEntry<T> {
    fn clone(&self) -> Self {
        Self {
            range: self.range.clone(),
            value: self.value,
        }
    }
}

impl<T> Registry<T> {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Self {
        Self {
            table: AtomicPtr::new(ptr::null_mut()),
            readers: AtomicUsize::new(0),
            old: ForkLock::new(Rank::new(3), vec![]),
        }
    }

    /// Adds ranges that belong to `value`. No other value may own a part of these ranges.
    pub(super) fn add(&self, ranges: impl Iterator<Item = Range<usize>>, value: *const T) {
        self.change(|table| {
            table.extend(ranges.map(|range| RangeEntry { range, value }));
            table.sort_by_key(|entry| entry.range.start);
        });
    }

    /// Removes all ranges that belong to `value`.
    pub(super) fn remove(&self, value: *const T) {
        self.change(|table| table.retain(|entry| entry.value != value));
    }

    fn change(&self, change: impl FnOnce(&mut Vec<RangeEntry<T>>)) {
        let mut old = self.old.take();
        let current = self.table.load(Ordering::SeqCst);
        // SAFETY: the pointer is null or the current table. Only the holder of the lock replaces
        // the table.
        let table = unsafe { current.as_ref() };
        let mut entries = table.map(|table| table.entries.clone()).unwrap_or_default();
        change(&mut entries);
        let watch = Watch::new();
        watch.write();
        let new = Box::into_raw(Box::new(Table { entries, watch }));
        self.table.store(new, Ordering::SeqCst);
        if !current.is_null() {
            old.push(current);
        }
        // In a child process that was forked during a read, the count never reaches zero. Such a
        // child never frees its old tables.
        sync::in_one_order();
        if self.readers.load(Ordering::SeqCst) == 0 {
            for table in old.drain(..) {
                // SAFETY: `Box::into_raw` made the pointer. The table is replaced and no reader
                // uses it: a reader that starts now finds the new table.
                let table = unsafe { Box::from_raw(table) };
                table.watch.write();
                sync::free(table);
            }
        }
    }

    /// Runs `found` with the owner of an address, if there is one.
    ///
    /// # Safety
    ///
    /// If the address is in a range of the registry, the owner of that range must not be removed
    /// during the call.
    pub(super) unsafe fn with<R>(
        &self,
        address: usize,
        found: impl FnOnce(&T, &Range<usize>) -> R,
    ) -> Option<R> {
        self.readers.fetch_add(1, Ordering::SeqCst);
        sync::in_one_order();
        // SAFETY: the pointer is null, or a table that stays allocated while this reader is
        // counted.
        let table = unsafe { self.table.load(Ordering::SeqCst).as_ref() };
        let result = table.and_then(|table| {
            table.watch.read();
            let entries = &table.entries;
            let after = entries.partition_point(|entry| entry.range.start <= address);
            let entry = entries.get(after.checked_sub(1)?)?;
            if !entry.range.contains(&address) {
                return None;
            }
            // SAFETY: the caller promises that the value is not removed during the call.
            Some(found(unsafe { &*entry.value }, &entry.range))
        });
        self.readers.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn find(registry: &Registry<u32>, address: usize) -> Option<(u32, Range<usize>)> {
        // SAFETY: the values of these tests outlive their registries.
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
        assert_eq!(registry.old.take().len(), 0, "nobody reads");
    }

    #[test]
    fn a_table_that_is_read_is_not_freed() {
        let registry = Registry::new();
        let (one, two) = (&1, &2);
        registry.add(core::iter::once(0..10), one);
        // SAFETY: the values of this test outlive the call.
        let inner = unsafe {
            registry.with(5, |value, _| {
                registry.add(core::iter::once(10..20), two);
                assert_eq!(registry.old.take().len(), 1, "the old table is being read");
                *value
            })
        };
        assert_eq!(inner, Some(1));
        registry.remove(one);
        assert_eq!(registry.old.take().len(), 0);
    }
}
