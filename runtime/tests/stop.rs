//! Other threads and deadlines stop guests, in every state of a guest.

use crate::common;
use crate::common::values::Lend as _;

use common::campaign::share;
use common::random::Random;
use common::retry::with_longer_limits;
use pirn_runtime::{
    CallError, Caller, Instance, KillError, KillOutcome, Linker, Prepared, Region, TrapCode,
    TypedFunc,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Loops of every kind, some of which never end.
const LOOPS: &str = r#"(module $loops
  (import "h" "enter" (func $enter))
  (import "h" "quick" (func $quick (param i32) (result i32)))
  (memory (export "memory") 1 2)
  (table 2 funcref)
  (elem (i32.const 0) $leaf $tail_by_table)
  (type $leaf (func (param i32) (result i32)))
  (global $n (export "n") (mut i32) (i32.const 0))
  (func $leaf (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
  (func $forever (export "forever") (loop $l (br $l)))
  (func (export "counts")
    (loop $l (global.set $n (i32.add (global.get $n) (i32.const 1))) (br $l)))
  (func (export "calls") (loop $l (drop (call $leaf (i32.const 1))) (br $l)))
  (func (export "calls_indirectly")
    (loop $l (drop (call_indirect (type $leaf) (i32.const 1) (i32.const 0))) (br $l)))
  (func $tail (export "tail_calls") (return_call $tail))
  (func $tail_by_table (export "tail_calls_indirectly") (return_call_indirect (i32.const 1)))
  (func (export "calls_the_host") (loop $l (drop (call $quick (i32.const 1))) (br $l)))
  (func (export "asks_the_runtime")
    (loop $l (drop (memory.grow (i32.const 0))) (memory.fill (i32.const 0) (i32.const 7) (i32.const 65536)) (br $l)))
  (func (export "touches_pages") (local $at i32)
    (loop $l
      (i32.store (i32.and (local.get $at) (i32.const 0xfffc)) (local.get $at))
      (local.set $at (i32.add (local.get $at) (i32.const 4))) (br $l)))
  (func $deep (param i32)
    (if (i32.eqz (local.get 0)) (then (call $forever)))
    (call $deep (i32.sub (local.get 0) (i32.const 1))))
  (func (export "deep") (call $deep (i32.const 100)))
  (func (export "enters") (call $enter))
  (func (export "enters_again") (loop $l (call $enter) (br $l)))
  (func (export "traps") unreachable)
  (func (export "sum") (param $n i32) (result i32) (local $sum i32)
    (loop $l
      (local.set $sum (i32.add (local.get $sum) (local.get $n)))
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))"#;

/// The functions of [`LOOPS`] that never end.
const ENDLESS: [&str; 9] = [
    "forever",
    "counts",
    "calls",
    "calls_indirectly",
    "tail_calls",
    "tail_calls_indirectly",
    "calls_the_host",
    "asks_the_runtime",
    "touches_pages",
];

/// The code that the host function `enter` runs.
type Enter = Box<dyn FnMut() + Send>;

fn prepare(slots: u32) -> Prepared<Enter> {
    let mut linker = Linker::<Enter>::new();
    linker
        .func("h", "enter", |mut caller: Caller<'_, Enter>| {
            caller.data_mut()();
        })
        .and_then(|linker| linker.func("h", "quick", |n: i32| n))
        .expect("the names are free");
    let region = Region::builder().slots(slots).build().expect("a region");
    region
        .prepare(&common::wat(LOOPS), &linker)
        .expect("it is linked")
}

fn instance(prepared: &Prepared<Enter>) -> Instance<Enter> {
    prepared
        .try_instantiate(Box::new(|| {}))
        .expect("a slot is free")
}

fn func(prepared: &Prepared<Enter>, name: &str) -> TypedFunc<(), ()> {
    prepared.func(name).expect("it is exported")
}

fn sum(prepared: &Prepared<Enter>, instance: &mut Instance<Enter>) -> Result<i32, CallError> {
    let sum = prepared.func::<i32, i32>("sum").expect("it is exported");
    instance.call(&sum, 100)
}

/// A host function that reports its entry and then waits for permission to return.
fn blocking_enter() -> (Enter, Receiver<()>, Sender<()>) {
    let (entered, was_entered) = mpsc::channel();
    let (permit, may_return) = mpsc::channel::<()>();
    let enter = move || {
        entered.send(()).expect("the receiver exists");
        may_return.recv().expect("the sender exists");
    };
    (Box::new(enter), was_entered, permit)
}

#[test]
fn an_idle_instance_can_be_killed() {
    let prepared = prepare(1);
    let mut idle = instance(&prepared);
    let switch = idle.kill_switch();
    assert_eq!(switch.kill(), Ok(KillOutcome::Idle));
    for _ in 0..2 {
        let error = sum(&prepared, &mut idle).expect_err("it was killed");
        assert!(matches!(&error, CallError::Killed(stop) if stop.backtrace().is_empty()));
        assert_eq!(error.to_string(), "guest was killed");
    }
    assert_eq!(switch.kill(), Err(KillError::Killed));
    assert_eq!(switch.clone().kill(), Err(KillError::Killed));
    drop(idle);
    assert_eq!(switch.kill(), Err(KillError::Gone));
    // The switch must not affect the next instance in the slot.
    let mut next = instance(&prepared);
    let _ = next.kill_switch();
    assert_eq!(switch.kill(), Err(KillError::Gone));
    assert_eq!(sum(&prepared, &mut next).expect("it lives"), 5050);
}

#[test]
fn an_instance_can_be_killed_after_a_call() {
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    assert_eq!(sum(&prepared, &mut instance).expect("it lives"), 5050);
    assert_eq!(switch.kill(), Ok(KillOutcome::Idle));
    sum(&prepared, &mut instance).expect_err("it was killed");
}

/// Kills an instance while it runs; returns the error of its call.
fn killed_while_running(prepared: &Prepared<Enter>, name: &str) -> CallError {
    let mut instance = instance(prepared);
    let (func, switch) = (func(prepared, name), instance.kill_switch());
    let running = thread::spawn(move || instance.call(&func, ()).expect_err("it does not end"));
    // Wait until the call runs: a kill of an idle instance is another case.
    while !switch.is_running() {
        thread::yield_now();
    }
    let met = switch.kill().expect("it lives");
    assert!(
        matches!(met, KillOutcome::Guest | KillOutcome::Host),
        "{met:?}"
    );
    running.join().expect("no panic")
}

#[test]
fn a_guest_is_killed_in_loops_of_every_kind() {
    let prepared = prepare(1);
    for name in ENDLESS {
        for _ in 0..20 {
            let error = killed_while_running(&prepared, name);
            assert!(matches!(error, CallError::Killed(_)), "{name}: {error}");
            // The slot is free and clean.
            let mut next = instance(&prepared);
            assert_eq!(sum(&prepared, &mut next).expect("it lives"), 5050);
            assert_eq!(next.memory().read_u32(0).expect("a page is there"), 0);
        }
    }
}

#[test]
fn a_killed_guest_has_a_backtrace() {
    let prepared = prepare(1);
    let error = killed_while_running(&prepared, "deep");
    let CallError::Killed(stop) = &error else {
        panic!("{error}")
    };
    assert_eq!(stop.limit(), None);
    // The kill may arrive before the guest makes its inner calls. Then the backtrace is shorter.
    let names: Vec<_> = stop.backtrace().iter().map(|f| f.func_name()).collect();
    assert!(names.iter().all(std::option::Option::is_some), "{names:?}");
    assert!(error.to_string().starts_with("guest was killed"), "{error}");
}

#[test]
fn a_guest_is_killed_in_a_host_function() {
    let prepared = prepare(1);
    for name in ["enters", "enters_again"] {
        let (enter, was_entered, permit) = blocking_enter();
        let mut instance = prepared.try_instantiate(enter).expect("a slot is free");
        let (func, switch) = (func(&prepared, name), instance.kill_switch());
        let running = thread::spawn(move || instance.call(&func, ()).expect_err("it is killed"));
        was_entered.recv().expect("it runs");
        assert_eq!(switch.kill(), Ok(KillOutcome::Host));
        permit.send(()).expect("it waits");
        let error = running.join().expect("no panic");
        let CallError::Killed(stop) = &error else {
            panic!("{error}")
        };
        // The backtrace contains the place of the host call.
        let names: Vec<_> = stop
            .backtrace()
            .iter()
            .map(pirn_runtime::Frame::wasm_offset)
            .collect();
        assert_eq!(names.len(), 1, "{names:?}");
    }
}

#[test]
fn a_kill_persists_after_a_panic_or_trap() {
    let prepared = prepare(1);
    let switch = Arc::new(Mutex::new(None::<pirn_runtime::KillSwitch>));
    let own = Arc::clone(&switch);
    let enter = move || {
        let switch = own.lock().expect("no panic");
        let met = switch
            .as_ref()
            .expect("the instance has a kill switch")
            .kill();
        assert_eq!(met, Ok(KillOutcome::Host));
        drop(switch);
        panic!("as asked for");
    };
    let mut instance = prepared
        .try_instantiate(Box::new(enter))
        .expect("a slot is free");
    *switch.lock().expect("no panic") = Some(instance.kill_switch());
    let enters = func(&prepared, "enters");
    let error = instance.call(&enters, ()).expect_err("it panics");
    assert!(matches!(error, CallError::Panic(_)), "{error}");
    let error = instance.call(&enters, ()).expect_err("it was killed");
    assert!(matches!(error, CallError::Killed(_)), "{error}");
}

/// A kill switch must not change how calls return or trap.
#[test]
fn a_kill_switch_does_not_change_returns_and_traps() {
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    let switch = instance.kill_switch();
    for _ in 0..3 {
        assert_eq!(sum(&prepared, &mut instance).expect("it lives"), 5050);
        let error = instance
            .call(&func(&prepared, "traps"), ())
            .expect_err("it traps");
        assert!(
            matches!(&error, CallError::Trap(trap) if trap.code() == TrapCode::Unreachable),
            "{error}"
        );
    }
    assert_eq!(switch.kill(), Ok(KillOutcome::Idle));
}

#[test]
fn a_deadline_ends_any_loop_and_the_instance_stays_usable() {
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    for name in ENDLESS {
        let (wanted, text) = with_longer_limits(Duration::from_millis(50), |limit| {
            let call = instance.deadline(limit).call(&func(&prepared, name), ());
            let error = call.expect_err("it does not end");
            let CallError::Deadline(stop) = &error else {
                panic!("{name}: {error}")
            };
            assert_eq!(stop.limit(), Some(limit));
            // Without frames, the deadline passed before the guest ran.
            let wanted = format!("guest ran past its deadline of {limit:?} in loops!");
            (!stop.backtrace().is_empty()).then(|| (wanted, error.to_string()))
        });
        assert!(text.starts_with(&wanted), "{text}");
        assert_eq!(sum(&prepared, &mut instance).expect("it lives"), 5050);
    }
    let long = Duration::from_secs(3600);
    let sum = prepared.func::<i32, i32>("sum").expect("it is exported");
    assert_eq!(instance.deadline(long).call(&sum, 4).expect("in time"), 10);
    assert_eq!(
        instance
            .deadline(Duration::MAX)
            .cpu_budget(Duration::MAX)
            .call(&sum, 4)
            .expect("in time"),
        10
    );
}

#[test]
fn a_deadline_of_zero_refuses_the_call() {
    let prepared = prepare(1);
    let mut instance = instance(&prepared);
    let counts = func(&prepared, "counts");
    let error = instance
        .deadline(Duration::ZERO)
        .call(&counts, ())
        .expect_err("there is no time");
    assert_eq!(error.to_string(), "guest ran past its deadline of 0ns");
    let error = instance
        .cpu_budget(Duration::ZERO)
        .call(&counts, ())
        .expect_err("there is no time");
    assert_eq!(error.to_string(), "guest used up its processor time of 0ns");
    assert_eq!(instance.global("n"), Some(pirn_runtime::Value::I32(0)));
}

#[test]
fn a_budget_counts_only_processor_time() {
    let prepared = prepare(1);
    // On a slow machine, the call itself may use up a small budget.
    let limit = with_longer_limits(Duration::from_millis(20), |limit| {
        // Sleeps, so that more time passes than the budget allows of processor time.
        let wait = move || thread::sleep(3 * limit);
        let mut instance = prepared
            .try_instantiate(Box::new(wait))
            .expect("a slot is free");
        let enters = func(&prepared, "enters");
        match instance.cpu_budget(limit).call(&enters, ()) {
            Ok(()) => Some(limit),
            Err(CallError::CpuBudget(_)) => None,
            Err(error) => panic!("{error}"),
        }
    });
    let mut instance = instance(&prepared);
    for name in ENDLESS {
        let error = instance
            .cpu_budget(limit)
            .deadline(Duration::from_secs(3600))
            .call(&func(&prepared, name), ())
            .expect_err("it does not end");
        assert!(
            matches!(&error, CallError::CpuBudget(stop) if stop.limit() == Some(limit)),
            "{error}"
        );
    }
    assert_eq!(sum(&prepared, &mut instance).expect("it lives"), 5050);
}

thread_local! {
    static AT_THE_END: std::cell::RefCell<Option<AtTheEnd>> = const { std::cell::RefCell::new(None) };
}

/// Makes a call when its thread ends.
struct AtTheEnd(Prepared<Enter>, Sender<bool>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let mut instance = instance(&self.0);
        let long = Duration::from_secs(3600);
        let quick = instance.cpu_budget(long).call(&func(&self.0, "enters"), ());
        let forever = func(&self.0, "forever");
        let slow = instance
            .cpu_budget(Duration::from_millis(2))
            .call(&forever, ());
        let right = quick.is_ok() && matches!(slow, Err(CallError::CpuBudget(_)));
        self.1.send(right).expect("the receiver exists");
    }
}

#[test]
fn guests_are_stopped_during_thread_exit() {
    let prepared = prepare(1);
    let (say, right) = mpsc::channel();
    thread::spawn(move || {
        // Rust destroys thread locals in reverse order, so this one is destroyed after the
        // runtime's.
        AT_THE_END.set(Some(AtTheEnd(prepared.clone(), say)));
        let mut instance = instance(&prepared);
        let enters = func(&prepared, "enters");
        let long = Duration::from_secs(3600);
        instance.deadline(long).call(&enters, ()).expect("in time");
    })
    .join()
    .expect("no panic");
    assert_eq!(right.recv(), Ok(true));
}

/// The deadline of a call passes while its host function runs another instance.
#[test]
fn a_deadline_covers_nested_calls() {
    let outer = prepare(2);
    // Repeat the call until the deadline passes after the host function began.
    with_longer_limits(Duration::from_millis(5), |limit| {
        let inner = outer.clone();
        let ended = Arc::new(AtomicBool::new(false));
        let was_ended = Arc::clone(&ended);
        let enter = move || {
            let mut instance = instance(&inner);
            let forever = func(&inner, "forever");
            // The inner deadline is later than the outer one.
            let call = instance.deadline(8 * limit).call(&forever, ());
            assert!(matches!(call, Err(CallError::Deadline(_))), "{call:?}");
            was_ended.store(true, Ordering::SeqCst);
        };
        let mut instance = outer
            .try_instantiate(Box::new(enter))
            .expect("a slot is free");
        let error = instance
            .deadline(limit)
            .call(&func(&outer, "enters_again"), ())
            .expect_err("it does not end");
        assert!(
            matches!(&error, CallError::Deadline(stop) if stop.limit() == Some(limit)),
            "{error}"
        );
        ended.load(Ordering::SeqCst).then_some(())
    });
}

#[test]
fn a_start_function_that_loops_ends_at_its_deadline() {
    let region = Region::builder().slots(1).build().expect("a region");
    let endless = common::wat("(module (func $f (loop $l (br $l))) (start $f))");
    let quick = common::wat(
        "(module (global $g (export \"g\") (mut i32) (i32.const 1))
           (func $f (global.set $g (i32.const 2))) (start $f))",
    );
    let linker = Linker::<()>::new();
    let limit = Duration::from_millis(2);
    let endless = region.prepare(&endless, &linker).expect("it fits");
    for _ in 0..3 {
        let error = endless
            .start_deadline(limit)
            .try_instantiate(())
            .expect_err("it does not end");
        let text = error.to_string();
        assert!(
            text.starts_with("the module's start failed: guest ran past its deadline of 2ms"),
            "{text}"
        );
    }
    let quick = region.prepare(&quick, &linker).expect("it fits");
    let limited = quick.start_deadline(Duration::from_secs(3600));
    for prepared in [&quick, &limited] {
        let instance = prepared.try_instantiate(()).expect("the slot is free");
        assert_eq!(instance.global("g"), Some(pirn_runtime::Value::I32(2)));
    }
    let error = quick.start_deadline(Duration::ZERO).try_instantiate(());
    assert!(error.is_err(), "there is no time");
}

