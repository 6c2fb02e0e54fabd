//! How loops of tail calls end: by traps, kills and limits, suspended and resumed, and in groups.

use super::common::SLICED_CALLS_MAX;
use super::{
    LOOPS, both, common, instance, levels, loops, number, prepare, region, tables, trapped,
};
use crate::common::values::Lend as _;
use pirn_runtime::{CallError, Group, Linker, Region, Step, TrapCode, Value};
use std::thread;
use std::time::Duration;

/// A trap after a tail call, and the callers of the function that made the tail call.
const TRAPS: &str = r#"(module
  (memory 1)
  (table $t 4 funcref) (elem (i32.const 1) func $divides $other)
  (type $i (func (param i32) (result i32)))
  (func $divides (type $i) (i32.div_u (i32.const 1) (local.get 0)))
  (func $loads (param i32 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64) (result i32)
    (i32.load (i32.add (local.get 0) (i32.wrap_i64 (local.get 15)))))
  (func $other)
  (func $tail (param i32) (result i32) (return_call $divides (local.get 0)))
  (func $tail_widely (param i32) (result i32)
    (return_call $loads (i32.const -1) (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1)
      (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1) (i64.const 1)
      (i64.const 1) (i64.const -9)))
  (func $by_table (param i32) (result i32)
    (return_call_indirect $t (type $i) (i32.const 0) (local.get 0)))
  (func (export "divides") (param i32) (result i32) (i32.add (call $tail (local.get 0)) (i32.const 1)))
  (func (export "loads") (param i32) (result i32) (i32.add (call $tail_widely (local.get 0)) (i32.const 1)))
  (func (export "by_table") (param i32) (result i32) (i32.add (call $by_table (local.get 0)) (i32.const 1)))
  (func (export "at_once") (param i32) (result i32) (return_call $divides (local.get 0)))
  EXPORT)"#;

#[test]
fn a_trap_after_tail_calls_has_the_remaining_frames() {
    for text in tables(TRAPS) {
        for options in levels() {
            let mut guest = instance(&text, &options);
            let mut frames = |name: &str, n, code| {
                let frames = trapped(guest.call_values(name, &[Value::I32(n)]), code);
                let frames = frames.into_iter().map(|name| name.expect("it has a name"));
                frames.collect::<Vec<_>>()
            };
            let divides = frames("divides", 0, TrapCode::IntegerDivideByZero);
            assert_eq!(divides, ["divides", "divides"].map(str::to_owned));
            let loads = frames("loads", 0, TrapCode::MemoryOutOfBounds);
            assert_eq!(loads, ["loads", "loads"].map(str::to_owned));
            let at_once = frames("at_once", 0, TrapCode::IntegerDivideByZero);
            assert_eq!(at_once, ["divides".to_owned()]);
            for (at, code, innermost) in [
                (0, TrapCode::UninitializedElement, "by_table"),
                (1, TrapCode::IntegerDivideByZero, "divides"),
                (2, TrapCode::IndirectCallTypeMismatch, "by_table"),
                (3, TrapCode::UninitializedElement, "by_table"),
                (4, TrapCode::UndefinedElement, "by_table"),
                (-1, TrapCode::UndefinedElement, "by_table"),
            ] {
                let found = frames("by_table", at, code);
                assert_eq!(found, [innermost, "by_table"].map(str::to_owned), "{at}");
            }
        }
    }
}

