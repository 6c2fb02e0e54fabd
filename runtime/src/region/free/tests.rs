//! Tests of the free list, as threads of the system run it.

use super::shard::LISTS_KEPT;
use super::*;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

fn waiting(list: &FreeList<u32>) -> usize {
    lock(&list.queue).waiters.len()
}

/// The number of a slot that was taken.
fn number(taken: Option<&Taken<u32>>) -> Option<u32> {
    taken.map(|slot| **slot)
}

/// A slot that was not in the list before.
fn slot(number: u32) -> Taken<u32> {
    Taken(Box::new(FreeSlot {
        module: None,
        slot: number,
    }))
}

/// A waker that panics when it wakes, or counts its calls.
enum Task {
    Panics,
    Counts(std::sync::atomic::AtomicUsize),
}

impl std::task::Wake for Task {
    fn wake(self: std::sync::Arc<Self>) {
        match &*self {
            Self::Panics => panic!("a waker's bug"),
            Self::Counts(woken) => {
                woken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
    }
}

/// A thread that gives out several slots wakes every waiter that gets a slot, even if the first
/// waker panics.
#[test]
fn a_waker_that_panics_keeps_nobody_waiting() {
    let list = FreeList::with_shards(vec![], 1);
    let panics = Waker::from(std::sync::Arc::new(Task::Panics));
    let counts = std::sync::Arc::new(Task::Counts(0.into()));
    let places = [list.queue(), list.queue()];
    assert!(list.given(&places[0], &panics).is_pending());
    assert!(
        list.given(&places[1], &Waker::from(counts.clone()))
            .is_pending()
    );
    for number in 0..2 {
        lock(&list.shards[0].stacks).put(slot(number).0);
    }
    list.serve();
    let Task::Counts(woken) = &*counts else {
        unreachable!("it counts")
    };
    assert_eq!(woken.load(std::sync::atomic::Ordering::SeqCst), 1);
    for place in &places {
        let given = list.given(place, Waker::noop());
        assert!(matches!(given, Poll::Ready(Some(_))), "{given:?}");
        list.leave(place);
    }
    assert_eq!(list.waiting.load(Ordering::SeqCst), 0);
}

#[test]
fn nobody_waits_at_a_closed_list() {
    let list = FreeList::with_shards(vec![], 2);
    let woken = std::sync::Arc::new(Task::Counts(0.into()));
    let place = list.queue();
    assert!(list.given(&place, &Waker::from(woken.clone())).is_pending());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| list.take(0, WaitLimit::Forever).is_none());
        while waiting(&list) < 2 {
            std::thread::yield_now();
        }
        list.close();
        assert!(thread.join().unwrap());
    });
    let Task::Counts(woken) = &*woken else {
        unreachable!("it counts")
    };
    assert_eq!(woken.load(std::sync::atomic::Ordering::SeqCst), 1);
    let given = list.given(&place, Waker::noop());
    assert!(matches!(given, Poll::Ready(None)), "{given:?}");
    list.leave(&place);
    assert!(list.take(0, WaitLimit::Forever).is_none());
    let late = list.queue();
    let given = list.given(&late, Waker::noop());
    assert!(matches!(given, Poll::Ready(None)), "{given:?}");
    list.leave(&late);
    assert_eq!(
        (waiting(&list), list.waiting.load(Ordering::SeqCst)),
        (0, 0)
    );
}

/// Takes a slot for a module if a slot is free, does not return the slot to the list, and gives its
/// number.
fn taken(list: &FreeList<u32>, module: ModuleId) -> Option<u32> {
    number(list.take(module, WaitLimit::No).as_ref())
}

#[test]
fn a_module_gets_its_own_slot_back_first() {
    for shards in [1, 2, 8] {
        let list = FreeList::with_shards(vec![1, 2, 3], shards);
        let mut all: Vec<_> = (0..3).filter_map(|_| list.take(7, WaitLimit::No)).collect();
        assert_eq!((taken(&list, 7), list.len()), (None, 0));
        let numbers: Vec<_> = all.iter().map(|slot| Some(**slot)).collect();
        for module in [None, Some(8), Some(7)] {
            list.put(all.pop().unwrap(), module);
        }
        let [a, b, c] = numbers[..] else { panic!() };
        assert_eq!((taken(&list, 7), list.len()), (a, 2));
        assert_eq!(taken(&list, 9), c, "a cold slot before a warm slot");
        assert_eq!(taken(&list, 9), b, "another module's slot before no slot");
        assert_eq!((taken(&list, 9), list.len()), (None, 0));
    }
}

