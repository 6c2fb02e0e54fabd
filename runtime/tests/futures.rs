//! Calls as futures: async host functions, limits, and futures that are dropped or forgotten.

use crate::common;

use common::retry::with_longer_limits;
use futures::channel::oneshot::{self, Canceled, Receiver, Sender};
use futures::executor::{LocalPool, block_on};
use futures::future::{join, join_all, poll_immediate};
use futures::task::{ArcWake, LocalSpawnExt, noop_waker};
use pirn_runtime::{
    Alone, CallAsync, CallError, CallState, Caller, HostError, Instance, KillOutcome, KillSwitch,
    Linker, Operation, Prepared, Region, TrapCode, TypedFunc,
};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

const GUEST: &str = r#"(module $waits
  (import "h" "ready" (func $ready (param i32) (result i32)))
  (import "h" "wait" (func $wait (param i32) (result i32)))
  (import "h" "store" (func $store (param i32 i32)))
  (memory (export "memory") 1)
  (func (export "ready") (param i32) (result i32) (call $ready (local.get 0)))
  (func (export "waits") (param i32) (result i32) (call $wait (local.get 0)))
  (func (export "stores") (param i32) (result i32)
    (call $store (i32.const 64) (local.get 0))
    (i32.load (i32.const 64)))
  (func (export "sums") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (call $wait (local.get $n))))
      (local.set $sum (i32.add (local.get $sum) (call $ready (local.get $n))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "counts") (param $n i32) (result i32)
    (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $n))
  (func (export "forever") (param i32) (result i32) (loop $l (br $l)) (i32.const 0)))"#;

/// The host's data: the event that `wait` waits for, and how often its future was dropped.
#[derive(Default)]
struct Data {
    waits_for: Option<Receiver<i32>>,
    dropped: Arc<AtomicU32>,
    called: u32,
}

/// Counts its own drop.
struct Dropped(Arc<AtomicU32>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is pending once.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn wait(mut caller: Caller<'_, Data>, n: i32) -> Result<i32, HostError> {
    let _dropped = Dropped(Arc::clone(&caller.data().dropped));
    caller.data_mut().called += 1;
    match n {
        -1 => return Err(HostError::message("not now")),
        -2 => return Err(pirn_runtime::Trap::new(TrapCode::Unreachable).into()),
        -3 => panic!("not here"),
        _ => {}
    }
    match caller.data_mut().waits_for.take() {
        Some(receiver) => Ok(receiver
            .await
            .map_err(|Canceled| HostError::message("nobody answers"))?),
        None => {
            Once(false).await;
            match n {
                -4 => Err(HostError::message("late")),
                -5 => panic!("late"),
                n => Ok(n),
            }
        }
    }
}

fn prepare(slots: u32) -> Prepared<Data> {
    let mut linker = Linker::<Data>::new();
    linker
        .func_async("h", "wait", |caller, n: i32| Box::pin(wait(caller, n)))
        .and_then(|linker| {
            linker.func_async("h", "ready", |_, n: i32| {
                Box::pin(std::future::ready(n + 1))
            })
        })
        .and_then(|linker| {
            linker.func_async("h", "store", |mut caller, (at, n): (u32, u32)| {
                Box::pin(async move {
                    Once(false).await;
                    caller.memory_mut().write_u32(at, n)
                })
            })
        })
        .expect("the names are free");
    let region = Region::builder().slots(slots).build().expect("a region");
    region
        .prepare(&common::wat(GUEST), &linker)
        .expect("it is linked")
}

fn instance(prepared: &Prepared<Data>) -> Instance<Data> {
    prepared
        .try_instantiate(Data::default())
        .expect("a slot is free")
}

fn func(prepared: &Prepared<Data>, name: &str) -> TypedFunc<i32, i32> {
    prepared.func(name).expect("it is exported")
}

/// Makes the guest's next `wait` wait for a value from the returned sender.
fn waiting(instance: &mut Instance<Data>) -> Sender<i32> {
    let (sender, receiver) = oneshot::channel();
    instance.data_mut().waits_for = Some(receiver);
    sender
}

/// Polls a future once.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&noop_waker()))
}

