//! Calls in steps: guests that ask questions and get answers, and guests that are preempted at any
//! instruction.

use crate::common;

use common::retry::with_longer_limits;
use common::values::invalid;
use pirn_runtime::{
    CallError, CallState, Caller, FlatParams, FlatResult, FuncType, HostError, Instance,
    InvalidCall, KillError, KillOutcome, LinkError, Linker, Operation, Prepared, Region,
    StateError, Step, Trap, TrapCode, TypedFunc, ValType, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

/// A question of the guest.
#[derive(Debug, PartialEq, Eq)]
enum Ask {
    /// For the successor of this number.
    Next(i32),
    /// For this many bytes at an address of its memory.
    Fill(u32, u32),
}

/// The answer to a question.
#[derive(Debug)]
enum Answer {
    Number(i32),
    Bytes(Vec<u8>),
    Error(&'static str),
    Trap,
    Panic,
}

const GUEST: &str = r#"(module $asks
  (import "h" "next" (func $next (param i32) (result i32)))
  (import "h" "fill" (func $fill (param i32 i32) (result i32)))
  (import "h" "plain" (func $plain (param i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "once") (param i32) (result i32) (call $next (local.get 0)))
  (func (export "fills") (param i32 i32) (result i32 i64)
    (call $fill (local.get 0) (local.get 1))
    (i64.load (local.get 0)))
  ;; Sums what it is answered, with as much held in registers as fits.
  (func (export "sums") (param $n i32) (result i64)
    (local $a i64) (local $b i64) (local $c i64) (local $d i64) (local $x f64) (local $y f64) (local $i i32)
    (local.set $b (i64.const 1)) (local.set $c (i64.const 2)) (local.set $d (i64.const 3))
    (local.set $x (f64.const 0.5)) (local.set $y (f64.const 0.25))
    (loop $l
      (local.set $a (i64.add (local.get $a) (i64.extend_i32_s (call $next (local.get $i)))))
      (local.set $b (i64.add (local.get $b) (local.get $a)))
      (local.set $c (i64.xor (local.get $c) (local.get $b)))
      (local.set $d (i64.add (i64.extend_i32_s (call $plain (i32.wrap_i64 (local.get $c)))) (local.get $d)))
      (local.set $x (f64.add (local.get $x) (f64.convert_i64_s (local.get $a))))
      (local.set $y (f64.mul (local.get $y) (f64.const 1.5)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (i64.add (i64.add (local.get $b) (i64.add (local.get $c) (local.get $d)))
             (i64.reinterpret_f64 (f64.add (local.get $x) (local.get $y)))))
  (func $deep (param $depth i32) (result i32)
    (if (result i32) (local.get $depth)
      (then (i32.add (call $deep (i32.sub (local.get $depth) (i32.const 1))) (i32.const 1)))
      (else (call $next (i32.const 100)))))
  (func (export "deep") (param i32) (result i32) (call $deep (local.get 0)))
  (func (export "forever") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))
  (func (export "traps") (param i32) (result i32) (drop (call $next (i32.const 1))) unreachable))"#;

type Asking<T> = Linker<T, Ask, Answer>;

fn linker() -> Asking<Vec<i32>> {
    let mut linker = Asking::asking();
    linker
        .func_ask(
            "h",
            "next",
            |mut caller: Caller<'_, Vec<i32>>, n: i32| {
                caller.data_mut().push(n);
                Ok(Ask::Next(n))
            },
            |_, _: i32, answer| match answer {
                Answer::Number(n) => Ok(n),
                Answer::Error(text) => Err(HostError::message(text)),
                Answer::Trap => Err(Trap::new(TrapCode::Unreachable).into()),
                Answer::Panic => panic!("no answer"),
                Answer::Bytes(_) => Err(HostError::message("a number was asked for")),
            },
        )
        .and_then(|linker| {
            linker.func_ask(
                "h",
                "fill",
                |_, (at, len): (u32, u32)| Ok(Ask::Fill(at, len)),
                |mut caller: Caller<'_, Vec<i32>>, (at, len): (u32, u32), answer| {
                    let Answer::Bytes(bytes) = answer else {
                        return Err(HostError::message("bytes were asked for"));
                    };
                    Ok(caller.memory_mut().write_prefix(at, len, &bytes)?)
                },
            )
        })
        .and_then(|linker| linker.func("h", "plain", |n: i32| n / 3))
        .expect("the names are free");
    linker
}

type P = Prepared<Vec<i32>, Ask, Answer>;
type I = Instance<Vec<i32>, Ask, Answer>;

fn prepare(slots: u32) -> P {
    let region = Region::builder().slots(slots).build().expect("a region");
    region
        .prepare(&common::wat(GUEST), &linker())
        .expect("it is linked")
}

fn instance(prepared: &P) -> I {
    prepared.try_instantiate(vec![]).expect("a slot is free")
}

fn func<R: pirn_runtime::Results>(prepared: &P, name: &str) -> TypedFunc<i32, R> {
    prepared.func(name).expect("it is exported")
}

fn asked(error: Result<Step<i32, Ask>, CallError>) -> (Operation, CallState, String) {
    let error = error.expect_err("it is not in the state for it");
    let text = error.to_string();
    let CallError::State(error) = error else {
        panic!("{error:?}");
    };
    (error.operation(), error.state(), text)
}

#[test]
fn a_guest_asks_and_gets_an_answer() {
    let prepared = prepare(1);
    let once = func::<i32>(&prepared, "once");
    let mut instance = instance(&prepared);
    for n in 0..3 {
        assert_eq!(
            instance.start(&once, n).expect("it asks"),
            Step::Asked(Ask::Next(n))
        );
        assert!(instance.is_suspended());
        let step = instance.resume_with(&once, Answer::Number(n + 1));
        assert_eq!(step.expect("it returns"), Step::Returned(n + 1));
        assert!(!instance.is_suspended());
    }
    assert_eq!(instance.into_data(), [0, 1, 2]);
}

/// Functions over numbers ask too, if their types are known only when a module is opened.
#[test]
fn a_function_over_numbers_asks() {
    let text = r#"(module (import "h" "ask" (func $ask (param i64 f32) (result f64)))
      (import "h" "tell" (func $tell (param i32)))
      (import "h" "note" (func $note))
      (func (export "asks") (param i64) (result f64)
        (call $note)
        (call $tell (i32.const -1))
        (call $ask (local.get 0) (f32.const 1.5))))"#;
    let (i32s, i64s) = (vec![ValType::I32], vec![ValType::I64]);
    let (notes, asks, tells, none) = (
        FuncType {
            params: vec![],
            results: vec![],
        },
        FuncType {
            params: vec![ValType::I64, ValType::F32],
            results: vec![ValType::F64],
        },
        FuncType {
            params: i32s,
            results: vec![],
        },
        FuncType {
            params: vec![],
            results: i64s,
        },
    );
    let ask = |_: Caller<'_, ()>, params: FlatParams| Ok(params.words().to_vec());
    let mut linker = Linker::<(), Vec<u64>, f64>::asking();
    let reply = |_: Caller<'_, ()>, params: FlatParams, answer: f64| {
        assert_eq!(params.words()[0], 7, "the parameters are still there");
        FlatResult(answer.to_bits())
    };
    linker
        .func_flat_ask("h", "ask", asks, ask, reply)
        .and_then(|linker| linker.func_flat_ask("h", "tell", tells, ask, |_, _, _| ()))
        .and_then(|linker| linker.func_flat_ask("h", "note", notes, ask, |_, _, _| FlatResult(1)))
        .expect("the names are free");
    // The results of the type, and numbers only.
    let refused = linker.func_flat_ask("h", "other", none.clone(), ask, |_, _, _| ());
    assert!(matches!(refused, Err(LinkError::HostFunc { .. })));
    let vectors = FuncType {
        params: vec![ValType::V128],
        ..none
    };
    let refused = linker.func_flat_ask("h", "other", vectors, ask, reply);
    assert!(matches!(refused, Err(LinkError::HostFunc { .. })));

    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&common::wat(text), &linker);
    let prepared = prepared.expect("it is linked");
    let func = prepared.func::<i64, f64>("asks").expect("it is exported");
    let mut instance = prepared.try_instantiate(()).expect("the slot is free");
    let Step::Asked(words) = instance.start(&func, 7).expect("it asks") else {
        panic!("it asks");
    };
    assert!(words.is_empty());
    let Step::Asked(words) = instance.resume_with(&func, 0.0).expect("it asks") else {
        panic!("it asks again");
    };
    assert_eq!((words.len(), words[0] as i32), (1, -1));
    let Step::Asked(words) = instance.resume_with(&func, 0.0).expect("it asks") else {
        panic!("it asks again");
    };
    assert_eq!((words[0], words[1] as u32), (7, 1.5_f32.to_bits()));
    let step = instance.resume_with(&func, 2.5).expect("it returns");
    assert_eq!(step, Step::Returned(2.5));
}

