//! Sleeping guests: a sleep takes the requested time, but ends at the guest's limits.

use crate::common::setup::{module, prepared};
use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::{join, poll_immediate};
use pirn_runtime::{CallError, HostFuture, Instance, KillOutcome, Linker, Prepared, Region};
use pirn_testing::retry::{with_longer_limits, with_more_iterations};
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::future::poll_fn;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Sleeps with one clock subscription: id, nanoseconds, flags. The results are the errno, the
/// number of events, and of the first event its userdata, and its error and type as one word.
const SLEEPER: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $now (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func $subscribe (param $at i32) (param $clock i32) (param $ns i64) (param $flags i32)
    (i64.store (local.get $at) (i64.extend_i32_u (i32.add (local.get $at) (i32.const 7))))
    (i32.store (i32.add (local.get $at) (i32.const 16)) (local.get $clock))
    (i64.store (i32.add (local.get $at) (i32.const 24)) (local.get $ns))
    (i32.store (i32.add (local.get $at) (i32.const 40)) (local.get $flags)))
  (func (export "sleep") (param $clock i32) (param $ns i64) (param $flags i32) (result i32 i32 i64 i32)
    (call $subscribe (i32.const 1000) (local.get $clock) (local.get $ns) (local.get $flags))
    (call $poll (i32.const 1000) (i32.const 2000) (i32.const 1) (i32.const 3000))
    (i32.load (i32.const 3000)) (i64.load (i32.const 2000)) (i32.load (i32.const 2008)))
  ;; Until a time from now by the monotonic clock, as it is told.
  (func (export "until") (param $ns i64) (result i32)
    (drop (call $now (i32.const 1) (i64.const 0) (i32.const 4000)))
    (call $subscribe (i32.const 1000) (i32.const 1)
      (i64.add (i64.load (i32.const 4000)) (local.get $ns)) (i32.const 1))
    (call $poll (i32.const 1000) (i32.const 2000) (i32.const 1) (i32.const 3000)))
  ;; For the shorter of two times: the number of events, and the userdata of the first.
  (func (export "shorter") (param i64 i64) (result i32 i64)
    (call $subscribe (i32.const 1000) (i32.const 1) (local.get 0) (i32.const 0))
    (call $subscribe (i32.const 1048) (i32.const 1) (local.get 1) (i32.const 0))
    (drop (call $poll (i32.const 1000) (i32.const 2000) (i32.const 2) (i32.const 3000)))
    (i32.load (i32.const 3000)) (i64.load (i32.const 2000)))
  (func (export "poll") (param i32 i32 i32 i32) (result i32)
    (call $poll (local.get 0) (local.get 1) (local.get 2) (local.get 3))))"#;

/// Longer than any test runs.
const HOUR: i64 = 3600 * 1_000_000_000;
const MS: i64 = 1_000_000;

fn prepare(linker: &Linker<WasiCtx>) -> Prepared<WasiCtx> {
    let region = Region::builder().slots(2).build().expect("a region");
    let prepared = region.prepare(&module(SLEEPER), linker);
    prepared.expect("it is linked")
}

fn blocking() -> Prepared<WasiCtx> {
    prepared(SLEEPER, 2)
}

/// Async functions with this sleep.
fn waiting(
    sleep: impl Fn(Instant) -> HostFuture<'static, ()> + Send + Sync + 'static,
) -> Prepared<WasiCtx> {
    let mut linker = Linker::new();
    pirn_wasi::link_async(&mut linker, |wasi| wasi, sleep).expect("the names are free");
    prepare(&linker)
}

/// A sleep that yields once to the executor, and takes no time.
pub(crate) fn yields(_: Instant) -> HostFuture<'static, ()> {
    let mut has_yielded = false;
    Box::pin(poll_fn(move |context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }))
}

/// The ends of the sleeps that guests have begun, and what wakes each of them.
type Sleeps = Arc<Mutex<Vec<(Instant, oneshot::Sender<()>)>>>;

/// Async functions whose sleeps end when the test wakes them.
fn sleeping() -> (Prepared<WasiCtx>, Sleeps) {
    let sleeps = Sleeps::default();
    let begun = Arc::clone(&sleeps);
    let prepared = waiting(move |until| {
        let (say, heard) = oneshot::channel();
        begun.lock().expect("no panic").push((until, say));
        Box::pin(async move { heard.await.expect("the test wakes it") })
    });
    (prepared, sleeps)
}

