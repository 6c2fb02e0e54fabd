//! Tail calls of host functions: results, errors and suspensions reach the caller of the function
//! that made the tail call.

use super::{common, levels};
use futures::executor::block_on;
use pirn_runtime::{
    CallError, Caller, HostError, Linker, Prepared, Region, Step, Trap, TrapCode, TypedFunc,
};

const GUEST: &str = r#"(module
  (import "h" "f" (func $f (param i32) (result i32)))
  (import "h" "late" (func $late (param i32) (result i32)))
  (import "h" "ask" (func $ask (param i32) (result i32)))
  (import "h" "many" (func $many (param i32 i64 i64 i64 i64 i64 i64 i64 i64 i64 i64) (result i32)))
  (type $i (func (param i32) (result i32)))
  (table 4 funcref) (elem (i32.const 1) func $f $late $ask)
  (func (export "at_once") (type $i) (return_call $f (local.get 0)))
  (func $by_table (type $i) (return_call_indirect (type $i) (local.get 0) (i32.const 1)))
  (func (export "by_table") (type $i) (i32.add (call $by_table (local.get 0)) (i32.const 1000)))
  (func $after (param $n i32) (param $x i32) (result i32)
    (if (result i32) (local.get $n)
      (then (return_call $after (i32.sub (local.get $n) (i32.const 1)) (local.get $x)))
      (else (return_call $f (local.get $x)))))
  (func (export "after") (type $i) (i32.add (call $after (i32.const 1000000) (local.get 0)) (i32.const 1000)))
  (func (export "many") (type $i)
    (return_call $many (local.get 0) (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4) (i64.const 5)
      (i64.const 6) (i64.const 7) (i64.const 8) (i64.const 9) (i64.const 10)))
  (func $waits (type $i) (return_call $late (local.get 0)))
  (func (export "waits") (type $i) (local $v v128)
    (local.set $v (i32x4.splat (i32.const 1000)))
    (i32.add (call $waits (local.get 0)) (i32x4.extract_lane 3 (local.get $v))))
  (func (export "waits_at_once") (type $i) (return_call $late (local.get 0)))
  (func $asks (type $i) (return_call_indirect (type $i) (local.get 0) (i32.const 3)))
  (func (export "asks") (type $i) (i32.add (call $asks (local.get 0)) (i32.const 1000)))
  (func (export "asks_at_once") (type $i) (return_call $ask (local.get 0))))"#;

/// The behaviour of the host function, by its parameter.
fn answer(n: i32) -> Result<i32, HostError> {
    match n {
        -1 => Err(HostError::message("not now")),
        -2 => Err(Trap::new(TrapCode::Unreachable).into()),
        -3 => panic!("not here"),
        n => Ok(n + 1),
    }
}

type Asking = Linker<(), i32, i32>;

fn prepare(level: &pirn_compiler::Options) -> Prepared<(), i32, i32> {
    let mut linker = Asking::asking();
    linker
        .func("h", "f", answer)
        .and_then(|linker| {
            linker.func_async("h", "late", |_, n: i32| {
                Box::pin(async move {
                    let mut pending = true;
                    std::future::poll_fn(|context| {
                        if std::mem::take(&mut pending) {
                            context.waker().wake_by_ref();
                            return std::task::Poll::Pending;
                        }
                        std::task::Poll::Ready(())
                    })
                    .await;
                    answer(n)
                })
            })
        })
        .and_then(|linker| {
            linker.func_ask(
                "h",
                "ask",
                |_: Caller<'_, ()>, n: i32| Ok(n),
                |_, _: i32, given| answer(given),
            )
        })
        .and_then(|linker| {
            #[allow(clippy::too_many_arguments, reason = "more than registers")]
            let many = |n: i32,
                        a: i64,
                        b: i64,
                        c: i64,
                        d: i64,
                        e: i64,
                        f: i64,
                        g: i64,
                        h: i64,
                        i: i64,
                        j: i64| {
                answer(n).map(|n| {
                    n + i32::from([a, b, c, d, e, f, g, h, i, j] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
                })
            };
            linker.func("h", "many", many)
        })
        .expect("the names are free");
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&common::wat_with(GUEST, level), &linker);
    prepared.expect("it is linked")
}

/// Checks that errors, traps and panics of the host reach the caller, with this number of guest
/// frames.
fn fails(mut call: impl FnMut(i32) -> Result<i32, CallError>, frames: usize) {
    let error = call(-1).expect_err("it fails");
    assert!(
        matches!(&error, CallError::Host(error) if error.to_string() == "not now"),
        "{error}"
    );
    let error = call(-2).expect_err("it traps");
    let CallError::Trap(trap) = &error else {
        panic!("{error}")
    };
    assert_eq!(
        (trap.code(), trap.backtrace().len()),
        (TrapCode::Unreachable, frames),
        "{error}"
    );
    let error = call(-3).expect_err("it panics");
    assert!(matches!(error, CallError::Panic(_)), "{error}");
}

#[test]
fn results_of_a_tail_called_host_function_reach_the_outer_caller() {
    for options in levels() {
        let prepared = prepare(&options);
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        let func =
            |name: &str| -> TypedFunc<i32, i32> { prepared.func(name).expect("it is exported") };
        for (name, added, frames) in [
            ("at_once", 1, 0),
            ("by_table", 1001, 1),
            ("after", 1001, 1),
            ("many", 2, 0),
        ] {
            let func = func(name);
            for n in [0, 5, 100] {
                assert_eq!(
                    instance.call(&func, n).expect("it returns"),
                    n + added,
                    "{name}"
                );
            }
            fails(|n| instance.call(&func, n), frames);
            assert_eq!(
                instance.call(&func, 7).expect("it returns"),
                7 + added,
                "{name}"
            );
        }
    }
}

#[test]
fn a_guest_waits_in_a_tail_call() {
    for options in levels() {
        let prepared = prepare(&options);
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        for (name, added, frames) in [("waits", 1001, 1), ("waits_at_once", 1, 0)] {
            let func: TypedFunc<i32, i32> = prepared.func(name).expect("it is exported");
            let mut call = |n| block_on(instance.call_async(&func, n));
            assert_eq!(call(5).expect("it returns"), 5 + added, "{name}");
            fails(&mut call, frames);
            assert_eq!(call(6).expect("it returns"), 6 + added, "{name}");
        }
    }
}

#[test]
fn a_guest_asks_in_a_tail_call() {
    for options in levels() {
        let prepared = prepare(&options);
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        for (name, added, frames) in [("asks", 1001, 1), ("asks_at_once", 1, 0)] {
            let func: TypedFunc<i32, i32> = prepared.func(name).expect("it is exported");
            let mut call = |n| {
                let step = instance.start(&func, 3)?;
                assert_eq!(step, Step::Asked(3));
                match instance.resume_with(&func, n)? {
                    Step::Returned(result) => Ok(result),
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(call(5).expect("it returns"), 5 + added, "{name}");
            fails(&mut call, frames);
            assert_eq!(call(6).expect("it returns"), 6 + added, "{name}");
        }
    }
}
