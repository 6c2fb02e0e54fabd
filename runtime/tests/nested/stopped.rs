//! A limit or a time slice ends during a nested call, or the embedder kills the guest. The runtime
//! refuses operations that would suspend a nested call.

use crate::common::{self, SLICED_CALLS_MAX, retry::with_longer_limits, values::region};
use crate::nested::{Act, Data, GUEST, by_name, called, func, instance, linker, prepare, state};
use core::future::Future;
use core::task::{Context, Poll, Waker};
use pirn_compiler::OptLevel;
use pirn_runtime::{
    CallError, CallState, Caller, HostError, KillSwitch, Operation, Step, TrapCode,
};
use std::thread;
use std::time::Duration;

/// Makes a nested call of an endless function, and discards the error that ends the call. Notes a
/// zero before the nested call, and the kind of error after it.
fn endless(mut caller: Caller<'_, Data>, n: i32) -> Result<i32, HostError> {
    caller.data_mut().notes.push(0);
    let error = by_name(&mut caller, "forever", n).expect_err("a limit or a kill ends the call");
    caller.data_mut().notes.push(match error {
        CallError::Killed(_) => 1,
        CallError::Deadline(_) => 2,
        CallError::CpuBudget(_) => 3,
        error => panic!("{error:?}"),
    });
    // The host cannot call a guest that was stopped.
    by_name(&mut caller, "add", n).expect_err("the guest was stopped");
    Ok(0)
}

#[test]
fn limits_end_a_nested_call_and_the_call_around_it() {
    let prepared = prepare();
    let call = func(&prepared, "call");
    let mut instance = instance(&prepared, endless);
    // The deadline also applies to calls that run step by step.
    for how in ["deadline", "budget", "step", "slices"] {
        // Repeat the call until the limit passes after the host function began. A time slice may
        // end before that, too.
        let error = with_longer_limits(Duration::from_millis(5), |limit| {
            instance.data_mut().notes.clear();
            let suspended = instance.is_suspended();
            let limited = match how {
                "budget" => instance.cpu_budget(limit),
                _ => instance.deadline(limit),
            };
            let ended = match how {
                "deadline" | "budget" => limited.call(&call, 0).map(Step::Returned),
                "step" => limited.start(&call, 0),
                _ if suspended => limited.timeslice(limit / 5).resume(&call),
                _ => limited.timeslice(limit / 5).start(&call, 0),
            };
            (!instance.data().notes.is_empty()).then_some(ended)
        });
        let kind = match (how, error) {
            ("budget", Err(CallError::CpuBudget(_))) => 3,
            ("deadline" | "step" | "slices", Err(CallError::Deadline(_))) => 2,
            (_, other) => panic!("{how}: {other:?}"),
        };
        assert_eq!(instance.data().notes, [0, kind], "{how}");
    }
    instance.data_mut().act = |mut caller, n| Ok(by_name(&mut caller, "add", n)?);
    assert_eq!(instance.call(&call, 1).expect("the instance works"), 2);
}

fn switch(caller: &Caller<'_, Data>) -> KillSwitch {
    let switch = caller.data().switch.clone();
    switch.expect("the kill switch is stored")
}

#[test]
fn a_kill_ends_a_nested_call_and_the_call_around_it() {
    let prepared = prepare();
    let call = func(&prepared, "call");
    let mut instance = instance(&prepared, |caller, n| {
        // From now on the guest runs in a nested call, or is about to enter one.
        let switch = switch(&caller);
        let killer = thread::spawn(move || switch.kill());
        let result = endless(caller, n);
        killer
            .join()
            .expect("the thread does not panic")
            .expect("the instance exists");
        result
    });
    let switch = instance.kill_switch();
    instance.data_mut().switch = Some(switch);
    let error = instance.call(&call, 0);
    assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
    assert_eq!(instance.data().notes, [0, 1]);
}

/// An embedder kills a guest while its host function runs. A nested call must not enter the guest.
#[test]
fn a_killed_guest_is_not_entered() {
    let prepared = prepare();
    let mut instance = instance(&prepared, |mut caller, n| {
        switch(&caller).kill().expect("the instance exists");
        let error = by_name(&mut caller, "note", n).expect_err("the guest was killed");
        assert!(matches!(&error, CallError::Killed(stop) if stop.backtrace().is_empty()));
        assert!(caller.data().notes.is_empty());
        Err(error.into())
    });
    let switch = instance.kill_switch();
    instance.data_mut().switch = Some(switch);
    let error = instance.call(&func(&prepared, "call"), 0);
    assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
}

