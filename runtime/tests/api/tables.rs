//! The host reads and changes tables.

use crate::common;
use common::values::{Lend as _, external, group, levels, number};
use pirn_compiler::Options;
use pirn_runtime::{
    AddrType, AnyRef, CallError, CallState, Group, Growing, Growth, GrowthError, Instance, Linker,
    NoMember, Operation, Region, Step, Table, TableError, TrapCode, Value, ValueError,
};
use std::time::Duration;

/// Exports tables of every kind. No instruction writes to a table, so only the host changes them.
const GUEST: &str = r#"(module
  (type $i (func (result i32)))
  (type $l (func (result i64)))
  (rec (type $super (sub (func (result eqref)))) (type $sub (sub $super (func (result i31ref)))))
  (type $point (struct (field i32)))
  (table $t (export "t") 4 8 funcref)
  (elem (table $t) (i32.const 1) func $one $long)
  (table $typed (export "typed") 2 (ref $i) (ref.func $one))
  (table $nullable (export "nullable") 2 (ref null $i))
  (table $super (export "super") 1 (ref null $super))
  (table $sub (export "sub") 1 (ref null $sub))
  (table $far (export "far") i64 3 5 funcref)
  (table $hosts (export "hosts") 2 externref)
  (table $any (export "any") 1 anyref)
  (table $points (export "points") 1 (ref null $point))
  (table $none (export "none") 1 nullfuncref)
  (table $empty (export "empty") 0 funcref)
  (table $fixed (export "fixed") 2 2 funcref)
  (table $own 1 funcref)
  (global (export "made") (ref null struct) (struct.new $point (i32.const 9)))
  (memory (export "memory") 1)
  (elem declare func $two $up $down)
  (func $one (type $i) (i32.const 1))
  (func $two (type $i) (i32.const 2))
  (func $long (type $l) (i64.const 3))
  (func $up (type $super) (ref.i31 (i32.const 4)))
  (func $down (type $sub) (ref.i31 (i32.const 5)))
  (func (export "two") (result funcref) (ref.func $two))
  (func (export "long") (result funcref) (ref.func $long))
  (func (export "up") (result funcref) (ref.func $up))
  (func (export "down") (result funcref) (ref.func $down))
  (func (export "call") (param i32) (result i32) (call_indirect $t (type $i) (local.get 0)))
  (func (export "call_first") (result i32) (call_indirect $t (type $i) (i32.const 1)))
  (func (export "call_typed") (param i32) (result i32)
    (call_ref $i (table.get $typed (local.get 0))))
  (func (export "call_far") (param i64) (result i32) (call_indirect $far (type $i) (local.get 0)))
  (func (export "call_empty") (param i32) (result i32)
    (call_indirect $empty (type $i) (local.get 0)))
  (func (export "call_super") (result i32)
    (i31.get_s (ref.cast (ref i31) (call_ref $super (table.get $super (i32.const 0))))))
  (func (export "field") (result i32) (struct.get $point 0 (table.get $points (i32.const 0))))
  (func (export "size") (result i32) (table.size $t)))"#;

fn region() -> Region {
    let built = Region::builder().slots(1).memories(2).tables(13).build();
    built.expect("the region is built")
}

fn guest_with(options: &Options) -> Instance<()> {
    let prepared = region().prepare(&common::wat_with(GUEST, options), &Linker::new());
    let prepared = prepared.expect("the module links");
    prepared.try_instantiate(()).expect("the slot is free")
}

fn guest() -> Instance<()> {
    guest_with(&Options::default())
}

fn one(guest: &mut Instance<()>, name: &str) -> Value {
    match guest.call_values(name, &[]).expect("the call returns")[..] {
        [value] => value,
        ref other => panic!("{other:?}"),
    }
}

#[track_caller]
fn set(guest: &mut Instance<()>, name: &str, at: u64, value: Value) {
    let mut table = guest.table_mut(name).expect("the export exists");
    table.set(at, value).expect("the types match");
    assert_eq!(table.get(at), Some(value));
}

fn call(guest: &mut Instance<()>, name: &str, at: i32) -> Result<i32, TrapCode> {
    match guest.call_values(name, &[Value::I32(at)]) {
        Ok(results) => Ok(number(Ok(results))),
        Err(CallError::Trap(trap)) => Err(trap.code()),
        Err(other) => panic!("{other}"),
    }
}

