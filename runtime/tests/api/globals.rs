//! The host reads globals by a shared reference to the instance, and sets them.

use crate::common;
use common::values::{Lend as _, external, group, instance, number, prepare, region};
use pirn_compiler::Options;
use pirn_runtime::{
    AnyRef, CallError, CallState, Instance, Linker, NoMember, Operation, Region, SetGlobalError,
    Step, ValType, Value, ValueError,
};
use std::thread;
use std::time::Duration;

/// Exports a mutable global of each type, and functions that read the globals.
const GUEST: &str = r#"(module
  (type $i (func (result i32)))
  (type $l (func (result i64)))
  (rec (type $super (sub (func (result eqref)))) (type $sub (sub $super (func (result i31ref)))))
  (type $point (struct (field i32)))
  (type $list (array i32))
  (global (export "i32") (mut i32) (i32.const 1))
  (global (export "i64") (mut i64) (i64.const 1))
  (global (export "f32") (mut f32) (f32.const 1))
  (global (export "f64") (mut f64) (f64.const 1))
  (global $v (export "v128") (mut v128) (v128.const i64x2 1 2))
  (global $after (export "after") (mut i32) (i32.const 77))
  (global (export "constant") i32 (i32.const 5))
  (global $any_func (export "funcref") (mut funcref) (ref.null func))
  (global $typed (export "typed") (mut (ref $i)) (ref.func $four))
  (global $null_typed (export "null_typed") (mut (ref null $i)) (ref.null $i))
  (global $super (export "super") (mut (ref null $super)) (ref.null $super))
  (global $sub (export "sub") (mut (ref null $sub)) (ref.null $sub))
  (global $no_func (export "nofunc") (mut nullfuncref) (ref.null nofunc))
  (global (export "extern") (mut externref) (ref.null extern))
  (global (export "some_extern") (mut (ref null extern)) (ref.null extern))
  (global (export "any") (mut anyref) (ref.null any))
  (global (export "eq") (mut eqref) (ref.null eq))
  (global (export "i31") (mut i31ref) (ref.null i31))
  (global $point (export "point") (mut (ref null $point)) (ref.null $point))
  (global (export "list") (mut (ref null $list)) (ref.null $list))
  (global $made (export "made") (mut (ref null struct)) (struct.new $point (i32.const 9)))
  (elem declare func $long $up $down)
  (memory (export "memory") 1)
  (func $four (export "four") (type $i) (i32.const 4))
  (func $long (type $l) (i64.const 8))
  (func $up (type $super) (ref.i31 (i32.const 1)))
  (func $down (type $sub) (ref.i31 (i32.const 2)))
  (func (export "long") (result funcref) (ref.func $long))
  (func (export "up") (result (ref $super)) (ref.func $up))
  (func (export "down") (result (ref $sub)) (ref.func $down))
  (func (export "calls_typed") (result i32) (call_ref $i (global.get $typed)))
  (func (export "calls_super") (result i32)
    (i31.get_s (ref.cast (ref i31) (call_ref $super (global.get $super)))))
  (func (export "field") (result i32) (struct.get $point 0 (global.get $point)))
  (func (export "lane") (result i64) (i64x2.extract_lane 1 (global.get $v))))"#;

fn guest() -> Instance<()> {
    let region = Region::builder().slots(1).memories(2).build();
    let region = region.expect("the region is built");
    let prepared = region.prepare(&common::wat(GUEST), &Linker::new());
    let prepared = prepared.expect("the module links");
    prepared.try_instantiate(()).expect("the slot is free")
}

fn one(guest: &mut Instance<()>, name: &str) -> Value {
    match guest.call_values(name, &[]).expect("the call returns")[..] {
        [value] => value,
        ref other => panic!("{other:?}"),
    }
}

/// A reference to the function `four`, read from the global `typed`.
fn four(guest: &Instance<()>) -> Value {
    guest.global("typed").expect("the export exists")
}

fn i31(number: i32) -> Value {
    Value::AnyRef(Some(AnyRef::i31(number)))
}

