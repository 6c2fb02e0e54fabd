//! Resource usage of an instance or group. The tests compare every field with a known amount of
//! work. They do so across suspensions and threads, after traps and kills, and at the start of the
//! slot's next instance.

use crate::common;
use crate::common::values::Lend as _;

use pirn_compiler::OptLevel;
use pirn_runtime::{
    CallError, Caller, Group, HostFuture, Instance, Linker, Measure, Module, Prepared, Region,
    Reset, Step, TrapCode, Usage, Value,
};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

const PAGE: u64 = 64 << 10;
/// How long a test sleeps so that time passes for the clocks of a guest. The tests compare the
/// measured times with this lower bound, and with the time that a clock around them shows.
const SLEEP: Duration = Duration::from_millis(20);

const GUEST: &str = r#"(module
  (import "host" "io" (func $io (param i32 i32)))
  (import "host" "hold" (func $hold (param i32)))
  (import "host" "sleep" (func $sleep))
  (import "host" "ask" (func $ask (result i32)))
  (import "host" "wait" (func $wait))
  (memory (export "mem") 1 9) (memory 0 5)
  (type $s (struct (field i64)))
  (global $keep (mut (ref null $s)) (ref.null $s))
  (func (export "calls") (param i32)
    (loop $next
      (call $io (i32.const 3) (i32.const 5))
      (br_if $next (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
  (func (export "hold") (param i32) (call $hold (local.get 0)))
  (func (export "grow") (param i32 i32)
    (drop (memory.grow 0 (local.get 0))) (drop (memory.grow 1 (local.get 1))))
  (func (export "structs") (param i32)
    (loop $next
      (global.set $keep (struct.new $s (i64.const 1)))
      (br_if $next (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
  (func (export "touch") (param $pages i32) (param $value i32)
    (loop $next
      (local.set $pages (i32.sub (local.get $pages) (i32.const 1)))
      (i32.store (i32.mul (local.get $pages) (i32.const 4096)) (local.get $value))
      (br_if $next (local.get $pages))))
  (func (export "sleep") (call $sleep))
  (func (export "ask") (result i32) (call $ask))
  (func (export "wait") (call $wait))
  (func (export "trap") (call $io (i32.const 1) (i32.const 1)) (unreachable))
  (func (export "spin") (loop $next (br $next)))
  (func (export "count") (param i32)
    (loop $next (br_if $next (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))))"#;

type Guest = Instance<(), (), u32>;

fn linker() -> Linker<(), (), u32> {
    let mut linker = Linker::asking();
    let io = |mut caller: Caller<'_, ()>, read: u32, written: u32| {
        caller.count_io(read.into(), written.into());
    };
    let hold = |mut caller: Caller<'_, ()>, bytes: u32| {
        caller.hold_host_bytes(bytes as usize)?;
        caller.release_host_bytes(bytes as usize);
        Ok::<_, pirn_runtime::HostBytesError>(())
    };
    linker
        .func("host", "io", io)
        .and_then(|linker| linker.func("host", "hold", hold))
        .and_then(|linker| linker.func("host", "sleep", || thread::sleep(SLEEP)))
        .and_then(|linker| linker.func_ask("host", "ask", |_, ()| Ok(()), |_, (), n: u32| n))
        .and_then(|linker| linker.func_async("host", "wait", |_, ()| pending_once()))
        .expect("the names are free");
    linker
}

/// A future that is pending once.
fn pending_once() -> HostFuture<'static, ()> {
    let mut polled = false;
    Box::pin(std::future::poll_fn(move |_| {
        match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}

fn module() -> Module {
    common::counting(GUEST, OptLevel::default())
}

fn prepared_by(reset: Reset) -> Prepared<(), (), u32> {
    let region = Region::builder().slots(1).memories(3).reset(reset);
    let region = region.build().expect("a region");
    region.prepare(&module(), &linker()).expect("it is linked")
}

fn prepared() -> Prepared<(), (), u32> {
    prepared_by(Reset::Auto)
}

fn guest(measure: Measure) -> Guest {
    let prepared = prepared().measured(measure);
    prepared.try_instantiate(()).expect("the slot is free")
}

fn call(guest: &mut Guest, name: &str, params: &[i32]) {
    let params: Vec<_> = params.iter().copied().map(Value::I32).collect();
    guest.call_values(name, &params).expect("it returns");
}

/// Whether processor time is at most a wall time. The kernel corrects the rate of the monotonic
/// clock, but not the rate of the clocks of threads.
fn is_within(cpu: Duration, wall: Duration) -> bool {
    cpu <= wall + wall / 100 + Duration::from_micros(10)
}

fn busy(usage: &Usage) -> Duration {
    usage.running_time.expect("it is measured") + usage.suspended_time.expect("it is measured")
}

#[test]
fn host_calls_and_bytes_are_counted() {
    let mut guest = guest(Measure::Counters);
    assert_eq!(guest.usage().host_calls, Some(0));
    call(&mut guest, "calls", &[7]);
    call(&mut guest, "hold", &[100]);
    call(&mut guest, "hold", &[60]);
    let usage = guest.usage();
    assert_eq!(usage.host_calls, Some(9));
    assert_eq!((usage.bytes_read, usage.bytes_written), (21, 35));
    assert_eq!((usage.host_bytes, usage.host_bytes_peak), (0, 100));
    assert_eq!((usage.running_time, usage.cpu_time), (None, None));
}

/// Without a measurement, usage reports the values that cost nothing. The others are `None`.
#[test]
fn free_measurements_are_reported_by_default() {
    let mut guest = prepared().try_instantiate(()).expect("the slot is free");
    call(&mut guest, "calls", &[7]);
    call(&mut guest, "grow", &[2, 1]);
    let usage = guest.usage();
    assert_eq!((usage.bytes_read, usage.bytes_written), (21, 35));
    assert_eq!(usage.memory_bytes_peak(), [3 * PAGE, PAGE]);
    assert_eq!((usage.host_calls, usage.fuel), (None, None));
    assert_eq!((usage.running_time, usage.suspended_time), (None, None));
}

#[test]
fn usage_reports_the_peak_of_memories_and_heap() {
    let mut guest = guest(Measure::Counters);
    assert_eq!(guest.usage().memory_bytes_peak(), [PAGE, 0]);
    call(&mut guest, "grow", &[2, 3]);
    call(&mut guest, "structs", &[10]);
    let usage = guest.usage();
    assert_eq!(usage.memory_bytes_peak(), [3 * PAGE, 3 * PAGE]);
    assert_eq!(usage.heap_bytes_peak, 160);
}

#[test]
fn dirty_pages_are_counted_in_tracked_slots() {
    for reset in common::resets() {
        let prepared = prepared_by(reset);
        for (pages, value) in [(5, 1), (3, 1), (4, 0), (16, 9)] {
            let mut guest = prepared.try_instantiate(()).expect("the slot is free");
            let tracked = reset == Reset::Tracked;
            assert_eq!(guest.usage().pages_written, tracked.then_some(0), "{reset}");
            call(&mut guest, "touch", &[pages, value]);
            // A write that leaves a page unchanged is not counted.
            let changed = if value == 0 { 0 } else { pages as u64 };
            let found = guest.usage().pages_written;
            assert_eq!(found, tracked.then_some(changed), "{reset}");
            let mut other = guest.usage();
            other.pages_written = None;
            assert_eq!(guest.usage_without_pages(), other, "{reset}");
        }
    }
}

/// Setting fuel must not change the reported use.
#[test]
fn used_fuel_does_not_depend_on_the_fuel_that_is_set() {
    let mut guest = guest(Measure::Counters);
    assert_eq!(guest.usage().fuel, Some(0));
    call(&mut guest, "count", &[1000]);
    let first = u64::MAX - guest.fuel().expect("it counts");
    assert_eq!(guest.usage().fuel, Some(first));
    for given in [u64::MAX, 1_000_000, 5, 2_000_000] {
        let before = guest.usage().fuel.expect("it is measured");
        guest.set_fuel(given).expect("nothing is suspended");
        assert_eq!(guest.usage().fuel, Some(before));
        let _ = guest.call_values("count", &[Value::I32(100)]);
        let used = given - guest.fuel().expect("it counts");
        assert_eq!(guest.usage().fuel, Some(before + used), "{given}");
    }
    let limited = prepared().start_fuel(10_000).expect("it counts");
    let mut guest = limited
        .measured(Measure::Counters)
        .try_instantiate(())
        .expect("the slot is free");
    assert_eq!(guest.usage().fuel, Some(0));
    call(&mut guest, "count", &[10]);
    let left = guest.fuel().expect("it counts");
    assert_eq!(guest.usage().fuel, Some(10_000 - left));
}

#[test]
fn a_sleeping_call_uses_wall_time_but_little_processor_time() {
    let mut guest = guest(Measure::CpuTime);
    let begun = Instant::now();
    call(&mut guest, "sleep", &[]);
    let slept = guest.usage();
    assert!(slept.running_time.expect("it is measured") >= SLEEP);
    assert_eq!(slept.suspended_time, Some(Duration::ZERO));
    assert!(busy(&slept) <= begun.elapsed());
    call(&mut guest, "count", &[50_000_000]);
    let counted = guest.usage();
    assert!(busy(&counted) <= begun.elapsed());
    let cpu = |usage: &Usage| usage.cpu_time.expect("it is measured");
    assert!(cpu(&counted) > cpu(&slept));
    assert!(is_within(cpu(&counted), begun.elapsed()));
    let of_sleep = slept.running_time.expect("it is measured") - cpu(&slept);
    assert!(of_sleep >= SLEEP / 2, "{slept:?}");
    // No time is counted between calls.
    thread::sleep(SLEEP);
    assert_eq!(guest.usage(), counted);
}

#[test]
fn suspended_time_and_running_time_are_separate() {
    let prepared = prepared().measured(Measure::WallTime);
    let ask = prepared.func::<(), u32>("ask").expect("it is exported");
    let mut guest = prepared.try_instantiate(()).expect("the slot is free");
    let begun = Instant::now();
    for answer in 0..3 {
        let step = guest.start(&ask, ()).expect("it asks");
        assert!(matches!(step, Step::Asked(())), "{step:?}");
        thread::sleep(SLEEP);
        // The call resumes on another thread.
        let resumed = thread::scope(|scope| {
            let thread = scope.spawn(|| guest.resume_with(&ask, answer));
            thread.join().expect("no panic")
        });
        assert_eq!(resumed.expect("it returns"), Step::Returned(answer));
    }
    let usage = guest.usage();
    assert!(usage.suspended_time >= Some(3 * SLEEP), "{usage:?}");
    assert!(busy(&usage) <= begun.elapsed(), "{usage:?}");
    assert_eq!(usage.host_calls, Some(3));
    // Suspended time grows while the guest is suspended, until the call is cancelled.
    let step = guest.start(&ask, ()).expect("it asks");
    assert!(matches!(step, Step::Asked(())), "{step:?}");
    let asked = guest.usage();
    thread::sleep(SLEEP);
    let longer = guest.usage();
    assert!(longer.suspended_time >= asked.suspended_time.map(|time| time + SLEEP));
    assert_eq!(longer.running_time, asked.running_time);
    guest.cancel();
    let ended = guest.usage();
    thread::sleep(SLEEP);
    assert_eq!(guest.usage(), ended);
    assert!(ended.suspended_time >= longer.suspended_time);
}

#[test]
fn time_slices_count_as_running_time() {
    let prepared = prepared().measured(Measure::CpuTime);
    let spin = prepared.func::<(), ()>("spin").expect("it is exported");
    let mut guest = prepared.try_instantiate(()).expect("the slot is free");
    let (slice, begun) = (Duration::from_millis(2), Instant::now());
    let step = guest.timeslice(slice).start(&spin, ());
    assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
    for _ in 0..4 {
        thread::sleep(SLEEP / 4);
        let step = guest.timeslice(slice).resume(&spin);
        assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
    }
    let usage = guest.usage();
    assert!(usage.running_time >= Some(5 * slice), "{usage:?}");
    assert!(usage.suspended_time >= Some(SLEEP), "{usage:?}");
    let [cpu, running] =
        [usage.cpu_time, usage.running_time].map(|time| time.expect("it is measured"));
    assert!(is_within(cpu, running), "{usage:?}");
    assert!(busy(&usage) <= begun.elapsed(), "{usage:?}");
}

#[test]
fn a_waiting_future_is_suspended_until_it_is_dropped() {
    let prepared = prepared().measured(Measure::WallTime);
    let wait = prepared.func::<(), ()>("wait").expect("it is exported");
    let mut guest = prepared.try_instantiate(()).expect("the slot is free");
    let mut context = Context::from_waker(Waker::noop());
    let begun = Instant::now();
    {
        let mut call = pin!(guest.call_async(&wait, ()));
        assert!(call.as_mut().poll(&mut context).is_pending());
        thread::sleep(SLEEP);
        let ended = call.as_mut().poll(&mut context);
        assert!(matches!(ended, Poll::Ready(Ok(()))), "{ended:?}");
    }
    let usage = guest.usage();
    assert!(usage.suspended_time >= Some(SLEEP), "{usage:?}");
    assert!(busy(&usage) <= begun.elapsed(), "{usage:?}");
    {
        let mut call = Box::pin(guest.call_async(&wait, ()));
        assert!(call.as_mut().poll(&mut context).is_pending());
        thread::sleep(SLEEP);
    }
    let dropped = guest.usage();
    assert!(dropped.suspended_time >= usage.suspended_time.map(|time| time + SLEEP));
    thread::sleep(SLEEP);
    assert_eq!(guest.usage(), dropped);
    assert_eq!(dropped.host_calls, Some(2));
}

/// A call that ends early is also counted.
#[test]
fn usage_includes_calls_that_trapped_or_were_killed() {
    let mut guest = guest(Measure::WallTime);
    match guest.call_values("trap", &[]) {
        Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::Unreachable),
        other => panic!("{other:?}"),
    }
    let trapped = guest.usage();
    assert_eq!((trapped.host_calls, trapped.bytes_read), (Some(1), 1));
    assert!(trapped.running_time > Some(Duration::ZERO));
    let late = guest.deadline(SLEEP).call_values("spin", &[]);
    assert!(matches!(late, Err(CallError::Deadline(_))), "{late:?}");
    let usage = guest.usage();
    assert!(usage.running_time >= trapped.running_time.map(|time| time + SLEEP));
    let switch = guest.kill_switch();
    let killed = thread::scope(|scope| {
        scope.spawn(|| {
            while !switch.is_running() {
                thread::yield_now();
            }
            switch.kill()
        });
        guest.call_values("spin", &[])
    });
    assert!(matches!(killed, Err(CallError::Killed(_))), "{killed:?}");
    assert!(guest.usage().running_time > usage.running_time);
}

#[test]
fn the_next_instance_of_a_slot_starts_with_zero_usage() {
    let plain = prepared();
    let prepared = plain.measured(Measure::CpuTime);
    let of_new = {
        let guest = prepared.try_instantiate(()).expect("the slot is free");
        let mut usage = guest.usage();
        // Instantiation calls a start function. This module has none, so its time is zero.
        assert_eq!(usage.running_time, Some(Duration::ZERO));
        usage.cpu_time = Some(Duration::ZERO);
        usage
    };
    for _ in 0..3 {
        let mut guest = prepared.try_instantiate(()).expect("the slot is free");
        assert_eq!(guest.usage(), of_new);
        call(&mut guest, "calls", &[3]);
        call(&mut guest, "grow", &[1, 1]);
        call(&mut guest, "structs", &[1]);
        call(&mut guest, "hold", &[9]);
        call(&mut guest, "sleep", &[]);
        assert_ne!(guest.usage(), of_new);
    }
    let guest = plain.try_instantiate(()).expect("the slot is free");
    let usage = guest.usage();
    assert_eq!((usage.host_calls, usage.bytes_read), (None, 0));
    assert_eq!((usage.running_time, usage.host_bytes_peak), (None, 0));
}

#[test]
fn usage_includes_the_start_function() {
    let text = r#"(module (import "host" "f" (func $f)) (memory 1)
      (func $start (call $f) (call $f)) (start $start))"#;
    let mut linker = Linker::new();
    let io = |mut caller: Caller<'_, ()>| caller.count_io(1, 2);
    linker.func("host", "f", io).expect("the name is free");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&common::wat(text), &linker);
    let prepared = prepared.expect("it is linked").measured(Measure::WallTime);
    let guest = prepared.try_instantiate(()).expect("it starts");
    let usage = guest.usage();
    assert_eq!(usage.host_calls, Some(2));
    assert_eq!((usage.bytes_read, usage.bytes_written), (2, 4));
    assert!(usage.running_time > Some(Duration::ZERO));
    assert_eq!(usage.fuel, None);
}

#[test]
fn a_group_reports_one_sum() {
    let owner = r#"(module (import "host" "io" (func $io (param i32 i32))) (memory 1 4)
      (func (export "io") (call $io (i32.const 1) (i32.const 2)))
      (func (export "grow") (drop (memory.grow (i32.const 1)))))"#;
    let user = r#"(module (import "owner" "io" (func $theirs))
      (import "host" "io" (func $io (param i32 i32))) (memory 2)
      (func (export "both") (call $theirs) (call $io (i32.const 10) (i32.const 20))))"#;
    let mut linker = Linker::new();
    let io = |mut caller: Caller<'_, ()>, read: u32, written: u32| {
        caller.count_io(read.into(), written.into());
    };
    linker.func("host", "io", io).expect("the name is free");
    let region = Region::builder().slots(2).build().expect("a region");
    for _ in 0..2 {
        let mut group = Group::new(&region, ());
        assert_eq!(group.usage().host_calls, None);
        let counting = |text| common::counting(text, OptLevel::default());
        let first = group.instantiate(&counting(owner), &linker);
        let first = first.expect("it starts");
        group.name("owner", first);
        // A member that exists already is measured from now on.
        group.measure(Measure::CpuTime);
        let second = group.instantiate(&counting(user), &linker);
        let second = second.expect("it starts");
        let mut call = |member, name| {
            group
                .lend(member)
                .call_values(name, &[])
                .expect("it returns")
        };
        call(second, "both");
        call(first, "io");
        call(first, "grow");
        // A second request changes nothing.
        group.measure(Measure::CpuTime);
        let usage = group.usage();
        // Calls between members are not host calls.
        assert_eq!(usage.host_calls, Some(3));
        assert_eq!((usage.bytes_read, usage.bytes_written), (12, 24));
        assert_eq!(usage.memory_bytes_peak(), [2 * PAGE, 2 * PAGE]);
        assert!(usage.running_time > Some(Duration::ZERO));
        assert!(usage.cpu_time > Some(Duration::ZERO));
        let left = |member| group.at(member).fuel().expect("it counts");
        let used = (u64::MAX - left(first)) + (u64::MAX - left(second));
        assert_eq!(usage.fuel, Some(used));
    }
}

#[test]
fn usage_can_be_read_from_several_threads() {
    fn shared<T: Sync>(value: &T) -> &T {
        value
    }
    let region = Region::builder().slots(1).build().expect("a region");
    let module = common::wat("(module (memory 1))");
    let prepared = region.prepare(&module, &Linker::<()>::new());
    let prepared = prepared.expect("it fits").measured(Measure::CpuTime);
    for _ in 0..100 {
        let instance = prepared.try_instantiate(()).expect("the slot is free");
        let instance = shared(&instance);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let usage = instance.usage();
                    assert_eq!(usage.host_calls, Some(0));
                    assert_eq!(usage.running_time, Some(Duration::ZERO));
                    assert_eq!(usage.suspended_time, Some(Duration::ZERO));
                    assert_eq!(usage.cpu_time, Some(Duration::ZERO));
                    assert_eq!((usage.fuel, instance.host_bytes()), (None, 0));
                });
            }
        });
    }
}