const NULL: Value = Value::FuncRef(None);

#[test]
fn a_table_is_read_to_its_last_element() {
    let mut guest = guest();
    let table = guest.table("t").expect("the export exists");
    assert_eq!((table.len(), table.is_empty()), (4, false));
    let ty = table.ty();
    assert_eq!((ty.min, ty.max, ty.address), (4, Some(8), AddrType::I32));
    assert_eq!(ty.to_string(), "4..8 funcref");
    let elements = [0, 1, 2, 3].map(|at| table.get(at).expect("index in bounds"));
    assert_eq!((elements[0], elements[3]), (NULL, NULL));
    assert_ne!(elements[1], elements[2]);
    for at in [4, 1 << 32, (1 << 61) + 1, u64::MAX] {
        assert_eq!(table.get(at), None, "{at}");
    }
    // A call by the reference in an element runs the function of that element.
    for (element, result) in [(elements[1], Value::I32(1)), (elements[2], Value::I64(3))] {
        let Value::FuncRef(Some(reference)) = element else {
            panic!("{element:?}");
        };
        let called = guest.call_ref(reference, &[]);
        assert_eq!(called.expect("the call returns"), [result]);
    }
    let empty = guest.table("empty").expect("the export exists");
    assert!(empty.is_empty() && empty.get(0).is_none());
    let far = guest.table("far").expect("the export exists");
    assert_eq!((far.len(), far.ty().address), (3, AddrType::I64));
    let hosts = guest.table("hosts").expect("the export exists");
    assert_eq!(hosts.get(1), Some(external(0)));
}

#[test]
fn only_an_exported_table_has_a_view() {
    let mut guest = guest();
    for name in ["memory", "made", "two", "own", ""] {
        assert!(guest.table(name).is_none(), "{name}");
        match guest.table_mut(name).map(drop) {
            Err(TableError::NoExport { name: told, found }) => {
                assert_eq!(told, name);
                assert!(found.starts_with("t, typed, "), "{found}");
            }
            found => panic!("{name}: {found:?}"),
        }
    }
}

/// At every optimisation level, the compiler must not rely on the elements of an exported table.
#[test]
fn the_guest_calls_what_the_host_has_set() {
    for options in levels() {
        let mut guest = guest_with(&options);
        let two = one(&mut guest, "two");
        let long = one(&mut guest, "long");
        assert_eq!(one(&mut guest, "call_first"), Value::I32(1));
        set(&mut guest, "t", 1, two);
        assert_eq!(one(&mut guest, "call_first"), Value::I32(2));
        assert_eq!(call(&mut guest, "call", 1), Ok(2));
        set(&mut guest, "t", 1, long);
        assert_eq!(
            call(&mut guest, "call", 1),
            Err(TrapCode::IndirectCallTypeMismatch)
        );
        set(&mut guest, "t", 1, NULL);
        assert_eq!(
            call(&mut guest, "call", 1),
            Err(TrapCode::UninitializedElement)
        );
        assert_eq!(
            call(&mut guest, "call", 0),
            Err(TrapCode::UninitializedElement)
        );
        set(&mut guest, "t", 0, two);
        assert_eq!(call(&mut guest, "call", 0), Ok(2));
        assert_eq!(call(&mut guest, "call_typed", 1), Ok(1));
        set(&mut guest, "typed", 1, two);
        assert_eq!(call(&mut guest, "call_typed", 1), Ok(2));
        assert_eq!(
            call(&mut guest, "call_typed", 0),
            Ok(1),
            "element 0 must not change"
        );
        set(&mut guest, "far", 2, two);
        let called = guest.call_values("call_far", &[Value::I64(2)]);
        assert_eq!(number(called), 2);
        let made = guest.global("made").expect("the export exists");
        set(&mut guest, "points", 0, made);
        assert_eq!(one(&mut guest, "field"), Value::I32(9));
        for (name, result) in [("up", 4), ("down", 5)] {
            let func = one(&mut guest, name);
            set(&mut guest, "super", 0, func);
            assert_eq!(one(&mut guest, "call_super"), Value::I32(result));
        }
    }
}