#[test]
fn an_answer_is_written_where_the_question_says() {
    let prepared = prepare(1);
    let fills = prepared
        .func::<(u32, u32), (u32, u64)>("fills")
        .expect("it is exported");
    let mut instance = instance(&prepared);
    let step = instance.start(&fills, (1000, 4)).expect("it asks");
    assert_eq!(step, Step::Asked(Ask::Fill(1000, 4)));
    // The host may access the memory while the guest is suspended.
    assert_eq!(instance.memory().read_u32(1000).expect("a page"), 0);
    instance.memory_mut().write_u32(1004, 7).expect("a page");
    let step = instance.resume_with(&fills, Answer::Bytes(b"abcdef".to_vec()));
    let expected = u64::from_le_bytes(*b"abcd\x07\0\0\0");
    assert_eq!(step.expect("it returns"), Step::Returned((4, expected)));
}

/// Answers all questions of a guest until the call returns.
fn answered<R: pirn_runtime::Results>(
    instance: &mut I,
    func: &TypedFunc<i32, R>,
    n: i32,
    slice: Option<Duration>,
) -> (R, u32) {
    let mut preempted = 0;
    let mut step = match slice {
        Some(slice) => instance.timeslice(slice).start(func, n),
        None => instance.start(func, n),
    };
    loop {
        step = match (step.expect("the guest resumes"), slice) {
            (Step::Returned(results), _) => return (results, preempted),
            (Step::Asked(Ask::Next(n)), None) => instance.resume_with(func, Answer::Number(n * n)),
            (Step::Asked(Ask::Next(n)), Some(slice)) => {
                let limited = instance.timeslice(slice);
                limited.resume_with(func, Answer::Number(n * n))
            }
            (Step::Asked(Ask::Fill(..)), _) => panic!("it asks for numbers"),
            (Step::Preempted, Some(slice)) => {
                preempted += 1;
                instance.timeslice(slice).resume(func)
            }
            (Step::Preempted, None) => panic!("a call without a time slice was preempted"),
        };
    }
}

