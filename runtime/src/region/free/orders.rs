//! Loom tests of the list: loom tries the possible orders of the threads' operations, and the
//! values that each load may see.

use super::*;
use loom::thread;
use std::task::Poll;

/// Spawns a thread with number `number`.
fn spawn(number: usize, run: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        sync::NUMBER.with(|own| own.set(number));
        run();
    })
}

fn list(slots: u32, shards: usize) -> Arc<FreeList<u32>> {
    Arc::new(FreeList::with_shards((0..slots).collect(), shards))
}

/// Takes a slot for a module and returns it.
fn cycle(list: &FreeList<u32>, module: ModuleId, wait: WaitLimit) {
    if let Some(slot) = list.take(module, wait) {
        list.put(slot, Some(module));
    }
}

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// If a thread waits for ever in some order, loom reports a deadlock.
#[test]
fn who_waits_is_served() {
    for (shards, modules) in [(1, [0, 0]), (2, [0, 0]), (2, [0, 1])] {
        model(move || {
            let list = list(1, shards);
            let other = Arc::clone(&list);
            let thread = spawn(1, move || cycle(&other, modules[1], WaitLimit::Forever));
            cycle(&list, modules[0], WaitLimit::Forever);
            thread.join().unwrap();
            assert_eq!(list.len(), 1);
            assert_eq!(list.waiting.load(Ordering::SeqCst), 0);
        });
    }
}

/// A waker that records its call.
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// A place in the queue gets a slot, or its waker is called when a slot is free. Leaving the queue
/// loses no slot.
#[test]
fn a_place_is_served_or_left() {
    for leaves in [false, true] {
        model(move || place_beside_a_giver(leaves));
    }
}

/// The canary: without the single order of all SeqCst operations, a slot may be put where no waiter
/// looks. The waiter is a future, because loom cannot end a thread that waits for ever.
#[test]
#[should_panic(expected = "nobody was woken")]
fn without_one_order_a_place_is_missed() {
    sync::WEAKENED.set(true);
    model(|| place_beside_a_giver(false));
}

fn place_beside_a_giver(leaves: bool) {
    let list = list(1, 2);
    let slot = list.take(0, WaitLimit::No).unwrap();
    let other = Arc::clone(&list);
    let thread = spawn(1, move || other.put(slot, Some(0)));
    let woken = std::sync::Arc::new(Woken(false.into()));
    let place = list.queue();
    let mut given = list.given(&place, &Waker::from(woken.clone()));
    if leaves {
        list.leave(&place);
    }
    thread.join().unwrap();
    if !leaves {
        if given.is_pending() {
            let woken = woken.0.load(std::sync::atomic::Ordering::SeqCst);
            assert!(woken, "nobody was woken");
            given = list.given(&place, Waker::noop());
        }
        assert!(matches!(given, Poll::Ready(Some(_))));
        list.leave(&place);
    }
    if let Poll::Ready(Some(slot)) = given {
        list.put(slot, None);
    }
    assert_eq!(list.len(), 1);
    assert_eq!(list.waiting.load(Ordering::SeqCst), 0);
}

/// When the last slot is lost, present waiters and later callers get no slot, and do not wait for
/// ever.
#[test]
fn nobody_waits_at_a_list_that_is_closed_meanwhile() {
    model(|| {
        let list = list(1, 2);
        let lost = list.take(0, WaitLimit::No).unwrap();
        let other = Arc::clone(&list);
        let thread = spawn(1, move || {
            drop(lost);
            other.close();
        });
        assert!(list.take(0, WaitLimit::Forever).is_none());
        thread.join().unwrap();
        assert_eq!(list.waiting.load(Ordering::SeqCst), 0);
    });
}

/// While a thread moves a slot from the front to the stacks, no other thread can find the slot.
#[test]
fn a_slot_on_its_way_is_not_missed() {
    model(|| {
        let list = list(2, 2);
        let [one, two] = [0, 0].map(|_| list.take(7, WaitLimit::No).unwrap());
        list.put(one, Some(7));
        let other = Arc::clone(&list);
        let thread = spawn(1, move || cycle(&other, 9, WaitLimit::Forever));
        cycle(&list, 8, WaitLimit::Forever);
        list.put(two, Some(7));
        thread.join().unwrap();
        assert_eq!(list.len(), 2);
    });
}

/// A slot never has two owners.
#[test]
fn a_slot_is_given_to_one() {
    model(|| {
        let list = list(1, 2);
        let has = Arc::new(AtomicUsize::new(0));
        let run = |list: Arc<FreeList<u32>>, has: Arc<AtomicUsize>| {
            move || {
                if let Some(slot) = list.take(3, WaitLimit::No) {
                    assert_eq!(has.fetch_add(1, Ordering::SeqCst), 0);
                    has.fetch_sub(1, Ordering::SeqCst);
                    list.put(slot, Some(3));
                }
            }
        };
        let thread = spawn(1, run(Arc::clone(&list), Arc::clone(&has)));
        run(Arc::clone(&list), has)();
        thread.join().unwrap();
        assert_eq!(list.len(), 1);
    });
}
