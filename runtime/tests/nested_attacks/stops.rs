//! An embedder kills a guest, or a limit or time slice ends, at every point of a nested call.

use super::common::{
    SLICED_CALLS_MAX,
    retry::with_longer_limits,
    values::{region, shared_memory},
};
use super::{ACT, Data, I, P, by_name, common, func, instance, linker, names, prepare};
use core::future::Future;
use core::task::{Context, Poll, Waker};
use pirn_runtime::{
    CallError, CallState, Caller, HostError, KillSwitch, Linker, Operation, Region, SharedMemory,
    Step, TrapCode, TypedFunc,
};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// A time slice that does not end during a test.
const LONG: Duration = Duration::from_secs(3600);

fn text() -> String {
    format!(
        r#"(module {ACT}
          (import "h" "shared" (memory $shared 1 1 shared))
          (memory $own (export "memory") 16)
          (tag $t (param i32))
          (func $add (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
          (func $run (export "run") (param i32) (result i32) (call $act (local.get 0)))
          (func $inner (export "inner") (param i32) (result i32)
            (i32.add (call $act (local.get 0)) (i32.const 0)))
          (func $traps (export "traps") (param i32) (result i32) unreachable)
          (func $faults (export "faults") (param i32) (result i32)
            (i32.load $own (i32.const -4)))
          (func $throws (export "throws") (param i32) (result i32) (throw $t (local.get 0)))
          (func $overflows (export "overflows") (param i32) (result i32)
            (i32.add (call $overflows (local.get 0)) (i32.const 1)))
          ;; Calls the host, loops until the host writes to the memory, and calls the host again.
          (func $spins (export "spins") (param i32) (result i32)
            (local $x i64) (local $y f64) (local.set $x (i64.const 5))
            (local.set $y (f64.const 0.5))
            (drop (call $act (i32.const -1)))
            (loop $l
              (local.set $x (i64.mul (local.get $x) (i64.const 3)))
              (local.set $y (f64.add (local.get $y) (f64.const 1)))
              (br_if $l (i32.eqz (i32.load8_u $own (i32.const 0)))))
            (drop (call $act (local.get 0)))
            (i32.or (i64.eqz (local.get $x)) (f64.lt (local.get $y) (f64.const 1))))
          ;; Tells other threads that it runs, and loops for ever.
          (func $forever (export "forever") (param i32) (result i32)
            (i32.atomic.store $shared (i32.const 0) (i32.const 1))
            (loop $l (br $l)) (i32.const 0))
          (func $fills (export "fills") (param $n i32) (result i32)
            (loop $l
              (memory.fill $own (i32.const 0) (local.get $n) (i32.const 0x100000))
              (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (i32.load8_u $own (i32.const 0xfffff)))
          (func $waits (export "waits") (param i32) (result i32)
            (memory.atomic.wait32 $shared (i32.const 4) (i32.const 0)
              (i64.extend_i32_s (local.get 0)))))"#
    )
}

fn linker_with(memory: &SharedMemory) -> Linker<Data, i32, i32> {
    let mut linker = linker();
    linker
        .memory("h", "shared", memory)
        .expect("the name is free");
    linker
}

/// Prepares the guest with its shared memory, and returns both.
fn prepare_shared() -> (P, SharedMemory) {
    let memory = shared_memory(1, 1);
    let region = region(2);
    let prepared = region.prepare(&common::wat(&text()), &linker_with(&memory));
    (prepared.expect("the module links"), memory)
}

fn with_act(
    prepared: &P,
    act: impl Fn(Caller<'_, Data>, i32) -> Result<i32, HostError> + Send + Sync + 'static,
) -> I {
    instance(prepared, Data::new(act))
}

/// The function names in the backtrace of a call that was killed, innermost first.
#[allow(
    clippy::needless_pass_by_value,
    reason = "the callers have no other use for the result"
)]
fn killed<R: std::fmt::Debug>(ended: Result<R, CallError>) -> Vec<String> {
    let Err(CallError::Killed(stop)) = &ended else {
        panic!("expected a kill, found {ended:?}");
    };
    names(stop.backtrace())
        .into_iter()
        .map(str::to_owned)
        .collect()
}

fn switch<'a>(caller: &'a Caller<'_, Data>) -> &'a KillSwitch {
    let switch = caller.data().switch.as_ref();
    switch.expect("the kill switch is stored")
}

fn kill(caller: &Caller<'_, Data>) {
    switch(caller).kill().expect("the instance exists");
}

fn preempt(caller: &Caller<'_, Data>) -> bool {
    switch(caller).preempt()
}

/// Writes the byte that `spins` polls.
fn spin_until(instance: &mut I, byte: u8) {
    let memory = instance.exported_memory_mut("memory");
    memory
        .expect("the export exists")
        .write(0, &[byte])
        .expect("the memory has a page");
}

/// A kill happens before a nested call, in its host function, and after it. Each backtrace must
/// name only the guest functions of its own call. The runtime must discard the host function's
/// result.
#[test]
fn a_kill_at_each_point_has_the_frames_of_its_call() {
    let (prepared, _) = prepare_shared();
    let run = func(&prepared, "run");
    // A kill before the nested call: the runtime must not enter the nested guest, and must not
    // resume the outer guest.
    let mut before = with_act(&prepared, |mut caller, n| {
        kill(&caller);
        assert_eq!(killed(by_name(&mut caller, "inner", n)), [""; 0]);
        assert!(caller.is_stopped());
        Ok(1)
    });
    assert_eq!(killed(before.call(&run, 1)), ["run"]);
    drop(before);
    let mut inside = with_act(&prepared, |mut caller, n| {
        if n == 9 {
            kill(&caller);
            return Ok(n);
        }
        assert_eq!(killed(by_name(&mut caller, "inner", 9)), ["inner"]);
        assert_eq!(killed(by_name(&mut caller, "add", 9)), [""; 0]);
        Ok(1)
    });
    assert_eq!(killed(inside.call(&run, 1)), ["run"]);
    drop(inside);
    let mut after = with_act(&prepared, |mut caller, n| {
        assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
        kill(&caller);
        Ok(1)
    });
    assert_eq!(killed(after.call(&run, 1)), ["run"]);
    assert_eq!(killed(after.call(&run, 1)), [""; 0]);
    drop(after);
    // Another thread kills the guest while the nested call runs.
    let (prepared, memory) = prepare_shared();
    let flag = memory.clone();
    let mut beside = with_act(&prepared, move |mut caller, n| {
        let (switch, flag) = (caller.data().switch.clone(), flag.clone());
        let killer = thread::spawn(move || {
            let started = flag.atomic_u32(0).expect("the memory has a page");
            while started.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            switch
                .expect("the kill switch is stored")
                .kill()
                .expect("the instance exists");
        });
        let error = by_name(&mut caller, "forever", n);
        killer.join().expect("the thread does not panic");
        assert_eq!(killed(error), ["forever"]);
        Ok(1)
    });
    assert_eq!(killed(beside.call(&func(&prepared, "run"), 1)), ["run"]);
}

/// A signal preempts a guest, and the runtime saves its registers. The embedder resumes the call,
/// which ends in or after a nested call. The runtime must not use the saved registers a second
/// time.
#[test]
fn registers_that_were_taken_before_are_not_those_of_a_nested_call() {
    let (prepared, memory) = prepare_shared();
    for how in [
        "killed",
        "late",
        "traps",
        "faults",
        "overflows",
        "throws",
        "preempted",
        "returns",
    ] {
        // The deadline may pass before the nested call of `forever` begins.
        with_longer_limits(Duration::from_millis(200), |limit| {
            let flag = memory.atomic_u32(0).expect("the memory has a page");
            flag.store(0, Ordering::SeqCst);
            preempt_before_nested_call(&prepared, &memory, how, limit);
            (how != "late" || runs_forever(&memory)).then_some(())
        });
    }
}

/// Whether the guest's function `forever` has begun.
fn runs_forever(memory: &SharedMemory) -> bool {
    let started = memory.atomic_u32(0).expect("the memory has a page");
    started.load(Ordering::SeqCst) == 1
}

/// Preempts a guest in a loop, and resumes it. Then it makes a nested call, which ends in the way
/// that `how` names. The deadline `limit` is for `late` alone.
fn preempt_before_nested_call(
    prepared: &P,
    memory: &SharedMemory,
    how: &'static str,
    limit: Duration,
) {
    let spins = func(prepared, "spins");
    let memory = memory.clone();
    let mut instance = with_act(prepared, move |mut caller, n| {
        if n == -1 {
            // The guest has not been preempted yet.
            caller.data_mut().notes.push(n);
            return Ok(by_name(&mut caller, "add", 1)?);
        }
        if n == 9 {
            // This is the host function of the nested call.
            kill(&caller);
            return Ok(0);
        }
        match how {
            "killed" => assert_eq!(killed(by_name(&mut caller, "inner", 9)), ["inner"]),
            "late" => {
                let error =
                    by_name(&mut caller, "forever", n).expect_err("the deadline ends the call");
                let CallError::Deadline(stop) = &error else {
                    panic!("expected a deadline, found {error:?}");
                };
                let frames = names(stop.backtrace());
                // Without frames, the deadline passed before the guest ran.
                let is_early = frames.is_empty() && !runs_forever(&memory);
                assert!(is_early || frames == ["forever"], "{frames:?}");
            }
            "traps" | "faults" | "overflows" => {
                let error = by_name(&mut caller, how, n).expect_err("the guest traps");
                let CallError::Trap(trap) = &error else {
                    panic!("expected a trap, found {error:?}");
                };
                assert_eq!(names(trap.backtrace())[0], how);
            }
            "throws" => {
                let error = by_name(&mut caller, "throws", n).expect_err("the guest throws");
                let CallError::Exception(exception) = &error else {
                    panic!("expected an exception, found {error:?}");
                };
                assert_eq!(names(exception.backtrace()), ["throws"]);
            }
            "preempted" => {
                assert!(preempt(&caller));
                assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
            }
            _ => assert_eq!(by_name(&mut caller, "add", n)?, n + 1),
        }
        Ok(0)
    });
    spin_until(&mut instance, 0);
    let slice = Duration::from_millis(1);
    let mut step = instance.timeslice(slice).start(&spins, 5);
    // On a busy machine, some slices end before the loop begins. Two slices end in the loop.
    let mut in_loop = 0;
    while in_loop < 2 {
        assert_eq!(step.expect("the guest spins"), Step::Preempted);
        in_loop += instance.data().notes.len();
        step = instance.timeslice(slice).resume(&spins);
    }
    assert_eq!(step.expect("the guest spins"), Step::Preempted);
    spin_until(&mut instance, 1);
    let limited = match how {
        "late" => instance.deadline(limit).timeslice(LONG),
        _ => instance.timeslice(LONG),
    };
    let step = limited.resume(&spins);
    match (how, step) {
        ("killed", step) => assert_eq!(killed(step), ["spins"]),
        ("late", Err(CallError::Deadline(stop))) => {
            assert_eq!(names(stop.backtrace()), ["spins"]);
        }
        ("preempted", step) => {
            assert_eq!(step.expect("the guest runs"), Step::Preempted);
            let step = instance.timeslice(LONG).resume(&spins);
            assert_eq!(step.expect("the guest runs"), Step::Returned(0));
        }
        (_, step) => assert_eq!(step.expect("the guest runs"), Step::Returned(0), "{how}"),
    }
}

/// A host function makes nested calls, and the guest is preempted when that function returns. A
/// kill must then give the backtrace of this exit, not of an earlier preemption.
#[test]
fn a_guest_that_is_suspended_after_a_nested_call_is_there() {
    let (prepared, _) = prepare_shared();
    let spins = func(&prepared, "spins");
    let mut instance = with_act(&prepared, |mut caller, n| {
        if n == 5 {
            assert!(preempt(&caller));
            assert_eq!(by_name(&mut caller, "inner", 6)?, 6);
        }
        Ok(n)
    });
    spin_until(&mut instance, 0);
    let step = instance
        .timeslice(Duration::from_millis(1))
        .start(&spins, 5);
    assert_eq!(step.expect("the guest spins"), Step::Preempted);
    spin_until(&mut instance, 1);
    let step = instance.timeslice(LONG).resume(&spins);
    assert_eq!(step.expect("the guest runs"), Step::Preempted);
    instance.kill_switch().kill().expect("the instance exists");
    assert_eq!(killed(instance.timeslice(LONG).resume(&spins)), ["spins"]);
}

/// `preempt` returns true before, in and after a nested call, if the outer call has time slices.
/// Each slice must end once.
#[test]
fn a_slice_that_is_held_back_ends_once() {
    let (prepared, _) = prepare_shared();
    let run = func(&prepared, "run");
    let mut instance = with_act(&prepared, |mut caller, n| {
        match n {
            // Ends the slice twice in the nested call, makes a further nested call, and ends the
            // slice again.
            9 => {
                assert!(preempt(&caller) && preempt(&caller) && !caller.is_stopped());
                assert_eq!(by_name(&mut caller, "add", 1)?, 2);
                assert!(preempt(&caller));
            }
            1 => assert_eq!(by_name(&mut caller, "inner", 9)?, 9),
            2 => {
                assert!(preempt(&caller));
                assert_eq!(by_name(&mut caller, "inner", 9)?, 9);
                assert!(preempt(&caller));
            }
            _ => {
                assert_eq!(by_name(&mut caller, "add", 1)?, 2);
                assert!(preempt(&caller) && preempt(&caller));
            }
        }
        Ok(n)
    });
    for n in [1, 2, 3, 1, 2, 3] {
        let step = instance.timeslice(LONG).start(&run, n);
        assert_eq!(step.expect("the guest runs"), Step::Preempted, "{n}");
        let step = instance.timeslice(LONG).resume(&run);
        assert_eq!(step.expect("the guest runs"), Step::Returned(n));
    }
    // A call without time slices cannot be preempted, whether it is nested or not.
    instance.data_mut().act = Data::new(|mut caller, n| {
        assert!(!preempt(&caller));
        if n == 1 {
            assert_eq!(by_name(&mut caller, "inner", 9)?, 9);
            assert!(!preempt(&caller));
        }
        Ok(n)
    })
    .act;
    assert_eq!(instance.call(&run, 1).expect("the call returns"), 1);
    assert_eq!(
        instance.start(&run, 1).expect("the guest runs"),
        Step::Returned(1)
    );
}

/// A nested call defers the end of the time slice. However the nested call ends, a later end of a
/// slice must take effect at once.
#[test]
fn a_slice_is_released_however_a_nested_call_ends() {
    let region = Region::builder().slots(2).nested_calls_max(2).build();
    let region = region.expect("the region is built");
    let memory = shared_memory(1, 1);
    let prepared = region.prepare(&common::wat(&text()), &linker_with(&memory));
    let prepared = prepared.expect("the module links");
    let (run, spins) = (func(&prepared, "run"), func(&prepared, "spins"));
    let ends = [
        "add",
        "traps",
        "faults",
        "throws",
        "overflows",
        "panics",
        "deep",
        "fails",
        "none",
    ];
    for ends in ends {
        let mut instance = with_act(&prepared, move |mut caller, n| {
            match n {
                -1 => return Ok(0),
                9 if ends == "fails" => return Err(HostError::message("the host function fails")),
                9 => panic!("in the inner host function"),
                n if n > 1 && n < 5 => return Ok(by_name(&mut caller, "run", n - 1)?),
                _ => {}
            }
            let ended = match ends {
                "panics" | "fails" => by_name(&mut caller, "inner", 9),
                // Exceeds the limit of nested calls by one.
                "deep" => by_name(&mut caller, "run", 4),
                "none" => by_name(&mut caller, "no such function", 1),
                name => by_name(&mut caller, name, 1),
            };
            assert_eq!(ended.is_ok(), ends == "add", "{ended:?}");
            Ok(0)
        });
        for _ in 0..2 {
            // No end of the slice is pending, so the guest returns.
            let step = instance.timeslice(LONG).start(&run, 1);
            assert_eq!(step.expect("the guest runs"), Step::Returned(0), "{ends}");
            // The timer ends the slice of a guest that loops after a nested call.
            spin_until(&mut instance, 0);
            let slice = Duration::from_millis(1);
            let step = instance.timeslice(slice).start(&spins, 5);
            assert_eq!(step.expect("the guest spins"), Step::Preempted, "{ends}");
            instance.cancel();
        }
    }
}

/// An embedder kills a guest while the end of its time slice is deferred. The guest must be killed,
/// not preempted.
#[test]
fn a_kill_is_stronger_than_a_slice_that_is_held_back() {
    let (prepared, _) = prepare_shared();
    let run = func(&prepared, "run");
    for first in [true, false] {
        let mut instance = with_act(&prepared, move |mut caller, n| {
            if n == 9 {
                if first {
                    kill(&caller);
                }
                assert!(preempt(&caller));
                if !first {
                    kill(&caller);
                }
                return Ok(n);
            }
            assert_eq!(killed(by_name(&mut caller, "inner", 9)), ["inner"]);
            assert!(preempt(&caller));
            Ok(n)
        });
        assert_eq!(killed(instance.timeslice(LONG).start(&run, 1)), ["run"]);
        assert!(!instance.is_suspended());
        assert_eq!(killed(instance.start(&run, 1)), [""; 0]);
    }
}

/// The host function notes this number before it makes a nested call.
const BEGUN: i32 = 0;

/// Starts an endless nested call with a deadline, and with time slices if `sliced`. Returns the
/// first step that ends after the host function began. If a limit passes before that, the function
/// doubles the limits, and resumes or restarts the call.
fn end_of_nested_call(
    instance: &mut I,
    run: &TypedFunc<i32, i32>,
    (n, sliced): (i32, bool),
    limit: Duration,
) -> Result<Step<i32, i32>, CallError> {
    instance.data_mut().notes.clear();
    with_longer_limits(limit, |limit| {
        let suspended = instance.is_suspended();
        let limited = instance.deadline(limit);
        let limited = if sliced {
            limited.timeslice(limit / 20)
        } else {
            limited
        };
        let ended = if suspended {
            limited.resume(run)
        } else {
            limited.start(run, n)
        };
        (instance.data().notes == [BEGUN]).then_some(ended)
    })
}

/// Time slices end during bulk writes of a nested call, and must not suspend the guest. A deadline
/// or CPU budget must end the writes.
#[test]
fn bulk_writes_of_a_nested_call_are_stopped_and_not_suspended() {
    let (prepared, _) = prepare_shared();
    let run = func(&prepared, "run");
    let mut instance = with_act(&prepared, |mut caller, n| {
        caller.data_mut().notes.push(BEGUN);
        let filled = by_name(&mut caller, "fills", n)?;
        caller.data_mut().notes.push(filled);
        Ok(filled)
    });
    let slice = Duration::from_micros(50);
    let mut preempted = 0;
    let mut calls = 0;
    while calls < 20 || (preempted == 0 && calls < SLICED_CALLS_MAX) {
        calls += 1;
        instance.data_mut().notes.clear();
        let mut step = instance.timeslice(slice).start(&run, 20);
        while step.as_ref().is_ok_and(|step| *step == Step::Preempted) {
            // A time slice may also end before the host function begins.
            preempted += usize::from(!instance.data().notes.is_empty());
            step = instance.timeslice(slice).resume(&run);
        }
        assert_eq!(step.expect("the guest runs"), Step::Returned(1));
        assert_eq!(instance.data().notes, [BEGUN, 1]);
    }
    assert!(preempted > 0);
    for limit in [1, 3] {
        let limit = Duration::from_millis(limit);
        let ended = end_of_nested_call(&mut instance, &run, (-1, true), limit);
        assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
        let ended = instance.cpu_budget(limit).call(&run, -1);
        assert!(matches!(ended, Err(CallError::CpuBudget(_))), "{ended:?}");
    }
    assert_eq!(instance.call(&run, 2).expect("the call returns"), 1);
}

/// A guest waits on a shared memory, in a nested call. The wait must end, be stopped, or be
/// refused. The memory must have no waiter left.
#[test]
fn a_wait_of_a_nested_call_ends_or_is_refused() {
    let (prepared, memory) = prepare_shared();
    let run = func(&prepared, "run");
    let mut instance = with_act(&prepared, |mut caller, n| {
        caller.data_mut().notes.push(BEGUN);
        // The guest waits up to a millisecond, or for ever.
        let timeout = if n == 0 { 1_000_000 } else { -1 };
        Ok(by_name(&mut caller, "waits", timeout)?)
    });
    const TIMED_OUT: i32 = 2;
    assert_eq!(instance.call(&run, 0).expect("the call returns"), TIMED_OUT);
    let step = instance.start(&run, 0).expect("the guest runs");
    assert_eq!(step, Step::Returned(TIMED_OUT));
    // The slice ends during the wait. That end is deferred until the nested call returns.
    let (switch, waiting) = (instance.kill_switch(), memory.clone());
    let other = thread::spawn(move || {
        while waiting.waiters(4) == 0 {
            thread::yield_now();
        }
        assert!(switch.preempt());
        while waiting.notify(4, 1).expect("the memory has a page") == 0 {
            thread::yield_now();
        }
    });
    let step = instance.timeslice(LONG).start(&run, 1);
    assert_eq!(step.expect("the guest runs"), Step::Preempted);
    other.join().expect("the thread does not panic");
    let step = instance.timeslice(LONG).resume(&run);
    assert_eq!(step.expect("the guest runs"), Step::Returned(0));
    assert_eq!(memory.waiters(4), 0);
    for sliced in [false, true] {
        let limit = Duration::from_millis(2);
        let ended = end_of_nested_call(&mut instance, &run, (1, sliced), limit);
        assert!(matches!(ended, Err(CallError::Deadline(_))), "{ended:?}");
        assert_eq!(memory.waiters(4), 0);
    }
    // In an async call, the runtime would have to suspend the guest. So it refuses the wait.
    let mut context = Context::from_waker(Waker::noop());
    let mut running = Box::pin(instance.call_async(&run, 1));
    let Poll::Ready(Err(CallError::State(error))) = running.as_mut().poll(&mut context) else {
        panic!("the runtime did not refuse the wait at the first poll");
    };
    let found = (error.operation(), error.state());
    assert_eq!(found, (Operation::Wait, CallState::Nested));
    drop(running);
    assert_eq!(memory.waiters(4), 0);
    // Another thread wakes the guest.
    let waker = memory.clone();
    let other = thread::spawn(move || {
        while waker.notify(4, 1).expect("the memory has a page") == 0 {
            thread::yield_now();
        }
    });
    assert_eq!(
        instance.start(&run, 1).expect("the guest runs"),
        Step::Returned(0)
    );
    other.join().expect("the thread does not panic");
    // A kill wakes the guest, too.
    let (switch, waiting) = (instance.kill_switch(), memory.clone());
    let killer = thread::spawn(move || {
        while waiting.waiters(4) == 0 {
            thread::yield_now();
        }
        switch.kill().expect("the instance exists");
    });
    assert_eq!(killed(instance.timeslice(LONG).start(&run, 1)), ["waits"]);
    killer.join().expect("the thread does not panic");
    assert_eq!(memory.waiters(4), 0);
}

/// An async call with time slices makes nested calls. It is preempted after some of them, and
/// resumed.
#[test]
fn a_future_with_slices_makes_nested_calls() {
    let prepared = prepare(&format!(
        r#"(module {ACT}
          (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
          (func (export "sums") (param $n i32) (result i32) (local $sum i32)
            (loop $l
              (local.set $sum (i32.add (local.get $sum) (call $act (local.get $n))))
              (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#
    ));
    let sums = func(&prepared, "sums");
    let mut instance = instance(
        &prepared,
        Data::new(|mut caller, n| {
            if n % 3 == 0 {
                assert!(preempt(&caller));
            }
            Ok(by_name(&mut caller, "add", n)?)
        }),
    );
    let mut context = Context::from_waker(Waker::noop());
    let mut running = Box::pin(instance.timeslice(LONG).call_async(&sums, 100));
    let mut pending = 0;
    let result = loop {
        match running.as_mut().poll(&mut context) {
            Poll::Ready(result) => break result,
            Poll::Pending => pending += 1,
        }
    };
    assert_eq!(result.expect("the call returns"), 5050 + 100);
    assert_eq!(pending, 33);
}

/// The runtime must count the fuel of a nested call exactly once.
#[test]
fn fuel_is_counted_exactly_through_nested_calls() {
    let text = format!(
        r#"(module {ACT}
          (func (export "burns") (param $n i32) (result i32)
            (loop $l (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (i32.const 0))
          (func (export "run") (param i32) (result i32) (local $x i32)
            (local.set $x (i32.add (local.get 0) (i32.const 1)))
            (local.set $x (i32.mul (call $act (local.get 0)) (local.get $x)))
            (i32.add (local.get $x) (call $act (local.get $x)))))"#
    );
    for level in [
        pirn_compiler::OptLevel::None,
        pirn_compiler::OptLevel::Speed,
    ] {
        let region = region(1);
        let prepared = region.prepare(&common::counting(&text, level), &linker());
        let prepared = prepared.expect("the module links");
        let (run, burns) = (func(&prepared, "run"), func(&prepared, "burns"));
        let mut instance = instance(&prepared, Data::new(|_, _| Ok(3)));
        let used = |instance: &mut I, func, n| {
            instance
                .set_fuel(1_000_000)
                .expect("the module counts fuel");
            instance.call(func, n).expect("the fuel suffices");
            1_000_000 - instance.fuel().expect("the module counts fuel")
        };
        let (alone, nested) = (
            used(&mut instance, &run, 2),
            used(&mut instance, &burns, 77),
        );
        assert!(alone > 5 && nested > 77);
        instance.data_mut().act = Data::new(|mut caller, _| {
            by_name(&mut caller, "burns", 77)?;
            Ok(3)
        })
        .act;
        assert_eq!(used(&mut instance, &run, 2), alone + 2 * nested);
        // The fuel suffices for one and a half nested calls, so the second one traps.
        instance
            .set_fuel(alone + nested + nested / 2)
            .expect("the module counts fuel");
        let ended = instance.call(&run, 2);
        let Err(CallError::Trap(trap)) = ended else {
            panic!("expected a trap, found {ended:?}");
        };
        assert_eq!(trap.code(), TrapCode::OutOfFuel);
        assert_eq!(instance.fuel(), Some(0));
    }
}
