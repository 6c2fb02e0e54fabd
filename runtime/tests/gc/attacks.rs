//! Attacks on structs and arrays: host numbers that look like addresses, dropped segments, and
//! sizes at their limits. Also refused growth, and data that must not reach the next instance.

use super::{call, instance, region, trap};
use crate::common;
use crate::common::values::levels;
use pirn_runtime::{
    AnyRef, CallError, ExternRef, Instance, Linker, Module, Region, TrapCode, Value,
};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

fn external(number: u64) -> Value {
    Value::ExternRef(NonZeroU64::new(number).map(ExternRef::new))
}

fn int(result: Result<Value, CallError>) -> i32 {
    match result {
        Ok(Value::I32(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// A guest that tests a reference against many types, whatever its source.
const ASKS: &str = r#"(module
  (type $s (sub (struct (field i64)))) (type $sub (sub $s (struct (field i64) (field i64))))
  (type $last (sub final $s (struct (field i64))))
  (type $a (array i64)) (type $open (sub (array (mut i8))))
  (import "h" "give" (func $give (result externref)))
  (import "h" "any" (func $any (param anyref) (result anyref)))
  (import "h" "global" (global $given externref))
  (global $made anyref (any.convert_extern (global.get $given)))
  (global $kept (mut anyref) (ref.null any))
  (table $t 2 anyref) (table $made_table 1 anyref (any.convert_extern (global.get $given)))
  (tag $tag (param anyref externref))
  (elem $e anyref (item (any.convert_extern (global.get $given))))
  (func (export "struct") (result externref) (extern.convert_any (struct.new $sub (i64.const 1) (i64.const 2))))
  (func (export "array") (result externref) (extern.convert_any (array.new $a (i64.const 1) (i32.const 2))))
  (func $is (param anyref) (result i32) (local $n i32)
    (local.set $n (ref.test (ref i31) (local.get 0)))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref struct) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref array) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref eq) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref $s) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref $sub) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref $last) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref $a) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref $open) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1)) (ref.test (ref none) (local.get 0))))
    (local.set $n (i32.or (i32.shl (local.get $n) (i32.const 1))
      (block $b (result i32)
        (drop (block $l (result (ref $s))
          (drop (br_on_cast $l anyref (ref $s) (local.get 0))) (br $b (i32.const 0))))
        (i32.const 1))))
    (local.get $n))
  (func (export "is") (param externref) (result i32) (call $is (any.convert_extern (local.get 0))))
  (func (export "is_any") (param anyref) (result i32) (call $is (local.get 0)))
  (func (export "is_given") (result i32) (call $is (any.convert_extern (call $give))))
  (func (export "is_passed") (param externref) (result i32) (call $is (call $any (any.convert_extern (local.get 0)))))
  (func (export "is_made") (result i32)
    (i32.or (call $is (global.get $made)) (i32.or (call $is (table.get $made_table (i32.const 0)))
      (call $is (block (result anyref) (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1)) (table.get $t (i32.const 0)))))))
  (func (export "is_kept") (param externref) (result i32)
    (global.set $kept (any.convert_extern (local.get 0)))
    (table.set $t (i32.const 1) (global.get $kept))
    (call $is (table.get $t (i32.const 1))))
  (func (export "is_thrown") (param externref) (result i32)
    (block $l (result anyref externref)
      (try_table (catch $tag $l) (throw $tag (any.convert_extern (local.get 0)) (local.get 0))) unreachable)
    (local.set 0) (call $is) (i32.or (call $is (any.convert_extern (local.get 0)))))
  (func (export "same") (param externref) (result externref) (extern.convert_any (any.convert_extern (local.get 0)))))"#;

