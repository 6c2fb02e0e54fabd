//! Waiting and notifying: results, order, and every way to stop, drop or resume a waiting guest.

use crate::common::values::shared_memory;
use crate::common::{self, values};
use futures::executor::block_on;
use futures::task::noop_waker;
use pirn_runtime::{
    CallAsync, CallError, Instance, Linker, Prepared, Region, SharedMemory, Step, TrapCode,
    TypedFunc,
};
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

const GUEST: &str = r#"(module (import "h" "m" (memory 1 2 shared))
  (func (export "wait32") (param i32 i32 i64) (result i32)
    (memory.atomic.wait32 (local.get 0) (local.get 1) (local.get 2)))
  (func (export "wait64") (param i32 i64 i64) (result i32)
    (memory.atomic.wait64 (local.get 0) (local.get 1) (local.get 2)))
  (func (export "notify") (param i32 i32) (result i32)
    (memory.atomic.notify (local.get 0) (local.get 1)))
  (func (export "spin") (loop $l (br $l))))"#;

/// A timeout without end.
const EVER: i64 = -1;
/// A limit that no call reaches.
const LONG: Duration = Duration::from_secs(3600);

type Wait32 = TypedFunc<(i32, i32, i64), i32>;

struct Setup {
    memory: SharedMemory,
    prepared: Prepared<()>,
    wait: Wait32,
}

impl Setup {
    fn new() -> Self {
        let memory = shared_memory(1, 2);
        let mut linker = Linker::new();
        linker.memory("h", "m", &memory).expect("the name is free");
        let region = Region::builder().slots(4).build().expect("a region");
        let prepared = region.prepare(&common::wat(GUEST), &linker);
        let prepared = prepared.expect("it fits");
        let wait = prepared.func("wait32").expect("it is there");
        Self {
            memory,
            prepared,
            wait,
        }
    }

    fn guest(&self) -> Instance<()> {
        self.prepared.try_instantiate(()).expect("a slot")
    }

    /// Returns when `count` guests wait at an address.
    fn until_waiting(&self, address: u64, count: usize) {
        while self.memory.waiters(address) != count {
            thread::yield_now();
        }
    }
}