#[test]
fn a_kill_switch_stops_any_member_of_a_group() {
    let region = Region::builder().slots(2).build().expect("a region");
    let mut group = pirn_runtime::Group::new(&region, ());
    let switch = group.kill_switch();
    let linker = Linker::new();
    let inner = common::wat(
        "(module (func (export \"forever\") (loop $l (br $l))) (func (export \"ends\")))",
    );
    let inner = group.instantiate(&inner, &linker).expect("it fits");
    group.name("inner", inner);
    let outer = common::wat(
        "(module (import \"inner\" \"forever\" (func $f)) (func (export \"calls\") (call $f)))",
    );
    let outer = group.instantiate(&outer, &linker).expect("it fits");
    group
        .lend(inner)
        .call_values("ends", &[])
        .expect("it returns");
    let running = thread::spawn({
        let switch = switch.clone();
        move || {
            while !switch.is_running() {
                thread::yield_now();
            }
            switch.kill()
        }
    });
    let error = group
        .lend(outer)
        .call_values("calls", &[])
        .expect_err("it is killed");
    assert!(matches!(error, CallError::Killed(_)), "{error}");
    assert_eq!(running.join().expect("no panic"), Ok(KillOutcome::Guest));
    let error = group
        .lend(inner)
        .call_values("ends", &[])
        .expect_err("it was killed");
    assert!(matches!(error, CallError::Killed(_)), "{error}");
    drop(group);
    assert_eq!(switch.kill(), Err(KillError::Gone));
}