#[test]
fn fuel_is_used_up_by_nested_calls() {
    let mut options = pirn_compiler::Options::default();
    options.fuel = true;
    for level in [OptLevel::None, OptLevel::Speed] {
        options.opt_level = level;
        let region = region(1);
        let module = common::wat_with(GUEST, &options);
        let prepared = region
            .prepare(&module, &linker())
            .expect("the module links");
        let call = func(&prepared, "call");
        let mut instance = instance(&prepared, |mut caller, n| {
            let before = caller.fuel();
            by_name(&mut caller, "add", n)?;
            assert!(caller.fuel() < before);
            let error = by_name(&mut caller, "forever", n).expect_err("the fuel is used up");
            assert!(matches!(&error, CallError::Trap(trap) if trap.code() == TrapCode::OutOfFuel));
            assert_eq!(caller.fuel(), Some(0));
            // The host sets new fuel for the rest of the guest's call.
            caller.set_fuel(100)?;
            Ok(8)
        });
        instance.set_fuel(10_000).expect("the module counts fuel");
        assert_eq!(instance.call(&call, 0).expect("the call returns"), 8);
        assert!(instance.fuel() <= Some(100));
    }
}

/// A time slice ends in a nested call. The runtime must defer that end, and end the step after the
/// nested call.
#[test]
fn a_time_slice_that_ends_in_a_nested_call_takes_effect_after_it() {
    let prepared = prepare();
    let call = func(&prepared, "call");
    let mut instance = instance(&prepared, |mut caller, n| {
        let switch = switch(&caller);
        match n {
            // Inside the nested call.
            5 => assert!(switch.preempt()),
            n => {
                if n == 2 {
                    // Before the nested call.
                    assert!(switch.preempt());
                }
                assert_eq!(by_name(&mut caller, "deep", 100)?, 107);
                assert_eq!(by_name(&mut caller, "add", 1)?, 2);
            }
        }
        Ok(n + 2)
    });
    let switch = instance.kill_switch();
    instance.data_mut().switch = Some(switch);
    for n in [1, 2, 3] {
        let sliced = instance.timeslice(Duration::from_secs(1000));
        assert_eq!(
            sliced.start(&call, n).expect("the guest runs"),
            Step::Preempted
        );
        let sliced = instance.timeslice(Duration::from_secs(1000));
        let step = sliced.resume(&call).expect("the guest runs");
        assert_eq!(step, Step::Returned(n + 2));
    }
    // The timer ends short slices, at arbitrary points.
    let sums = prepared
        .func::<i32, i64>("sums")
        .expect("the export exists");
    instance.data_mut().act = |_, n| Ok(n + 1);
    let wanted = instance.call(&sums, 2000).expect("the call returns");
    instance.data_mut().act = |mut caller, n| Ok(by_name(&mut caller, "add", n)?);
    let slice = Duration::from_micros(20);
    let mut preempted = 0;
    for _ in 0..SLICED_CALLS_MAX {
        let mut step = instance.timeslice(slice).start(&sums, 2000);
        loop {
            match step.expect("the guest runs") {
                Step::Returned(found) => break assert_eq!(found, wanted),
                Step::Preempted => preempted += 1,
                Step::Asked(n) => panic!("{n}"),
            }
            step = instance.timeslice(slice).resume(&sums);
        }
        if preempted > 0 {
            break;
        }
    }
    assert!(preempted > 0);
}

#[test]
fn a_guest_is_not_suspended_in_a_nested_call() {
    let asks: Act = |mut caller, n| {
        let error = by_name(&mut caller, "asks", n).expect_err("the call is nested");
        assert_eq!(state(&error), (Operation::Ask, CallState::Nested));
        assert!(
            error
                .to_string()
                .contains("let the host function return first")
        );
        let error = by_name(&mut caller, "awaits", n).expect_err("the call is nested");
        assert_eq!(state(&error), (Operation::Await, CallState::Nested));
        Ok(6)
    };
    assert_eq!(called("call", 0, asks).expect("the call returns"), 6);
    let prepared = prepare();
    let call = func(&prepared, "call");
    // Calls that run step by step or by a future can be suspended, but not in a nested call.
    let mut instance = instance(&prepared, asks);
    assert_eq!(
        instance.start(&call, 0).expect("the guest runs"),
        Step::Returned(6)
    );
    instance.data_mut().act = |mut caller, n| {
        // The memory does not hold this number, so the wait returns at once.
        assert_eq!(by_name(&mut caller, "waits", 7)?, 1);
        // The memory holds this number, so the guest would wait.
        let error = by_name(&mut caller, "waits", 0).expect_err("the call is nested");
        assert_eq!(state(&error), (Operation::Wait, CallState::Nested));
        caller.data_mut().notes.clear();
        Ok(n)
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut running = Box::pin(instance.call_async(&call, 6));
    let polled = running.as_mut().poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Ok(6))), "{polled:?}");
    drop(running);
    // In a plain call or a step, the guest may block the thread.
    instance.data_mut().act = |mut caller, _| Ok(by_name(&mut caller, "waits", 0)?);
    assert_eq!(instance.call(&call, 0).expect("the call returns"), 2);
    assert_eq!(
        instance.start(&call, 0).expect("the guest runs"),
        Step::Returned(2)
    );
}
