//! Fuel of suspended guests: suspension must not change how much fuel a guest uses.

use crate::common;

use common::counting;
use futures::executor::block_on;
use futures::future::poll_immediate;
use futures::pending;
use pirn_compiler::OptLevel;
use pirn_runtime::{
    CallError, CallState, Caller, FuelError, Instance, Linker, Prepared, Region, Step, TrapCode,
    TypedFunc,
};
use std::time::Duration;

/// Functions that suspend in each iteration, and one that does not. An iteration executes ten
/// operators; one operator follows the loop. `forever` never returns.
const SUSPENDED: &str = r#"(module (import "h" "ask" (func $ask (param i32) (result i32)))
  (import "h" "wait" (func $wait (param i32) (result i32)))
  (global $passes (export "passes") (mut i32) (i32.const 0))
  (func (export "asks") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (call $ask (local.get $n))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "waits") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (call $wait (local.get $n))))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "runs") (param $n i32) (result i32)
    (loop $l
      (global.set $passes (i32.add (global.get $passes) (i32.const 1)))
      (drop (local.get $n))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (global.get $passes))
  (func (export "forever") (param i32) (result i32) (loop $l (br $l)) (i32.const 0)))"#;

/// If an answer to `ask` has a number, it sets the guest's fuel. `wait` charges 3 units of fuel.
fn suspending() -> Prepared<(), i32, Option<u64>> {
    let mut linker = Linker::asking();
    let reply = |mut caller: Caller<'_, ()>, n: i32, fuel: Option<u64>| {
        if let Some(fuel) = fuel {
            caller.set_fuel(fuel).expect("it counts");
        }
        n
    };
    linker
        .func_ask("h", "ask", |_, n: i32| Ok(n), reply)
        .and_then(|linker| {
            linker.func_async("h", "wait", |mut caller: Caller<'_, ()>, n: i32| {
                Box::pin(async move {
                    for _ in 0..3 {
                        pending!();
                        let left = caller.fuel().expect("it counts");
                        caller.set_fuel(left - 1).expect("it counts");
                    }
                    n
                })
            })
        })
        .expect("the names are free");
    let module = counting(SUSPENDED, OptLevel::Speed);
    let region = Region::builder().slots(4).build().expect("a region");
    region.prepare(&module, &linker).expect("it links")
}

type Asks = Instance<(), i32, Option<u64>>;

#[track_caller]
fn out_of_fuel<T: std::fmt::Debug>(result: Result<T, CallError>) {
    match result {
        Err(CallError::Trap(trap)) if trap.code() == TrapCode::OutOfFuel => {}
        other => panic!("expected to be out of fuel, found {other:?}"),
    }
}

#[test]
fn a_question_uses_no_fuel_but_the_answer_may_set_it() {
    let prepared = suspending();
    let asks = prepared.func::<i32, i32>("asks").expect("it is exported");
    let mut guest = prepared.instantiate(()).expect("there is a slot");
    guest.set_fuel(1000).expect("it counts");
    let mut step = guest.start(&asks, 50).expect("it asks");
    for pass in 0..50 {
        assert_eq!(step, Step::Asked(50 - pass));
        assert_eq!(
            guest.fuel(),
            Some(997 - 10 * u64::from(pass.unsigned_abs()))
        );
        step = guest.resume_with(&asks, None).expect("the guest resumes");
    }
    assert_eq!((step, guest.fuel()), (Step::Returned(1275), Some(499)));
    // After the second answer the fuel suffices to end the iteration but not for another.
    assert!(matches!(guest.start(&asks, 9), Ok(Step::Asked(9))));
    let step = guest
        .resume_with(&asks, Some(20))
        .expect("the guest resumes");
    assert_eq!((step, guest.fuel()), (Step::Asked(8), Some(10)));
    out_of_fuel(guest.resume_with(&asks, Some(7)));
    assert_eq!(guest.fuel(), Some(0));
}