#[test]
fn a_table_refuses_a_value_of_another_type() {
    let mut guest = guest();
    let [two, long, up, down] = ["two", "long", "up", "down"].map(|name| one(&mut guest, name));
    let made = guest.global("made").expect("the export exists");
    let i31 = Value::AnyRef(Some(AnyRef::i31(1)));
    let refused = [
        ("t", Value::I32(0), "funcref is needed, i32 was given"),
        ("t", Value::I64(0), "funcref is needed, i64 was given"),
        ("t", external(1), "funcref is needed, externref was given"),
        (
            "t",
            external(0),
            "funcref is needed, null of type externref was given",
        ),
        ("t", made, "funcref is needed, anyref was given"),
        (
            "typed",
            NULL,
            "(ref 0) is needed, null of type funcref was given",
        ),
        (
            "typed",
            long,
            "(ref 0) is needed, a function of another type than () -> i32 was given",
        ),
        (
            "typed",
            down,
            "a function of another type than () -> i32 was given",
        ),
        ("typed", made, "(ref 0) is needed, anyref was given"),
        (
            "nullable",
            long,
            "a function of another type than () -> i32 was given",
        ),
        (
            "nullable",
            Value::ExnRef(None),
            "null of type exnref was given",
        ),
        (
            "super",
            two,
            "a function of another type than () -> eqref was given",
        ),
        (
            "sub",
            up,
            "a function of another type than () -> i31ref was given",
        ),
        ("hosts", two, "externref is needed, funcref was given"),
        ("hosts", i31, "externref is needed, anyref was given"),
        ("any", two, "anyref is needed, funcref was given"),
        ("any", external(1), "anyref is needed, externref was given"),
        ("points", i31, "anyref of another type than"),
        ("points", two, "is needed, funcref was given"),
        ("none", two, "nullfuncref is needed, funcref was given"),
    ];
    for (name, value, told) in refused {
        let mut table = guest.table_mut(name).expect("the export exists");
        let before = (table.len(), table.get(0));
        let results = [
            table.set(0, value),
            table.fill(0, value, 1),
            // The table checks the type even if it would write nothing.
            table.fill(0, value, 0),
            table.grow(1, value).map(drop),
            table.grow(0, value).map(drop),
        ];
        for result in results {
            let error = result.expect_err(name);
            let is_type = matches!(&error, TableError::Value(ValueError::Type { .. }));
            assert!(is_type, "{name}: {error}");
            let line = error.to_string();
            assert!(line.contains(told), "{name}: {line}");
        }
        assert_eq!((table.len(), table.get(0)), before, "{name}");
    }
    let allowed = [
        ("t", NULL),
        ("t", up),
        ("typed", two),
        ("nullable", NULL),
        ("nullable", two),
        ("super", up),
        ("super", down),
        ("sub", down),
        ("hosts", external(u64::MAX)),
        ("any", made),
        ("any", i31),
        ("points", made),
        ("points", Value::AnyRef(None)),
        ("none", NULL),
    ];
    for (name, value) in allowed {
        set(&mut guest, name, 0, value);
    }
}

#[test]
fn references_of_other_instances_are_refused() {
    let (mut guest, mut other) = (guest(), guest());
    let made = other.global("made").expect("the export exists");
    let two = one(&mut other, "two");
    let reserved = external(0xfffe << 48);
    for (name, value) in [
        ("t", two),
        ("typed", two),
        ("any", made),
        ("points", made),
        ("hosts", reserved),
    ] {
        let mut table = guest.table_mut(name).expect("the export exists");
        let before = (table.len(), table.get(0));
        let results = [
            table.set(0, value),
            table.fill(0, value, 1),
            table.grow(1, value).map(drop),
        ];
        assert_eq!(
            results.map(|result| result.expect_err(name)),
            [(); 3].map(|()| { TableError::Value(ValueError::Foreign) })
        );
        assert_eq!((table.len(), table.get(0)), before, "{name}");
    }
    // The runtime must also refuse references of an earlier instance in the same slot.
    let prepared = region().prepare(&common::wat(GUEST), &Linker::new());
    let prepared = prepared.expect("the module links");
    let old = {
        let first = prepared.try_instantiate(()).expect("the slot is free");
        let table = first.table("typed").expect("the export exists");
        table.get(0).expect("index in bounds")
    };
    let mut second = prepared.try_instantiate(()).expect("the slot is free");
    let mut table = second.table_mut("typed").expect("the export exists");
    assert_eq!(
        table.set(0, old),
        Err(TableError::Value(ValueError::Foreign))
    );
    let own = table.get(0).expect("index in bounds");
    assert_ne!(own, old);
    table.set(1, own).expect("the instance owns the reference");
}

