//! Structs, arrays and references: which instance owns a reference, initial values, and a full
//! heap.

mod attacks;
use crate::common;
use crate::common::values::Lend as _;
mod constants;
mod forged;
mod model;
mod types;

use common::SLICED_CALLS_MAX;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{
    AnyKind, AnyRef, CallError, ExternRef, Group, Instance, LinkError, Linker, Module, Region,
    Step, TrapCode, TypedFunc, Value,
};
use std::num::NonZeroU64;
use std::time::Duration;

/// A guest that creates structs and arrays and returns references to them.
const GUEST: &str = r#"(module
  (type $node (sub (struct (field $next (mut anyref)) (field $v (mut i64)))))
  (type $leaf (sub $node (struct (field (mut anyref)) (field (mut i64)) (field i8))))
  (type $words (array (mut i64)))
  (type $bytes (array (mut i8)))
  (func (export "node") (param i64) (result (ref $node))
    (struct.new $node (ref.null any) (local.get 0)))
  (func (export "leaf") (result (ref $leaf)) (struct.new_default $leaf))
  (func (export "value") (param (ref null $node)) (result i64) (struct.get $node $v (local.get 0)))
  (func (export "take_leaf") (param (ref $leaf)))
  (func (export "words") (param i32) (result arrayref) (array.new_default $words (local.get 0)))
  (func (export "bytes") (param i32) (result arrayref) (array.new $bytes (i32.const 7) (local.get 0)))
  (func (export "any") (param anyref) (result anyref) (local.get 0))
  (func (export "out") (param anyref) (result externref) (extern.convert_any (local.get 0)))
  (func (export "in") (param externref) (result anyref) (any.convert_extern (local.get 0)))
  (func (export "sum") (param i32) (result i64) (local $a (ref $words)) (local $s i64)
    (local.set $a (array.new_default $words (local.get 0)))
    (loop $l
      (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
      (local.set $s (i64.or (local.get $s) (array.get $words (local.get $a) (local.get 0))))
      (array.set $words (local.get $a) (local.get 0) (i64.const -1))
      (br_if $l (local.get 0)))
    (local.get $s))
  (func (export "copy") (param i32 i32 i32) (local $a (ref $words))
    (local.set $a (array.new_default $words (i32.const 8)))
    (array.copy $words $words (local.get $a) (local.get 0) (local.get $a) (local.get 1) (local.get 2)))
  (func (export "fill") (param i32 i32) (local $a (ref $words))
    (local.set $a (array.new_default $words (i32.const 8)))
    (array.fill $words (local.get $a) (local.get 0) (i64.const 1) (local.get 1)))
  (func (export "get") (param i32) (result i64)
    (array.get $words (array.new_default $words (i32.const 8)) (local.get 0)))
  (func (export "forever") (loop $l (drop (struct.new_default $node)) (br $l)))
  (func (export "chain") (param i32) (result i64) (local $n (ref null $node)) (local $s i64) (local $i i32)
    (loop $l
      (local.set $n (struct.new $node (local.get $n) (i64.extend_i32_u (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $l (i32.lt_u (local.get $i) (local.get 0))))
    (loop $m
      (local.set $s (i64.add (local.get $s) (struct.get $node $v (local.get $n))))
      (local.set $n (ref.cast (ref null $node) (struct.get $node $next (local.get $n))))
      (br_if $m (i32.eqz (ref.is_null (local.get $n)))))
    (local.get $s)))"#;

fn region(memory: usize) -> Region {
    let region = Region::builder()
        .slots(2)
        .memories(2)
        .memory_bytes_max(memory);
    region.build().expect("a region")
}

fn instance(region: &Region, module: &Module) -> Instance<()> {
    let prepared = region.prepare(module, &Linker::new()).expect("it fits");
    prepared.instantiate(()).expect("a slot is free")
}

fn call(instance: &mut Instance<()>, name: &str, params: &[Value]) -> Result<Value, CallError> {
    let values = instance.call_values(name, params)?;
    Ok(values.first().copied().unwrap_or(Value::I32(0)))
}

fn trap(result: Result<Value, CallError>) -> TrapCode {
    match result {
        Err(CallError::Trap(trap)) => trap.code(),
        other => panic!("{other:?}"),
    }
}

fn is_invalid(result: Result<Value, CallError>, part: &str) {
    match result {
        Err(CallError::Invalid(why)) => {
            let message = why.to_string();
            assert!(message.contains(part), "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn references_of_other_instances_are_refused() {
    let (region, module) = (region(1 << 20), common::wat(GUEST));
    let (mut one, mut other) = (instance(&region, &module), instance(&region, &module));
    let node = call(&mut one, "node", &[Value::I64(5)]).expect("it is made");
    let words = call(&mut one, "words", &[Value::I32(5)]).expect("it is made");
    let boxed = ExternRef::new(NonZeroU64::MAX);
    let boxed = call(&mut one, "in", &[Value::ExternRef(Some(boxed))]).expect("it is converted");
    let external = call(&mut one, "out", &[node]).expect("it is converted");
    let own = [node, words, boxed];
    for value in own {
        assert_eq!(
            call(&mut one, "any", &[value]).expect("the value belongs to this instance"),
            value
        );
        is_invalid(call(&mut other, "any", &[value]), "another instance");
    }
    assert_eq!(
        call(&mut one, "in", &[external]).expect("the value belongs to this instance"),
        node
    );
    is_invalid(call(&mut other, "in", &[external]), "another instance");
    drop(one);
    // The slot's next instance has objects at the same addresses.
    let mut next = instance(&region, &module);
    assert!(call(&mut next, "node", &[Value::I64(6)]).is_ok());
    for value in own {
        is_invalid(call(&mut next, "any", &[value]), "another instance");
    }
    is_invalid(call(&mut next, "in", &[external]), "another instance");
}

#[test]
fn host_numbers_that_look_like_references_are_refused() {
    let region = region(1 << 20);
    let mut guest = instance(&region, &common::wat(GUEST));
    for number in [0xfffe << 48, 0xfffe << 48 | 8, (0xffff << 48) - 1] {
        let forged = NonZeroU64::new(number).map(ExternRef::new);
        is_invalid(
            call(&mut guest, "in", &[Value::ExternRef(forged)]),
            "another instance",
        );
        assert!(
            Linker::<()>::new()
                .global("a", "b", Value::ExternRef(forged))
                .is_err()
        );
    }
    for number in [
        1,
        7,
        1 << 47,
        (1 << 61) - 1,
        1 << 61,
        (0xfffe << 48) - 1,
        0xffff << 48,
        u64::MAX,
    ] {
        let reference = NonZeroU64::new(number).map(ExternRef::new);
        let any = call(&mut guest, "in", &[Value::ExternRef(reference)]).expect("it is converted");
        let Value::AnyRef(Some(found)) = any else {
            panic!("{any:?}")
        };
        assert!(matches!(found.kind(), AnyKind::Host(_)));
        let again = call(&mut guest, "out", &[any]).expect("it is converted");
        assert_eq!(again, Value::ExternRef(reference), "{number:#x}");
    }
    let number = Value::AnyRef(Some(AnyRef::i31(-5)));
    let external = call(&mut guest, "out", &[number]).expect("it is converted");
    assert_eq!(
        call(&mut guest, "in", &[external]).expect("the reference belongs to this instance"),
        number
    );
}

/// References from the host are checked against the parameter's type.
#[test]
fn references_from_the_host_have_the_parameters_type() {
    let region = region(1 << 20);
    let mut guest = instance(&region, &common::wat(GUEST));
    let node = call(&mut guest, "node", &[Value::I64(5)]).expect("it is made");
    let leaf = call(&mut guest, "leaf", &[]).expect("it is made");
    let words = call(&mut guest, "words", &[Value::I32(1)]).expect("it is made");
    assert_eq!(
        call(&mut guest, "value", &[node]).expect("a node"),
        Value::I64(5)
    );
    assert_eq!(
        call(&mut guest, "value", &[leaf]).expect("a leaf is a node"),
        Value::I64(0)
    );
    assert!(call(&mut guest, "take_leaf", &[leaf]).is_ok());
    is_invalid(call(&mut guest, "take_leaf", &[node]), "of another type");
    is_invalid(
        call(&mut guest, "take_leaf", &[Value::AnyRef(None)]),
        "null",
    );
    is_invalid(call(&mut guest, "value", &[words]), "of another type");
    let number = Value::AnyRef(Some(AnyRef::i31(1)));
    is_invalid(call(&mut guest, "value", &[number]), "(ref null 0)");
    assert_eq!(
        trap(call(&mut guest, "value", &[Value::AnyRef(None)])),
        TrapCode::NullStructReference
    );
}

#[test]
fn object_sizes_do_not_wrap_and_a_full_heap_traps() {
    for level in [OptLevel::Speed, OptLevel::None] {
        let mut options = Options::default();
        options.opt_level = level;
        let (region, module) = (region(1 << 20), common::wat_with(GUEST, &options));
        let mut guest = instance(&region, &module);
        for len in [-1, i32::MIN, i32::MAX, 1 << 29, 1 << 17] {
            assert_eq!(
                trap(call(&mut guest, "words", &[Value::I32(len)])),
                TrapCode::HeapExhausted
            );
        }
        assert_eq!(
            trap(call(&mut guest, "bytes", &[Value::I32(-1)])),
            TrapCode::HeapExhausted
        );
        assert_eq!(
            trap(call(&mut guest, "forever", &[])),
            TrapCode::HeapExhausted
        );
        drop(guest);
        // The next instance's objects must be zero although the heap was full.
        for _ in 0..3 {
            let mut guest = instance(&region, &module);
            let most = (1 << 17) - 1;
            assert_eq!(
                call(&mut guest, "sum", &[Value::I32(most)]).expect("it fits"),
                Value::I64(0)
            );
            assert_eq!(trap(call(&mut guest, "leaf", &[])), TrapCode::HeapExhausted);
        }
    }
}

#[test]
fn accesses_past_the_end_of_an_array_trap() {
    let region = region(1 << 20);
    let mut guest = instance(&region, &common::wat(GUEST));
    let outside = TrapCode::ArrayOutOfBounds;
    for index in [8, 9, -1, i32::MIN] {
        assert_eq!(trap(call(&mut guest, "get", &[Value::I32(index)])), outside);
    }
    assert!(call(&mut guest, "get", &[Value::I32(7)]).is_ok());
    for (index, len, holds) in [
        (0, 8, true),
        (8, 0, true),
        (9, 0, false),
        (1, 8, false),
        (-1, 1, false),
        (1, -1, false),
    ] {
        let (index, len) = (Value::I32(index), Value::I32(len));
        let zero = Value::I32(0);
        for (name, params) in [
            ("fill", vec![index, len]),
            ("copy", vec![index, zero, len]),
            ("copy", vec![zero, index, len]),
        ] {
            let result = call(&mut guest, name, &params);
            if holds {
                assert!(result.is_ok(), "{name} {params:?} {result:?}");
            } else {
                assert_eq!(trap(result), outside, "{name} {params:?}");
            }
        }
    }
}

#[test]
fn a_module_with_structs_needs_room_for_a_heap() {
    let module = common::wat(GUEST);
    assert_eq!(module.memories(), 2);
    let region = Region::builder().slots(1).build().expect("a region");
    let error = region
        .prepare(&module, &Linker::<()>::new())
        .expect_err("there is none");
    assert!(
        matches!(
            error,
            LinkError::Limit {
                setting: "memories",
                needed: 2,
                ..
            }
        ),
        "{error}"
    );
    // A module with types only needs no heap.
    let types =
        common::wat("(module (type (struct)) (type $a (array i8)) (func (param (ref $a))))");
    assert_eq!(types.memories(), 0);
}

/// Time slices and kills end a call anywhere, also while it creates structs. After a kill, the rest
/// of the heap must still be zero.
#[test]
fn a_guest_is_suspended_and_killed_during_allocation() {
    let (region, module) = (region(64 << 20), common::wat(GUEST));
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let func: TypedFunc<i32, i64> = prepared.func("chain").expect("it is exported");
    let mut guest = prepared.instantiate(()).expect("a slot is free");
    let (slice, count) = (Duration::from_micros(50), 500_000);
    let total = i64::from(count) * (i64::from(count) - 1) / 2;
    let mut slices = 0;
    for _ in 0..SLICED_CALLS_MAX {
        let mut step = guest
            .timeslice(slice)
            .start(&func, count)
            .expect("it begins");
        loop {
            match step {
                Step::Returned(sum) => break assert_eq!(sum, total),
                Step::Preempted => {
                    slices += 1;
                    step = guest
                        .timeslice(slice)
                        .resume(&func)
                        .expect("the guest resumes");
                }
                Step::Asked(never) => match never {},
            }
        }
        if slices > 0 {
            break;
        }
        // Each call fills the heap, which only a reset empties.
        drop(guest);
        guest = prepared.instantiate(()).expect("a slot is free");
    }
    assert!(slices > 0);
    // If the guest notices the deadline late, its heap may be full first.
    let mut checked = 0;
    for _ in 0..SLICED_CALLS_MAX {
        let mut guest = prepared.instantiate(()).expect("a slot is free");
        let limit = Duration::from_micros(100);
        match guest.deadline(limit).call_values("forever", &[]) {
            Err(CallError::Deadline(_)) => {}
            Err(CallError::Trap(trap)) if trap.code() == TrapCode::HeapExhausted => continue,
            other => panic!("{other:?}"),
        }
        match call(&mut guest, "sum", &[Value::I32(1000)]) {
            Ok(sum) => assert_eq!(sum, Value::I64(0)),
            full => {
                assert_eq!(trap(full), TrapCode::HeapExhausted);
                continue;
            }
        }
        checked += 1;
        if checked == 50 {
            break;
        }
    }
    assert_eq!(checked, 50);
}

/// Members of a group pass objects by calls, tables and globals. Structural equality and subtyping
/// hold across members.
#[test]
fn groups_pass_objects() {
    const MAKER: &str = r#"(module
      (rec (type $a (sub (struct (field (mut i32))))) (type $b (sub $a (struct (field (mut i32)) (field i64)))))
      (type $f (sub (func (result (ref $a))))) (type $g (sub $f (func (result (ref $b)))))
      (tag (export "tag") (param (ref $a)))
      (global (export "made") (ref $b) (struct.new $b (i32.const 3) (i64.const 4)))
      (table (export "table") 1 anyref (array.new_fixed $t 1 (i32.const 9))) (type $t (array i32))
      (func (export "make") (type $g) (struct.new $b (i32.const 1) (i64.const 2))))"#;
    const USER: &str = r#"(module
      (type (struct))
      (rec (type $a (sub (struct (field (mut i32))))) (type $b (sub $a (struct (field (mut i32)) (field i64)))))
      (rec (type $other (sub (struct (field (mut i32))))))
      (type $f (sub (func (result (ref $a))))) (type $g (sub $f (func (result (ref $b))))) (type $t (array i32))
      (import "m" "make" (func $make (type $f)))
      (import "m" "made" (global $made (ref $a)))
      (import "m" "table" (table $table 1 anyref))
      (import "m" "tag" (tag $tag (param (ref $a))))
      (table $own 1 funcref (ref.func $make))
      (func (export "use") (result i32)
        (i32.add (struct.get $a 0 (call $make)) (struct.get $a 0 (global.get $made))))
      (func (export "cast") (result i64) (struct.get $b 1 (ref.cast (ref $b) (call $make))))
      (func (export "other") (result i32) (ref.test (ref $other) (call $make)))
      (func (export "indirect") (result i64) (struct.get $b 1 (call_indirect $own (type $g) (i32.const 0))))
      (func (export "array") (result i32)
        (array.get $t (ref.cast (ref $t) (table.get $table (i32.const 0))) (i32.const 0)))
      (func (export "throw") (result i32)
        (struct.get $a 0 (block $l (result (ref $a))
          (try_table (catch $tag $l) (throw $tag (struct.new $b (i32.const 77) (i64.const 0)))) (unreachable)))))"#;
    let mut group = Group::new(&region(1 << 20), ());
    let linker = Linker::new();
    let maker = group
        .instantiate(&common::wat(MAKER), &linker)
        .expect("it starts");
    group.name("m", maker);
    let user = group
        .instantiate(&common::wat(USER), &linker)
        .expect("it links");
    for (name, wanted) in [
        ("use", Value::I32(4)),
        ("cast", Value::I64(2)),
        ("other", Value::I32(0)),
        ("indirect", Value::I64(2)),
        ("array", Value::I32(9)),
        ("throw", Value::I32(77)),
    ] {
        let found = group.lend(user).call_values(name, &[]).expect(name);
        assert_eq!(found, [wanted], "{name}");
    }
    let other = "(module (type (sub (func (result i32)))) (import \"m\" \"make\" (func (type 0))))";
    assert!(group.instantiate(&common::wat(other), &linker).is_err());
}

/// A struct keeps its exception alive while the guest throws many others.
#[test]
fn a_struct_keeps_its_exception_alive() {
    const TEXT: &str = r#"(module
      (type $box (struct (field (mut exnref)))) (tag $t (param i32)) (global $g (mut (ref null $box)) (ref.null $box))
      (func $catch (param i32) (result exnref)
        (block $l (result exnref)
          (try_table (catch_all_ref $l) (throw $t (local.get 0))) (unreachable)))
      (func (export "keep") (global.set $g (struct.new $box (call $catch (i32.const 42)))))
      (func (export "many") (param i32)
        (loop $l (drop (call $catch (local.get 0)))
          (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
      (func (export "value") (result i32)
        (block $l (result i32)
          (try_table (catch $t $l) (throw_ref (struct.get $box 0 (global.get $g)))) (unreachable))))"#;
    let region = region(1 << 20);
    let mut guest = instance(&region, &common::wat(TEXT));
    assert!(call(&mut guest, "keep", &[]).is_ok());
    assert!(call(&mut guest, "many", &[Value::I32(40_000)]).is_ok());
    assert_eq!(
        call(&mut guest, "value", &[]).expect("it is kept"),
        Value::I32(42)
    );
}
