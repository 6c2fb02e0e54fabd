//! Calls by untyped function handles, and by references that guests give to the host.

use crate::common;
use common::values::{Lend as _, external, group, region};
use pirn_runtime::{
    CallError, CallState, Caller, Func, FuncRef, FuncType, Group, HostError, Instance, InvalidCall,
    LinkError, Linker, NoMember, Operation, Prepared, Region, Step, TrapCode, ValType, Value,
};
use std::time::Duration;

/// Functions of several types, most of them not exported. `next` adds its parameter to a global.
const GUEST: &str = r#"(module
  (type $i (func (param i32) (result i32)))
  (type $super (sub (func (result eqref)))) (type $sub (sub $super (func (result i31ref))))
  (import "h" "add" (func $host (type $i)))
  (global $n (export "n") (mut i32) (i32.const 0))
  (memory (export "memory") 1)
  (table $t funcref (elem $next $long $host $many $traps $sub $takes))
  (func $next (param i32) (result i32)
    (global.set $n (i32.add (global.get $n) (local.get 0))) (global.get $n))
  (func $long (param i64) (result i64) (i64.mul (local.get 0) (i64.const 2)))
  (func $many (param f32 f64 externref) (result externref f64 f32 i32)
    (local.get 2) (local.get 1) (local.get 0) (i32.const 4))
  (func $traps unreachable)
  (func $sub (type $sub) (ref.i31 (i32.const 6)))
  (func $takes (export "takes") (param (ref $i)) (result i32)
    (call_ref $i (i32.const 5) (local.get 0)))
  (func (export "get") (param i32) (result funcref) (table.get $t (local.get 0)))
  (func (export "next") (export "again") (type $i) (call $next (local.get 0)))
  (func (export "loops") (loop (br 0))))"#;

fn prepared_in(region: &Region) -> Prepared<i32> {
    let mut linker = Linker::new();
    let add = |caller: Caller<'_, i32>, n: i32| n + *caller.data();
    linker.func("h", "add", add).expect("the name is free");
    region
        .prepare(&common::wat(GUEST), &linker)
        .expect("the module links")
}

fn prepared() -> Prepared<i32> {
    prepared_in(&region(2))
}

fn start(prepared: &Prepared<i32>, data: i32) -> Instance<i32> {
    prepared.try_instantiate(data).expect("the slot is free")
}

/// The function reference at an index of the guest's table.
fn reference(guest: &mut Instance<i32>, at: i32) -> FuncRef {
    let results = guest.call_values("get", &[Value::I32(at)]);
    match results.expect("the call returns")[..] {
        [Value::FuncRef(Some(reference))] => reference,
        ref other => panic!("{other:?}"),
    }
}

#[track_caller]
fn invalid<R: std::fmt::Debug>(result: Result<R, CallError>) -> InvalidCall {
    match result.expect_err("the call is refused") {
        CallError::Invalid(invalid) => *invalid,
        other => panic!("{other}"),
    }
}

#[test]
fn one_handle_serves_all_instances_of_a_preparation() {
    let prepared = prepared();
    let next = prepared.func_values("next").expect("the export exists");
    let ty = FuncType {
        params: vec![ValType::I32],
        results: vec![ValType::I32],
    };
    assert_eq!(*next.ty(), ty);
    let (mut one, mut other) = (start(&prepared, 0), start(&prepared, 0));
    drop(prepared);
    let again = one.func_values("again").expect("the export exists");
    let call = |guest: &mut Instance<i32>, by, sum| {
        let called = guest.call_func(&next, &[Value::I32(by)]);
        assert_eq!(called.expect("the call returns"), [Value::I32(sum)]);
    };
    call(&mut one, 3, 3);
    call(&mut other, 4, 4);
    call(&mut one, 5, 8);
    let called = other.call_func(&again, &[Value::I32(1)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(5)]);
    assert_eq!(one.global("n"), Some(Value::I32(8)));
}