#[test]
fn a_write_past_the_end_changes_nothing() {
    let mut guest = guest();
    let two = one(&mut guest, "two");
    let mut table = guest.table_mut("t").expect("the export exists");
    let before = [0, 1, 2, 3].map(|at| table.get(at));
    let outside = |index, len| TableError::OutOfBounds {
        index,
        len,
        elements: 4,
    };
    for index in [4, 5, 1 << 32, (1 << 61) + 1, u64::MAX] {
        assert_eq!(table.set(index, two), Err(outside(index, 1)));
    }
    for (index, len) in [
        (0, 5),
        (3, 2),
        (4, 1),
        (5, 0),
        (1, u64::MAX),
        (u64::MAX, u64::MAX),
    ] {
        assert_eq!(table.fill(index, two, len), Err(outside(index, len)));
    }
    let line = "table has 4 elements, 2 from 3 on were to be set; grow it first";
    assert_eq!(outside(3, 2).to_string(), line);
    assert_eq!([0, 1, 2, 3].map(|at| table.get(at)), before);
    // Writes up to the end succeed.
    table
        .fill(4, two, 0)
        .expect("an empty range at the end is in bounds");
    table.set(3, two).expect("index in bounds");
    assert_eq!([0, 1, 2].map(|at| table.get(at)), before[..3]);
    table.fill(2, two, 2).expect("range in bounds");
    assert_eq!([0, 1].map(|at| table.get(at)), before[..2]);
    table.fill(0, two, 4).expect("range in bounds");
    assert_eq!([0, 1, 2, 3].map(|at| table.get(at)), [Some(two); 4]);
    for at in 0..4 {
        assert_eq!(call(&mut guest, "call", at), Ok(2));
    }
}

#[test]
fn a_table_grows_to_its_maximum() {
    let mut guest = guest();
    let two = one(&mut guest, "two");
    let mut table = guest.table_mut("t").expect("the export exists");
    assert_eq!(table.grow(0, two), Ok(4));
    assert_eq!(table.grow(3, two), Ok(4));
    let limit = |desired| TableError::Limit { desired, limit: 8 };
    assert_eq!(table.grow(2, two), Err(limit(9)));
    assert_eq!(table.grow(u64::MAX, two), Err(limit(u64::MAX)));
    assert_eq!(table.len(), 7);
    assert_eq!(table.grow(1, NULL), Ok(7));
    assert_eq!(table.grow(1, NULL), Err(limit(9)));
    assert_eq!(table.grow(0, NULL), Ok(8));
    assert_eq!(
        (table.len(), table.get(6), table.get(7), table.get(8)),
        (8, Some(two), Some(NULL), None)
    );
    assert_eq!(one(&mut guest, "size"), Value::I32(8));
    assert_eq!(
        call(&mut guest, "call", 3),
        Err(TrapCode::UninitializedElement)
    );
    assert_eq!(call(&mut guest, "call", 4), Ok(2));
    assert_eq!(call(&mut guest, "call", 6), Ok(2));
    assert_eq!(
        call(&mut guest, "call", 7),
        Err(TrapCode::UninitializedElement)
    );
    assert_eq!(call(&mut guest, "call", 8), Err(TrapCode::UndefinedElement));
    // The compiler treats the size of this table as a constant.
    let mut fixed = guest.table_mut("fixed").expect("the export exists");
    let error = fixed.grow(1, NULL).expect_err("the table cannot grow");
    assert_eq!(
        error,
        TableError::Limit {
            desired: 3,
            limit: 2
        }
    );
    let line =
        "table cannot grow to 3 elements, its limit is 2; raise its maximum or `table_elements`";
    assert_eq!(error.to_string(), line);
    // A table without elements.
    assert_eq!(
        call(&mut guest, "call_empty", 0),
        Err(TrapCode::UndefinedElement)
    );
    let mut empty = guest.table_mut("empty").expect("the export exists");
    assert_eq!(empty.grow(1, two), Ok(0));
    assert_eq!(call(&mut guest, "call_empty", 0), Ok(2));
    assert_eq!(
        call(&mut guest, "call_empty", 1),
        Err(TrapCode::UndefinedElement)
    );
    // This table has 64-bit indices.
    let mut far = guest.table_mut("far").expect("the export exists");
    assert_eq!(far.grow(2, two), Ok(3));
    assert_eq!(
        far.grow(1, two),
        Err(TableError::Limit {
            desired: 6,
            limit: 5
        })
    );
    let called = guest.call_values("call_far", &[Value::I64(4)]);
    assert_eq!(number(called), 2);
}

