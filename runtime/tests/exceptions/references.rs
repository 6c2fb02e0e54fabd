//! References to exceptions: kept in places that only the guest can see, dropped, stale, and from
//! other instances.

use crate::common;
use common::campaign::{sampled, share};
use common::values::{Lend as _, invalid, levels};
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    CallError, FuncType, Group, HostError, Instance, InvalidCall, LinkError, Linker, Region,
    TrapCode, ValType, Value,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Creates exceptions, stores references in all places that can hold them, and throws them again.
const PLACES: &str = r#"(module
  (type $v (func (param exnref) (result i32)))
  (import "h" "pass" (func $pass (param i32 exnref i32) (result exnref)))
  (tag $n (export "n") (param i32))
  (tag $e (param exnref))
  (tag $all (param i32 i64 f32 f64 v128 funcref externref exnref))
  (table $t 4 exnref)
  (table $big i64 4 1000 exnref)
  (global $g (mut exnref) (ref.null exn))
  (func $make (param i32) (result exnref)
    (block $c (result i32 exnref)
      (try_table (catch_ref $n $c) (throw $n (local.get 0)))
      (unreachable))
    (return) (unreachable))
  (func $value (export "value") (param exnref) (result i32)
    (block $c (result i32)
      (try_table (catch $n $c) (throw_ref (local.get 0)))
      (unreachable)))
  ;; Makes so many that nobody has.
  (func $waste (param $n i32)
    (loop $l
      (drop (call $make (i32.const -1)))
      (br_if $l (i32.gt_s (local.tee $n (i32.sub (local.get $n) (i32.const 1))) (i32.const 0)))))
  (func $wrap (param exnref) (result exnref)
    (block $c (result exnref exnref)
      (try_table (catch_ref $e $c) (throw $e (local.get 0)))
      (unreachable))
    (return) (unreachable))
  (func $unwrap (param exnref) (result exnref)
    (block $c (result exnref)
      (try_table (catch $e $c) (throw_ref (local.get 0)))
      (unreachable)))
  (func (export "places") (param $n i32) (result i32)
    (local $l exnref) (local $w exnref) (local $i i32)
    (table.set $t (i32.const 1) (call $make (i32.const 1)))
    (drop (table.grow $big (call $make (i32.const 10)) (i64.const 20)))
    (global.set $g (call $make (i32.const 100)))
    (local.set $l (call $make (i32.const 1000)))
    (local.set $w (call $make (i32.const 10000)))
    ;; A long chain of exceptions in exceptions.
    (loop $l
      (local.set $w (call $wrap (local.get $w)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 900))))
    (call $waste (local.get $n))
    (loop $l
      (local.set $w (call $unwrap (local.get $w)))
      (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (call $value (table.get $t (i32.const 1)))
    (i32.add (call $value (table.get $big (i64.const 23))))
    (i32.add (call $value (global.get $g)))
    (i32.add (call $value (local.get $l)))
    (i32.add (call $value (local.get $w)))
    ;; By a host function, and on the operand stack.
    (i32.add (call $value (call $pass (i32.const 1) (call $make (i32.const 100000)) (i32.const 2))))
    (call $make (i32.const 1000000))
    (call $waste (local.get $n))
    (call $value)
    (i32.add))
  ;; In the values of what is on its way.
  (func (export "on_its_way") (param $n i32) (result i32)
    (block $c (result i32 i64 f32 f64 v128 funcref externref exnref)
      (try_table (catch $all $c)
        (throw $all (i32.const 1) (i64.const 2) (f32.const 3) (f64.const 4) (v128.const i64x2 5 6)
          (ref.func $make) (ref.null extern) (call $make (i32.const 70))))
      (unreachable))
    (call $waste (local.get $n))
    (call $value)
    (i32.store)
    (unreachable))
  (memory 1)
  (elem declare func $make)
  (func (export "give") (param i32) (result exnref) (call $make (local.get 0)))
  (func (export "keep") (param i32) (result exnref) (global.set $g (call $make (local.get 0))) (global.get $g))
  (func (export "waste") (param i32) (call $waste (local.get 0)))
  ;; Has so many at once.
  (func (export "hoard") (param $n i32) (param $wasted i32) (result i32) (local $w exnref) (local $i i32)
    (local.set $w (call $make (i32.const 9)))
    (loop $l
      (local.set $w (call $wrap (local.get $w)))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (call $waste (local.get $wasted))
    (loop $l
      (local.set $w (call $unwrap (local.get $w)))
      (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
    (call $value (local.get $w))))"#;

fn text() -> String {
    // The end of `on_its_way` is a placeholder: return the sum and drop the seven other values.
    PLACES.replace(
        "(i32.store)\n    (unreachable))",
        "(local.set $n) (drop) (drop) (drop) (drop) (drop) (drop) (drop) (local.get $n))",
    )
}

fn linker() -> Linker<()> {
    let mut linker = Linker::new();
    let ty = FuncType {
        params: vec![ValType::I32, ValType::EXNREF, ValType::I32],
        results: vec![ValType::EXNREF],
    };
    linker
        .func_values("h", "pass", ty, |_, params, results| {
            results[0] = params[1];
            Ok(())
        })
        .expect("the name is free");
    linker
}

fn instance(options: &Options) -> Instance<()> {
    // The limit of exceptions is reached before that of host memory.
    let region = Region::builder().slots(1).host_bytes_max(64 << 20);
    let region = region.build().expect("a region");
    let module = common::wat_with(&text(), options);
    let prepared = region.prepare(&module, &linker()).expect("it is linked");
    prepared.try_instantiate(()).expect("the slot is free")
}

#[test]
fn a_referenced_exception_is_not_freed() {
    for options in levels() {
        let mut guest = instance(&options);
        for n in [1, 1000, 5000, share(100_000, 5) as i32] {
            let sum = guest
                .call_values("places", &[Value::I32(n)])
                .expect("it returns");
            assert_eq!(sum, [Value::I32(1_111_111)], "{n}");
            let found = guest
                .call_values("on_its_way", &[Value::I32(n)])
                .expect("it returns");
            assert_eq!(found, [Value::I32(70)], "{n}");
        }
    }
}

/// The number of referenced exceptions is limited. The runtime frees any number of unreferenced
/// exceptions.
#[test]
fn referenced_exceptions_are_limited_and_others_freed() {
    for options in levels() {
        let mut guest = instance(&options);
        for _ in sampled(0..3, 2, 0) {
            let mut hoard = |n| guest.call_values("hoard", &[n, 1].map(Value::I32));
            assert_eq!(hoard(12_000).expect("it returns"), [Value::I32(9)]);
            let many = hoard(16_400);
            assert!(
                matches!(&many, Err(CallError::Trap(trap)) if trap.code() == TrapCode::ExceptionsExhausted),
                "{many:?}"
            );
            guest
                .call_values("waste", &[Value::I32(share(100_000, 5) as i32)])
                .expect("it returns");
        }
    }
}

/// The guest has a large table, which the runtime searches for references. The runtime must not
/// search it at every throw, even if nearly all exceptions are in use.
#[test]
fn a_full_heap_of_exceptions_is_not_searched_at_every_throw() {
    let text = text().replace("(table $t 4 exnref)", "(table $t 2000000 exnref)");
    let region = Region::builder().slots(1).table_elements(2_000_000);
    let region = region.host_bytes_max(64 << 20).build();
    let region = region.expect("a region");
    let prepared = region
        .prepare(&common::wat(&text), &linker())
        .expect("it is linked");
    let mut guest = prepared.try_instantiate(()).expect("the slot is free");
    for n in [12_000, 12_280, 12_300, 16_000, 16_370] {
        let params = [n, 60_000].map(Value::I32);
        // The call takes well under a second. With a search of the table at each of 60,000 throws,
        // it takes minutes. The budget counts processor time, which other processes do not change.
        let limited = guest.cpu_budget(Duration::from_secs(30));
        match limited.call_values("hoard", &params) {
            Ok(values) => assert_eq!(values, [Value::I32(9)]),
            Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::ExceptionsExhausted),
            Err(other) => panic!("{n}: {other}"),
        }
    }
}

/// A reference to a freed exception, or to another instance's, is refused.
#[test]
fn stale_and_foreign_exception_references_are_refused() {
    let options = Options::default();
    let (mut guest, mut other) = (instance(&options), instance(&options));
    let mut one = |name: &str, n| {
        guest
            .call_values(name, &[Value::I32(n)])
            .expect("it returns")[0]
    };
    let (stale, kept) = (one("give", 3), one("keep", 4));
    assert!(matches!(kept, Value::ExnRef(Some(_))));
    let _ = guest
        .call_values("waste", &[Value::I32(40_000)])
        .expect("it returns");
    assert_eq!(
        guest.call_values("value", &[kept]).expect("it is kept"),
        [Value::I32(4)]
    );
    let refused = |guest: &mut Instance<()>, value| invalid(guest.call_values("value", &[value]));
    let freed = InvalidCall::ExceptionNotKept {
        name: "value".to_owned(),
        position: 0,
    };
    assert_eq!(refused(&mut guest, stale), freed);
    assert_eq!(refused(&mut other, kept), InvalidCall::ForeignRef);
    let null = guest.call_values("value", &[Value::ExnRef(None)]);
    assert!(
        matches!(null, Err(CallError::Trap(trap)) if trap.code() == TrapCode::NullExceptionReference)
    );
    // The next instance in the slot.
    drop(guest);
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region
        .prepare(&common::wat(&text()), &linker())
        .expect("it is linked");
    let mut first = prepared.try_instantiate(()).expect("the slot is free");
    let old = first
        .call_values("keep", &[Value::I32(4)])
        .expect("it returns")[0];
    drop(first);
    let mut second = prepared.try_instantiate(()).expect("the slot is free");
    let new = second
        .call_values("keep", &[Value::I32(5)])
        .expect("it returns")[0];
    assert_ne!(old, new);
    assert_eq!(refused(&mut second, old), InvalidCall::ForeignRef);
    assert_eq!(
        second.call_values("value", &[new]).expect("it is kept"),
        [Value::I32(5)]
    );
}

/// A host passes exception references that the types or instances do not allow.
#[test]
fn exception_references_from_the_host_are_checked() {
    let given = Arc::new(Mutex::new(Value::ExnRef(None)));
    let gives = Arc::clone(&given);
    let ty = FuncType {
        params: vec![ValType::I32, ValType::EXNREF, ValType::I32],
        results: vec![ValType::EXNREF],
    };
    let mut linker = Linker::<()>::new();
    linker
        .func_values("h", "pass", ty, move |_, _, results| {
            results[0] = *gives.lock().map_err(|_| HostError::message("poisoned"))?;
            Ok(())
        })
        .expect("the name is free");
    let region = Region::builder().slots(2).build().expect("a region");
    let module = common::wat(&text());
    let prepared = region.prepare(&module, &linker).expect("it is linked");
    let mut guest = prepared.try_instantiate(()).expect("a slot is free");
    let mut other = prepared.try_instantiate(()).expect("a slot is free");
    let foreign = other
        .call_values("keep", &[Value::I32(3)])
        .expect("it returns")[0];
    let stale = guest
        .call_values("give", &[Value::I32(3)])
        .expect("it returns")[0];
    guest
        .call_values("waste", &[Value::I32(40_000)])
        .expect("it returns");
    for value in [
        foreign,
        stale,
        Value::ExnRef(None),
        Value::I32(1),
        Value::FuncRef(None),
    ] {
        *given.lock().expect("no thread panics") = value;
        match guest.call_values("places", &[Value::I32(1)]) {
            Err(CallError::Host(_)) => {}
            Err(CallError::Trap(trap)) if value != foreign => {
                assert_eq!(trap.code(), TrapCode::NullExceptionReference);
            }
            other => panic!("{value:?} {other:?}"),
        }
    }
    let offered = linker.global("h", "g", foreign).map(|_| ());
    assert!(
        matches!(offered, Err(LinkError::Foreign { .. })),
        "{offered:?}"
    );
    linker
        .global("h", "null", Value::ExnRef(None))
        .expect("it is nobody's");
}

/// Two instances of one module have different tags. A tag that both import is one tag.
#[test]
fn tags_of_two_instances_differ() {
    const OWNER: &str = r#"(module
      (tag $t (export "t") (param i32))
      (table (export "table") 3 10 exnref)
      (global $g (export "g") (mut exnref) (ref.null exn))
      (func (export "throw") (param i32) (throw $t (local.get 0)))
      (func (export "catch") (param $e exnref) (result i32)
        (block $mine (result i32)
          (block $other
            (try_table (catch $t $mine) (catch_all $other) (throw_ref (local.get $e)))
            (unreachable))
          (i32.const -1))))"#;
    const USER: &str = r#"(module
      (import "a" "t" (tag $a (param i32)))
      (import "b" "t" (tag $b (param i32)))
      (import "b" "t" (tag $also (param i32)))
      (import "a" "throw" (func $throw_a (param i32)))
      (import "b" "throw" (func $throw_b (param i32)))
      (import "a" "catch" (func $catch_a (param exnref) (result i32)))
      (import "b" "table" (table $t 3 10 exnref))
      (import "b" "g" (global $g (mut exnref)))
      (export "again" (tag $also))
      (func $waste (param $n i32)
        (loop $l
          (block $c (result exnref) (try_table (catch_all_ref $c) (throw $b (i32.const 0))) (unreachable))
          (drop)
          (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
      (func $catch (param $which i32) (result i32)
        (block $is_a (result i32)
          (block $is_b (result i32)
            (try_table (catch $a $is_a) (catch $also $is_b)
              (if (local.get $which) (then (call $throw_b (i32.const 20))) (else (call $throw_a (i32.const 10)))))
            (unreachable))
          (i32.add (i32.const 1000))))
      (func (export "run") (param i32) (result i32) (call $catch (local.get 0)))
      (func (export "passes") (result i32)
        (table.set $t (i32.const 2)
          (block $c (result exnref) (try_table (catch_all_ref $c) (call $throw_b (i32.const 3))) (unreachable)))
        (block $c (result exnref) (try_table (catch_all_ref $c) (call $throw_a (i32.const 5))) (unreachable))
        (global.set $g)
        (call $waste (i32.const 50000))
        (i32.mul (call $catch_a (table.get $t (i32.const 2))) (call $catch_a (global.get $g))))
      (func (export "uncaught") (call $throw_b (i32.const 77))))"#;
    for level in [OptLevel::None, OptLevel::Speed] {
        let mut options = Options::default();
        options.opt_level = level;
        let region = Region::builder().slots(3).build().expect("a region");
        let mut group: Group<()> = Group::new(&region, ());
        let owner = common::wat_with(OWNER, &options);
        for name in ["a", "b"] {
            let member = group
                .instantiate(&owner, &Linker::new())
                .expect("it starts");
            group.name(name, member);
        }
        let user = common::wat_with(USER, &options);
        let user = group.instantiate(&user, &Linker::new()).expect("it starts");
        let run = |group: &mut Group<()>, n| group.lend(user).call_values("run", &[Value::I32(n)]);
        assert_eq!(run(&mut group, 0).expect("it returns"), [Value::I32(10)]);
        assert_eq!(run(&mut group, 1).expect("it returns"), [Value::I32(1020)]);
        assert_eq!(
            group
                .lend(user)
                .call_values("passes", &[])
                .expect("it returns"),
            [Value::I32(-5)]
        );
        match group.lend(user).call_values("uncaught", &[]) {
            Err(CallError::Exception(thrown)) => {
                assert_eq!(
                    (thrown.tag(), thrown.values()),
                    (Some("t"), &[Value::I32(77)][..])
                );
                assert_eq!(thrown.backtrace().len(), 2, "{}", thrown.report());
            }
            other => panic!("{other:?}"),
        }
    }
}

/// An instance that throws in its start function stays in its group, and so does its exception.
#[test]
fn an_exception_outlives_the_failed_start_of_its_instance() {
    let keeper = r#"(module
      (global $g (mut exnref) (ref.null exn))
      (func (export "keep") (param exnref) (global.set $g (local.get 0)))
      (func (export "again") (throw_ref (global.get $g))))"#;
    let thrower = r#"(module
      (import "k" "keep" (func $keep (param exnref)))
      (tag $t (param i64 i64))
      (func $start
        (block $c (result exnref) (try_table (catch_all_ref $c) (throw $t (i64.const 5) (i64.const 6))) (unreachable))
        (call $keep)
        (throw $t (i64.const 7) (i64.const 8)))
      (start $start))"#;
    let region = Region::builder().slots(3).build().expect("a region");
    let mut group: Group<()> = Group::new(&region, ());
    let member = group.instantiate(&common::wat(keeper), &Linker::new());
    let member = member.expect("it starts");
    group.name("k", member);
    let thrown = group.instantiate(&common::wat(thrower), &Linker::new());
    let thrown = thrown.expect_err("it throws").to_string();
    assert!(thrown.contains("uncaught exception (7, 8)"), "{thrown}");
    for _ in 0..2 {
        match group.lend(member).call_values("again", &[]) {
            Err(CallError::Exception(thrown)) => {
                assert_eq!(thrown.values(), [5, 6].map(Value::I64));
            }
            other => panic!("{other:?}"),
        }
    }
    // An instance without a group.
    let alone = common::wat(r#"(module (tag $t) (func $s (throw $t)) (start $s))"#);
    let prepared = region
        .prepare(&alone, &Linker::<()>::new())
        .expect("it is linked");
    for _ in 0..5 {
        let error = prepared
            .try_instantiate(())
            .expect_err("it throws")
            .to_string();
        assert!(error.contains("uncaught exception"), "{error}");
    }
    assert_eq!(region.slots_free(), 1);
}