/// A function tail-calls another with far more parameters, which calls the first function again by
/// an ordinary call.
#[test]
fn a_stack_overflow_by_tail_calls_is_a_trap() {
    let params = "i64 ".repeat(900);
    let given = "(i64.const 1)".repeat(900);
    let text = format!(
        r#"(module
          (func $few (export "few") (param i32) (result i32) (return_call $many {given} (local.get 0)))
          (func $many (param {params} i32) (result i32)
            (if (i64.ne (local.get 899) (i64.const 1)) (then (unreachable)))
            (if (result i32) (local.get 900)
              (then (i32.add (call $few (i32.sub (local.get 900) (i32.const 1))) (i32.const 1)))
              (else (i32.const 0)))))"#
    );
    for options in levels() {
        let mut guest = instance(&text, &options);
        for n in [0, 1, 5, 20] {
            assert_eq!(number(guest.call_values("few", &[Value::I32(n)])), n);
        }
        for n in (200..240).chain([100_000, -1]) {
            trapped(
                guest.call_values("few", &[Value::I32(n)]),
                TrapCode::StackOverflow,
            );
        }
        assert_eq!(number(guest.call_values("few", &[Value::I32(20)])), 20);
    }
}

#[test]
fn loops_of_tail_calls_are_stopped() {
    for text in tables(LOOPS) {
        let prepared = prepare(&common::wat(&both(&text)[0]));
        for (name, _) in loops() {
            for _ in 0..10 {
                let mut instance = prepared.try_instantiate(()).expect("a slot is free");
                let func = prepared.func::<i32, i32>(name).expect("it is exported");
                let switch = instance.kill_switch();
                // 2^32 calls, again and again.
                let running = thread::spawn(move || {
                    loop {
                        if let Err(error) = instance.call(&func, -1) {
                            return error;
                        }
                    }
                });
                while !switch.is_running() {
                    thread::yield_now();
                }
                switch.kill().expect("it lives");
                let error = running.join().expect("no panic");
                assert!(matches!(error, CallError::Killed(_)), "{name}: {error}");
            }
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            let func = prepared.func::<i32, i32>(name).expect("it is exported");
            let limited = instance.deadline(Duration::from_millis(3)).call(&func, -1);
            assert!(
                matches!(limited, Err(CallError::Deadline(_))),
                "{name}: {limited:?}"
            );
        }
    }
}

#[test]
fn loops_of_tail_calls_are_suspended_and_resumed() {
    let text = both(LOOPS)[0].replace("EXPORT", "");
    for options in levels() {
        let prepared = prepare(&common::wat_with(&text, &options));
        let mut preempted = 0;
        // Repeat the loops until enough time slices end.
        for (calls, (name, expected)) in loops().into_iter().cycle().enumerate() {
            if calls >= SLICED_CALLS_MAX || calls >= loops().len() && preempted > 5 {
                break;
            }
            let func = prepared.func::<i32, i32>(name).expect("it is exported");
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            let slice = Duration::from_micros(50);
            let n = 3_000_001;
            let mut step = instance.timeslice(slice).start(&func, n);
            let result = loop {
                match step.expect("the guest resumes") {
                    Step::Returned(result) => break result,
                    Step::Preempted => preempted += 1,
                    Step::Asked(none) => match none {},
                }
                step = instance.timeslice(slice).resume(&func);
            };
            assert_eq!(result, expected(n), "{name}, preempted {preempted} times");
        }
        assert!(preempted > 5, "{preempted}");
    }
}

/// An instance that calls the next instance's function by import and by table, and counts in its
/// own state.
const MEMBER: &str = r#"(module
  (import "other" "step" (func $step (param i32) (result i32)))
  (import "other" "table" (table $t 2 funcref))
  (global $n (export "n") (mut i32) (i32.const 0))
  (elem (i32.const 1) func $back)
  (type $i (func (param i32) (result i32)))
  (func $back (type $i)
    (global.set $n (i32.add (global.get $n) (i32.const 1)))
    (if (result i32) (local.get 0)
      (then (RETURN_call $step (i32.sub (local.get 0) (i32.const 1))))
      (else (i32.const 70))))
  (func (export "begin") (param i32) (result i32) (local $v v128)
    (local.set $v (i32x4.splat (i32.const 5)))
    (i32.add (call $back (local.get 0)) (i32x4.extract_lane 1 (local.get $v)))))"#;