#[test]
fn a_name_of_no_function_has_no_handle() {
    let prepared = prepared();
    let guest = start(&prepared, 0);
    for name in ["none", "memory", "n", ""] {
        for found in [guest.func_values(name), prepared.func_values(name)] {
            match found {
                Err(LinkError::NoExport {
                    kind,
                    name: told,
                    found,
                }) => {
                    assert_eq!((kind, &*told), ("function", name));
                    assert!(found.starts_with("n, memory, takes"), "{found}");
                }
                found => panic!("{found:?}"),
            }
        }
    }
}

#[test]
fn a_handle_is_refused_by_another_preparation() {
    let region = region(3);
    let (one, other) = (prepared_in(&region), prepared_in(&region));
    let next = one.func_values("next").expect("the export exists");
    let mut guest = start(&other, 0);
    let found = invalid(guest.call_func(&next, &[Value::I32(1)]));
    assert_eq!(found, InvalidCall::OtherPreparation);
    assert_eq!(
        guest.global("n"),
        Some(Value::I32(0)),
        "refused calls must not run the guest"
    );
    let mut group = group(1);
    let member = group.instantiate(&common::wat("(module)"), &Linker::new());
    let mut member = group.lend(member.expect("it starts"));
    let found = invalid(member.call_func(&next, &[Value::I32(1)]));
    assert_eq!(found, InvalidCall::OtherPreparation);
}