/// Calls a function with a deadline that must pass while the guest waits in the host.
fn late<R>(limited: Result<R, CallError>) -> Option<()> {
    match limited.map(drop).expect_err("it waits for ever") {
        // The deadline passed before the guest ran.
        CallError::Deadline(stop) if stop.backtrace().is_empty() => None,
        CallError::Deadline(_) => Some(()),
        error => panic!("{error}"),
    }
}

fn instance(prepared: &Prepared<WasiCtx>) -> Instance<WasiCtx> {
    let wasi = WasiCtxBuilder::new().build();
    prepared.try_instantiate(wasi).expect("a slot is free")
}

type Slept = (i32, i32, i64, u32);

#[test]
fn a_guest_sleeps_for_the_requested_time() {
    let prepared = blocking();
    let sleep = prepared
        .func::<(i32, i64, i32), Slept>("sleep")
        .expect("it is exported");
    let mut guest = instance(&prepared);
    // Each time here is a lower bound, which holds on a machine of any speed.
    let start = Instant::now();
    for clock in [0, 1] {
        let slept = guest.call(&sleep, (clock, 3 * MS, 0)).expect("it wakes");
        assert_eq!(slept, (0, 1, 1007, 0));
    }
    assert!(start.elapsed() >= Duration::from_millis(6));
    let until = prepared.func::<i64, i32>("until").expect("it is exported");
    let start = Instant::now();
    assert_eq!(guest.call(&until, 8 * MS).expect("it wakes"), 0);
    assert!(start.elapsed() >= Duration::from_millis(7));
    // A time in the past wakes the guest at once.
    assert_eq!(guest.call(&until, -MS).expect("it wakes"), 0);
}

#[test]
fn the_earlier_of_two_timeouts_wakes_the_guest() {
    let prepared = blocking();
    let shorter = prepared
        .func::<(i64, i64), (i32, i64)>("shorter")
        .expect("it is exported");
    let mut guest = instance(&prepared);
    assert_eq!(
        guest.call(&shorter, (HOUR, MS)).expect("it wakes"),
        (1, 1055)
    );
    assert_eq!(
        guest.call(&shorter, (MS, HOUR)).expect("it wakes"),
        (1, 1007)
    );
    assert_eq!(guest.call(&shorter, (0, 0)).expect("it wakes"), (2, 1007));
    // Longer than any clock can express.
    with_longer_limits(Duration::from_millis(20), |limit| {
        late(guest.deadline(limit).call(&shorter, (i64::MAX, -1)))
    });
}

#[test]
fn a_sleeping_guest_is_stopped() {
    let prepared = blocking();
    let sleep = prepared
        .func::<(i32, i64, i32), Slept>("sleep")
        .expect("it is exported");
    let mut guest = instance(&prepared);
    with_longer_limits(Duration::from_millis(10), |limit| {
        late(guest.deadline(limit).call(&sleep, (1, HOUR, 0)))
    });
    drop(guest);
    // A kill may come before the sleep. In that case, the next one comes later.
    with_more_iterations(1, |yields| {
        let mut guest = instance(&prepared);
        let switch = guest.kill_switch();
        let met = thread::scope(|scope| {
            let sleeps = scope.spawn(|| guest.call(&sleep, (1, HOUR, 0)));
            while !switch.is_running() {
                thread::yield_now();
            }
            (0..yields).for_each(|_| thread::yield_now());
            let met = switch.kill().expect("it runs");
            let ended = sleeps.join().expect("no panic");
            assert!(matches!(ended, Err(CallError::Killed(_))), "{ended:?}");
            met
        });
        (met == KillOutcome::Host).then_some(())
    });
}

#[test]
fn an_async_sleep_blocks_no_thread() {
    let (prepared, sleeps) = sleeping();
    let begun = || std::mem::take(&mut *sleeps.lock().expect("no panic"));
    let sleep = prepared
        .func::<(i32, i64, i32), Slept>("sleep")
        .expect("it is exported");
    let (mut one, mut other) = (instance(&prepared), instance(&prepared));
    let start = Instant::now();
    let both = join(
        one.call_async(&sleep, (1, 60 * MS, 0)),
        other.call_async(&sleep, (1, 60 * MS, 0)),
    );
    // `join` polls this future after the two calls, on the same thread: both guests sleep.
    let wakes = async {
        let begun = begun();
        assert_eq!(begun.len(), 2);
        for (until, say) in begun {
            // A lower bound, which holds on a machine of any speed.
            assert!(until >= start + Duration::from_millis(60));
            say.send(()).expect("it sleeps");
        }
    };
    let ((one_told, other_told), ()) = block_on(join(both, wakes));
    assert_eq!(one_told.expect("it wakes"), (0, 1, 1007, 0));
    assert_eq!(other_told.expect("it wakes"), (0, 1, 1007, 0));
    // A deadline stops a sleep that does not end. It must pass after the sleep has begun.
    with_longer_limits(Duration::from_millis(5), |limit| {
        let limited = one.deadline(limit);
        let error = block_on(limited.call_async(&sleep, (1, HOUR, 0))).expect_err("it is late");
        assert!(matches!(error, CallError::Deadline(_)), "{error}");
        (!begun().is_empty()).then_some(())
    });
    // A sleeping future is dropped.
    let mut dropped = other.call_async(&sleep, (1, HOUR, 0));
    assert!(block_on(poll_immediate(&mut dropped)).is_none());
    assert_eq!(begun().len(), 1);
}

