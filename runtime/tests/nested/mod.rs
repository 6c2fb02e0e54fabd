//! Nested calls: a host function calls functions of the guest that called it.

use crate::common;
mod stopped;

use common::values::{Lend as _, invalid, region, shared_memory};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use pirn_runtime::{
    CallError, CallState, Caller, Group, HostError, Instance, InvalidCall, KillSwitch, LinkError,
    Linker, Operation, Prepared, Region, Step, TrapCode, TypedFunc, Value,
};
use std::thread;

/// The guest. Its import `act` runs the closure of the instance.
const GUEST: &str = r#"(module $nests
  (import "h" "act" (func $act (param i32) (result i32)))
  (import "h" "ask" (func $ask (param i32) (result i32)))
  (import "h" "wait" (func $wait (param i32) (result i32)))
  (import "h" "note" (func $note (param i32)))
  (import "h" "shared" (memory $shared 1 1 shared))
  (memory $own (export "memory") 1 8)
  (tag $t (param i32))
  (global $next (mut i32) (i32.const 1024))
  (func $call (export "call") (param i32) (result i32) (call $act (local.get 0)))
  (func (export "alloc") (param $bytes i32) (result i32)
    (drop (memory.grow $own (i32.const 1)))
    (global.get $next)
    (global.set $next (i32.add (global.get $next) (local.get $bytes))))
  (func (export "greets") (param i32) (result i32)
    ;; The host allocates a string and returns its address. The result is the first byte of the
    ;; string plus 1000 for each page of memory.
    (i32.add (i32.load8_u $own (call $act (local.get 0)))
      (i32.mul (i32.const 1000) (memory.size $own))))
  (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
  (func (export "note") (param i32) (result i32) (call $note (local.get 0)) (local.get 0))
  (func $traps (export "traps") (param i32) (result i32) unreachable)
  (func $overflows (export "overflows") (param i32) (result i32)
    (i32.add (call $overflows (local.get 0)) (i32.const 1)))
  (func $forever (export "forever") (param i32) (result i32) (loop $l (br $l)) (i32.const 0))
  (func (export "asks") (param i32) (result i32) (call $ask (local.get 0)))
  (func (export "awaits") (param i32) (result i32) (call $wait (local.get 0)))
  (func (export "waits") (param i32) (result i32)
    (memory.atomic.wait32 $shared (i32.const 0) (local.get 0) (i64.const 1)))
  (func (export "throws") (param i32) (result i32) (throw $t (local.get 0)))
  (func (export "catches") (param i32) (result i32)
    (block $caught (result i32)
      (try_table (catch $t $caught) (throw $t (local.get 0)))
      (i32.const -1)))
  ;; Calls the host in the body of a `try_table`.
  (func (export "guarded") (param i32) (result i32)
    (block $caught (result i32)
      (try_table (result i32) (catch $t $caught) (call $act (local.get 0)))))
  ;; Keeps an exception in a local variable while it calls the host.
  (func (export "keeps") (param i32) (result i32) (local $kept exnref)
    (block $caught (result i32 exnref)
      (try_table (catch_ref $t $caught) (throw $t (local.get 0)))
      unreachable)
    (local.set $kept) drop
    (drop (call $act (local.get 0)))
    (block $again (result i32)
      (try_table (catch $t $again) (throw_ref (local.get $kept)))
      (i32.const -1)))
  ;; Creates `$n` exceptions. Each exception replaces the previous one in `$kept`.
  (func (export "wastes") (param $n i32) (result i32) (local $kept exnref)
    (loop $l
      (block $caught (result i32 exnref)
        (try_table (catch_ref $t $caught) (throw $t (local.get $n)))
        unreachable)
      (local.set $kept) drop
      (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.const 7))
  (func $deep (export "deep") (param $depth i32) (result i32)
    (if (result i32) (local.get $depth)
      (then (i32.add (call $deep (i32.sub (local.get $depth) (i32.const 1))) (i32.const 1)))
      (else (call $act (i32.const 5)))))
  ;; More values are live across the calls of the host than the processor has callee-saved
  ;; registers.
  (func (export "sums") (param $n i32) (result i64)
    (local $a i64) (local $b i64) (local $c i64) (local $d i64)
    (local $x f64) (local $y f64) (local $i i32)
    (local.set $b (i64.const 1)) (local.set $c (i64.const 2)) (local.set $d (i64.const 3))
    (local.set $x (f64.const 0.5)) (local.set $y (f64.const 0.25))
    (loop $l
      (local.set $a (i64.add (local.get $a) (i64.extend_i32_s (call $act (local.get $i)))))
      (local.set $b (i64.add (local.get $b) (local.get $a)))
      (local.set $c (i64.xor (local.get $c) (local.get $b)))
      (local.set $d (i64.add (local.get $c) (local.get $d)))
      (local.set $x (f64.add (local.get $x) (f64.convert_i64_s (local.get $a))))
      (local.set $y (f64.mul (local.get $y) (f64.const 1.5)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (i64.add (i64.add (local.get $b) (i64.add (local.get $c) (local.get $d)))
             (i64.reinterpret_f64 (f64.add (local.get $x) (local.get $y)))))
  (func (export "many")
    (param i32 i64 f32 f64 v128 i32 i64 f32 f64 v128 i32 i64 f32 f64 v128 i32)
    (result v128 i32 f64)
    (i64x2.add (local.get 4) (i64x2.add (local.get 9) (local.get 14)))
    (i32.add (local.get 0) (i32.add (local.get 5) (i32.add (local.get 10) (local.get 15))))
    (f64.add (local.get 3) (local.get 13))))"#;

type Act = fn(Caller<'_, Data>, i32) -> Result<i32, HostError>;

/// The host's data of an instance.
struct Data {
    act: Act,
    notes: Vec<i32>,
    switch: Option<KillSwitch>,
}

type P = Prepared<Data, i32, i32>;
type I = Instance<Data, i32, i32>;

fn linker() -> Linker<Data, i32, i32> {
    let mut linker = Linker::asking();
    let memory = shared_memory(1, 1);
    linker
        .func("h", "act", |caller: Caller<'_, Data>, n: i32| {
            (caller.data().act)(caller, n)
        })
        .and_then(|linker| {
            linker.func("h", "note", |mut caller: Caller<'_, Data>, n: i32| {
                caller.data_mut().notes.push(n);
            })
        })
        .and_then(|linker| {
            linker.func_ask(
                "h",
                "ask",
                |mut caller, n: i32| match n {
                    // The guest waits for this function, so a nested call is allowed.
                    -1 => Ok(by_name(&mut caller, "add", 1)?),
                    n => Ok(n),
                },
                |mut caller: Caller<'_, Data>, _: i32, answer| match answer {
                    -1 => by_name(&mut caller, "add", 1),
                    n => Ok(n),
                },
            )
        })
        .and_then(|linker| linker.func_async("h", "wait", |caller, n| Box::pin(waits(caller, n))))
        .and_then(|linker| linker.memory("h", "shared", &memory))
        .expect("the names are free");
    linker
}

/// An async host function. It tries a nested call before it waits if `n` is 1, and after it has
/// waited if `n` is 2.
async fn waits(mut caller: Caller<'_, Data>, n: i32) -> Result<i32, HostError> {
    if n == 1 {
        return Ok(by_name(&mut caller, "add", 1)?);
    }
    Once(false).await;
    if n == 2 {
        return Ok(by_name(&mut caller, "add", 1)?);
    }
    Ok(n)
}

/// A future that is ready at its second poll.
struct Once(bool);

impl Future for Once {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn by_name(caller: &mut Caller<'_, Data>, name: &str, n: i32) -> Result<i32, CallError> {
    match caller.call_values(name, &[Value::I32(n)])?.as_slice() {
        [Value::I32(result)] => Ok(*result),
        other => panic!("{other:?}"),
    }
}

fn prepare_in(region: &Region) -> P {
    region
        .prepare(&common::wat(GUEST), &linker())
        .expect("the module links")
}

fn prepare() -> P {
    prepare_in(&region(2))
}

fn instance(prepared: &P, act: Act) -> I {
    let data = Data {
        act,
        notes: vec![],
        switch: None,
    };
    prepared.try_instantiate(data).expect("a slot is free")
}

fn func(prepared: &P, name: &str) -> TypedFunc<i32, i32> {
    prepared.func(name).expect("the export exists")
}

/// Calls the function `name` in an instance whose host function is `act`. Afterwards checks that
/// the instance still works.
fn called(name: &str, n: i32, act: Act) -> Result<i32, CallError> {
    let prepared = prepare();
    let mut instance = instance(&prepared, act);
    let result = instance.call(&func(&prepared, name), n);
    let add = func(&prepared, "add");
    assert_eq!(instance.call(&add, 1).expect("the instance works"), 2);
    instance.data_mut().act = |mut caller, n| Ok(by_name(&mut caller, "add", n)?);
    let again = instance.call(&func(&prepared, "call"), 4);
    assert_eq!(again.expect("the instance works"), 5);
    result
}

fn state(error: &CallError) -> (Operation, CallState) {
    let CallError::State(error) = error else {
        panic!("{error:?}");
    };
    (error.operation(), error.state())
}

#[test]
fn a_host_function_allocates_in_its_guest() {
    let act: Act = |mut caller, n| {
        let alloc = caller.func::<u32, u32>("alloc")?;
        let at = caller.call(&alloc, 16)?;
        assert_eq!(at, 1024);
        // `alloc` has grown the memory.
        assert_eq!(caller.interface_split().0.len(), 2 << 16);
        let at = caller.call(&alloc, 16)?;
        caller.interface_split().0.write(at, &[n as u8])?;
        Ok(at as i32)
    };
    assert_eq!(called("greets", 42, act).expect("the call returns"), 3042);
}

#[test]
fn functions_are_called_by_name_and_with_all_types() {
    let act: Act = |mut caller, n| {
        assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
        let found = caller.call_values(
            "many",
            &[
                Value::I32(1),
                Value::I64(0),
                Value::F32(0),
                Value::F64(0.5f64.to_bits()),
                Value::V128(1 << 64 | 2),
                Value::I32(10),
                Value::I64(0),
                Value::F32(0),
                Value::F64(0),
                Value::V128(10 << 64 | 20),
                Value::I32(100),
                Value::I64(0),
                Value::F32(0),
                Value::F64(0.25f64.to_bits()),
                Value::V128(100 << 64 | 200),
                Value::I32(1000),
            ],
        )?;
        let wanted = [
            Value::V128(111 << 64 | 222),
            Value::I32(1111),
            Value::F64(0.75f64.to_bits()),
        ];
        assert_eq!(found, wanted);
        Ok(0)
    };
    assert_eq!(called("call", 4, act).expect("the call returns"), 0);
}

#[test]
fn values_in_registers_survive_nested_calls() {
    let prepared = prepare();
    let sums = prepared
        .func::<i32, i64>("sums")
        .expect("the export exists");
    let plain = instance(&prepared, |_, n| Ok(n + 1)).call(&sums, 100);
    // `deep` calls the host function again. This inner call removes the note and returns.
    let mut instance = instance(&prepared, |mut caller, n| {
        if caller.data_mut().notes.pop().is_some() {
            return Ok(n);
        }
        caller.data_mut().notes.push(0);
        assert_eq!(by_name(&mut caller, "deep", 3)?, 8);
        Ok(by_name(&mut caller, "add", n)?)
    });
    assert_eq!(
        instance.call(&sums, 100).expect("the call returns"),
        plain.expect("the call returns")
    );
}

fn lookup(error: &CallError) -> &LinkError {
    match error {
        CallError::Lookup(error) => error,
        other => panic!("expected a lookup error, found {other:?}"),
    }
}

#[test]
fn wrong_functions_and_parameters_are_refused() {
    let act: Act = |mut caller, _| {
        let error = caller
            .func::<u32, u32>("nothing")
            .expect_err("the guest exports no such function");
        assert!(
            matches!(lookup(&error), LinkError::NoExport { .. }),
            "{error:?}"
        );
        let error = caller
            .func::<u64, u32>("add")
            .expect_err("the function has another type");
        assert!(
            matches!(lookup(&error), LinkError::FuncType { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains("\"add\" has type"), "{error}");
        for params in [&[][..], &[Value::I64(1)], &[Value::I32(1); 2]] {
            let why = invalid(caller.call_values("add", params));
            let is_wrong = matches!(why, InvalidCall::Count { .. } | InvalidCall::Type { .. });
            assert!(is_wrong, "{why:?}");
        }
        let why = invalid(caller.call_values("memory", &[]));
        assert!(
            matches!(&why, InvalidCall::NoExport { name, .. } if name == "memory"),
            "{why:?}"
        );
        // A function of another preparation of the same module.
        let foreign = prepare()
            .func::<i32, i32>("add")
            .expect("the export exists");
        let called = caller.call(&foreign, 1);
        assert_eq!(invalid(called), InvalidCall::OtherPreparation);
        Ok(9)
    };
    assert_eq!(called("call", 0, act).expect("the call returns"), 9);
}

/// Makes nested calls until the runtime refuses one, and returns the number of calls that
/// succeeded.
fn depth(mut caller: Caller<'_, Data>, n: i32) -> Result<i32, HostError> {
    match by_name(&mut caller, "call", n + 1) {
        Ok(depth) => Ok(depth),
        Err(error) => {
            let (running, limit) = (n as u32, n as u32);
            let refused = InvalidCall::NestedCalls { running, limit };
            assert_eq!(invalid::<i32>(Err(error)), refused);
            Ok(n)
        }
    }
}

#[test]
fn nested_calls_have_a_bound() {
    assert_eq!(called("call", 0, depth).expect("the call returns"), 32);
    for limit in [0, 1, 7] {
        let region = Region::builder().slots(1).nested_calls_max(limit).build();
        let prepared = prepare_in(&region.expect("the region is built"));
        let mut instance = instance(&prepared, depth);
        for _ in 0..3 {
            let found = instance.call(&func(&prepared, "call"), 0);
            assert_eq!(found.expect("the call returns"), limit as i32);
        }
        // Two nested calls in sequence count as one level.
        instance.data_mut().act = |mut caller, n| {
            by_name(&mut caller, "add", n)?;
            Ok(by_name(&mut caller, "add", n)?)
        };
        let found = instance.call(&func(&prepared, "call"), 1);
        assert_eq!(found.is_ok(), limit > 0, "{found:?}");
    }
}

#[test]
fn the_data_is_shared_with_inner_host_functions() {
    let act: Act = |mut caller, n| {
        caller.data_mut().notes.push(-1);
        for n in 0..n {
            by_name(&mut caller, "note", n)?;
            assert_eq!(caller.data().notes.last(), Some(&n));
            caller.data_mut().notes.push(-2);
        }
        Ok(caller.data().notes.len() as i32)
    };
    assert_eq!(called("call", 10, act).expect("the call returns"), 21);
}

#[test]
fn a_trap_ends_the_nested_call_and_with_it_the_outer_one_if_it_is_passed_on() {
    let swallows: Act = |mut caller, n| {
        let error = by_name(&mut caller, "traps", n).expect_err("the guest traps");
        let CallError::Trap(trap) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(trap.code(), TrapCode::Unreachable);
        let names: Vec<_> = trap.backtrace().iter().map(|f| f.func_name()).collect();
        assert_eq!(names, [Some("traps")]);
        Ok(3)
    };
    assert_eq!(called("call", 0, swallows).expect("the call returns"), 3);
    let passes: Act = |mut caller, n| Ok(by_name(&mut caller, "traps", n)?);
    let error = called("call", 0, passes).expect_err("the guest traps");
    assert!(matches!(&error, CallError::Trap(trap) if trap.code() == TrapCode::Unreachable));
    // A trap of the outer guest after a nested call has the outer guest's frames.
    let overflows: Act = |mut caller, n| {
        let error = by_name(&mut caller, "overflows", n).expect_err("the stack overflows");
        assert!(matches!(&error, CallError::Trap(trap) if trap.code() == TrapCode::StackOverflow));
        Ok(2)
    };
    assert_eq!(called("call", 0, overflows).expect("the call returns"), 2);
}

/// At every depth of the guest's stack, a nested call must either run or trap.
#[test]
fn a_stack_without_room_is_a_trap() {
    let region = Region::builder().slots(1).stack_bytes(16 << 10).build();
    let prepared = prepare_in(&region.expect("the region is built"));
    let act: Act = |mut caller, _| {
        // `many` has 16 parameters and `add` has one, so the two calls need different amounts of
        // stack.
        let zeros = caller.call_values("many", &ZEROS);
        let zeros = zeros.map(|_| by_name(&mut caller, "add", 1));
        match zeros {
            Ok(Ok(2)) => Ok(0),
            Ok(Err(error)) | Err(error) => {
                let CallError::Trap(trap) = &error else {
                    panic!("expected a trap, found {error:?}");
                };
                assert_eq!(trap.code(), TrapCode::StackOverflow);
                caller.data_mut().notes.push(1);
                Ok(0)
            }
            other => panic!("{other:?}"),
        }
    };
    let (deep, mut instance) = (func(&prepared, "deep"), instance(&prepared, act));
    // The depth at which the outer guest overflows its stack.
    let overflows = |depth: &i32| instance.call(&deep, *depth).is_err();
    let most = (0..)
        .step_by(64)
        .find(overflows)
        .expect("a deep guest overflows");
    let (mut ran, mut refused, mut overflowed) = (0, 0, 0);
    for depth in most - 1000..most + 10 {
        instance.data_mut().notes.clear();
        match instance.call(&deep, depth) {
            Ok(found) => {
                assert_eq!(found, depth);
                let told = instance.data().notes.len();
                (ran, refused) = (ran + 1 - told, refused + told);
            }
            Err(CallError::Trap(trap)) => {
                assert_eq!(trap.code(), TrapCode::StackOverflow);
                overflowed += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(
        ran > 10 && refused > 10 && overflowed > 10,
        "{ran} {refused} {overflowed}"
    );
}

const ZEROS: [Value; 16] = [
    Value::I32(0),
    Value::I64(0),
    Value::F32(0),
    Value::F64(0),
    Value::V128(0),
    Value::I32(0),
    Value::I64(0),
    Value::F32(0),
    Value::F64(0),
    Value::V128(0),
    Value::I32(0),
    Value::I64(0),
    Value::F32(0),
    Value::F64(0),
    Value::V128(0),
    Value::I32(0),
];

/// The runtime must refuse a nested call unless the guest waits for the caller's host function, on
/// the same thread.
#[test]
fn only_the_host_function_that_the_guest_waits_for_makes_nested_calls() {
    let prepared = prepare();
    let (asks, awaits) = (func(&prepared, "asks"), func(&prepared, "awaits"));
    let mut instance = instance(&prepared, |_, n| Ok(n));
    // An asking host function has two parts. The part that asks may make a nested call. The part
    // that receives the answer may not.
    assert_eq!(
        instance.start(&asks, -1).expect("the guest asks"),
        Step::Asked(2)
    );
    let error = instance
        .resume_with(&asks, -1)
        .expect_err("the guest does not wait");
    assert_eq!(state(&error), (Operation::Nest, CallState::NotWaiting));
    for n in [1, 2, 3] {
        let mut context = Context::from_waker(Waker::noop());
        let mut running = Box::pin(instance.call_async(&awaits, n));
        let result = loop {
            if let Poll::Ready(result) = running.as_mut().poll(&mut context) {
                break result;
            }
        };
        match (n, result) {
            (1 | 2, Err(error)) => {
                assert_eq!(state(&error), (Operation::Nest, CallState::NotWaiting));
            }
            (3, Ok(3)) => (),
            (_, other) => panic!("{other:?}"),
        }
    }
    let on_another_thread: Act = |mut caller, n| {
        let called = thread::scope(|scope| {
            let called = scope.spawn(|| by_name(&mut caller, "add", n));
            called.join().expect("the thread does not panic")
        });
        let error = called.expect_err("another thread makes the call");
        assert_eq!(state(&error), (Operation::Nest, CallState::NotWaiting));
        Ok(by_name(&mut caller, "add", n)?)
    };
    assert_eq!(
        called("call", 3, on_another_thread).expect("the call returns"),
        4
    );
}

/// A host function runs another instance, whose host function makes nested calls as well.
#[test]
fn instances_inside_each_other_make_nested_calls() {
    const INNER: &str = r#"(module (import "h" "inner" (func $inner (result i32)))
      (func (export "seven") (result i32) (i32.const 7))
      (func (export "run") (result i32) (call $inner)))"#;
    let act: Act = |mut caller, n| {
        let region = Region::builder().slots(1).build()?;
        let mut linker = Linker::<()>::new();
        linker.func("h", "inner", |mut inner: Caller<'_, ()>| {
            let seven = inner.func::<(), i32>("seven")?;
            inner.call(&seven, ())
        })?;
        let prepared = region.prepare(&common::wat(INNER), &linker)?;
        let run = prepared.func::<(), i32>("run")?;
        let mut inner = prepared.instantiate(())?;
        let foreign = caller.call_values("add", &[Value::I32(inner.call(&run, ())?)])?;
        assert_eq!(foreign, [Value::I32(8)]);
        assert_eq!(inner.call(&run, ())?, 7);
        Ok(by_name(&mut caller, "add", n)?)
    };
    assert_eq!(called("call", 3, act).expect("the call returns"), 4);
}

/// A host function returns the error of another instance. The outer call must report that error as
/// a host error, not as an error of its own guest.
#[test]
fn the_error_of_another_instance_is_a_host_error() {
    let act: Act = |mut caller, n| {
        assert_eq!(by_name(&mut caller, "add", n)?, n + 1);
        let prepared = prepare();
        let mut other = instance(&prepared, |_, n| Ok(n));
        other.kill_switch().kill()?;
        Ok(other.call(&func(&prepared, "add"), n)?)
    };
    let error = called("call", 3, act).expect_err("the other instance was killed");
    let CallError::Host(error) = error else {
        panic!("expected a host error, found {error:?}");
    };
    let inner = error.downcast_ref::<CallError>();
    assert!(matches!(inner, Some(CallError::Killed(_))), "{inner:?}");
}

#[test]
fn exceptions_end_at_the_host_function() {
    let act: Act = |mut caller, n| {
        assert_eq!(by_name(&mut caller, "catches", n)?, n);
        let error = by_name(&mut caller, "throws", n).expect_err("the guest throws");
        let CallError::Exception(exception) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(exception.values(), [Value::I32(n)]);
        Err(error.into())
    };
    let error = called("guarded", 12, act).expect_err("no handler catches the exception");
    let CallError::Exception(exception) = error else {
        panic!("{error:?}");
    };
    assert_eq!(exception.values(), [Value::I32(12)]);
}

/// The runtime searches for exceptions that are still referenced. It must scan the frames of the
/// waiting guest, too.
#[test]
fn exceptions_of_the_waiting_guest_are_kept() {
    let act: Act = |mut caller, n| {
        let depth = caller.data().notes.len() as i32;
        caller.data_mut().notes.push(n);
        if depth == 3 {
            return Ok(by_name(&mut caller, "wastes", 100_000)?);
        }
        assert_eq!(by_name(&mut caller, "keeps", depth)?, depth);
        Ok(by_name(&mut caller, "wastes", 2_000)?)
    };
    assert_eq!(called("keeps", 31, act).expect("the call returns"), 31);
}

#[test]
fn a_panic_inside_a_nested_call_ends_it() {
    let act: Act = |mut caller, n| {
        if n == 5 {
            panic!("in the inner host function");
        }
        let error = by_name(&mut caller, "deep", 10).expect_err("the host function panics");
        let CallError::Panic(panic) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(
            panic.message().as_deref(),
            Some("in the inner host function")
        );
        assert_eq!(panic.backtrace().len(), 11);
        Ok(n)
    };
    assert_eq!(called("call", 1, act).expect("the call returns"), 1);
}

/// The outer host function panics after a nested call. The backtrace must show the frames of the
/// outer guest.
#[test]
fn a_panic_after_a_nested_call_has_the_outer_frames() {
    let act: Act = |mut caller, n| {
        by_name(&mut caller, "add", n).expect("the call returns");
        panic!("in the outer host function");
    };
    let error = called("deep", 3, act).expect_err("the host function panics");
    let CallError::Panic(panic) = &error else {
        panic!("{error:?}");
    };
    assert_eq!(panic.backtrace().len(), 4);
}

#[test]
fn the_members_of_a_group_make_nested_calls_of_their_own_functions() {
    const OWNER: &str = r#"(module $owner
      (import "h" "act" (func $act (param i32) (result i32)))
      (memory (export "memory") 1)
      (func (export "own") (param i32) (result i32) (i32.add (local.get 0) (i32.const 100)))
      (func (export "enter") (param i32) (result i32) (call $act (local.get 0))))"#;
    const USER: &str = r#"(module $user
      (import "owner" "enter" (func $enter (param i32) (result i32)))
      (memory (export "memory") 2)
      (func (export "own") (param i32) (result i32) (i32.add (local.get 0) (i32.const 200)))
      (func (export "run") (param i32) (result i32)
        (i32.mul (call $enter (local.get 0)) (i32.const 2))))"#;
    let region = region(2);
    let mut linker = Linker::<Vec<usize>>::new();
    linker
        .func("h", "act", |mut caller: Caller<'_, Vec<usize>>, n: i32| {
            let own = caller.func::<i32, i32>("own")?;
            let pages = caller.memory().len() >> 16;
            caller.data_mut().push(pages);
            caller.call(&own, n)
        })
        .expect("the name is free");
    let mut group = Group::new(&region, vec![]);
    let owner = group
        .instantiate(&common::wat(OWNER), &linker)
        .expect("the module links");
    group.name("owner", owner);
    let user = group
        .instantiate(&common::wat(USER), &linker)
        .expect("the module links");
    // The user calls the owner, which calls the host function on the user's stack.
    let result = group
        .lend(user)
        .call_values("run", &[Value::I32(3)])
        .expect("the call returns");
    assert_eq!(result, [Value::I32(206)]);
    let result = group
        .lend(owner)
        .call_values("enter", &[Value::I32(3)])
        .expect("the call returns");
    assert_eq!(result, [Value::I32(103)]);
    assert_eq!(group.data().as_slice(), [1, 1]);
}

#[test]
fn a_start_function_makes_nested_calls() {
    const STARTS: &str = r#"(module
      (import "h" "act" (func $act (param i32) (result i32)))
      (global $n (export "n") (mut i32) (i32.const 0))
      (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
      (func $start (global.set $n (call $act (i32.const 4))))
      (start $start))"#;
    let region = region(1);
    let prepared = region
        .prepare(&common::wat(STARTS), &linker())
        .expect("the module links");
    let instance = instance(&prepared, |mut caller, n| {
        Ok(by_name(&mut caller, "add", n)?)
    });
    assert_eq!(instance.global("n"), Some(Value::I32(5)));
}