/// A host number must not become an address or an `i31` in the guest, by whatever path it enters.
#[test]
fn host_numbers_do_not_become_addresses() {
    for options in levels() {
        let module = common::wat_with(ASKS, &options);
        let region = region(1 << 20);
        let number = Arc::new(AtomicU64::new(8));
        let prepare = |given: u64| {
            let mut linker = Linker::<()>::new();
            let number = Arc::clone(&number);
            let give = move |_: pirn_runtime::Caller<'_, ()>| {
                let number = number.load(Relaxed);
                NonZeroU64::new(number).map(ExternRef::new)
            };
            linker.func("h", "give", give).expect("the name is free");
            let same = |any: Option<AnyRef>| any;
            linker.func("h", "any", same).expect("the name is free");
            let given = linker.global("h", "global", external(given));
            given.expect("the name is free");
            region.prepare(&module, &linker).expect("it fits")
        };
        let mut guest = prepare(8).instantiate(()).expect("a slot is free");
        let own = |guest: &mut Instance<()>, name| match call(guest, name, &[]) {
            Ok(value @ Value::ExternRef(Some(reference))) => {
                let number = reference.get().get();
                (value, number & ((1 << 48) - 1))
            }
            other => panic!("{other:?}"),
        };
        let (the_struct, struct_at) = own(&mut guest, "struct");
        let (the_array, array_at) = own(&mut guest, "array");
        // One bit for each of: i31, struct, array, eq, $s, $sub, $last, $a, $open, none, and $s by
        // a branch.
        let found = int(call(&mut guest, "is", &[the_struct]));
        assert_eq!(found, 0b010_1110_0001, "{found:b}");
        let found = int(call(&mut guest, "is", &[the_array]));
        assert_eq!(found, 0b001_1000_1000, "{found:b}");
        let mut numbers: Vec<u64> = (0..64).map(|bit| 1 << bit).collect();
        for address in [struct_at & !7, array_at & !7] {
            for tag in 0..8 {
                for shift in 0..4 {
                    numbers.push((address | tag) << shift);
                    numbers.push((address | tag) >> shift);
                }
                numbers.extend(
                    [0xffff, 0xfffd, 0x7fff, 0x8000].map(|high| high << 48 | address | tag),
                );
            }
        }
        numbers.extend([u64::MAX, (1 << 61) - 1, (1 << 61) + 1, (0xfffe << 48) - 1]);
        for given in numbers {
            number.store(given, Relaxed);
            for name in ["is", "is_passed", "is_kept", "is_thrown"] {
                let found = int(call(&mut guest, name, &[external(given)]));
                assert_eq!(found, 0, "{name} {given:#x}");
            }
            assert_eq!(int(call(&mut guest, "is_given", &[])), 0, "{given:#x}");
            let same = call(&mut guest, "same", &[external(given)]);
            assert_eq!(same.expect("it is converted"), external(given));
            if let Some(any) = AnyRef::host(ExternRef::new(NonZeroU64::new(given).expect("not 0")))
            {
                let found = int(call(&mut guest, "is_any", &[Value::AnyRef(Some(any))]));
                assert_eq!(found, 0, "{given:#x}");
            }
        }
        drop(guest);
        for given in [8, struct_at, array_at, 1 << 61 | struct_at, u64::MAX] {
            let mut guest = prepare(given).instantiate(()).expect("a slot is free");
            assert_eq!(int(call(&mut guest, "is_made", &[])), 0, "{given:#x}");
        }
        // A host function must not return an internal value of the runtime either.
        let mut guest = prepare(8).instantiate(()).expect("a slot is free");
        number.store(0xfffe << 48 | struct_at, Relaxed);
        assert!(call(&mut guest, "is_given", &[]).is_err());
    }
}

/// A guest with a function that fills its heap, and one that reads it.
const FILLS: &str = r#"(module
  (type $words (array (mut i64))) (type $bytes (array (mut i8)))
  (global $first (mut (ref null $words)) (ref.null $words))
  (func (export "fill") (param i32) (result i64)
    (global.set $first (array.new $words (i64.const -1) (local.get 0)))
    (array.get $words (global.get $first) (i32.sub (local.get 0) (i32.const 1))))
  (func (export "fill_for_ever") (param i32)
    (loop $l (drop (array.new $words (i64.const -1) (local.get 0))) (br $l)))
  (func (export "look") (param i32) (result i64) (local $a (ref $words)) (local $s i64)
    (local.set $a (array.new_default $words (local.get 0)))
    (loop $l
      (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
      (local.set $s (i64.or (local.get $s) (array.get $words (local.get $a) (local.get 0))))
      (br_if $l (local.get 0)))
    (local.get $s)))"#;

/// New objects must be zero under every reset. The slot held less data, more data, a memory at the
/// same addresses, or a guest that was stopped.
#[test]
fn new_objects_are_zero_under_every_reset() {
    const MEMORIES: &str = r#"(module (memory 1) (memory $m 2 8)
      (func (export "fill") (drop (memory.grow $m (i32.const 6)))
        (memory.fill $m (i32.const 0) (i32.const 255) (i32.const 0x80000))))"#;
    let (module, memories) = (common::wat(FILLS), common::wat(MEMORIES));
    let counting = common::counting(FILLS, pirn_compiler::OptLevel::Speed);
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .memories(2)
            .memory_bytes_max(1 << 20);
        let region = region.reset(reset).build().expect("a region");
        let looks = |module: &Module| {
            let mut guest = instance(&region, module);
            let found = call(&mut guest, "look", &[Value::I32((1 << 17) - 1)]);
            assert_eq!(found.expect("there is room"), Value::I64(0), "{reset:?}");
        };
        for words in [1, 500, 8_000, 8_192, (1 << 17) - 1] {
            let mut guest = instance(&region, &module);
            let filled = call(&mut guest, "fill", &[Value::I32(words)]);
            assert_eq!(filled.expect("there is room"), Value::I64(-1));
            drop(guest);
            looks(&module);
        }
        for words in [100, 3_000] {
            let mut guest = instance(&region, &module);
            let limited = guest.deadline(Duration::from_micros(200));
            assert!(
                limited
                    .call_values("fill_for_ever", &[Value::I32(words)])
                    .is_err()
            );
            drop(guest);
            looks(&module);
        }
        let mut guest = instance(&region, &memories);
        call(&mut guest, "fill", &[]).expect("it is filled");
        drop(guest);
        looks(&module);
        let mut guest = instance(&region, &counting);
        guest.set_fuel(10_000).expect("it counts");
        assert!(call(&mut guest, "fill_for_ever", &[Value::I32(70)]).is_err());
        drop(guest);
        looks(&counting);
    }
}