fn code(result: Result<i32, CallError>) -> TrapCode {
    match result {
        Err(CallError::Trap(trap)) => trap.code(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn wait_and_notify_return_the_specified_results() {
    let setup = Setup::new();
    let mut guest = setup.guest();
    let wait64: TypedFunc<(i32, i64, i64), i32> =
        setup.prepared.func("wait64").expect("it is there");
    let notify: TypedFunc<(i32, i32), i32> = setup.prepared.func("notify").expect("it is there");
    let word = setup.memory.atomic_u64(8).expect("it is inside");
    word.store(0x1_0000_0005, SeqCst);
    for timeout in [EVER, 0, 1, i64::MAX, i64::MIN] {
        // "Not equal" is returned at once, whatever the timeout is.
        assert_eq!(guest.call(&setup.wait, (8, 6, timeout)).unwrap(), 1);
        assert_eq!(guest.call(&wait64, (8, 5, timeout)).unwrap(), 1);
    }
    for timeout in [0, 1, 1_000_000] {
        assert_eq!(guest.call(&setup.wait, (8, 5, timeout)).unwrap(), 2);
        assert_eq!(guest.call(&wait64, (8, 0x1_0000_0005, timeout)).unwrap(), 2);
    }
    // No guest waits, so none is woken.
    for count in [0, 1, -1] {
        assert_eq!(guest.call(&notify, (8, count)).unwrap(), 0);
    }
    assert_eq!(setup.memory.waiters(8), 0);
    // Checks of the address.
    let last = (1 << 16) - 4;
    assert_eq!(guest.call(&setup.wait, (last, 0, 0)).unwrap(), 2);
    assert_eq!(guest.call(&notify, (last, 1)).unwrap(), 0);
    for unaligned in [1, 2, 3, last + 1, -1] {
        let unaligned_atomic = TrapCode::UnalignedAtomic;
        let found = code(guest.call(&setup.wait, (unaligned, 0, 0)));
        assert_eq!(found, unaligned_atomic);
        let found = code(guest.call(&notify, (unaligned, 0)));
        assert_eq!(found, unaligned_atomic);
    }
    let found = code(guest.call(&wait64, (last, 0, 0)));
    assert_eq!(found, TrapCode::UnalignedAtomic);
    for outside in [last + 4, -4] {
        let found = code(guest.call(&setup.wait, (outside, 0, 0)));
        assert_eq!(found, TrapCode::MemoryOutOfBounds);
        let found = code(guest.call(&notify, (outside, 0)));
        assert_eq!(found, TrapCode::MemoryOutOfBounds);
    }
}

/// If an address is both unaligned and out of bounds, the trap is the one for alignment.
#[test]
fn an_unaligned_address_out_of_bounds_is_reported_as_unaligned() {
    const GUEST: &str = r#"(module (memory i64 1 1 shared)
      (func (export "wait32") (param i64) (result i32)
        (memory.atomic.wait32 offset=8 (local.get 0) (i32.const 0) (i64.const 0)))
      (func (export "wait64") (param i64) (result i32)
        (memory.atomic.wait64 offset=8 (local.get 0) (i64.const 0) (i64.const 0)))
      (func (export "notify") (param i64) (result i32) (memory.atomic.notify offset=8 (local.get 0) (i32.const 1))))"#;
    for options in values::levels() {
        let prepared = values::prepare(GUEST, &options);
        let mut guest = prepared.try_instantiate(()).expect("a slot");
        for (name, bytes) in [("wait32", 4), ("wait64", 8), ("notify", 4)] {
            let func: TypedFunc<i64, i32> = prepared.func(name).expect("it is there");
            for far in [1 << 16, 1 << 32, 1 << 40, i64::MIN, -8] {
                let found = code(guest.call(&func, far));
                assert_eq!(found, TrapCode::MemoryOutOfBounds, "{name} at {far}");
                let found = code(guest.call(&func, far + bytes / 2));
                assert_eq!(found, TrapCode::UnalignedAtomic, "{name} beside {far}");
            }
        }
    }
}

#[test]
fn a_wait_in_an_instances_own_memory_times_out_or_is_stopped() {
    const GUEST: &str = r#"(module (memory 1 1 MAYBE)
      (func (export "wait") (param i64) (result i32)
        (memory.atomic.wait32 offset=4 (i32.const 0) (i32.const 0) (local.get 0)))
      (func (export "notify") (result i32) (memory.atomic.notify (i32.const 4) (i32.const 9))))"#;
    for is_shared in [false, true] {
        let text = GUEST.replace("MAYBE", if is_shared { "shared" } else { "" });
        let prepared = values::prepare(&text, &Default::default());
        let wait: TypedFunc<i64, i32> = prepared.func("wait").expect("it is there");
        let notify: TypedFunc<(), i32> = prepared.func("notify").expect("it is there");
        let mut guest = prepared.try_instantiate(()).expect("a slot");
        assert_eq!(guest.call(&notify, ()).unwrap(), 0);
        if !is_shared {
            let found = code(guest.call(&wait, 0));
            assert_eq!(found, TrapCode::ExpectedSharedMemory);
            continue;
        }
        assert_eq!(guest.call(&wait, 1).unwrap(), 2);
        // Nothing wakes the guest, but a deadline stops it.
        let stopped = guest.deadline(Duration::from_millis(1)).call(&wait, EVER);
        assert!(
            matches!(stopped, Err(CallError::Deadline(_))),
            "{stopped:?}"
        );
        assert_eq!(guest.call(&wait, 0).unwrap(), 2);
    }
}

/// Waiters are woken in the order in which they began to wait.
#[test]
fn waiters_are_woken_in_order() {
    let setup = Setup::new();
    thread::scope(|scope| {
        let mut waiting = vec![];
        for count in 1..=4 {
            let mut guest = setup.guest();
            let wait = &setup.wait;
            waiting.push(scope.spawn(move || guest.call(wait, (16, 0, EVER)).unwrap()));
            setup.until_waiting(16, count);
        }
        assert_eq!(setup.memory.notify(16, 0).unwrap(), 0);
        assert_eq!(setup.memory.notify(12, 9).unwrap(), 0);
        assert_eq!(setup.memory.notify(20, 9).unwrap(), 0);
        for left in [3, 2] {
            assert_eq!(setup.memory.notify(16, 1).unwrap(), 1);
            assert_eq!(setup.memory.waiters(16), left);
            let first = waiting.remove(0);
            assert_eq!(first.join().expect("it ends"), 0);
        }
        assert_eq!(setup.memory.notify(16, u32::MAX).unwrap(), 2);
        for thread in waiting {
            assert_eq!(thread.join().expect("it ends"), 0);
        }
    });
    assert!(setup.memory.notify(3, 1).is_err() && setup.memory.notify(1 << 16, 1).is_err());
}

/// A killed waiter leaves the queue, so a later notify does not count it.
#[test]
fn a_killed_waiter_leaves_the_queue() {
    let setup = Setup::new();
    for _ in 0..20 {
        let mut guest = setup.guest();
        let switch = guest.kill_switch();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| guest.call(&setup.wait, (0, 0, EVER)));
            setup.until_waiting(0, 1);
            switch.kill().expect("it runs");
            let result = waiting.join().expect("it ends");
            assert!(matches!(result, Err(CallError::Killed(_))), "{result:?}");
        });
        assert_eq!(setup.memory.waiters(0), 0);
        assert_eq!(setup.memory.notify(0, 1).unwrap(), 0);
    }
}