#[test]
fn an_async_poll_of_a_pipe_blocks_no_thread() {
    let looks = Arc::new(AtomicUsize::new(0));
    let prepared = waiting({
        let looks = Arc::clone(&looks);
        move |until| {
            looks.fetch_add(1, Ordering::Relaxed);
            yields(until)
        }
    });
    let poll = prepared
        .func::<(u32, u32, u32, u32), i32>("poll")
        .expect("it is exported");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let wasi = WasiCtxBuilder::new().stdin_fd(reader);
    let mut guest = prepared
        .try_instantiate(wasi.build())
        .expect("a slot is free");
    // A subscription to read standard input.
    guest.memory_mut().write(1008, &[1]).expect("a page");
    let arguments = (1000, 2000, 1, 3000);
    with_longer_limits(Duration::from_millis(20), |limit| {
        let called = guest.deadline(limit).call_async(&poll, arguments);
        let error = block_on(called).expect_err("the pipe stays empty");
        assert!(matches!(error, CallError::Deadline(_)), "{error}");
        // The guest has waited if it has looked at the pipe twice.
        (looks.swap(0, Ordering::Relaxed) > 1).then_some(())
    });
    // The other future is polled only if the sleeping one yields the thread.
    let writes = async { writer.write_all(b"abc").expect("it is read") };
    let (polled, ()) = block_on(join(guest.call_async(&poll, arguments), writes));
    assert_eq!(polled.expect("an errno"), 0);
    let memory = guest.memory();
    let event = [3000, 2008, 2016].map(|at| memory.read_u32(at).expect("a page"));
    // One read event without an error: three bytes.
    assert_eq!(event, [1, 1 << 16, 3]);
}

#[test]
fn invalid_subscriptions_return_an_errno_or_trap() {
    for prepared in [blocking(), waiting(yields)] {
        let poll = prepared
            .func::<(u32, u32, u32, u32), i32>("poll")
            .expect("it is exported");
        let mut guest = instance(&prepared);
        let mut call = |arguments| block_on(guest.call_async(&poll, arguments));
        // The largest permitted number of clocks, all of which have expired.
        assert_eq!(call((0, 32_768, 1024, 0)).expect("an errno"), 0);
        // No subscription: EINVAL, as in wasi-common.
        assert_eq!(call((0, 100, 0, 200)).expect("an errno"), 28);
        // All zeros: the realtime clock and a timeout of zero.
        assert_eq!(call((5000, 6000, 1, 7000)).expect("an errno"), 0);
        for outside in [
            (65_530, 100, 1, 200),
            (0, 65_530, 1, 200),
            (0, 100, 1, 65_534),
        ] {
            let result = call(outside);
            assert!(
                matches!(result, Err(CallError::Trap(_))),
                "{outside:?}: {result:?}"
            );
        }
        // One clock more than permitted: an error without a sleep.
        assert_eq!(call((0, 100, 1025, 200)).expect("an errno"), 28);
        assert_eq!(call((0, 0, u32::MAX, 0)).expect("an errno"), 28);
        // A missing descriptor is reported in its event: `badf`, for a subscription to read.
        guest.memory_mut().write(5008, &[1]).expect("a page");
        guest.memory_mut().write_u32(5016, 77).expect("a page");
        let result = block_on(guest.call_async(&poll, (5000, 6000, 1, 7000)));
        assert_eq!(result.expect("an errno"), 0);
        let memory = guest.memory();
        assert_eq!(memory.read_u32(7000).expect("a page"), 1);
        assert_eq!(memory.read_u32(6008).expect("a page"), 1 << 16 | 8);
    }
}