#[test]
fn parameters_are_checked_as_in_a_call_by_name() {
    let mut guest = start(&prepared(), 0);
    let next = guest.func_values("next").expect("the export exists");
    for (params, count) in [(vec![], 0), (vec![Value::I32(1); 2], 2)] {
        match invalid(guest.call_func(&next, &params)) {
            InvalidCall::Count {
                name,
                wanted,
                found,
                ..
            } => {
                assert_eq!((&*name, wanted, found), ("next", 1, count));
            }
            other => panic!("{other}"),
        }
    }
    let wrong = [
        Value::I64(1),
        Value::F32(0),
        Value::FuncRef(None),
        external(1),
    ];
    for value in wrong {
        match invalid(guest.call_func(&next, &[value])) {
            InvalidCall::Type {
                name,
                position,
                wanted,
                ..
            } => {
                assert_eq!((&*name, position, wanted), ("next", 0, ValType::I32));
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(
        guest.global("n"),
        Some(Value::I32(0)),
        "refused calls must not run the guest"
    );
    // Parameters for a typed reference: the right type, another type, and null.
    let takes = guest.func_values("takes").expect("the export exists");
    let [right, wrong] = [0, 1].map(|at| Value::FuncRef(Some(reference(&mut guest, at))));
    let called = guest.call_func(&takes, &[right]);
    assert_eq!(called.expect("the call returns"), [Value::I32(5)]);
    for value in [wrong, Value::FuncRef(None)] {
        let found = invalid(guest.call_func(&takes, &[value]));
        assert!(matches!(found, InvalidCall::Type { .. }), "{found}");
    }
}

#[test]
fn references_are_called_by_their_types() {
    let mut guest = start(&prepared(), 100);
    let mut call = |at, params: &[Value]| {
        let reference = reference(&mut guest, at);
        let func = guest
            .func_of(reference)
            .expect("the instance owns the reference");
        let by_ref = guest.call_ref(reference, params);
        (func.ty().to_string(), by_ref)
    };
    let (ty, next) = call(0, &[Value::I32(2)]);
    assert_eq!(
        (&*ty, next.expect("the call returns")),
        ("(i32) -> i32", vec![Value::I32(2)])
    );
    let (ty, long) = call(1, &[Value::I64(1 << 40)]);
    assert_eq!(
        (&*ty, long.expect("the call returns")),
        ("(i64) -> i64", vec![Value::I64(1 << 41)])
    );
    // A function of the host.
    let (ty, host) = call(2, &[Value::I32(7)]);
    assert_eq!(
        (&*ty, host.expect("the call returns")),
        ("(i32) -> i32", vec![Value::I32(107)])
    );
    let (f32, f64) = (Value::F32(0x7fa0_0001), Value::F64(3));
    let (ty, many) = call(3, &[f32, f64, external(9)]);
    assert_eq!(ty, "(f32, f64, externref) -> (externref, f64, f32, i32)");
    assert_eq!(
        many.expect("the call returns"),
        [external(9), f64, f32, Value::I32(4)]
    );
    match call(4, &[]).1 {
        Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::Unreachable),
        other => panic!("{other:?}"),
    }
    let (ty, sub) = call(5, &[]);
    assert_eq!(ty, "() -> i31ref");
    let sub = sub.expect("the call returns")[0];
    assert_eq!(sub.to_string(), "i31 6");
    // The name section gives the name of a function that is not exported.
    let name_of = |found| match found {
        InvalidCall::Count { name, .. } => name,
        other => panic!("{other}"),
    };
    assert_eq!(name_of(invalid(call(1, &[]).1)), "long");
    assert_eq!(name_of(invalid(call(6, &[]).1)), "takes");
    let found = invalid(call(1, &[Value::I32(1)]).1);
    assert!(matches!(found, InvalidCall::Type { .. }), "{found}");
}

#[test]
fn a_handle_of_a_reference_is_that_of_all_instances() {
    let prepared = prepared();
    let (mut one, mut other) = (start(&prepared, 0), start(&prepared, 0));
    let reference = reference(&mut one, 0);
    let next = one
        .func_of(reference)
        .expect("the instance owns the reference");
    for (guest, by) in [(&mut one, 1), (&mut other, 7)] {
        let called = guest.call_func(&next, &[Value::I32(by)]);
        assert_eq!(called.expect("the call returns"), [Value::I32(by)]);
    }
    // A reference belongs to one instance, even after that instance has ended.
    let refused = |guest: &mut Instance<i32>| {
        let of = invalid(guest.func_of(reference).map(drop));
        assert_eq!(of, InvalidCall::ForeignRef);
        let call = invalid(guest.call_ref(reference, &[Value::I32(1)]));
        assert_eq!(call, InvalidCall::ForeignRef);
    };
    refused(&mut other);
    drop(one);
    for _ in 0..2 {
        refused(&mut start(&prepared, 0));
    }
    assert_eq!(
        other.global("n"),
        Some(Value::I32(7)),
        "refused calls must not run the guest"
    );
}

/// The runtime must find the function of every reference, including the first and the last in its
/// list.
#[test]
fn every_reference_finds_its_function() {
    const COUNT: i32 = 50;
    let funcs = (0..COUNT).map(|n| format!("(func $f{n} (result i32) (i32.const {n}))\n"));
    let names = (0..COUNT).map(|n| format!("$f{n} "));
    let text = format!(
        "(module (table $t funcref (elem {}))\n{}
         (func (export \"get\") (param i32) (result funcref) (table.get $t (local.get 0))))",
        names.collect::<String>(),
        funcs.collect::<String>(),
    );
    let mut linker = Linker::new();
    linker.func("h", "unused", || ()).expect("the name is free");
    let region = region(1);
    let prepared = region.prepare(&common::wat(&text), &linker);
    let mut guest = start(&prepared.expect("the module links"), 0);
    for n in 0..COUNT {
        let reference = reference(&mut guest, n);
        let called = guest.call_ref(reference, &[]);
        assert_eq!(called.expect("the call returns"), [Value::I32(n)]);
    }
    let get = guest.func_values("get").expect("the export exists");
    let called = guest.call_func(&get, &[Value::I32(COUNT)]);
    assert!(matches!(called, Err(CallError::Trap(_))), "{called:?}");
}

#[test]
fn limits_and_suspended_calls_apply() {
    let mut linker = Linker::<i32, (), ()>::asking();
    let add = |caller: Caller<'_, i32>, n: i32| n + *caller.data();
    linker.func("h", "add", add).expect("the name is free");
    let region = region(1);
    let prepared = region
        .prepare(&common::wat(GUEST), &linker)
        .expect("the module links");
    let mut guest = prepared.try_instantiate(0).expect("the slot is free");
    let loops = guest.func_values("loops").expect("the export exists");
    let limit = Duration::from_millis(2);
    let called = guest.deadline(limit).call_func(&loops, &[]);
    assert!(matches!(called, Err(CallError::Deadline(_))), "{called:?}");
    let called = guest.timeslice(limit).call_func(&loops, &[]);
    assert!(matches!(called, Err(CallError::State(_))), "{called:?}");
    let results = guest
        .call_values("get", &[Value::I32(0)])
        .expect("the call returns");
    let [Value::FuncRef(Some(next))] = results[..] else {
        panic!("{results:?}");
    };
    let called = guest
        .deadline(Duration::from_secs(3600))
        .call_ref(next, &[Value::I32(1)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(1)]);
    let step = guest.timeslice(limit).start(
        &prepared.func::<(), ()>("loops").expect("the export exists"),
        (),
    );
    assert!(matches!(step, Ok(Step::Preempted)), "{step:?}");
    for called in [
        guest.call_func(&loops, &[]),
        guest.call_ref(next, &[Value::I32(1)]),
    ] {
        match called {
            Err(CallError::State(error)) => {
                let (operation, state) = (error.operation(), error.state());
                assert_eq!((operation, state), (Operation::Call, CallState::Preempted));
            }
            other => panic!("{other:?}"),
        }
    }
    guest.cancel();
    let called = guest.call_ref(next, &[Value::I32(1)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(2)]);
}

/// The user's table has functions of both members. The two modules give the types of these
/// functions different indices.
const OWNER: &str = r#"(module
  (type $i (func (param i32) (result i32)))
  (global $n (export "n") (mut i32) (i32.const 10))
  (func (export "next") (type $i)
    (global.set $n (i32.add (global.get $n) (local.get 0))) (global.get $n)))"#;

const USER: &str = r#"(module
  (type $other (func)) (type $i (func (param i32) (result i32)))
  (import "owner" "next" (func $next (type $i)))
  (table $t funcref (elem $next $own))
  (global $n (export "n") (mut i32) (i32.const 20))
  (func $own (type $i) (global.set $n (local.get 0)) (call $next (local.get 0)))
  (func (export "own") (type $i) (call $own (local.get 0)))
  (func (export "get") (param i32) (result funcref) (table.get $t (local.get 0))))"#;

#[test]
fn functions_of_a_group_run_in_their_members() {
    let linker = Linker::new();
    let (mut one, mut another) = (group(2), group(2));
    let start = |group: &mut Group<()>| {
        let owner = group
            .instantiate(&common::wat(OWNER), &linker)
            .expect("the module links");
        group.name("owner", owner);
        let user = group
            .instantiate(&common::wat(USER), &linker)
            .expect("the module links");
        [owner, user]
    };
    let [owner, user] = start(&mut one);
    let [other, _] = start(&mut another);
    let get = one.at(user).func_values("get").expect("the export exists");
    let mut reference = |at| match one
        .lend(user)
        .call_func(&get, &[Value::I32(at)])
        .expect("the call returns")[..]
    {
        [Value::FuncRef(Some(reference))] => reference,
        ref other => panic!("{other:?}"),
    };
    let (next, own) = (reference(0), reference(1));
    let calls: [(FuncRef, i32, i32, i32); 3] =
        [(next, 1, 11, 20), (own, 2, 13, 2), (next, 3, 16, 2)];
    for (reference, by, of_owner, of_user) in calls {
        let called = one.lend(owner).call_ref(reference, &[Value::I32(by)]);
        assert_eq!(called.expect("the call returns"), [Value::I32(of_owner)]);
        assert_eq!(one.at(owner).global("n"), Some(Value::I32(of_owner)));
        assert_eq!(one.at(user).global("n"), Some(Value::I32(of_user)));
    }
    // Get the handles of an export of each member, and of a reference.
    let funcs: [Func; 3] = [
        one.at(owner)
            .func_values("next")
            .expect("the export exists"),
        one.at(user).func_values("own").expect("the export exists"),
        one.at(owner)
            .func_of(own)
            .expect("the group owns the reference"),
    ];
    for (func, sum) in funcs.iter().zip([17, 18, 19]) {
        assert_eq!(func.ty().to_string(), "(i32) -> i32");
        let called = one.lend(owner).call_func(func, &[Value::I32(1)]);
        assert_eq!(called.expect("the call returns"), [Value::I32(sum)]);
        let found = invalid(another.lend(other).call_func(func, &[Value::I32(1)]));
        assert_eq!(found, InvalidCall::OtherPreparation);
    }
    for reference in [next, own] {
        let found = invalid(another.lend(other).call_ref(reference, &[Value::I32(1)]));
        assert_eq!(found, InvalidCall::ForeignRef);
        let mut third = group(1);
        let member = third.instantiate(&common::wat("(module)"), &linker);
        let mut member = third.lend(member.expect("the module links"));
        let found = invalid(member.call_ref(reference, &[Value::I32(1)]));
        assert_eq!(found, InvalidCall::ForeignRef);
    }
    let found = one.at(owner).func_values("own");
    assert!(
        matches!(found, Err(LinkError::NoExport { .. })),
        "{found:?}"
    );
    let found = another.member(owner).map(drop);
    assert_eq!(found, Err(NoMember { found: 0, count: 2 }));
    // Deadlines apply to calls by handle and by reference. The group refuses time slices.
    let limit = Duration::from_secs(3600);
    let mut member = one.lend(owner);
    let called = member
        .deadline(limit)
        .call_func(&funcs[0], &[Value::I32(1)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(20)]);
    let called = member.deadline(limit).call_ref(own, &[Value::I32(1)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(21)]);
    let called = member
        .deadline(Duration::ZERO)
        .call_ref(own, &[Value::I32(1)]);
    assert!(matches!(called, Err(CallError::Deadline(_))), "{called:?}");
    let called = member
        .timeslice(limit)
        .call_func(&funcs[0], &[Value::I32(1)]);
    assert!(matches!(called, Err(CallError::State(_))), "{called:?}");
}

/// The guest gives a function to the host, which calls it while the guest waits.
const CALLS_BACK: &str = r#"(module
  (import "h" "twice" (func $twice (param funcref i32) (result i32)))
  (global $n (export "n") (mut i32) (i32.const 0))
  (elem declare func $add $traps $long $deep)
  (func $add (export "add") (param i32) (result i32)
    (global.set $n (i32.add (global.get $n) (local.get 0))) (global.get $n))
  (func $traps (param i32) (result i32) unreachable)
  (func $long (param i64) (result i64) (local.get 0))
  (func $deep (param i32) (result i32) (call $twice (ref.func $add) (local.get 0)))
  (func (export "add_twice") (param i32) (result i32) (call $twice (ref.func $add) (local.get 0)))
  (func (export "deep") (param i32) (result i32) (call $twice (ref.func $deep) (local.get 0)))
  (func (export "traps") (result i32) (call $twice (ref.func $traps) (i32.const 1)))
  (func (export "long") (result i32) (call $twice (ref.func $long) (i32.const 1)))
  (func (export "null") (result i32) (call $twice (ref.null func) (i32.const 1)))
  (func (export "get") (result funcref) (ref.func $add)))"#;

/// The host function calls `func` if it is set. Otherwise it calls `reference` if that is set, and
/// the guest's reference if neither is set.
#[derive(Debug, Default)]
struct Instead {
    reference: Option<FuncRef>,
    func: Option<Func>,
}

fn calls_back() -> Prepared<Instead> {
    let mut linker = Linker::new();
    let twice = |mut caller: Caller<'_, Instead>, given: Option<FuncRef>, n: i32| {
        let reference = caller.data().reference.or(given);
        let func = caller.data().func.clone();
        let mut sum = 0;
        for _ in 0..2 {
            let results = match (&func, reference) {
                (Some(func), _) => caller.call_func(func, &[Value::I32(n)])?,
                (None, Some(reference)) => caller.call_ref(reference, &[Value::I32(n)])?,
                (None, None) => return Err(HostError::message("no function")),
            };
            match results[..] {
                [Value::I32(result)] => sum += result,
                ref other => panic!("{other:?}"),
            }
        }
        Ok(sum)
    };
    linker.func("h", "twice", twice).expect("the name is free");
    let region = region(2);
    let prepared = region.prepare(&common::wat(CALLS_BACK), &linker);
    prepared.expect("the module links")
}