const OWNER: &str = r#"(module
  (table $t (export "table") 2 funcref)
  (memory 1)
  (global $n (export "n") (mut i32) (i32.const 0))
  (type $i (func (param i32) (result i32)))
  (func $step (export "step") (type $i)
    (global.set $n (i32.add (global.get $n) (i32.const 1)))
    (if (result i32) (local.get 0)
      (then (RETURN_call_indirect $t (type $i) (i32.sub (local.get 0) (i32.const 1)) (i32.const 1)))
      (else (i32.const 80)))))"#;

#[test]
fn instances_of_a_group_tail_call_each_other() {
    let count = |n| Some(Value::I32(n));
    for mut options in levels() {
        for fuel in [false, true] {
            options.fuel = fuel;
            let mut used = vec![];
            for (tail, [owner, member]) in [true, false].into_iter().zip(
                both(OWNER)
                    .into_iter()
                    .zip(both(MEMBER))
                    .map(|(owner, member)| [owner, member]),
            ) {
                let mut group = Group::new(&region(), ());
                let linker = Linker::new();
                let owner = common::wat_with(&owner, &options);
                let owner = group.instantiate(&owner, &linker).expect("it starts");
                group.name("other", owner);
                let member = common::wat_with(&member, &options);
                let member = group.instantiate(&member, &linker).expect("it links");
                for (n, last) in [(0, 70), (1, 80), (2, 70), (101, 80)] {
                    let found = number(group.lend(member).call_values("begin", &[Value::I32(n)]));
                    assert_eq!(found, last + 5, "{n}");
                }
                assert_eq!(group.at(member).global("n"), count(1 + 1 + 2 + 51));
                assert_eq!(group.at(owner).global("n"), count(1 + 1 + 51));
                used.push([owner, member].map(|id| group.at(id).fuel()));
                let many = [Value::I32(1_000_001)];
                let result = group.lend(member).call_values("begin", &many);
                if tail {
                    assert_eq!(number(result), 85);
                    if fuel {
                        // Each member's own fuel can end the loop.
                        for out in [owner, member] {
                            group.lend(owner).set_fuel(10_000).expect("it counts");
                            group.lend(member).set_fuel(10_000).expect("it counts");
                            group.lend(out).set_fuel(1000).expect("it counts");
                            trapped(
                                group.lend(member).call_values("begin", &many),
                                TrapCode::OutOfFuel,
                            );
                            assert_eq!(group.at(out).fuel(), Some(0));
                        }
                    }
                    let switch = group.kill_switch();
                    let killer = thread::spawn(move || {
                        while !switch.is_running() {
                            thread::yield_now();
                        }
                        switch.kill()
                    });
                    if fuel {
                        group.lend(owner).set_fuel(u64::MAX).expect("it counts");
                        group.lend(member).set_fuel(u64::MAX).expect("it counts");
                    }
                    let ended = loop {
                        if let Err(error) =
                            group.lend(member).call_values("begin", &[Value::I32(-1)])
                        {
                            break error;
                        }
                    };
                    assert!(matches!(ended, CallError::Killed(_)), "{ended}");
                    killer.join().expect("no panic").expect("it lived");
                } else {
                    trapped(result, TrapCode::StackOverflow);
                }
            }
            assert_eq!(used[0], used[1], "fuel by tail calls and by calls");
        }
    }
}

/// The smallest stack suffices for any number of tail calls.
#[test]
fn the_smallest_stack_suffices_for_tail_calls() {
    let text = both(LOOPS)[0].replace("EXPORT", "");
    let region = Region::builder().slots(1).stack_bytes(64 << 10);
    let region = region.build().expect("a region");
    let prepared = region.prepare(&common::wat(&text), &Linker::new());
    let prepared = prepared.expect("it fits");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    for (name, expected) in loops() {
        let found = instance.call_values(name, &[Value::I32(100_000)]);
        assert_eq!(number(found), expected(100_000), "{name}");
    }
}
