//! Imported functions of one type share a trampoline. Each must still call the right host function,
//! by every kind of call.

use crate::common;

use common::values::{Lend as _, number};
use pirn_runtime::{
    CallError, CallState, Caller, FuncType, Group, HostError, Linker, Operation, Region, Step,
    TypedFunc, Value,
};

const GUEST: &str = r#"(module
  (type $f (func (param i32) (result i32)))
  (import "h" "one" (func $one (type $f)))
  (import "h" "wide" (func $wide (param i64 f64 v128) (result f64 i64)))
  (import "h" "two" (func $two (type $f)))
  (import "h" "three" (func $three (type $f)))
  (table (export "table") 4 funcref)
  (elem (i32.const 0) $one $two $three $own)
  (export "one" (func $one)) (export "two" (func $two)) (export "three" (func $three))
  (func $own (type $f) (i32.add (local.get 0) (i32.const 9000)))
  (func (export "direct") (param i32) (result i32)
    (i32.add (call $one (local.get 0)) (i32.add (call $two (local.get 0)) (call $three (local.get 0)))))
  (func (export "indirect") (param i32) (result i32)
    (call_indirect (type $f) (i32.const 7) (local.get 0)))
  (func (export "ref") (param i32) (result i32)
    (call_ref $f (i32.const 5) (ref.func $three)))
  (func (export "tail") (type $f) (return_call $two (local.get 0)))
  (func (export "tail ref") (type $f) (return_call_ref $f (local.get 0) (ref.func $one)))
  (func (export "wide") (result f64 i64)
    (call $wide (i64.const 40) (f64.const 0.5) (v128.const i64x2 1 2))))"#;

/// Host functions that each add a different number, and the data of their instance.
fn linker() -> Linker<i32> {
    let mut linker = Linker::new();
    for (name, add) in [("one", 100), ("two", 200), ("three", 300)] {
        let func = move |caller: Caller<'_, i32>, n: i32| n + add + *caller.data();
        linker.func("h", name, func).expect("the name is free");
    }
    linker
        .func("h", "wide", |n: i64, x: f64, v: u128| {
            (x * 2.0, n + (v >> 64) as i64)
        })
        .expect("the name is free");
    linker
}

fn region(slots: u32) -> Region {
    Region::builder().slots(slots).build().expect("a region")
}

#[test]
fn every_kind_of_call_reaches_the_right_import() {
    let prepared = region(2)
        .prepare(&common::wat(GUEST), &linker())
        .expect("it is linked");
    let func = |name| prepared.func::<i32, i32>(name).expect("it is exported");
    let mut instances =
        [1000, 2000].map(|data| prepared.try_instantiate(data).expect("a slot is free"));
    for turn in 0..4 {
        let instance = &mut instances[turn % 2];
        let data = *instance.data();
        for (name, param, result) in [
            ("one", 1, 101 + data),
            ("two", 1, 201 + data),
            ("three", 1, 301 + data),
            ("direct", 1, 603 + 3 * data),
            ("indirect", 0, 107 + data),
            ("indirect", 1, 207 + data),
            ("indirect", 2, 307 + data),
            ("indirect", 3, 9007),
            ("ref", 0, 305 + data),
            ("tail", 2, 202 + data),
            ("tail ref", 2, 102 + data),
        ] {
            let called = instance.call(&func(name), param).expect("it returns");
            assert_eq!(called, result, "{name} of {data}");
            let called = instance.call_values(name, &[Value::I32(param)]);
            assert_eq!(called.expect("it returns"), [Value::I32(result)], "{name}");
        }
        let wide = prepared
            .func::<(), (f64, i64)>("wide")
            .expect("it is exported");
        assert_eq!(instance.call(&wide, ()).expect("it returns"), (1.0, 42));
    }
}