#[test]
fn registers_survive_a_question() {
    let prepared = prepare(2);
    let sums = func::<i64>(&prepared, "sums");
    let (whole, _) = answered(&mut instance(&prepared), &sums, 1000, None);
    // Another guest runs between the steps, and some steps run on another thread.
    let deep = func::<i32>(&prepared, "deep");
    let (mut one, mut other) = (instance(&prepared), instance(&prepared));
    let mut step = one.start(&sums, 1000).expect("it asks");
    let sum = loop {
        match step {
            Step::Returned(sum) => break sum,
            Step::Asked(Ask::Next(n)) => {
                assert_eq!(answered(&mut other, &deep, n % 50, None).0, 10_000 + n % 50);
                let resumed = thread::spawn(move || {
                    let step = one.resume_with(&sums, Answer::Number(n * n));
                    (one, step)
                });
                let (back, next) = resumed.join().expect("no panic");
                one = back;
                step = next.expect("the guest resumes");
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(sum, whole);
}

#[test]
fn a_suspended_instance_refuses_other_operations() {
    let prepared = prepare(1);
    let (once, deep) = (
        func::<i32>(&prepared, "once"),
        func::<i32>(&prepared, "deep"),
    );
    let mut instance = instance(&prepared);
    assert_eq!(
        asked(instance.resume(&once)),
        (
            Operation::Resume,
            CallState::Idle,
            "resume of an instance that is not suspended; start a call first".to_owned()
        )
    );
    assert_eq!(
        asked(instance.resume_with(&once, Answer::Number(1))).2,
        "answer of an instance that is not suspended; start a call first"
    );
    // `call` runs a function to its end, so the guest cannot ask.
    let error = instance.call(&once, 1).expect_err("it asks");
    assert_eq!(
        error.to_string(),
        "question in the middle of a call that runs until it returns; make the call by `start`"
    );
    assert!(matches!(error, CallError::State(_)));
    let step = instance.start(&once, 7).expect("it asks");
    assert_eq!(step, Step::Asked(Ask::Next(7)));
    for again in [
        instance.start(&once, 1).map(|_| ()),
        instance.call(&once, 1).map(|_| ()),
        instance.call_values("once", &[Value::I32(1)]).map(|_| ()),
        instance.deadline(Duration::ZERO).call(&once, 1).map(|_| ()),
    ] {
        assert_eq!(
            again.expect_err("it waits").to_string(),
            "call of an instance that waits for an answer; resume it, or cancel it"
        );
    }
    assert_eq!(
        asked(instance.resume(&once)).2,
        "resume of an instance that waits for an answer; resume it with an answer"
    );
    assert_eq!(
        asked(instance.resume_with(&deep, Answer::Number(1))).2,
        "answer of an instance that is suspended in another function; give the function that was started"
    );
    // The refused calls have changed nothing.
    let step = instance.resume_with(&once, Answer::Number(8));
    assert_eq!(step.expect("it returns"), Step::Returned(8));
    // After a call that could ask, `call` still does not let the guest ask.
    let error = instance.call(&once, 1).expect_err("it asks");
    assert!(matches!(error, CallError::State(_)), "{error}");
    let error = instance.timeslice(Duration::from_millis(1)).call(&once, 1);
    assert_eq!(
        error.expect_err("the call cannot be preempted").to_string(),
        "preemption of a call that runs until it returns; make the call by `start` or `call_async`"
    );
}

#[test]
fn a_function_of_another_preparation_is_refused() {
    let (one, other) = (prepare(1), prepare(1));
    let (ours, theirs) = (func::<i32>(&one, "once"), func::<i32>(&other, "once"));
    let mut instance = instance(&one);
    let started = instance.start(&theirs, 1);
    assert_eq!(invalid(started), InvalidCall::OtherPreparation);
    assert!(matches!(instance.start(&ours, 1), Ok(Step::Asked(_))));
    let (operation, state, _) = asked(instance.resume_with(&theirs, Answer::Number(1)));
    assert_eq!(
        (operation, state),
        (Operation::ResumeWith, CallState::Another)
    );
}

#[test]
fn an_answer_may_end_the_call() {
    let prepared = prepare(1);
    let deep = func::<i32>(&prepared, "deep");
    let mut instance = instance(&prepared);
    let mut ended = |answer| {
        assert!(matches!(instance.start(&deep, 3), Ok(Step::Asked(_))));
        let error = instance.resume_with(&deep, answer).expect_err("it ends");
        assert!(!instance.is_suspended());
        error
    };
    assert!(matches!(ended(Answer::Error("gone")), CallError::Host(e) if e.to_string() == "gone"));
    let trap = ended(Answer::Trap);
    let CallError::Trap(trap) = trap else {
        panic!("{trap:?}")
    };
    let frames: Vec<_> = trap
        .backtrace()
        .iter()
        .map(|frame| frame.func_name())
        .collect();
    assert_eq!(frames, [Some("deep"); 5]);
    let panic = ended(Answer::Panic);
    let CallError::Panic(panic) = panic else {
        panic!("{panic:?}")
    };
    assert_eq!(
        (panic.message().as_deref(), panic.backtrace().len()),
        (Some("no answer"), 5)
    );
    assert_eq!(answered(&mut instance, &deep, 3, None).0, 10_003);
}

#[test]
fn a_resumed_guest_may_trap() {
    let prepared = prepare(1);
    let traps = func::<i32>(&prepared, "traps");
    let mut instance = instance(&prepared);
    assert!(matches!(instance.start(&traps, 3), Ok(Step::Asked(_))));
    let error = instance.resume_with(&traps, Answer::Number(1));
    let Err(CallError::Trap(trap)) = error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (trap.code(), trap.backtrace().len()),
        (TrapCode::Unreachable, 1)
    );
}

#[test]
fn a_suspended_call_can_be_cancelled_and_dropped() {
    let prepared = prepare(1);
    let (once, sums) = (
        func::<i32>(&prepared, "once"),
        func::<i64>(&prepared, "sums"),
    );
    for _ in 0..100 {
        let mut suspended = instance(&prepared);
        assert!(matches!(suspended.start(&sums, 10), Ok(Step::Asked(_))));
        suspended.cancel();
        assert_eq!(
            asked(suspended.resume_with(&once, Answer::Number(1))).1,
            CallState::Idle
        );
        assert_eq!(answered(&mut suspended, &once, 3, None).0, 9);
        assert!(matches!(suspended.start(&sums, 10), Ok(Step::Asked(_))));
        // The next instance gets the slot of this one.
        drop(suspended);
    }
    assert!(instance(&prepared).data().is_empty());
}

#[test]
fn a_suspended_guest_is_killed() {
    let prepared = prepare(1);
    let once = func::<i32>(&prepared, "once");
    let mut suspended = instance(&prepared);
    let switch = suspended.kill_switch();
    assert!(matches!(suspended.start(&once, 1), Ok(Step::Asked(_))));
    assert!(!switch.is_running());
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
    assert_eq!(switch.kill(), Err(KillError::Killed));
    let error = suspended.resume_with(&once, Answer::Number(1));
    assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
    assert!(!suspended.is_suspended());
    let error = suspended.start(&once, 1);
    assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
    drop(suspended);
    assert_eq!(switch.kill(), Err(KillError::Gone));
    let mut cancelled = instance(&prepared);
    let switch = cancelled.kill_switch();
    assert!(matches!(cancelled.start(&once, 1), Ok(Step::Asked(_))));
    cancelled.cancel();
    assert_eq!(switch.kill(), Ok(KillOutcome::Idle));
}

#[test]
fn each_step_has_its_own_limits() {
    let prepared = prepare(1);
    let (once, forever) = (
        func::<i32>(&prepared, "once"),
        func::<i32>(&prepared, "forever"),
    );
    let mut instance = instance(&prepared);
    // Repeat the call until the guest asks before the deadline.
    let (limit, step) = with_longer_limits(Duration::from_millis(50), |limit| {
        match instance.deadline(limit).start(&once, 1) {
            Err(CallError::Deadline(_)) => None,
            other => Some((limit, other)),
        }
    });
    assert_eq!(step.expect("it asks"), Step::Asked(Ask::Next(1)));
    // The deadline does not count the time while the guest waits for an answer. Sleeps until it
    // would have passed.
    thread::sleep(limit * 2);
    let step = instance
        .deadline(Duration::from_secs(3600))
        .resume_with(&once, Answer::Number(2));
    assert_eq!(step.expect("it returns"), Step::Returned(2));
    let error = instance.deadline(limit).start(&forever, 1);
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
    assert!(matches!(instance.start(&once, 1), Ok(Step::Asked(_))));
    let error = instance
        .deadline(Duration::ZERO)
        .resume_with(&once, Answer::Number(1));
    assert!(matches!(error, Err(CallError::Deadline(_))), "{error:?}");
    assert!(!instance.is_suspended());
}

/// A loop is preempted at each slice's end, until a deadline stops it.
#[test]
fn a_loop_is_preempted_until_its_deadline() {
    let prepared = prepare(1);
    let forever = func::<i32>(&prepared, "forever");
    let slice = Duration::from_micros(100);
    let mut instance = instance(&prepared);
    let mut step = instance.timeslice(slice).start(&forever, 1);
    for _ in 0..20 {
        assert_eq!(step.expect("the guest resumes"), Step::Preempted);
        assert_eq!(
            asked(instance.resume_with(&forever, Answer::Number(1))).2,
            "answer of an instance that was preempted; resume it without an answer"
        );
        step = instance.timeslice(slice).resume(&forever);
    }
    let limited = instance
        .timeslice(slice)
        .deadline(Duration::from_secs(3600));
    let step = limited.resume(&forever).expect("the guest resumes");
    assert_eq!(step, Step::Preempted);
    // Both the time slice and the deadline have passed. The deadline must win.
    let limited = instance
        .timeslice(Duration::ZERO)
        .deadline(Duration::from_nanos(1));
    let error = limited.start(&forever, 1).expect_err("it is suspended");
    assert!(matches!(error, CallError::State(_)), "{error}");
    let error = instance.deadline(Duration::from_millis(1)).resume(&forever);
    let Err(CallError::Deadline(stop)) = error else {
        panic!("{error:?}")
    };
    assert_eq!(stop.backtrace().len(), 1);
    let error = StateError::clone(&match instance.resume(&forever) {
        Err(CallError::State(error)) => error,
        other => panic!("{other:?}"),
    });
    assert_eq!(error.state(), CallState::Idle);
}

#[test]
fn a_preempted_guest_can_be_killed() {
    let prepared = prepare(1);
    let forever = func::<i32>(&prepared, "forever");
    let mut preempted = instance(&prepared);
    let switch = preempted.kill_switch();
    let step = preempted
        .timeslice(Duration::from_micros(50))
        .start(&forever, 1);
    assert_eq!(step.expect("the guest resumes"), Step::Preempted);
    assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
    let error = preempted.resume(&forever);
    assert!(matches!(error, Err(CallError::Killed(_))), "{error:?}");
}

/// A suspended guest that is stopped reports where it was.
#[test]
fn a_stopped_suspended_guest_has_a_backtrace() {
    let prepared = prepare(1);
    let forever = func::<i32>(&prepared, "forever");
    for kills in [true, false] {
        let stop = with_longer_limits(Duration::from_millis(50), |slice| {
            let mut preempted = instance(&prepared);
            let switch = preempted.kill_switch();
            let step = preempted.timeslice(slice).start(&forever, 1);
            assert_eq!(step.expect("the guest resumes"), Step::Preempted);
            let error = if kills {
                assert_eq!(switch.kill(), Ok(KillOutcome::Suspended));
                preempted.resume(&forever)
            } else {
                preempted.deadline(Duration::ZERO).resume(&forever)
            };
            let Err(CallError::Killed(stop) | CallError::Deadline(stop)) = error else {
                panic!("{error:?}")
            };
            // Without frames, the slice ended before the guest ran.
            (!stop.backtrace().is_empty()).then_some(stop)
        });
        let names: Vec<_> = stop.backtrace().iter().map(|f| f.func_name()).collect();
        assert_eq!(names, [Some("forever")], "{stop}");
    }
}

#[test]
fn a_guest_that_asks_can_be_preempted() {
    let prepared = prepare(1);
    let sums = func::<i64>(&prepared, "sums");
    let (whole, _) = answered(&mut instance(&prepared), &sums, 5_000, None);
    let slice = Some(Duration::from_micros(20));
    let (mut calls, mut preempted) = (0, 0);
    // Repeat the call until a time slice ends between two questions.
    while calls < 20 || preempted == 0 {
        let (sum, times) = answered(&mut instance(&prepared), &sums, 5_000, slice);
        assert_eq!(sum, whole);
        calls += 1;
        preempted += times;
    }
    println!("preempted {preempted} times in {calls} calls");
}

/// A guest that computes with more live numbers of each kind than there are registers.
fn numbers() -> String {
    const EACH: usize = 18;
    let each = |f: &dyn Fn(usize) -> String| (0..EACH).map(f).collect::<String>();
    let locals = each(&|i| format!("(local $i{i} i64) (local $d{i} f64) (local $v{i} v128)"));
    let start = each(&|i| {
        format!(
            "(local.set $i{i} (i64.const {}))
             (local.set $d{i} (f64.const 1.{i}))
             (local.set $v{i} (i32x4.splat (i32.const {i})))",
            i * 7 + 1
        )
    });
    let round = each(&|i| {
        let next = (i + 1) % EACH;
        format!(
            "(local.set $i{i} (i64.add (i64.rotl (local.get $i{i}) (i64.const 5)) (local.get $i{next})))
             (local.set $d{i} (f64.div (f64.add (local.get $d{i}) (local.get $d{next})) (f64.const 1.9)))
             (local.set $v{i} (f32x4.abs (f32x4.convert_i32x4_s (i32x4.add (i32x4.mul (local.get $v{i})
               (i32x4.splat (local.get $n))) (local.get $v{next})))))"
        )
    });
    let sum = each(&|i| {
        format!(
            "(local.set $sum (i64.add (i64.mul (local.get $sum) (i64.const 31)) (i64.add (local.get $i{i})
               (i64.add (i64.reinterpret_f64 (local.get $d{i})) (i64.xor (i64x2.extract_lane 0 (local.get $v{i}))
                 (i64x2.extract_lane 1 (local.get $v{i})))))))"
        )
    });
    format!(
        r#"(module (func (export "numbers") (param $n i32) (result i64) (local $sum i64) {locals}
             {start} (loop $l {round} (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
             {sum} (local.get $sum)))"#
    )
}