#[test]
fn threads_that_share_an_instance_read_one_id() {
    fn shared<T: Sync>(value: &T) -> &T {
        value
    }
    let mut guest = guest();
    let (first, second) = thread::scope(|scope| {
        let guest = shared(&guest);
        let read = || scope.spawn(move || four(guest));
        let (first, second) = (read(), read());
        let value = |thread: thread::ScopedJoinHandle<'_, Value>| {
            thread.join().expect("the thread reads the global")
        };
        (value(first), value(second))
    });
    assert_eq!(first, second);
    assert!(matches!(first, Value::FuncRef(Some(_))));
    guest
        .set_global("funcref", first)
        .expect("the instance owns the reference");
    guest
        .set_global("funcref", second)
        .expect("the instance owns the reference");
}

#[test]
fn numbers_are_set_whole() {
    let mut guest = guest();
    let numbers = [
        ("i32", Value::I32(i32::MIN)),
        ("i64", Value::I64(i64::MIN + 1)),
        ("f32", Value::F32(0x7fa0_0001)),
        ("f64", Value::F64(0xfff4_0000_0000_0001)),
        ("v128", Value::V128(0x0123_4567_89ab_cdef_u128 << 64 | 5)),
    ];
    for (name, value) in numbers {
        guest.set_global(name, value).expect("the types match");
        assert_eq!(guest.global(name), Some(value));
    }
    assert_eq!(one(&mut guest, "lane"), Value::I64(0x0123_4567_89ab_cdef));
    assert_eq!(
        guest.global("after"),
        Some(Value::I32(77)),
        "the next global must not change"
    );
}

#[test]
fn a_global_refuses_a_value_of_another_type() {
    let mut guest = guest();
    let own = four(&guest);
    let [long, up, down] = ["long", "up", "down"].map(|name| one(&mut guest, name));
    let made = guest.global("made").expect("the export exists");
    let null = Value::FuncRef(None);
    let number = Value::I32(0);
    // Each entry has a global, a value for that global, and a part of the error message. An empty
    // message means that the global must accept the value.
    let refused = [
        ("i32", Value::I64(0), "i32 is needed, i64 was given"),
        ("i64", number, "i64 is needed, i32 was given"),
        ("f32", number, "f32 is needed, i32 was given"),
        ("f64", Value::I64(0), "f64 is needed, i64 was given"),
        ("v128", Value::I64(0), "v128 is needed, i64 was given"),
        ("i64", external(1), "i64 is needed, externref was given"),
        ("funcref", number, "funcref is needed, i32 was given"),
        (
            "funcref",
            external(1),
            "funcref is needed, externref was given",
        ),
        (
            "funcref",
            external(0),
            "funcref is needed, null of type externref was given",
        ),
        ("funcref", i31(1), "funcref is needed, anyref was given"),
        ("extern", own, "externref is needed, funcref was given"),
        ("extern", i31(1), "externref is needed, anyref was given"),
        (
            "typed",
            null,
            "(ref 0) is needed, null of type funcref was given",
        ),
        (
            "typed",
            long,
            "(ref 0) is needed, a function of another type than () -> i32 was given",
        ),
        ("typed", made, "(ref 0) is needed, anyref was given"),
        (
            "null_typed",
            long,
            "a function of another type than () -> i32 was given",
        ),
        (
            "null_typed",
            external(0),
            "null of type externref was given",
        ),
        (
            "sub",
            up,
            "(ref null 3) is needed, a function of another type than () -> i31ref was given",
        ),
        (
            "super",
            own,
            "a function of another type than () -> eqref was given",
        ),
        ("nofunc", own, "nullfuncref is needed, funcref was given"),
        ("i31", made, "i31ref is needed, anyref was given"),
        ("eq", Value::AnyRef(None), ""),
        ("list", made, "anyref of another type than"),
        ("point", i31(1), "anyref of another type than"),
        ("point", own, "is needed, funcref was given"),
        (
            "eq",
            Value::ExnRef(None),
            "eqref is needed, null of type exnref was given",
        ),
    ];
    for (name, value, told) in refused {
        let before = guest.global(name);
        let set = guest.set_global(name, value);
        if told.is_empty() {
            set.unwrap_or_else(|error| panic!("{name}: {error}"));
            continue;
        }
        let error = set.expect_err(name);
        let SetGlobalError::Value { error: found, .. } = &error else {
            panic!("{name}: {error}");
        };
        assert!(matches!(found, ValueError::Type { .. }), "{name}: {found}");
        let line = error.to_string();
        assert!(line.contains(told), "{name}: {line}");
        assert!(
            line.starts_with(&format!("global \"{name}\" cannot hold the value: ")),
            "{line}"
        );
        assert_eq!(guest.global(name), before, "{name}");
    }
    // A global must accept each value of its type, and return it unchanged.
    let allowed = [
        ("funcref", long),
        ("typed", own),
        ("null_typed", own),
        ("null_typed", null),
        ("nofunc", null),
        ("super", up),
        ("super", down),
        ("sub", down),
        ("extern", external(u64::MAX)),
        ("some_extern", external(0)),
        ("any", made),
        ("any", i31(-1)),
        ("eq", made),
        ("i31", i31(3)),
        ("point", made),
    ];
    for (name, value) in allowed {
        let set = guest.set_global(name, value);
        set.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(guest.global(name), Some(value), "{name}");
    }
    assert_eq!(one(&mut guest, "calls_typed"), Value::I32(4));
    assert_eq!(one(&mut guest, "field"), Value::I32(9));
    for (value, result) in [(up, 1), (down, 2)] {
        guest.set_global("super", value).expect("the types match");
        assert_eq!(one(&mut guest, "calls_super"), Value::I32(result));
    }
}