/// A host function gets its parameters in order, and gives all its results, however many there are:
/// few of them pass in place, more through the trampoline of their type. So does a function of
/// another module that is linked in its place.
#[test]
fn any_number_of_values_passes_in_both_directions() {
    let types = ["i64", "f32", "v128", "i32", "f64"];
    let list = |count: usize| -> String {
        let types = types.iter().cycle().take(count);
        types.map(|ty| format!(" {ty}")).collect()
    };
    let value = |at: usize, number: u8| match at % types.len() {
        0 => Value::I64(i64::from(number) << 40),
        1 => Value::F32(u32::from(number) << 20),
        2 => Value::V128(u128::from(number) << 100 | 1),
        3 => Value::I32(-i32::from(number)),
        _ => Value::F64(u64::from(number) << 50),
    };
    for (params, results) in [
        (0, 0),
        (0, 9),
        (1, 8),
        (7, 0),
        (8, 8),
        (8, 9),
        (9, 8),
        (9, 0),
        (20, 20),
    ] {
        let (param, result) = (list(params), list(results));
        let pass: String = (0..params).map(|at| format!("(local.get {at})")).collect();
        let host = common::wat(&format!(
            r#"(module (import "h" "f" (func $f (param{param}) (result{result})))
              (export "through" (func $f))
              (func (export "once") (param{param}) (result{result}) (call $f {pass}))
              (func (export "in a try") (param{param}) (result{result})
                (block $any (try_table (catch_all $any) (return (call $f {pass})))) unreachable)
              (func (export "last") (param{param}) (result{result}) (return_call $f {pass})))"#
        ));
        let given: Vec<Value> = (0..params).map(|at| value(at, at as u8 + 1)).collect();
        let answers: Vec<Value> = (0..results).map(|at| value(at, at as u8 + 101)).collect();
        let mut linker = Linker::new();
        let (want, give) = (given.clone(), answers.clone());
        let ty = FuncType {
            params: given.iter().map(Value::ty).collect(),
            results: answers.iter().map(Value::ty).collect(),
        };
        let func = move |_: Caller<'_, ()>, got: &[Value], out: &mut [Value]| {
            assert_eq!(got, want);
            out.clone_from_slice(&give);
            Ok(())
        };
        linker
            .func_values("h", "f", ty, func)
            .expect("the name is free");
        let mut group = Group::new(&region(2), ());
        let owner = group.instantiate(&host, &linker).expect("it is linked");
        group.name("h", owner);
        let user = common::wat(&format!(
            r#"(module (import "h" "once" (func $f (param{param}) (result{result})))
              (func (export "once") (param{param}) (result{result}) (call $f {pass}))
              (func (export "last") (param{param}) (result{result}) (return_call $f {pass})))"#
        ));
        let user = group
            .instantiate(&user, &Linker::new())
            .expect("it is linked");
        for (at, name) in [
            (owner, "through"),
            (owner, "once"),
            (owner, "in a try"),
            (owner, "last"),
            (user, "once"),
            (user, "last"),
        ] {
            let called = group
                .lend(at)
                .call_values(name, &given)
                .expect("it returns");
            assert_eq!(called, answers, "{name} of {params} and {results}");
        }
    }
}

/// A second instance imports a host function from the first instance, which exports it again. A
/// call must run with the state of the first instance.
#[test]
fn a_reexported_import_keeps_its_instance() {
    let mut group = Group::new(&region(2), 10);
    let linker = linker();
    let owner = group
        .instantiate(&common::wat(GUEST), &linker)
        .expect("it is linked");
    group.name("owner", owner);
    let user = group
        .instantiate(
            &common::wat(
                r#"(module
                  (type $f (func (param i32) (result i32)))
                  (import "owner" "three" (func $three (type $f)))
                  (import "h" "one" (func $one (type $f)))
                  (import "owner" "two" (func $two (type $f)))
                  (import "owner" "table" (table 4 funcref))
                  (export "three" (func $three)) (export "one" (func $one)) (export "two" (func $two))
                  (func (export "all") (type $f)
                    (i32.add (call $three (local.get 0))
                      (i32.add (call $one (local.get 0)) (call $two (local.get 0)))))
                  (func (export "indirect") (type $f)
                    (call_indirect (type $f) (i32.const 7) (local.get 0))))"#,
            ),
            &linker,
        )
        .expect("it is linked");
    for (name, param, result) in [
        ("three", 1, 311),
        ("one", 1, 111),
        ("two", 1, 211),
        ("all", 1, 633),
        ("indirect", 0, 117),
        ("indirect", 2, 317),
        ("indirect", 3, 9007),
    ] {
        let called = group.lend(user).call_values(name, &[Value::I32(param)]);
        assert_eq!(number(called), result, "{name}");
    }
}

/// Two exported imports share code. A suspended call of one must not be resumed as a call of the
/// other.
#[test]
fn a_suspended_call_is_resumed_only_by_its_own_function() {
    let mut linker = Linker::<(), i32, i32>::asking();
    for name in ["one", "two"] {
        linker
            .func_ask(
                "h",
                name,
                |_, n: i32| Ok::<_, HostError>(n),
                |_, _: i32, answer| answer,
            )
            .expect("the name is free");
    }
    let module = common::wat(
        r#"(module
          (import "h" "one" (func $one (param i32) (result i32)))
          (import "h" "two" (func $two (param i32) (result i32)))
          (export "one" (func $one)) (export "two" (func $two)))"#,
    );
    let prepared = region(1).prepare(&module, &linker).expect("it is linked");
    let func = |name| -> TypedFunc<i32, i32> { prepared.func(name).expect("it is exported") };
    let (one, two) = (func("one"), func("two"));
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    let step = instance.start(&one, 7).expect("it asks");
    assert_eq!(step, Step::Asked(7));
    match instance.resume_with(&two, 8) {
        Err(CallError::State(error)) => {
            let found = (error.operation(), error.state());
            assert_eq!(found, (Operation::ResumeWith, CallState::Another));
        }
        other => panic!("{other:?}"),
    }
    let step = instance.resume_with(&one, 9).expect("it returns");
    assert_eq!(step, Step::Returned(9));
}