/// A host future that is ready at once completes the call in one poll.
#[test]
fn a_ready_future_does_not_suspend_the_guest() {
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    let mut call = instance.call_async(&func(&prepared, "ready"), 4);
    assert!(matches!(poll(&mut call), Poll::Ready(Ok(5))));
    let Poll::Ready(Err(CallError::State(error))) = poll(&mut call) else {
        panic!("it has ended");
    };
    assert_eq!(
        (error.operation(), error.state()),
        (Operation::Poll, CallState::Ended)
    );
    assert_eq!(
        error.to_string(),
        "poll of a call that has ended; make another call"
    );
}

#[test]
fn a_guest_waits_and_is_resumed() {
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    assert_eq!(
        block_on(instance.call_async(&func(&prepared, "sums"), 10)).expect("it returns"),
        120
    );
    assert_eq!(
        block_on(instance.call_async(&func(&prepared, "stores"), 77)).expect("it returns"),
        77
    );
    let sender = waiting(&mut instance);
    let waits = func(&prepared, "waits");
    let call = instance.call_async(&waits, 1);
    let answers = async { sender.send(9).expect("it waits") };
    assert_eq!(block_on(join(call, answers)).0.expect("it returns"), 9);
    assert_eq!(instance.data().called, 11);
    assert_eq!(instance.data().dropped.load(Ordering::SeqCst), 11);
}

#[test]
fn errors_and_panics_of_a_future_end_the_call() {
    let prepared = prepare(1);
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared);
    for (n, text) in [(-1, "not now"), (-4, "late")] {
        let error = block_on(instance.call_async(&waits, n)).expect_err("it fails");
        assert!(
            matches!(&error, CallError::Host(error) if error.to_string() == text),
            "{error:?}"
        );
    }
    for (n, text) in [(-3, "not here"), (-5, "late")] {
        let error = block_on(instance.call_async(&waits, n)).expect_err("it panics");
        let CallError::Panic(panic) = error else {
            panic!("{error:?}")
        };
        assert_eq!(panic.message().as_deref(), Some(text));
        assert_eq!(panic.backtrace().len(), 1, "{panic:?}");
    }
    let error = block_on(instance.call_async(&waits, -2)).expect_err("it traps");
    assert!(
        matches!(&error, CallError::Trap(trap) if trap.backtrace().len() == 1),
        "{error:?}"
    );
    assert_eq!(
        block_on(instance.call_async(&waits, 3)).expect("it returns"),
        3
    );
    assert_eq!(instance.data().dropped.load(Ordering::SeqCst), 6);
}

#[test]
fn a_dropped_call_is_cancelled() {
    let prepared = prepare(1);
    let waits = func(&prepared, "waits");
    for _ in 0..100 {
        let mut first = instance(&prepared);
        let dropped = Arc::clone(&first.data().dropped);
        let sender = waiting(&mut first);
        let mut call = first.call_async(&waits, 1);
        assert!(poll(&mut call).is_pending());
        drop(call);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        assert!(sender.send(1).is_err());
        assert!(!first.is_suspended());
        // The instance can be called again, and its slot can be reused.
        assert_eq!(
            block_on(first.call_async(&waits, 5)).expect("it returns"),
            5
        );
        let _unpolled = first.call_async(&waits, 5);
    }
}

#[test]
fn a_forgotten_call_leaves_its_instance_suspended() {
    let prepared = prepare(1);
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared);
    let _sender = waiting(&mut instance);
    let mut call = instance.call_async(&waits, 1);
    assert!(poll(&mut call).is_pending());
    std::mem::forget(call);
    assert!(instance.is_suspended());
    let error = instance.call(&waits, 1).expect_err("it is suspended");
    assert_eq!(
        error.to_string(),
        "call of an instance whose async call was forgotten; cancel it"
    );
    assert!(matches!(instance.resume(&waits), Err(CallError::State(_))));
    instance.cancel();
    assert_eq!(
        block_on(instance.call_async(&waits, 5)).expect("it returns"),
        5
    );
}

#[test]
fn synchronous_calls_cannot_wait() {
    let prepared = prepare(1);
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared);
    let called = instance.call(&waits, 1).expect_err("it waits");
    assert_eq!(
        called.to_string(),
        "async host function in the middle of a call that runs until it returns; make the call by \
         `call_async`"
    );
    let stepped = instance.start(&waits, 1).expect_err("it waits");
    assert_eq!(
        stepped.to_string(),
        "async host function in the middle of a call that is made step by step; make the call by \
         `call_async`"
    );
}

