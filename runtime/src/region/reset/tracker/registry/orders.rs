//! Loom tests of the registry. Each reader is a thread whose signal handler looks up an address.

use super::*;
use crate::weakened::{Kind, weakened};
use core::iter::once;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;

impl<T> Registry<T> {
    fn new() -> Self {
        Self {
            table: AtomicPtr::new(ptr::null_mut()),
            readers: AtomicUsize::new(0),
            old: ForkLock::new(Rank::new(3), vec![]),
        }
    }
}

/// Stands for a tracker. Loom reports a lookup that is not ordered with the owner's end.
struct Owner {
    number: u32,
    alive: UnsafeCell<bool>,
}

impl Owner {
    fn new(number: u32) -> Arc<Self> {
        Arc::new(Self {
            number,
            alive: UnsafeCell::new(true),
        })
    }

    fn end(&self) {
        // SAFETY: loom reports other accesses.
        self.alive.with_mut(|alive| unsafe { *alive = false });
    }
}

// SAFETY: loom watches the cell.
unsafe impl Sync for Owner {}
// SAFETY: loom watches the cell, and entries only point to owners.
unsafe impl<T> Send for Registry<T> {}

fn find(registry: &Registry<Owner>, address: usize) -> Option<(u32, Range<usize>)> {
    let found = |owner: &Owner, range: &Range<usize>| {
        // SAFETY: loom reports a concurrent write.
        let alive = owner.alive.with(|alive| unsafe { *alive });
        assert!(alive, "the owner is gone");
        (owner.number, range.clone())
    };
    // SAFETY: the tests end an owner only after its removal, and loom watches.
    unsafe { registry.with(address, found) }
}

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// A lookup finds the range and the owner of its address while other ranges come and go. The lookup
/// never reads a table that was freed. Once all threads have ended, one change frees all old
/// tables.
#[test]
fn a_lookup_finds_its_owner_while_others_come_and_go() {
    model(|| lookup_beside_changes(1));
}

/// When one of two readers ends, no table is freed that the other reader still reads.
#[test]
fn two_lookups_keep_a_table() {
    model(|| lookup_beside_changes(2));
}

fn lookup_beside_changes(readers: usize) {
    let registry = Arc::new(Registry::new());
    let (one, two) = (Owner::new(1), Owner::new(2));
    registry.add(once(10..20), &*one);
    let spawn = |_| {
        let registry = Arc::clone(&registry);
        thread::spawn(move || assert_eq!(find(&registry, 15), Some((1, 10..20))))
    };
    let threads: Vec<_> = (0..readers).map(spawn).collect();
    registry.add(once(0..10), &*two);
    registry.remove(&*two);
    two.end();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(find(&registry, 5), None);
    registry.remove(&*one);
    assert_eq!(registry.old.take().len(), 0);
}

/// Two threads that register ranges at once lose no range.
#[test]
fn two_writers_lose_no_range() {
    model(|| {
        let registry = Arc::new(Registry::new());
        let (one, two) = (Owner::new(1), Owner::new(2));
        let other = Arc::clone(&registry);
        let thread = thread::spawn(move || {
            other.add(once(10..20), &*two);
            assert_eq!(find(&other, 15), Some((2, 10..20)));
            two
        });
        registry.add(once(0..10), &*one);
        assert_eq!(find(&registry, 5), Some((1, 0..10)));
        let two = thread.join().unwrap();
        assert_eq!(find(&registry, 15), Some((2, 10..20)));
        registry.remove(&*two);
        assert_eq!(find(&registry, 5), Some((1, 0..10)));
    });
}

/// A new region may reuse the addresses of a dropped region. A thread that runs in the new region
/// finds that region at once. No thread finds the dropped region.
#[test]
fn reused_addresses_have_their_new_owner() {
    model(|| {
        let registry = Arc::new(Registry::new());
        let (one, two) = (Owner::new(1), Owner::new(2));
        registry.add(once(0..10), &*one);
        let mapped = Arc::new(AtomicBool::new(false));
        let (other, is_mapped) = (Arc::clone(&registry), Arc::clone(&mapped));
        let thread = thread::spawn(move || {
            // Another address, which has no owner.
            assert_eq!(find(&other, 15), None);
            if is_mapped.load(Ordering::Acquire) {
                assert_eq!(find(&other, 5), Some((2, 0..10)));
            }
        });
        registry.remove(&*one);
        one.end();
        registry.add(once(0..10), &*two);
        mapped.store(true, Ordering::Release);
        thread.join().unwrap();
    });
}

/// The canary: without the SeqCst order, a writer misses a reader of the old table and frees the
/// table.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_one_order_a_table_is_freed_while_it_is_read() {
    weakened(Kind::SeqCstFences, || model(|| lookup_beside_changes(1)));
}

/// The canary: the reader's decrement must release its reads of the table.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_a_reader_leaves_before_its_reads() {
    weakened(Kind::Updates, || model(|| lookup_beside_changes(1)));
}

/// The canary: the load of the reader count must acquire the reads of readers that have left.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_acquire_a_writer_frees_too_early() {
    weakened(Kind::Loads, || model(|| lookup_beside_changes(1)));
}

/// The canary: the store of the pointer must publish the table.
#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_a_table_is_found_before_it_is_written() {
    weakened(Kind::Stores, || model(|| lookup_beside_changes(1)));
}