#[test]
fn an_async_wait_uses_the_fuel_that_its_future_charges() {
    let prepared = suspending();
    let waits = prepared.func::<i32, i32>("waits").expect("it is exported");
    let mut guest = prepared.instantiate(()).expect("there is a slot");
    guest.set_fuel(10_000).expect("it counts");
    let mut call = guest.call_async(&waits, 50);
    let mut polls = 0;
    let sum = loop {
        polls += 1;
        if let Some(sum) = block_on(poll_immediate(&mut call)) {
            break sum;
        }
    };
    assert_eq!((sum.expect("it returns"), polls), (1275, 151));
    drop(call);
    assert_eq!(guest.fuel(), Some(10_000 - 501 - 150));
}

/// Runs a guest in time slices; returns the result and the number of preemptions.
fn sliced(guest: &mut Asks, runs: &TypedFunc<i32, i32>, n: i32) -> (Result<i32, CallError>, u32) {
    let slice = Duration::from_micros(20);
    let (mut step, mut preempted) = (guest.timeslice(slice).start(runs, n), 0);
    loop {
        match step {
            Ok(Step::Returned(passes)) => return (Ok(passes), preempted),
            Ok(Step::Preempted) => preempted += 1,
            Ok(Step::Asked(question)) => panic!("{question}"),
            Err(error) => return (Err(error), preempted),
        }
        step = guest.timeslice(slice).resume(runs);
    }
}

#[test]
fn preemption_does_not_change_the_fuel_or_the_end_of_a_call() {
    let prepared = suspending();
    let runs = prepared.func::<i32, i32>("runs").expect("it is exported");
    let passes = 1_000_000;
    let (whole, half) = (10_000_006, 5_000_000);
    for (fuel, ends, left) in [(whole, true, 5), (half, false, 0)] {
        let fresh = || {
            let mut guest = prepared.instantiate(()).expect("there is a slot");
            guest.set_fuel(fuel).expect("it counts");
            guest
        };
        let mut alone = fresh();
        assert_eq!(alone.call(&runs, passes).is_ok(), ends);
        let mut preempted = 0;
        while preempted < 100 {
            let mut guest = fresh();
            let (result, times) = sliced(&mut guest, &runs, passes);
            preempted += times;
            if ends {
                assert_eq!(result.expect("there is enough"), passes);
            } else {
                out_of_fuel(result);
            }
            assert_eq!(guest.global("passes"), alone.global("passes"));
            assert_eq!((guest.fuel(), alone.fuel()), (Some(left), Some(left)));
        }
    }
}

#[test]
fn the_fuel_of_a_suspended_guest_is_not_changed() {
    let prepared = suspending();
    let func = |name| prepared.func::<i32, i32>(name).expect("it is exported");
    let mut guest = prepared.instantiate(()).expect("there is a slot");
    let refused = |guest: &mut Asks, state, text: &str| {
        let before = guest.fuel();
        let error = guest.set_fuel(5).expect_err("it is suspended");
        assert_eq!(error.to_string(), format!("change of fuel of {text}"));
        assert!(matches!(error, FuelError::State(error) if error.state() == state));
        assert_eq!(guest.fuel(), before);
        guest.cancel();
        assert_eq!(guest.set_fuel(u64::MAX), Ok(()));
    };
    assert!(matches!(guest.start(&func("asks"), 1), Ok(Step::Asked(1))));
    let waits = "an instance that waits for an answer; resume it, or cancel it";
    refused(&mut guest, CallState::Asked, waits);
    let slice = guest.timeslice(Duration::from_micros(20));
    let step = slice.start(&func("forever"), 1).expect("it does not end");
    assert_eq!(step, Step::Preempted);
    let preempted = "an instance that was preempted; resume it, or cancel it";
    refused(&mut guest, CallState::Preempted, preempted);
    let mut call = guest.call_async(&func("waits"), 1);
    assert!(block_on(poll_immediate(&mut call)).is_none());
    std::mem::forget(call);
    let forgotten = "an instance whose async call was forgotten; cancel it";
    refused(&mut guest, CallState::Forgotten, forgotten);
}