#[test]
fn many_guests_share_a_thread() {
    let prepared = prepare(100);
    let sums = func(&prepared, "sums");
    let mut instances: Vec<_> = (0..100).map(|_| instance(&prepared)).collect();
    let calls = instances
        .iter_mut()
        .zip(1..)
        .map(|(instance, n)| instance.call_async(&sums, n));
    let results = block_on(join_all(calls));
    for (result, n) in results.into_iter().zip(1..) {
        assert_eq!(result.expect("it returns"), n * (n + 2));
    }
}

/// A looping guest with a time slice yields, so other tasks on the same thread make progress.
#[test]
fn a_looping_guest_yields_to_other_tasks() {
    let prepared = prepare(2);
    let (forever, counts) = (func(&prepared, "forever"), func(&prepared, "counts"));
    let (mut looping, mut counting) = (instance(&prepared), instance(&prepared));
    let mut pool = LocalPool::new();
    let done = Rc::new(Cell::new(0));
    let switch = looping.kill_switch();
    let slice = Duration::from_micros(200);
    let (spawner, counted) = (pool.spawner(), Rc::clone(&done));
    spawner
        .spawn_local(async move {
            let error = looping.timeslice(slice).call_async(&forever, 0).await;
            assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
            counted.set(counted.get() + 1);
        })
        .and_then(|()| {
            let counted = Rc::clone(&done);
            spawner.spawn_local(async move {
                for _ in 0..20 {
                    let left = counting
                        .timeslice(slice)
                        .call_async(&counts, 3_000_000)
                        .await;
                    assert_eq!(left.expect("it returns"), 0);
                }
                counted.set(counted.get() + 1);
                assert!(switch.kill().is_ok());
            })
        })
        .expect("the pool takes them");
    pool.run();
    assert_eq!(done.get(), 2);
}

/// Starts a call on another thread that waits for ever. Sends a message once the call waits, or
/// none if the call ends first.
fn waits_for_ever(
    prepare_call: impl FnOnce(&mut Instance<Data>) -> Option<Duration> + Send + 'static,
) -> (
    thread::JoinHandle<Result<i32, CallError>>,
    std::sync::mpsc::Receiver<()>,
    KillSwitch,
) {
    let (told, tell) = std::sync::mpsc::channel();
    let (switched, switch) = std::sync::mpsc::channel();
    let call = thread::spawn(move || {
        let prepared = prepare(1);
        let waits = func(&prepared, "waits");
        let mut instance = instance(&prepared);
        switched
            .send(instance.kill_switch())
            .expect("the receiver exists");
        let _sender = waiting(&mut instance);
        let limit = prepare_call(&mut instance);
        let mut call = match limit {
            Some(limit) => instance.deadline(limit).call_async(&waits, 1),
            None => instance.call_async(&waits, 1),
        };
        if let Some(ended) = block_on(poll_immediate(&mut call)) {
            return ended;
        }
        told.send(()).expect("the receiver exists");
        block_on(call)
    });
    (call, tell, switch.recv().expect("it is sent"))
}

#[test]
fn a_kill_ends_a_waiting_call_at_once() {
    let (call, tell, switch) = waits_for_ever(|_| None);
    tell.recv().expect("it waits");
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
    let error = call.join().expect("no panic").expect_err("it was killed");
    let CallError::Killed(stop) = error else {
        panic!("{error:?}")
    };
    assert_eq!(stop.backtrace().len(), 1);
}

#[test]
fn a_deadline_ends_a_waiting_call_at_once() {
    // Repeat the call until it waits when the deadline passes.
    with_longer_limits(Duration::from_millis(100), |limit| {
        let (call, tell, _) = waits_for_ever(move |_| Some(limit));
        let waits = tell.recv().is_ok();
        let ended = call.join().expect("no panic");
        let error = ended.expect_err("it takes too long");
        let CallError::Deadline(stop) = error else {
            panic!("{error:?}")
        };
        let found = (stop.limit(), stop.backtrace().len());
        waits.then(|| assert_eq!(found, (Some(limit), 1)))
    });
}