#[test]
fn a_host_function_calls_the_function_that_it_was_given() {
    let prepared = calls_back();
    let mut guest = prepared
        .try_instantiate(Instead::default())
        .expect("the slot is free");
    let called = guest.call_values("add_twice", &[Value::I32(5)]);
    assert_eq!(called.expect("the call returns"), [Value::I32(5 + 10)]);
    // The function that the host calls makes another nested call.
    let called = guest.call_values("deep", &[Value::I32(1)]);
    assert_eq!(
        called.expect("the call returns"),
        [Value::I32(11 + 12 + 13 + 14)]
    );
    match guest.call_values("traps", &[]) {
        Err(CallError::Trap(trap)) => assert_eq!(trap.code(), TrapCode::Unreachable),
        other => panic!("{other:?}"),
    }
    let found = invalid(guest.call_values("long", &[]));
    assert!(
        matches!(&found, InvalidCall::Type { name, .. } if name == "long"),
        "{found}"
    );
    let called = guest.call_values("null", &[]);
    assert!(matches!(called, Err(CallError::Host(_))), "{called:?}");
    // The host calls a handle instead of the reference.
    guest.data_mut().func = Some(prepared.func_values("add").expect("the export exists"));
    let called = guest.call_values("null", &[]);
    assert_eq!(called.expect("the call returns"), [Value::I32(15 + 16)]);
    guest.data_mut().func = Some(calls_back().func_values("add").expect("the export exists"));
    let found = invalid(guest.call_values("null", &[]));
    assert_eq!(found, InvalidCall::OtherPreparation);
    // The host calls a reference of another instance.
    let mut other = prepared
        .try_instantiate(Instead::default())
        .expect("the slot is free");
    let results = other.call_values("get", &[]).expect("the call returns");
    let [Value::FuncRef(foreign)] = results[..] else {
        panic!("{results:?}");
    };
    *guest.data_mut() = Instead {
        reference: foreign,
        func: None,
    };
    let found = invalid(guest.call_values("add_twice", &[Value::I32(1)]));
    assert_eq!(found, InvalidCall::ForeignRef);
    assert_eq!(
        guest.global("n"),
        Some(Value::I32(16)),
        "refused calls must not run the guest"
    );
    assert_eq!(
        other.global("n"),
        Some(Value::I32(0)),
        "refused calls must not run the guest"
    );
}