#[test]
fn registers_survive_thousands_of_preemptions() {
    let region = Region::builder().slots(2).build().expect("a region");
    let linker = Asking::<Vec<i32>>::asking();
    let prepared = region
        .prepare(&common::wat(&numbers()), &linker)
        .expect("it is linked");
    let numbers = func::<i64>(&prepared, "numbers");
    let rounds = 300_000;
    let whole = instance(&prepared)
        .call(&numbers, rounds)
        .expect("it returns");
    let mut preempted = 0_u32;
    while preempted < 2000 {
        let mut guest = instance(&prepared);
        // Two threads take turns. Between the steps each runs a guest of its own with other
        // numbers, which overwrites the registers.
        let (mut result, mut slice) = (None, 1);
        let mut step = guest
            .timeslice(Duration::from_micros(20))
            .start(&numbers, rounds);
        while result.is_none() {
            let mut turn = |guest: &mut I, mut step: Result<Step<i64, Ask>, CallError>| {
                let mut other = instance(&prepared);
                for _ in 0..20 {
                    match step.expect("the guest resumes") {
                        Step::Returned(sum) => return Ok(Step::Returned(sum)),
                        Step::Preempted => preempted += 1,
                        Step::Asked(question) => panic!("{question:?}"),
                    }
                    other.call(&numbers, 3).expect("it returns");
                    slice = slice * 13 % 47;
                    step = guest
                        .timeslice(Duration::from_micros(slice))
                        .resume(&numbers);
                }
                step
            };
            step = turn(&mut guest, step);
            step = thread::scope(|scope| scope.spawn(|| turn(&mut guest, step)).join())
                .expect("no panic");
            if let Ok(Step::Returned(sum)) = step {
                result = Some(sum);
            }
        }
        assert_eq!(result, Some(whole), "after {preempted} preemptions");
    }
    println!("preempted {preempted} times");
}