#[test]
fn only_a_mutable_exported_global_is_set() {
    let mut guest = guest();
    let error = guest.set_global("constant", Value::I32(6));
    let error = error.expect_err("the global is immutable");
    let (name, ty) = ("constant".to_owned(), ValType::I32);
    assert_eq!(error, SetGlobalError::Immutable { name, ty });
    let line = "global \"constant\" of type i32 is immutable; declare it as `(mut i32)`";
    assert_eq!(error.to_string(), line);
    assert_eq!(guest.global("constant"), Some(Value::I32(5)));
    for name in ["none", "memory", "four", ""] {
        assert_eq!(guest.global(name), None, "{name}");
        let error = guest.set_global(name, Value::I32(6));
        match error.expect_err("no global has this name") {
            SetGlobalError::NoExport { name: told, found } => {
                assert_eq!(told, name);
                assert!(found.starts_with("i32, i64, "), "{found}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn references_of_other_instances_are_refused() {
    let (mut guest, mut other) = (guest(), guest());
    let made = other.global("made").expect("the export exists");
    let function = four(&other);
    let foreign = [
        ("funcref", function),
        ("typed", function),
        ("any", made),
        ("point", made),
        // The runtime reserves this number.
        ("extern", external(0xfffe << 48)),
    ];
    for (name, value) in foreign {
        let before = guest.global(name);
        match guest.set_global(name, value) {
            Err(SetGlobalError::Value { error, .. }) => assert_eq!(error, ValueError::Foreign),
            set => panic!("{name}: {set:?}"),
        }
        assert_eq!(guest.global(name), before, "{name}");
    }
    // The runtime must also refuse references of an earlier instance in the same slot.
    let prepared = prepare(
        "(module (global (export \"g\") (mut funcref) (ref.func 0)) (func))",
        &Options::default(),
    );
    let first = prepared.try_instantiate(()).expect("the slot is free");
    let old = first.global("g").expect("the export exists");
    drop(first);
    let mut second = prepared.try_instantiate(()).expect("the slot is free");
    match second.set_global("g", old) {
        Err(SetGlobalError::Value { error, .. }) => assert_eq!(error, ValueError::Foreign),
        set => panic!("{set:?}"),
    }
    other
        .set_global("funcref", function)
        .expect("the instance owns the reference");
}

#[test]
fn the_next_instance_has_the_initial_values() {
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(2).reset(reset).build();
        let region = region.expect("the strategy is supported");
        let prepared = region.prepare(&common::wat(GUEST), &Linker::new());
        let prepared = prepared.expect("the module links");
        for _ in 0..3 {
            let mut guest = prepared.try_instantiate(()).expect("the slot is free");
            assert_eq!(guest.global("i32"), Some(Value::I32(1)), "{reset}");
            assert_eq!(
                guest.global("null_typed"),
                Some(Value::FuncRef(None)),
                "{reset}"
            );
            let own = four(&guest);
            guest
                .set_global("null_typed", own)
                .expect("the types match");
            guest
                .set_global("i32", Value::I32(2))
                .expect("the types match");
        }
    }
}

/// `keep` stores an exception in a global. `waste` creates exceptions and drops them.
const THROWS: &str = r#"(module
  (tag $e (param i32))
  (global $kept (export "kept") (mut exnref) (ref.null exn))
  (global $g (export "g") (mut exnref) (ref.null exn))
  (func $make (param i32) (result exnref)
    (block $c (result i32 exnref)
      (try_table (catch_ref $e $c) (throw $e (local.get 0)))
      (unreachable))
    (return) (unreachable))
  (func (export "keep") (param i32) (global.set $kept (call $make (local.get 0))))
  (func (export "forget") (global.set $kept (ref.null exn)))
  (func (export "waste") (local $n i32)
    (loop $l
      (drop (call $make (i32.const -1)))
      (br_if $l (i32.lt_s (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 3000)))))
  (func (export "value") (result i32)
    (block $c (result i32)
      (try_table (catch $e $c) (throw_ref (global.get $g)))
      (unreachable))))"#;

#[test]
fn an_exception_is_set_while_the_guest_keeps_it() {
    let mut guest = instance(THROWS, &Options::default());
    let call = |guest: &mut Instance<()>, name, params: &[Value]| {
        guest.call_values(name, params).map(drop).expect(name);
    };
    call(&mut guest, "keep", &[Value::I32(31)]);
    let kept = guest.global("kept").expect("the export exists");
    guest.set_global("g", kept).expect("the exception is live");
    call(&mut guest, "forget", &[]);
    call(&mut guest, "waste", &[]);
    // The global that the host has set keeps the exception live.
    assert_eq!(number(guest.call_values("value", &[])), 31);
    guest
        .set_global("g", Value::ExnRef(None))
        .expect("the types match");
    call(&mut guest, "waste", &[]);
    match guest.set_global("g", kept) {
        Err(SetGlobalError::Value { error, .. }) => {
            assert_eq!(error, ValueError::NotKept);
            let line =
                "the instance has freed the exception; have the guest hold a reference to it";
            assert_eq!(error.to_string(), line);
        }
        set => panic!("{set:?}"),
    }
    let mut other = instance(THROWS, &Options::default());
    call(&mut other, "keep", &[Value::I32(1)]);
    call(&mut guest, "keep", &[Value::I32(1)]);
    match guest.set_global("g", other.global("kept").expect("the export exists")) {
        Err(SetGlobalError::Value { error, .. }) => assert_eq!(error, ValueError::Foreign),
        set => panic!("{set:?}"),
    }
}

#[test]
fn a_suspended_instance_refuses_to_change() {
    const LOOPS: &str = r#"(module
      (import "h" "ask" (func $ask))
      (global (export "g") (mut i32) (i32.const 1))
      (func (export "asks") (call $ask))
      (func (export "loops") (loop (br 0))))"#;
    let mut linker = Linker::<(), (), ()>::asking();
    let ask = linker.func_ask("h", "ask", |_, ()| Ok(()), |_, (), ()| ());
    ask.expect("the name is free");
    let region = region(1);
    let prepared = region
        .prepare(&common::wat(LOOPS), &linker)
        .expect("the module links");
    let mut guest = prepared.try_instantiate(()).expect("the slot is free");
    let asks = prepared.func::<(), ()>("asks").expect("the export exists");
    let loops = prepared.func::<(), ()>("loops").expect("the export exists");
    let slice = Duration::from_millis(1);
    for state in [CallState::Asked, CallState::Preempted] {
        let step = match state {
            CallState::Asked => guest.start(&asks, ()),
            _ => guest.timeslice(slice).start(&loops, ()),
        };
        assert!(!matches!(step, Ok(Step::Returned(())) | Err(_)), "{step:?}");
        match guest.set_global("g", Value::I32(2)) {
            Err(SetGlobalError::State(error)) => {
                assert_eq!(
                    (error.operation(), error.state()),
                    (Operation::SetGlobal, state)
                );
                let line = error.to_string();
                assert!(
                    line.starts_with("change of a global of an instance that "),
                    "{line}"
                );
                assert!(line.ends_with("; resume it, or cancel it"), "{line}");
            }
            set => panic!("{set:?}"),
        }
        assert_eq!(guest.global("g"), Some(Value::I32(1)));
        guest.cancel();
    }
    guest
        .set_global("g", Value::I32(3))
        .expect("no call is suspended");
    assert_eq!(guest.global("g"), Some(Value::I32(3)));
}

/// Two members share a global. Their modules give its type different indices.
#[test]
fn members_of_a_group_share_what_is_set() {
    const OWNER: &str = r#"(module
      (type $i (func (result i32)))
      (global $g (export "g") (mut (ref null $i)) (ref.null $i))
      (global (export "constant") (ref null $i) (ref.func $f))
      (func $f (type $i) (i32.const 7))
      (func (export "calls") (result i32) (call_ref $i (global.get $g))))"#;
    const USER: &str = r#"(module
      (type $other (func (result i64)))
      (type $i (func (result i32)))
      (import "owner" "g" (global $g (mut (ref null $i))))
      (import "owner" "constant" (global $c (ref null $i)))
      (export "g" (global $g)) (export "constant" (global $c))
      (global (export "own") (ref $i) (ref.func $f))
      (global (export "long") (ref $other) (ref.func $long))
      (func $f (type $i) (i32.const 8))
      (func $long (type $other) (i64.const 1)))"#;
    let linker = Linker::new();
    let (mut one, mut another) = (group(2), group(2));
    let owner = one
        .instantiate(&common::wat(OWNER), &linker)
        .expect("the module links");
    one.name("owner", owner);
    let user = one
        .instantiate(&common::wat(USER), &linker)
        .expect("the module links");
    let read = |group: &pirn_runtime::Group<()>, member, name| {
        group.at(member).global(name).expect("the export exists")
    };
    let (seven, eight) = (read(&one, owner, "constant"), read(&one, user, "own"));
    for (member, value, result) in [(owner, eight, 8), (user, seven, 7), (user, eight, 8)] {
        one.lend(member)
            .set_global("g", value)
            .expect("the types match");
        assert_eq!(read(&one, owner, "g"), value);
        assert_eq!(read(&one, user, "g"), value);
        assert_eq!(number(one.lend(owner).call_values("calls", &[])), result);
    }
    let long = read(&one, user, "long");
    for member in [owner, user] {
        match one.lend(member).set_global("g", long) {
            Err(SetGlobalError::Value { error, .. }) => {
                assert!(matches!(error, ValueError::Type { .. }), "{error}");
            }
            set => panic!("{set:?}"),
        }
        let error = one.lend(member).set_global("constant", seven);
        let error = error.expect_err("the global is immutable");
        assert!(matches!(error, SetGlobalError::Immutable { .. }), "{error}");
    }
    assert_eq!(
        number(one.lend(owner).call_values("calls", &[])),
        8,
        "refused values must not change the global"
    );
    // Another group refuses the member ids and the references of this group.
    let found = another.member_mut(owner).map(drop);
    assert_eq!(found, Err(NoMember { found: 0, count: 0 }));
    let own = another
        .instantiate(&common::wat(OWNER), &linker)
        .expect("the module links");
    match another.lend(own).set_global("g", eight) {
        Err(SetGlobalError::Value { error, .. }) => assert_eq!(error, ValueError::Foreign),
        set => panic!("{set:?}"),
    }
    let called = another.lend(own).call_values("calls", &[]);
    assert!(matches!(called, Err(CallError::Trap(_))), "{called:?}");
}
