//! Between its time slices, an async call lets other tasks of the executor run. Such a pause is a
//! turn.

use crate::common;

use common::retry::{with_longer_limits, with_more_iterations};
use futures::channel::oneshot::{self, Receiver, Sender};
use futures::executor::block_on;
use futures::future::poll_immediate;
use pirn_runtime::{
    CallError, Frame, HostFuture, Instance, KillOutcome, Linker, Prepared, Region, TypedFunc,
};
use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::thread;
use std::time::Duration;

const GUEST: &str = r#"(module
  (import "h" "wait" (func $wait))
  (func (export "counts") (param $n i32) (result i32)
    (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $n))
  (func (export "waits") (param i32) (result i32) (call $wait) (local.get 0))
  (func $waiter (call $wait))
  (func $runner (loop $l (br $l)))
  (func (export "waits_and_runs") (param i32) (result i32) (call $waiter) (call $runner) (i32.const 0))
  (func (export "forever") (param i32) (result i32) (loop $l (br $l)) (i32.const 0)))"#;

const SLICE: Duration = Duration::from_micros(200);

thread_local! {
    /// Number of turns given to other tasks.
    static TURNS: Cell<u32> = const { Cell::new(0) };
    /// The end of the next turn.
    static ENDS: RefCell<Option<Receiver<()>>> = const { RefCell::new(None) };
}

fn count() {
    TURNS.set(TURNS.get() + 1);
}

/// The future of a turn. It ends when the test says so, or at once without a channel.
fn signalled_turn() -> HostFuture<'static, ()> {
    count();
    match ENDS.take() {
        // A dropped sender does not end the turn.
        Some(end) => Box::pin(async { assert!(end.await.is_ok()) }),
        None => Box::pin(ready(())),
    }
}

fn never() -> HostFuture<'static, ()> {
    count();
    Box::pin(pending())
}

fn panics() -> HostFuture<'static, ()> {
    Box::pin(async { panic!("not my turn") })
}

fn prepare() -> Prepared<()> {
    let mut linker = Linker::new();
    linker
        .func_async("h", "wait", |_, ()| {
            let mut polled = false;
            Box::pin(poll_fn(move |context| {
                if mem::replace(&mut polled, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            }))
        })
        .expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    let module = common::wat(GUEST);
    region.prepare(&module, &linker).expect("it is linked")
}

fn instance(prepared: &Prepared<()>) -> Instance<()> {
    prepared.try_instantiate(()).expect("the slot is free")
}

fn func(prepared: &Prepared<()>, name: &str) -> TypedFunc<i32, i32> {
    prepared.func(name).expect("it is exported")
}

fn turn() -> Sender<()> {
    let (end, ends) = oneshot::channel();
    ENDS.set(Some(ends));
    end
}

/// Polls the call until it gives other tasks a turn. Returns false if the call ended first.
fn poll_to_turn(call: &mut (impl Future + Unpin)) -> bool {
    let before = TURNS.get();
    while TURNS.get() == before {
        if block_on(poll_immediate(&mut *call)).is_some() {
            return false;
        }
    }
    true
}

#[test]
fn a_guest_is_resumed_after_the_turn_of_others() {
    let prepared = prepare();
    let counts = func(&prepared, "counts");
    let mut instance = instance(&prepared);
    // Repeat the call until two of its time slices end.
    with_more_iterations(30_000_000, |n| {
        TURNS.set(0);
        let call = instance.timeslice(SLICE).call_async(&counts, n);
        let mut call = call.yield_with(signalled_turn);
        let end = turn();
        if !poll_to_turn(&mut call) {
            return None;
        }
        // More polls during the turn do not start another.
        for _ in 0..100 {
            assert!(block_on(poll_immediate(&mut call)).is_none());
        }
        assert_eq!(TURNS.get(), 1);
        end.send(()).expect("it listens");
        assert_eq!(block_on(call).expect("it returns"), 0);
        (TURNS.get() > 1).then_some(())
    });
}

/// A guest that waits for a host future is pending anyway, so the call must not start a turn.
#[test]
fn a_guest_that_waits_for_the_host_takes_no_turn() {
    let prepared = prepare();
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared);
    let call = instance
        .timeslice(Duration::from_secs(3600))
        .call_async(&waits, 7);
    assert_eq!(
        block_on(call.yield_with(signalled_turn)).expect("it returns"),
        7
    );
    assert_eq!(TURNS.get(), 0);
}