/// The host's data: growths that the runtime asked the limiter to allow, and growths that failed.
#[derive(Debug, Default)]
struct Asked {
    allows: bool,
    growths: Vec<Growth>,
    failed: Vec<Growth>,
}

fn limited() -> Linker<Asked> {
    let mut linker = Linker::<Asked>::new();
    linker.table_limiter(|asked, growth| {
        asked.growths.push(growth);
        asked.allows
    });
    linker.growth_failed(|asked, growth, error| {
        assert!(matches!(error, GrowthError::Limit { .. }), "{error}");
        asked.failed.push(growth);
    });
    linker
}

#[test]
fn the_region_and_the_limiter_must_allow_growth() {
    const TEXT: &str = r#"(module (table 1 funcref) (table (export "t") 2 funcref))"#;
    let region = Region::builder().slots(1).tables(2).table_elements(20);
    let region = region.build().expect("the region is built");
    let prepared = region
        .prepare(&common::wat(TEXT), &limited())
        .expect("the module fits");
    let mut guest = prepared
        .try_instantiate(Asked::default())
        .expect("the slot is free");
    let growth = |current, desired| (Growing::Table(1), current, desired);
    let sizes = |growths: &[Growth]| -> Vec<_> {
        let sizes = growths.iter();
        sizes
            .map(|growth| (growth.what, growth.current, growth.desired))
            .collect()
    };
    let mut grow = |allows, delta| {
        guest.data_mut().allows = allows;
        let mut table = guest.table_mut("t").expect("the export exists");
        let grown = table.grow(delta, NULL);
        let len = table.len();
        let Asked {
            growths, failed, ..
        } = std::mem::take(guest.data_mut());
        (grown, len, sizes(&growths), sizes(&failed))
    };
    let refused = TableError::Refused {
        elements: 2,
        desired: 5,
    };
    let line =
        "limiter refused to let a table of 2 elements grow to 5; ask for less, or allow more";
    assert_eq!(refused.to_string(), line);
    assert_eq!(
        grow(false, 3),
        (Err(refused), 2, vec![growth(2, 5)], vec![])
    );
    assert_eq!(grow(false, 0), (Ok(2), 2, vec![], vec![]));
    let limit = TableError::Limit {
        desired: 21,
        limit: 20,
    };
    assert_eq!(grow(true, 19), (Err(limit), 2, vec![], vec![growth(2, 21)]));
    assert_eq!(grow(true, 18), (Ok(2), 20, vec![growth(2, 20)], vec![]));
}

#[test]
fn the_next_instance_has_the_initial_elements() {
    const LARGE: u64 = 200_000;
    const TEXT: &str = r#"(module (type $i (func (result i32)))
      (table $t (export "t") 2 funcref) (elem (table $t) (i32.const 1) func $one)
      (elem declare func $two)
      (func $one (type $i) (i32.const 1))
      (func (export "two") (result funcref) (ref.func $two))
      (func $two (type $i) (i32.const 2))
      (func (export "call") (param i32) (result i32) (call_indirect $t (type $i) (local.get 0)))
      (func (export "size") (result i32) (table.size $t)))"#;
    for reset in common::resets() {
        let region = Region::builder().slots(1).table_elements(LARGE as u32);
        let region = region
            .reset(reset)
            .build()
            .expect("the strategy is supported");
        let prepared = region.prepare(&common::wat(TEXT), &Linker::new());
        let prepared = prepared.expect("the module fits");
        for grown in [0, 1, LARGE - 2, 1, 0] {
            let mut guest = prepared.try_instantiate(()).expect("the slot is free");
            assert_eq!(one(&mut guest, "size"), Value::I32(2), "{reset}");
            assert_eq!(
                call(&mut guest, "call", 0),
                Err(TrapCode::UninitializedElement)
            );
            assert_eq!(call(&mut guest, "call", 1), Ok(1), "{reset}");
            assert_eq!(call(&mut guest, "call", 2), Err(TrapCode::UndefinedElement));
            let two = one(&mut guest, "two");
            let mut table = guest.table_mut("t").expect("the export exists");
            table.fill(0, two, 2).expect("range in bounds");
            assert_eq!(table.grow(grown, two), Ok(2));
            assert_eq!(table.get(grown + 1), Some(two));
            assert_eq!(call(&mut guest, "call", (grown + 1) as i32), Ok(2));
        }
    }
}