#[test]
fn limits_apply_to_the_whole_async_call() {
    let prepared = prepare(1);
    let (forever, sums) = (func(&prepared, "forever"), func(&prepared, "sums"));
    let mut instance = instance(&prepared);
    let (slice, limit) = (Duration::from_micros(100), Duration::from_millis(5));
    let error = block_on(
        instance
            .timeslice(slice)
            .deadline(limit)
            .call_async(&forever, 1),
    );
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
    let error = block_on(
        instance
            .timeslice(slice)
            .cpu_budget(limit)
            .call_async(&forever, 1),
    );
    assert!(matches!(error, Err(CallError::CpuBudget(_))), "{error:?}");
    let error = block_on(instance.deadline(Duration::ZERO).call_async(&sums, 1));
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
    let long = Duration::from_secs(3600);
    let sum = block_on(
        instance
            .deadline(long)
            .cpu_budget(long)
            .call_async(&sums, 10),
    );
    assert_eq!(sum.expect("it returns"), 120);
}

/// A waker that counts its calls.
struct Counts(AtomicU32);

impl ArcWake for Counts {
    fn wake_by_ref(this: &Arc<Self>) {
        this.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_call_may_move_between_tasks() {
    let prepared = prepare(1);
    let waits = func(&prepared, "waits");
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    let _sender = waiting(&mut instance);
    let mut call = instance.call_async(&waits, 1);
    let tasks = [0, 1].map(|_| Arc::new(Counts(AtomicU32::new(0))));
    for task in &tasks {
        let waker = futures::task::waker(Arc::clone(task));
        assert!(
            Pin::new(&mut call)
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    assert!(switch.kill().is_ok());
    assert_eq!(
        tasks.each_ref().map(|task| task.0.load(Ordering::SeqCst)),
        [0, 1]
    );
    assert!(matches!(
        poll(&mut call),
        Poll::Ready(Err(CallError::Killed(_)))
    ));
}

#[test]
fn calls_can_be_sent() {
    fn sent<T: Send>(_: &T) {}
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    let call: CallAsync<'_, Alone<Data>, _, _> = instance.call_async(&func(&prepared, "sums"), 10);
    sent(&call);
    thread::scope(|scope| {
        let sum = scope
            .spawn(move || block_on(call))
            .join()
            .expect("no panic");
        assert_eq!(sum.expect("it returns"), 120);
    });
}

#[test]
fn waiters_for_a_full_region_are_served_in_order() {
    let prepared = prepare(1);
    let first = instance(&prepared);
    let mut waiting = [0, 1, 2].map(|_| Box::pin(prepared.instantiate_async(Data::default())));
    for future in &mut waiting {
        assert!(poll(future).is_pending());
    }
    // `try_instantiate` must not take a slot before the waiting futures.
    assert!(prepared.try_instantiate(Data::default()).is_err());
    drop(first);
    assert!(prepared.try_instantiate(Data::default()).is_err());
    let [first, second, third] = &mut waiting;
    assert!(poll(second).is_pending());
    assert!(poll(third).is_pending());
    let Poll::Ready(instance) = poll(first) else {
        panic!("it is the first's turn");
    };
    assert_eq!(prepared.region().slots_free(), 0);
    drop(instance.expect("a slot"));
    // The free slot was assigned to the second future, which is dropped.
    let [_, second, mut third] = waiting;
    drop(second);
    let Poll::Ready(instance) = poll(&mut third) else {
        panic!("it is the third's turn");
    };
    drop(instance.expect("a slot"));
    drop(third);
    assert_eq!(prepared.region().slots_free(), 1);
    assert!(prepared.try_instantiate(Data::default()).is_ok());
}

#[test]
fn tasks_and_threads_share_few_slots() {
    let prepared = prepare(3);
    let sums = func(&prepared, "sums");
    thread::scope(|scope| {
        for n in 0..2 {
            let (prepared, sums) = (&prepared, &sums);
            scope.spawn(move || {
                let calls = (0..40).map(|_| async move {
                    let mut instance = prepared.instantiate_async(Data::default()).await?;
                    let sum = instance.call_async(sums, 5).await?;
                    Ok::<_, pirn_runtime::InstantiateError>(sum)
                });
                for sum in block_on(join_all(calls)) {
                    assert_eq!(sum.expect("it returns"), 35, "{n}");
                }
            });
            scope.spawn(move || {
                for _ in 0..40 {
                    let mut instance = prepared.instantiate(Data::default()).expect("a slot");
                    let sum = block_on(instance.call_async(sums, 5));
                    assert_eq!(sum.expect("it returns"), 35, "{n}");
                }
            });
        }
    });
    assert_eq!(prepared.region().slots_free(), 3);
}