/// The guest gives the host function a reference to a function of another member.
#[test]
fn a_host_function_calls_a_function_of_another_member() {
    const OTHER: &str = r#"(module
      (type $wide (func (param i64 i64) (result i64)))
      (type $i (func (param i32) (result i32)))
      (import "owner" "next" (func $next (type $i)))
      (import "h" "call" (func $call (param funcref) (result i32)))
      (table $t funcref (elem $next $own))
      (global $n (export "n") (mut i32) (i32.const 50))
      (func $own (type $i) (i32.add (global.get $n) (local.get 0)))
      (func (export "own") (type $i) (call $own (local.get 0)))
      (func (export "calls") (param i32) (result i32)
        (call $call (table.get $t (local.get 0)))))"#;
    let mut linker = Linker::<()>::new();
    let call = |mut caller: Caller<'_, ()>, reference: Option<FuncRef>| {
        let reference = reference.ok_or_else(|| HostError::message("no function"))?;
        match caller.call_ref(reference, &[Value::I32(3)])?[..] {
            [Value::I32(result)] => Ok::<_, HostError>(result),
            ref other => panic!("{other:?}"),
        }
    };
    linker.func("h", "call", call).expect("the name is free");
    let mut group = group(2);
    let owner = group
        .instantiate(&common::wat(OWNER), &linker)
        .expect("the module links");
    group.name("owner", owner);
    let user = group
        .instantiate(&common::wat(OTHER), &linker)
        .expect("the module links");
    for (at, result) in [(0, 13), (1, 53), (0, 16)] {
        let called = group.lend(user).call_values("calls", &[Value::I32(at)]);
        assert_eq!(called.expect("the call returns"), [Value::I32(result)]);
    }
    assert_eq!(group.at(owner).global("n"), Some(Value::I32(16)));
}