#[test]
fn a_suspended_instance_refuses_to_change() {
    const LOOPS: &str = r#"(module
      (import "h" "ask" (func $ask))
      (table (export "t") 1 funcref)
      (func (export "asks") (call $ask))
      (func (export "loops") (loop (br 0))))"#;
    let mut linker = Linker::<(), (), ()>::asking();
    let ask = linker.func_ask("h", "ask", |_, ()| Ok(()), |_, (), ()| ());
    ask.expect("the name is free");
    let prepared = region()
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
        match guest.table_mut("t").map(drop) {
            Err(TableError::State(error)) => {
                assert_eq!(
                    (error.operation(), error.state()),
                    (Operation::ChangeTable, state)
                );
                let line = error.to_string();
                assert!(
                    line.starts_with("change of a table of an instance that "),
                    "{line}"
                );
                assert!(line.ends_with("; resume it, or cancel it"), "{line}");
            }
            found => panic!("{found:?}"),
        }
        assert_eq!(guest.table("t").map(|table| table.len()), Some(1));
        guest.cancel();
    }
    let mut table = guest.table_mut("t").expect("no call is suspended");
    assert_eq!(table.grow(1, NULL), Ok(1));
}

/// `keep` stores an exception in a global. `waste` creates exceptions and drops them.
const THROWS: &str = r#"(module
  (tag $e (param i32))
  (table $t (export "t") 1 exnref)
  (global $kept (export "kept") (mut exnref) (ref.null exn))
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
  (func (export "value") (param i32) (result i32)
    (block $c (result i32)
      (try_table (catch $e $c) (throw_ref (table.get $t (local.get 0))))
      (unreachable))))"#;

#[test]
fn an_exception_is_stored_while_the_guest_keeps_it() {
    let prepared = region().prepare(&common::wat(THROWS), &Linker::new());
    let mut guest = prepared
        .expect("the module fits")
        .try_instantiate(())
        .expect("the slot is free");
    let run = |guest: &mut Instance<()>, name, params: &[Value]| {
        guest.call_values(name, params).map(drop).expect(name);
    };
    run(&mut guest, "keep", &[Value::I32(31)]);
    let kept = guest.global("kept").expect("the export exists");
    let mut table = guest.table_mut("t").expect("the export exists");
    assert_eq!(table.grow(2, kept), Ok(1));
    run(&mut guest, "forget", &[]);
    run(&mut guest, "waste", &[]);
    // The elements keep the exception live.
    assert_eq!(call(&mut guest, "value", 2), Ok(31));
    let mut table = guest.table_mut("t").expect("the export exists");
    table
        .fill(0, Value::ExnRef(None), 3)
        .expect("the types match");
    run(&mut guest, "waste", &[]);
    assert_eq!(
        call(&mut guest, "value", 2),
        Err(TrapCode::NullExceptionReference)
    );
    let mut table = guest.table_mut("t").expect("the export exists");
    let results = [
        table.set(0, kept),
        table.fill(0, kept, 1),
        table.grow(1, kept).map(drop),
    ];
    for result in results {
        assert_eq!(result, Err(TableError::Value(ValueError::NotKept)));
    }
    assert_eq!(table.len(), 3);
}

/// The owner defines the table. The two modules give its type different indices.
const OWNER: &str = r#"(module
  (type $i (func (result i32)))
  (table $t (export "t") 1 6 (ref null $i))
  (func $f (type $i) (i32.const 7))
  (func (export "f") (result funcref) (ref.func $f))
  (elem declare func $f)
  (func (export "call") (param i32) (result i32) (call_ref $i (table.get $t (local.get 0)))))"#;

const USER: &str = r#"(module
  (type $other (func (result i64)))
  (type $i (func (result i32)))
  (import "owner" "t" (table $t 1 (ref null $i)))
  (export "t" (table $t))
  (func $f (type $i) (i32.const 8))
  (func $long (type $other) (i64.const 1))
  (elem declare func $f $long)
  (func (export "f") (result funcref) (ref.func $f))
  (func (export "long") (result funcref) (ref.func $long))
  (func (export "call") (param i32) (result i32) (call_indirect $t (type $i) (local.get 0))))"#;