/// A guest that is refused memory while it fills its heap continues with the objects that it has.
#[test]
fn refused_heap_growth_keeps_existing_objects() {
    let module = common::wat(FILLS);
    let region = region(1 << 20);
    let mut linker = Linker::<u64>::new();
    linker.memory_limiter(|most: &mut u64, growth| growth.desired <= *most);
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let mut guest = prepared.instantiate(1 << 16).expect("a slot is free");
    let words = |guest: &mut Instance<u64>, name, count| {
        let result = guest.call_values(name, &[Value::I32(count)]);
        result.map(|values| values.first().copied().unwrap_or(Value::I32(0)))
    };
    assert_eq!(
        words(&mut guest, "fill", 4_000).expect("there is room"),
        Value::I64(-1)
    );
    for _ in 0..3 {
        let refused = words(&mut guest, "fill", 8_000);
        assert_eq!(trap(refused), TrapCode::HeapExhausted);
        assert_eq!(
            words(&mut guest, "look", 1_000).expect("there is room"),
            Value::I64(0)
        );
    }
    *guest.data_mut() = 1 << 17;
    assert_eq!(
        words(&mut guest, "look", 8_000).expect("there is room"),
        Value::I64(0)
    );
    let refused = words(&mut guest, "look", 8_000);
    assert_eq!(trap(refused), TrapCode::HeapExhausted);
    // The runtime refuses more than the region's limit before it asks the limiter.
    *guest.data_mut() = u64::MAX;
    assert_eq!(trap(words(&mut guest, "look", -1)), TrapCode::HeapExhausted);
    assert_eq!(
        trap(words(&mut guest, "look", 1 << 17)),
        TrapCode::HeapExhausted
    );
    assert_eq!(
        words(&mut guest, "look", 9_000).expect("there is room"),
        Value::I64(0)
    );
}