/// Kills at random moments: each must stop its own instance, and no other.
#[test]
fn random_kills_stop_only_their_own_instance() {
    let rounds = share(20_000, 12);
    let prepared = prepare(4);
    let killed = AtomicU64::new(0);
    let returned = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..2u64 {
            let (prepared, killed, returned) = (&prepared, &killed, &returned);
            let (switches, kills) = mpsc::sync_channel::<(pirn_runtime::KillSwitch, u64)>(1);
            scope.spawn(move || {
                for (switch, spins) in kills {
                    for _ in 0..spins {
                        std::hint::spin_loop();
                    }
                    switch.kill().ok();
                }
            });
            scope.spawn(move || {
                let mut random = Random(seed);
                let endless = ENDLESS.map(|name| func(prepared, name));
                let sum = prepared.func::<i32, i32>("sum").expect("it is exported");
                for round in 0..rounds {
                    let mut instance = instance(prepared);
                    switches
                        .send((instance.kill_switch(), random.below(2000)))
                        .expect("it listens");
                    let ended = if round % 4 == 0 {
                        let which = random.below(endless.len() as u64);
                        instance.call(&endless[which as usize], ())
                    } else {
                        let n = random.below(3000) as i32 + 1;
                        let call = instance.call(&sum, n);
                        call.map(|found| assert_eq!(found, n * (n + 1) / 2))
                    };
                    match ended {
                        Ok(()) => returned.fetch_add(1, Ordering::Relaxed),
                        Err(CallError::Killed(_)) => killed.fetch_add(1, Ordering::Relaxed),
                        Err(error) => panic!("{error}"),
                    };
                }
            });
        }
    });
    let (killed, returned) = (killed.into_inner(), returned.into_inner());
    println!("{killed} killed, {returned} returned");
    assert_eq!(killed + returned, 2 * rounds);
    // All slots are free.
    let all: Vec<_> = (0..4).map(|_| instance(&prepared)).collect();
    drop(all);
}