/// Kills arrive before the guest waits, while it begins to wait, and after it was woken. Each must
/// end the call.
#[test]
fn a_kill_around_a_wait_is_not_lost() {
    let setup = Setup::new();
    for round in 0..200 {
        let mut guest = setup.guest();
        let switch = guest.kill_switch();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| guest.call(&setup.wait, (0, 0, EVER)));
            for _ in 0..round * 20 {
                std::hint::spin_loop();
            }
            if round % 2 == 1 {
                let _ = setup.memory.notify(0, 1);
            }
            let _ = switch.kill();
            match waiting.join().expect("it ends") {
                Err(CallError::Killed(_)) | Ok(0) => {}
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(setup.memory.waiters(0), 0);
    }
}

#[test]
fn a_deadline_ends_a_wait() {
    let setup = Setup::new();
    let mut guest = setup.guest();
    for _ in 0..5 {
        let limit = Duration::from_millis(2);
        let result = guest.deadline(limit).call(&setup.wait, (0, 0, EVER));
        assert!(matches!(result, Err(CallError::Deadline(_))), "{result:?}");
        assert_eq!(setup.memory.waiters(0), 0);
    }
    // Last, the timeout of the wait: it ends before the deadline does.
    let result = guest.deadline(LONG).call(&setup.wait, (0, 0, 2_000_000));
    assert_eq!(result.unwrap(), 2);
}

#[test]
fn a_time_slice_ends_during_a_wait_that_resumes() {
    let setup = Setup::new();
    let slice = Duration::from_millis(1);
    for end in ["woken", "timed out", "killed", "cancelled", "dropped"] {
        let mut guest = setup.guest();
        let timeout = if end == "timed out" { 3_000_000 } else { EVER };
        let mut step = guest.timeslice(slice).start(&setup.wait, (0, 0, timeout));
        // On a busy machine, some slices end before the guest waits.
        let mut waits = 0;
        while waits < 3 && matches!(step, Ok(Step::Preempted)) {
            assert!(guest.is_suspended());
            step = guest.timeslice(slice).resume(&setup.wait);
            waits += setup.memory.waiters(0);
        }
        let is_suspended = matches!(step, Ok(Step::Preempted));
        assert!(is_suspended || end == "timed out", "{end}: {step:?}");
        assert!(!is_suspended || waits == 3, "{end}");
        match end {
            "woken" => {
                assert_eq!(setup.memory.notify(0, 5).unwrap(), 1);
                // The guest was woken before, so it needs no limit.
                let step = guest.resume(&setup.wait).unwrap();
                assert_eq!(step, Step::Returned(0));
            }
            "timed out" => {
                while matches!(step, Ok(Step::Preempted)) {
                    step = guest.timeslice(slice).resume(&setup.wait);
                }
                assert_eq!(step.unwrap(), Step::Returned(2));
            }
            "killed" => {
                guest.kill_switch().kill().expect("it is there");
                let step: Result<Step<_, Infallible>, _> = guest.resume(&setup.wait);
                assert!(matches!(step, Err(CallError::Killed(_))), "{step:?}");
            }
            "cancelled" => {
                guest.cancel();
                assert_eq!(setup.memory.waiters(0), 0);
                // The instance can be called again.
                let answer = guest.call(&setup.wait, (0, 1, EVER)).unwrap();
                assert_eq!(answer, 1);
            }
            _ => drop(guest),
        }
        assert_eq!(setup.memory.waiters(0), 0, "{end}");
    }
}