/// Segment reads stay within the segment, and a dropped segment has length zero.
#[test]
fn segment_reads_stay_in_bounds() {
    const TEXT: &str = r#"(module
      (type $words (array (mut i64))) (type $vectors (array (mut v128))) (type $funcs (array (mut funcref)))
      (data $d "0123456789abcdef") (elem $e funcref (ref.func $f) (ref.null func))
      (data $active (memory 0) (i32.const 0) "0123456789abcdef") (memory 1)
      (elem $declared declare func $f)
      (func $f (export "drop") (data.drop $d) (elem.drop $e))
      (func (export "new_data") (param i32 i32) (result i32)
        (array.len (array.new_data $words $d (local.get 0) (local.get 1))))
      (func (export "new_vectors") (param i32 i32) (result i32)
        (array.len (array.new_data $vectors $d (local.get 0) (local.get 1))))
      (func (export "new_gone") (param i32 i32) (result i32)
        (array.len (array.new_data $words $active (local.get 0) (local.get 1))))
      (func (export "new_declared") (param i32 i32) (result i32)
        (array.len (array.new_elem $funcs $declared (local.get 0) (local.get 1))))
      (func (export "new_elem") (param i32 i32) (result i32)
        (array.len (array.new_elem $funcs $e (local.get 0) (local.get 1))))
      (func (export "init_data") (param i32 i32) (result i32)
        (array.init_data $words $d (array.new_default $words (i32.const 9)) (i32.const 7) (local.get 0) (local.get 1))
        (local.get 1))
      (func (export "init_elem") (param i32 i32) (result i32)
        (array.init_elem $funcs $e (array.new_default $funcs (i32.const 9)) (i32.const 7) (local.get 0) (local.get 1))
        (local.get 1)))"#;
    let region = region(1 << 20);
    let (memory, table) = (TrapCode::MemoryOutOfBounds, TrapCode::TableOutOfBounds);
    let array = TrapCode::ArrayOutOfBounds;
    for options in levels() {
        let mut guest = instance(&region, &common::wat_with(TEXT, &options));
        let tried = |guest: &mut _, name, start: i32, len: i32, expected: Result<(), TrapCode>| {
            let result = call(guest, name, &[Value::I32(start), Value::I32(len)]);
            match expected {
                Ok(()) => assert_eq!(int(result), len, "{name} {start} {len}"),
                Err(code) => assert_eq!(trap(result), code, "{name} {start} {len}"),
            }
        };
        for gone in [false, true] {
            let there = |code| if gone { Err(code) } else { Ok(()) };
            tried(&mut guest, "new_data", 0, 2, there(memory));
            tried(&mut guest, "new_data", 8, 1, there(memory));
            tried(&mut guest, "new_data", 16, 0, there(memory));
            tried(&mut guest, "new_vectors", 0, 1, there(memory));
            tried(&mut guest, "new_elem", 0, 2, there(table));
            tried(&mut guest, "new_elem", 2, 0, there(table));
            tried(&mut guest, "init_data", 0, 2, there(memory));
            tried(&mut guest, "init_elem", 0, 2, there(table));
            // 8 or 16 times the length exceeds 2^32 a little, so a 32-bit product would wrap.
            for (start, len) in [
                (0, 1 << 29),
                (0, 1 << 28),
                (8, -1),
                (-1, 1),
                (-8, 1),
                (1, 2),
                (17, 0),
            ] {
                for name in ["new_data", "new_vectors", "new_gone"] {
                    tried(&mut guest, name, start, len, Err(memory));
                }
            }
            for (start, len) in [
                (0, 3),
                (1, -1),
                (-1, 1),
                (-1, 2),
                (3, 0),
                (2, 1),
                (0, 1 << 29),
            ] {
                for name in ["new_elem", "new_declared"] {
                    tried(&mut guest, name, start, len, Err(table));
                }
            }
            for (start, len) in [(0, 3), (0, -1), (-1, 1 << 29)] {
                tried(&mut guest, "init_data", start, len, Err(array));
                tried(&mut guest, "init_elem", start, len, Err(array));
            }
            for name in [
                "new_data",
                "new_gone",
                "new_elem",
                "new_declared",
                "init_data",
                "init_elem",
            ] {
                tried(&mut guest, name, 0, 0, Ok(()));
            }
            call(&mut guest, "drop", &[]).expect("they are dropped");
        }
    }
}

/// Arrays of each element size are filled with a constant up to the last element and no further.
#[test]
fn arrays_are_filled_with_constants_to_their_end() {
    for (storage, value, get, ones) in [
        ("i8", "i32.const 0x1ff", "array.get_u", "(i32.const 0xff)"),
        (
            "i16",
            "i32.const 0x1ffff",
            "array.get_u",
            "(i32.const 0xffff)",
        ),
        ("i32", "i32.const 7", "array.get", "(i32.const 7)"),
        (
            "i64",
            "i64.const 0x100000000",
            "array.get",
            "(i64.const 0x100000000)",
        ),
        ("f64", "f64.const -0", "array.get", "(f64.const -0)"),
    ] {
        let of = if storage.len() == 2 || storage == "i16" {
            "i32"
        } else {
            storage
        };
        let same = match storage {
            "f64" => format!("(i64.eq (i64.reinterpret_f64) (i64.reinterpret_f64 {ones}))"),
            _ => format!("({of}.eq {ones})"),
        };
        for len in [0, 1, 2, 3, 7, 8, 9, 1000, 1025] {
            let text = format!(
                r#"(module (type $t (array (mut {storage}))) (type $behind (array (mut i64)))
                  (global $a (ref $t) (array.new $t ({value}) (i32.const {len})))
                  (global $b (ref $behind) (array.new_default $behind (i32.const 9)))
                  (func (export "count") (result i32) (local $i i32) (local $n i32)
                    (block $end (loop $l
                      (br_if $end (i32.ge_u (local.get $i) (array.len (global.get $a))))
                      ({get} $t (global.get $a) (local.get $i)) {same}
                      (local.set $n (i32.add (local.get $n)))
                      (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $l)))
                    (local.get $n))
                  (func (export "behind") (result i32)
                    (i32.and (i64.eqz (array.get $behind (global.get $b) (i32.const 0)))
                      (i32.eq (array.len (global.get $b)) (i32.const 9)))))"#
            );
            let region = region(1 << 20);
            let mut guest = instance(&region, &common::wat(&text));
            assert_eq!(int(call(&mut guest, "count", &[])), len, "{storage}");
            assert_eq!(int(call(&mut guest, "behind", &[])), 1, "{storage} {len}");
        }
    }
}