#[test]
fn a_kill_or_a_deadline_ends_a_call_during_a_turn() {
    let prepared = prepare();
    let forever = func(&prepared, "forever");
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    let mut call = instance
        .timeslice(SLICE)
        .call_async(&forever, 1)
        .yield_with(never);
    assert!(poll_to_turn(&mut call));
    let killer = thread::spawn(move || switch.kill());
    let error = block_on(call);
    assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
    assert_eq!(killer.join().expect("no panic"), Ok(KillOutcome::Suspended));

    let limit = Duration::from_millis(5);
    drop(instance);
    let mut instance = self::instance(&prepared);
    let limited = instance.timeslice(SLICE).deadline(limit);
    let error = block_on(limited.call_async(&forever, 1).yield_with(never));
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
}

#[test]
fn a_call_that_ends_during_a_turn_has_the_backtrace_of_its_preemption() {
    let prepared = prepare();
    let names = |error: Result<i32, CallError>| match error {
        Err(CallError::Killed(stop) | CallError::Deadline(stop)) => {
            let name = |frame: &Frame| frame.func_name().map(str::to_owned);
            stop.backtrace().iter().map(name).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    let first = Duration::from_millis(50);
    for (name, wanted) in [
        ("forever", &["forever"][..]),
        ("waits_and_runs", &["runner", "waits_and_runs"]),
    ] {
        let wanted: Vec<_> = wanted.iter().map(|name| Some((*name).to_owned())).collect();
        let forever = func(&prepared, name);
        // Repeat the call until the slice ends in the guest's endless function.
        let found = with_longer_limits(first, |slice| {
            let mut instance = instance(&prepared);
            let limited = instance.timeslice(slice).deadline(3 * slice);
            let error = block_on(limited.call_async(&forever, 1).yield_with(never));
            Some(names(error)).filter(|names| names.first() == wanted.first())
        });
        assert_eq!(found, wanted);

        let found = with_longer_limits(first, |slice| {
            let mut instance = instance(&prepared);
            let switch = instance.kill_switch();
            let call = instance.timeslice(slice).call_async(&forever, 1);
            let mut call = call.yield_with(never);
            assert!(poll_to_turn(&mut call));
            assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
            Some(names(block_on(call))).filter(|names| names.first() == wanted.first())
        });
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_call_that_is_dropped_during_a_turn_is_cancelled() {
    let prepared = prepare();
    let (forever, counts) = (func(&prepared, "forever"), func(&prepared, "counts"));
    let mut instance = instance(&prepared);
    let end = turn();
    let mut call = instance
        .timeslice(SLICE)
        .call_async(&forever, 1)
        .yield_with(signalled_turn);
    assert!(poll_to_turn(&mut call));
    assert!(!end.is_canceled());
    drop(call);
    assert!(end.is_canceled());
    assert!(!instance.is_suspended());
    assert_eq!(instance.call(&counts, 9).expect("it returns"), 0);
}

#[test]
fn a_panicking_turn_ends_the_poll_and_keeps_the_instance() {
    let prepared = prepare();
    let (forever, counts) = (func(&prepared, "forever"), func(&prepared, "counts"));
    let mut instance = instance(&prepared);
    let mut call = instance
        .timeslice(SLICE)
        .call_async(&forever, 1)
        .yield_with(panics);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        while block_on(poll_immediate(&mut call)).is_none() {}
    }));
    assert_eq!(
        *panicked
            .unwrap_err()
            .downcast_ref::<&str>()
            .expect("the panic's message"),
        "not my turn"
    );
    drop(call);
    assert_eq!(instance.call(&counts, 9).expect("it returns"), 0);
}