/// Preemption ends a blocking wait, which can be resumed.
#[test]
fn a_preemption_ends_the_slice_of_a_waiter() {
    let setup = Setup::new();
    let mut guest = setup.guest();
    let switch = guest.kill_switch();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let step = guest.timeslice(LONG).start(&setup.wait, (0, 0, EVER));
            assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
            guest.timeslice(LONG).resume(&setup.wait).unwrap()
        });
        setup.until_waiting(0, 1);
        while !switch.preempt() {
            thread::yield_now();
        }
        // The guest is woken before or after its preemption.
        assert_eq!(setup.memory.notify(0, 1).unwrap(), 1);
        let step = waiting.join().expect("it ends");
        assert_eq!(step, Step::Returned(0));
    });
}

/// Polls a future once.
fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    let waker = noop_waker();
    pin!(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn an_async_wait_blocks_no_thread() {
    let setup = Setup::new();
    let (mut a, mut b) = (setup.guest(), setup.guest());
    let (mut first, mut second) = (
        a.call_async(&setup.wait, (0, 0, EVER)),
        b.call_async(&setup.wait, (0, 0, EVER)),
    );
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert_eq!(setup.memory.waiters(0), 2);
    assert!(poll(&mut first).is_pending());
    assert_eq!(setup.memory.notify(0, 1).unwrap(), 1);
    assert!(poll(&mut second).is_pending());
    assert!(matches!(poll(&mut first), Poll::Ready(Ok(0))));
    drop(first);
    // A dropped future no longer counts as a waiter.
    assert_eq!(setup.memory.waiters(0), 1);
    drop(second);
    assert_eq!(setup.memory.waiters(0), 0);
    assert_eq!(a.call(&setup.wait, (0, 1, EVER)).unwrap(), 1);
    assert_eq!(b.call(&setup.wait, (0, 0, 0)).unwrap(), 2);
}

#[test]
fn async_waits_end_by_notify_timeout_and_stop() {
    let setup = Setup::new();
    let mut guest = setup.guest();
    // The wait does not block.
    assert_eq!(
        block_on(guest.call_async(&setup.wait, (0, 1, EVER))).unwrap(),
        1
    );
    // The wait ends by its timeout.
    for timeout in [0, 1, 3_000_000] {
        let answer = block_on(guest.call_async(&setup.wait, (0, 0, timeout)));
        assert_eq!(answer.unwrap(), 2);
    }
    let limited = guest.deadline(Duration::from_millis(2));
    let result = block_on(limited.call_async(&setup.wait, (0, 0, EVER)));
    assert!(matches!(result, Err(CallError::Deadline(_))), "{result:?}");
    // Another thread wakes the guest.
    thread::scope(|scope| {
        let memory = &setup.memory;
        scope.spawn(|| {
            setup.until_waiting(0, 1);
            assert_eq!(memory.notify(0, 1).unwrap(), 1);
        });
        assert_eq!(
            block_on(guest.call_async(&setup.wait, (0, 0, EVER))).unwrap(),
            0
        );
    });
    let switch = guest.kill_switch();
    thread::scope(|scope| {
        scope.spawn(|| {
            setup.until_waiting(0, 1);
            switch.kill().expect("it is there");
        });
        let result = block_on(guest.call_async(&setup.wait, (0, 0, EVER)));
        assert!(matches!(result, Err(CallError::Killed(_))), "{result:?}");
    });
    assert_eq!(setup.memory.waiters(0), 0);
}

#[test]
fn an_instance_with_a_forgotten_wait_can_be_dropped() {
    let setup = Setup::new();
    let mut guest = setup.guest();
    let mut call: CallAsync<'_, _, _, i32> = guest.call_async(&setup.wait, (0, 0, EVER));
    assert!(poll(&mut call).is_pending());
    std::mem::forget(call);
    assert_eq!(setup.memory.waiters(0), 1);
    drop(guest);
    let mut next = setup.guest();
    assert_eq!(next.call(&setup.wait, (0, 1, EVER)).unwrap(), 1);
    // A forgotten future still counts as a waiter, so it is the one that is woken.
    assert_eq!(setup.memory.notify(0, 1).unwrap(), 1);
}
