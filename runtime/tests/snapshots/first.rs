//! `Prepared::call_first`: a function that each instance calls before the embedder has it.

use super::common::{self, values::region};
use pirn_runtime::{
    CallError, Caller, InstantiateError, LinkError, Linker, Prepared, TrapCode, Value,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// A guest that draws a seed when it starts, and another by its export `reseed`.
const GUEST: &str = r#"(module
  (import "host" "random" (func $random (result i32)))
  (memory 1)
  (global $seed (mut i32) (i32.const 0))
  (global $starts (export "starts") (mut i32) (i32.const 0))
  (start $begin)
  (func $begin
    (global.set $starts (i32.add (global.get $starts) (i32.const 1)))
    (call $reseed))
  (func $reseed (export "reseed") (global.set $seed (call $random)))
  (func (export "seed") (result i32) (global.get $seed))
  (func (export "trap") unreachable)
  (func (export "forever") (loop $l (br $l)))
  (func (export "with result") (result i32) (i32.const 1)))"#;

/// A linker whose random numbers are 1, 2, 3 and so on.
fn linker() -> Linker<()> {
    let next = Arc::new(AtomicI32::new(0));
    let mut linker = Linker::new();
    let random = move |_: Caller<'_, ()>| next.fetch_add(1, Ordering::Relaxed) + 1;
    linker
        .func("host", "random", random)
        .expect("the name is free");
    linker
}

fn seed(prepared: &Prepared<()>) -> i32 {
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    common::values::number(instance.call_values("seed", &[]))
}

/// A preparation of a snapshot that was taken after the start function.
fn warm() -> Prepared<()> {
    let (region, linker) = (region(1), linker());
    let prepared = region.prepare(&common::wat(GUEST), &linker);
    let prepared = prepared.expect("it links");
    assert_eq!([seed(&prepared), seed(&prepared)], [1, 2]);
    let instance = prepared.try_instantiate(()).expect("a slot is free");
    let snapshot = instance.snapshot().expect("it can be taken");
    region.prepare(&snapshot, &linker).expect("it links")
}

#[test]
fn each_instance_of_a_snapshot_draws_its_own_seed() {
    let prepared = warm();
    assert_eq!([seed(&prepared), seed(&prepared)], [3, 3]);
    let prepared = prepared.call_first("reseed").expect("it is exported");
    assert_eq!([4, 5, 6].map(|_| seed(&prepared)), [4, 5, 6]);
    let instance = prepared.try_instantiate(()).expect("a slot is free");
    assert_eq!(instance.global("starts"), Some(Value::I32(1)));
}

/// The function is called after the start function, also of a module that is no snapshot.
#[test]
fn the_function_follows_the_start_function() {
    let prepared = region(1).prepare(&common::wat(GUEST), &linker());
    let prepared = prepared.expect("it links").call_first("reseed");
    let prepared = prepared.expect("it is exported");
    assert_eq!([seed(&prepared), seed(&prepared)], [2, 4]);
}

#[test]
fn a_function_of_another_type_or_name_is_refused() {
    let prepared = warm();
    let error = prepared.call_first("with result").map(drop);
    assert!(
        matches!(error, Err(LinkError::FuncType { .. })),
        "{error:?}"
    );
    let error = prepared.call_first("nothing").map(drop);
    assert!(
        matches!(error, Err(LinkError::NoExport { .. })),
        "{error:?}"
    );
}

/// An instance whose function fails is not made, and its slot is free again.
#[test]
fn a_function_that_fails_gives_the_slot_back() {
    let prepared = warm();
    let failed = prepared.call_first("trap").expect("it is exported");
    for _ in 0..2 {
        match failed.try_instantiate(()) {
            Err(InstantiateError::Start(CallError::Trap(trap))) => {
                assert_eq!(trap.code(), TrapCode::Unreachable);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(prepared.region().slots_free(), 1);
    }
    let late = prepared.call_first("forever").expect("it is exported");
    let late = late.start_deadline(Duration::from_millis(5));
    match late.try_instantiate(()) {
        Err(InstantiateError::Start(CallError::Deadline(_))) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(seed(&prepared), 3);
}