fn sizes<'a>(tables: [Option<Table<'a>>; 2]) -> [u64; 2] {
    tables.map(|table| table.expect("the export exists").len())
}

#[test]
fn members_of_a_group_share_a_table() {
    let linker = limited();
    let region = common::values::region(2);
    let mut allowing = Group::new(
        &region,
        Asked {
            allows: true,
            ..Asked::default()
        },
    );
    let owner = allowing
        .instantiate(&common::wat(OWNER), &linker)
        .expect("the module links");
    allowing.name("owner", owner);
    // The user has no limiter, so the runtime asks the limiter of the owner.
    let user = allowing
        .instantiate(&common::wat(USER), &Linker::new())
        .expect("the module links");
    let get = |group: &mut Group<Asked>, member, name: &str| match group
        .lend(member)
        .call_values(name, &[])
        .expect("the call returns")[..]
    {
        [value] => value,
        ref other => panic!("{other:?}"),
    };
    let seven = get(&mut allowing, owner, "f");
    let eight = get(&mut allowing, user, "f");
    let long = get(&mut allowing, user, "long");
    for (through, value, result) in [(owner, eight, 8), (user, seven, 7), (user, eight, 8)] {
        let mut lent = allowing.lend(through);
        let mut table = lent.table_mut("t").expect("the export exists");
        table.set(0, value).expect("the types match");
        for member in [owner, user] {
            let lent = allowing.at(member);
            let table = lent.table("t").expect("the export exists");
            assert_eq!(table.get(0), Some(value));
            assert_eq!(
                number(allowing.lend(member).call_values("call", &[Value::I32(0)])),
                result
            );
        }
    }
    for through in [owner, user] {
        let mut lent = allowing.lend(through);
        let mut table = lent.table_mut("t").expect("the export exists");
        for result in [table.set(0, long), table.grow(1, long).map(drop)] {
            let error = result.expect_err("the function has another type");
            assert!(
                matches!(error, TableError::Value(ValueError::Type { .. })),
                "{error}"
            );
        }
    }
    // The declared types differ. The owner's maximum applies to both members.
    let mut lent = allowing.lend(user);
    let mut table = lent.table_mut("t").expect("the export exists");
    assert_eq!((table.ty().max, table.grow(2, seven)), (None, Ok(1)));
    let mut lent = allowing.lend(owner);
    let mut table = lent.table_mut("t").expect("the export exists");
    assert_eq!((table.ty().max, table.grow(3, eight)), (Some(6), Ok(3)));
    let mut lent = allowing.lend(user);
    let mut table = lent.table_mut("t").expect("the export exists");
    assert_eq!(
        table.grow(1, seven),
        Err(TableError::Limit {
            desired: 7,
            limit: 6
        })
    );
    let lent = [allowing.at(owner), allowing.at(user)];
    assert_eq!(
        sizes(lent.each_ref().map(|member| member.table("t"))),
        [6, 6]
    );
    for (at, result) in [(0, 8), (2, 7), (5, 8)] {
        for member in [owner, user] {
            assert_eq!(
                number(allowing.lend(member).call_values("call", &[Value::I32(at)])),
                result
            );
        }
    }
    let asked = |growths: &[Growth]| -> Vec<_> {
        growths
            .iter()
            .map(|growth| (growth.what, growth.desired))
            .collect()
    };
    let of_owner = Growing::Table(0);
    assert_eq!(
        asked(&allowing.data().growths),
        [(of_owner, 3), (of_owner, 6)]
    );
    assert_eq!(asked(&allowing.data().failed), [(of_owner, 7)]);
    // Another group refuses the member ids and the references of this group.
    let mut another = group(1);
    let none = NoMember { found: 0, count: 0 };
    assert_eq!(another.member(owner).map(drop), Err(none));
    assert_eq!(another.member_mut(owner).map(drop), Err(none));
    let own = another
        .instantiate(&common::wat(OWNER), &Linker::new())
        .expect("the module links");
    let mut lent = another.lend(own);
    let mut table = lent.table_mut("t").expect("the export exists");
    assert_eq!(
        table.set(0, seven),
        Err(TableError::Value(ValueError::Foreign))
    );
    assert_eq!(table.get(0), Some(NULL));
    let mut lent = another.lend(own);
    let found = lent.table_mut("f").map(drop);
    assert!(
        matches!(found, Err(TableError::NoExport { .. })),
        "{found:?}"
    );
}