#[test]
fn a_lone_thread_takes_slots_in_order() {
    let list = FreeList::with_shards((0..6).collect(), 1);
    let taken: Vec<_> = (0..6).filter_map(|_| taken(&list, 0)).collect();
    assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn lists_of_modules_that_are_gone_do_not_pile_up() {
    let list = FreeList::with_shards(vec![0], 1);
    for module in 0..10_000 {
        let slot = list.take(module, WaitLimit::No).unwrap();
        list.put(slot, Some(module));
    }
    assert!(lock(&list.shards[0].stacks).warm.len() <= LISTS_KEPT + 1);
    assert_eq!(list.len(), 1);
}

#[test]
fn a_slot_of_any_shard_is_found() {
    let list = FreeList::with_shards((0..4).collect(), 4);
    let taken: Vec<_> = (0..4).filter_map(|_| list.take(0, WaitLimit::No)).collect();
    assert_eq!(taken.len(), 4);
    // Other threads return the slots, each thread to its own shard.
    std::thread::scope(|scope| {
        for slot in taken {
            scope.spawn(|| list.put(slot, Some(3)));
        }
    });
    assert_eq!(list.len(), 4);
    let all: Vec<_> = (0..5).filter_map(|_| list.take(9, WaitLimit::No)).collect();
    assert_eq!((all.len(), list.len()), (4, 0));
}

#[test]
fn who_waits_longest_is_served_first_and_nobody_overtakes() {
    let list = Arc::new(FreeList::<u32>::with_shards(vec![], 4));
    let (told, served) = mpsc::channel();
    let mut threads = vec![];
    for turn in 0..3 {
        let (list, told) = (Arc::clone(&list), told.clone());
        threads.push(std::thread::spawn({
            let list = Arc::clone(&list);
            move || {
                let slot = list.take(0, WaitLimit::Forever);
                told.send((turn, number(slot.as_ref()))).unwrap();
            }
        }));
        // The next thread must not start before this thread is in the queue.
        while waiting(&list) <= turn {
            std::thread::yield_now();
        }
    }
    for turn in 10..13 {
        assert_eq!(taken(&list, 0), None, "somebody waits");
        list.put(slot(turn), None);
        assert_eq!(served.recv(), Ok((turn as usize - 10, Some(turn))));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!((list.len(), list.waiting.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn who_gives_up_loses_no_slot() {
    let list = FreeList::<u32>::with_shards(vec![], 2);
    let soon = WaitLimit::Until(Instant::now() + Duration::from_millis(5));
    assert!(list.take(0, soon).is_none());
    assert_eq!(
        (waiting(&list), list.waiting.load(Ordering::Relaxed)),
        (0, 0)
    );
    list.put(slot(1), None);
    assert_eq!(list.len(), 1);
    let past = WaitLimit::Until(Instant::now());
    assert_eq!(number(list.take(0, past).as_ref()), Some(1));
}

#[test]
fn what_is_given_between_giving_up_and_leaving_the_queue_is_taken() {
    // The exact moment: the waiter's deadline has passed, and the waiter is still in the queue.
    let list = FreeList::<u32>::with_shards(vec![], 1);
    let waiter = Arc::new(Waiter {
        given: Mutex::new(Given {
            slot: None,
            waker: None,
            is_closed: false,
        }),
        notified: Condvar::new(),
    });
    list.waiting.fetch_add(1, Ordering::Relaxed);
    lock(&list.queue).waiters.push_back(Arc::clone(&waiter));
    assert!(waiter.wait(Some(Instant::now())).is_none());
    list.put(slot(5), None);
    assert_eq!(list.len(), 0, "the slot went to the waiter");
    assert_eq!(number(lock(&waiter.given).slot.as_ref()), Some(5));
}

#[test]
fn what_is_put_before_a_waiter_counts_itself_is_found_by_it() {
    // A slot returns after the waiter searched, and before the waiter counts itself.
    let list = FreeList::<u32>::with_shards(vec![], 2);
    assert!(list.find(0).is_none());
    list.put(slot(6), Some(3));
    assert_eq!(number(list.queue_for(None).as_ref()), Some(6));
    assert_eq!(list.waiting.load(Ordering::Relaxed), 0);
}

#[test]
fn many_threads_share_few_slots() {
    for shards in [1, 2, 4] {
        let list = FreeList::with_shards((0..2).collect(), shards);
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let list = &list;
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let wait = match round % 3 {
                            0 => WaitLimit::Forever,
                            1 => WaitLimit::Until(Instant::now() + Duration::from_micros(20)),
                            _ => WaitLimit::No,
                        };
                        if let Some(slot) = list.take(thread % 3, wait) {
                            list.put(slot, (round % 2 == 0).then_some(thread % 3));
                        }
                    }
                });
            }
        });
        let mut all = [taken(&list, 0), taken(&list, 0)];
        all.sort_unstable();
        assert_eq!(all, [Some(0), Some(1)]);
        assert_eq!(list.waiting.load(Ordering::Relaxed), 0);
    }
}