/// A question whose destructor panics.
struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a question's bug");
        }
    }
}

/// The limit of a call, and whether its host function began.
struct Limited {
    limit: Duration,
    asked: bool,
}

#[test]
fn a_panicking_drop_of_a_question_removes_the_limit() {
    let text = r#"(module (import "h" "ask" (func $ask (result i32)))
      (import "h" "waits" (func $waits (result i32)))
      (func (export "asks") (result i32) (call $ask))
      (func (export "waits") (result i32) (call $waits)))"#;
    let mut linker = Linker::<Limited, Panics, i32>::asking();
    linker
        .func_ask(
            "h",
            "ask",
            |mut caller: Caller<'_, Limited>, (): ()| {
                caller.data_mut().asked = true;
                // Wait until the deadline, so that the runtime drops the question in place of
                // returning it.
                while !caller.is_stopped() {
                    thread::yield_now();
                }
                Ok(Panics)
            },
            |_, (): (), answer: i32| answer,
        )
        .and_then(|linker| {
            linker.func("h", "waits", |caller: Caller<'_, Limited>| {
                // Sleeps until the deadline of the ended call has passed twice.
                thread::sleep(2 * caller.data().limit);
                i32::from(caller.is_stopped())
            })
        })
        .expect("the names are free");
    let region = Region::builder().slots(1).build().expect("a region");
    let module = common::wat(text);
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let func = |name| prepared.func::<(), i32>(name).expect("it is exported");
    let (asks, waits) = (func("asks"), func("waits"));
    // Repeat the call until the guest asks before the deadline.
    with_longer_limits(Duration::from_millis(1), |limit| {
        let data = Limited {
            limit,
            asked: false,
        };
        let mut instance = prepared.try_instantiate(data).expect("the slot is free");
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let _ = instance.deadline(limit).start(&asks, ());
        }));
        if !instance.data().asked {
            return None;
        }
        asked.expect_err("the question panics");
        let stopped = instance.call(&waits, ()).expect("it has no deadline");
        assert_eq!(stopped, 0);
        Some(())
    });
}
