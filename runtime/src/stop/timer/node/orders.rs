//! Loom tests of the nodes, with the alarm and the words of the guests' controls.

use super::super::alarm::Alarm;
use super::*;
use crate::stop::word::Word;
use crate::switch::interrupt_flag::GO;
use crate::weakened::{Kind, weakened};
use loom::sync::Arc;
use loom::thread;

impl Nodes {
    fn new() -> Self {
        Self {
            first: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// A time at which the earlier deadlines of these tests are due, and the later deadlines are not.
const NOW: u64 = 1_000;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(run);
}

/// A node, in a list of its own. The node is leaked, as in the runtime.
fn node() -> &'static Node {
    Nodes::new().take()
}

/// A control that is never freed, as in the runtime.
fn control() -> &'static Control {
    Box::leak(Box::new(Control::new()))
}

/// Content in which every value that the test compares is `n`.
fn all(n: u64) -> Content {
    Content {
        wall: n,
        slice: n,
        call: n,
        ..Content::NONE
    }
}

fn deadline(control: &'static Control, call: u64, wall: u64) -> Content {
    Content {
        until: wall,
        wall,
        control: ptr::from_ref(control).cast_mut(),
        call,
        ..Content::NONE
    }
}

/// A reader gets the whole content of one write, with the version of that write, or nothing.
#[test]
fn a_reader_never_mixes_two_writes() {
    model(read_beside_writes);
}

fn read_beside_writes() {
    let node = node();
    node.set(&all(1), |_| ());
    let reader = thread::spawn(|| {
        if let Some((version, content)) = node.read() {
            let is_one = [content.slice, content.call]
                .iter()
                .all(|n| *n == content.wall);
            assert!(is_one, "two writes mixed: {content:?}");
            assert_eq!(version, 2 * content.wall, "two writes mixed");
        }
    });
    node.set(&all(2), |_| ());
    reader.join().unwrap();
}

/// The canary: the odd version must come before the content.
#[test]
#[should_panic(expected = "two writes mixed")]
fn without_the_release_fence_two_writes_are_mixed() {
    weakened(Kind::ReleaseFences, || model(read_beside_writes));
}

/// The canary: the second read of the version must come after the content.
#[test]
#[should_panic(expected = "two writes mixed")]
fn without_the_acquire_fence_two_writes_are_mixed() {
    weakened(Kind::AcquireFences, || model(read_beside_writes));
}

/// The canary: the even version must come after the content.
#[test]
#[should_panic(expected = "two writes mixed")]
fn without_release_the_version_comes_before_its_content() {
    weakened(Kind::Stores, || model(read_beside_writes));
}

/// The canary: the first read of the version must come before the content.
#[test]
#[should_panic(expected = "two writes mixed")]
fn without_acquire_the_content_is_older_than_its_version() {
    weakened(Kind::Loads, || model(read_beside_writes));
}

/// A deadline that was cancelled never stops the next call of its guest.
#[test]
fn a_cancelled_deadline_never_stops_the_next_call() {
    model(|| {
        let node = node();
        let guest = control();
        let call = guest.word.begin(7, false).unwrap();
        node.set(&deadline(guest, call, 1), |_| ());
        let timer = thread::spawn(move || node.look(NOW));
        node.set(&Content::NONE, |_| ());
        guest.word.end(false);
        guest.word.begin(7, false).unwrap();
        assert_runs(&guest.word);
        timer.join().unwrap();
        assert_runs(&guest.word);
    });
}

/// A deadline of one guest never stops another guest, whose call on the same thread has the same
/// number and a later deadline.
#[test]
fn a_deadline_never_stops_another_guest() {
    model(deadlines_of_two_guests);
}

/// The canary: without the fence, the timer thread may use the deadline of one guest for another
/// guest.
#[test]
#[should_panic(expected = "another call was stopped")]
fn without_the_release_fence_another_guest_is_stopped() {
    weakened(Kind::ReleaseFences, || model(deadlines_of_two_guests));
}

fn deadlines_of_two_guests() {
    let node = node();
    let [one, two] = [control(), control()];
    let calls = [one, two].map(|guest| guest.word.begin(7, false).unwrap());
    assert_eq!(calls[0], calls[1]);
    node.set(&deadline(one, calls[0], 1), |_| ());
    let timer = thread::spawn(move || node.look(NOW));
    node.set(&deadline(two, calls[1], 2 * NOW), |_| ());
    timer.join().unwrap();
    assert_runs(&two.word);
}

fn assert_runs(word: &Word) {
    assert_eq!(
        (word.flag(), word.why()),
        (GO, None),
        "another call was stopped"
    );
}

/// The timer thread stops every call whose time comes, however a call and a check meet. If the
/// timer thread sleeps for ever, loom reports a deadlock.
#[test]
fn a_deadline_wakes_the_timer_thread() {
    model(call_beside_timer);
}

/// The canary: without the SeqCst fences, the call does not wake the timer thread, and the timer
/// thread does not see the call.
#[test]
#[should_panic(expected = "deadlock")]
fn without_one_order_the_timer_thread_sleeps() {
    weakened(Kind::SeqCstFences, || model(call_beside_timer));
}

fn call_beside_timer() {
    // The list and the alarm are leaked, because they are static in the runtime.
    let (nodes, alarm): &(Nodes, Alarm) = Box::leak(Box::new((Nodes::new(), Alarm::new())));
    let guest = control();
    // The new thread checks all nodes first, as in `start_first`.
    alarm.set(0);
    // The thread works like `run`, until the call is stopped.
    let timer = thread::spawn(move || {
        let mut now = NOW;
        while guest.word.flag() == GO {
            let at = alarm.get();
            if at == NEVER {
                thread::park();
            } else if at > now {
                // The thread sleeps until the time `at`.
                now = at;
                thread::yield_now();
            } else {
                alarm.rearm(|| {
                    nodes
                        .iter()
                        .map(|node| node.look(now))
                        .fold(NEVER, u64::min)
                });
            }
        }
    });
    let call = guest.word.begin(7, false).unwrap();
    nodes.take().set(&deadline(guest, call, NOW), |time| {
        if alarm.bring_forward(time) {
            timer.thread().unpark();
        }
    });
    timer.join().unwrap();
    assert!(guest.is_signalled.load(SeqCst));
}

/// A thread that gets the node of a thread that has ended continues its versions.
#[test]
fn a_node_keeps_its_versions() {
    model(hand_over);
}

/// The canary: the release of a node must come after its last write.
#[test]
#[should_panic(expected = "a version was used twice")]
fn without_release_a_version_is_used_twice() {
    weakened(Kind::Stores, || model(hand_over));
}

fn hand_over() {
    let nodes = Arc::new(Nodes::new());
    let other = Arc::clone(&nodes);
    let run = |nodes: &Nodes, n| {
        let node = nodes.take();
        node.set(&all(n), |_| ());
        node.release(|_| ());
    };
    let thread = thread::spawn(move || run(&other, 1));
    run(&nodes, 2);
    thread.join().unwrap();
    // Each thread wrote twice.
    let versions: u64 = nodes.iter().map(|node| node.version.load(Relaxed)).sum();
    assert_eq!(versions, 8, "a version was used twice");
}
