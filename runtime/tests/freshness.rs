//! No state of an instance survives in its slot. Whatever an instance writes, grows, drops or traps
//! on, the slot's next instance must have exactly its own initial state.

use crate::common;

use pirn_runtime::{
    CallError, ExternRef, Instance, Linker, Module, Prepared, Region, Reset, Value,
};
use std::num::NonZeroU64;

/// A guest that changes all state it can reach. `dirty(pages, trap)` grows the memory, writes to
/// it, changes a global and table elements, and drops segments.
const HOSTILE: &str = r#"(module
  (memory (export "memory") 2 64)
  (data (i32.const 100) "first page")
  (data (i32.const 70000) "second page")
  (data $passive "passive")
  (global $g (export "g") (mut i64) (i64.const 11))
  (table $t (export "table") 3 100000 funcref)
  (elem (i32.const 1) func $f)
  (elem $spare func $f)
  (func $f (result i32) (i32.const 5))

  (func (export "dirty") (param $pages i32) (param $trap i32)
    (local $at i32)
    (drop (memory.grow (local.get $pages)))
    (local.set $at (i32.shl (memory.size) (i32.const 16)))
    (memory.fill (i32.const 0) (i32.const 0xa5) (local.get $at))
    (global.set $g (i64.const -1))
    (drop (table.grow $t (ref.func $f) (i32.const 20000)))
    (table.fill $t (i32.const 0) (ref.func $f) (table.size $t))
    (data.drop $passive)
    (elem.drop $spare)
    (call $deep (i32.const 300))
    (if (local.get $trap) (then unreachable)))
  (func $deep (param i32)
    (if (local.get 0) (then (call $deep (i32.sub (local.get 0) (i32.const 1))))))

  ;; What an instance can see of its own state, folded; traps if a segment is gone.
  (func (export "look") (result i64)
    (local $at i32) (local $hash i64)
    (local.set $hash (i64.extend_i32_u (table.size $t)))
    (loop $next
      (local.set $hash (i64.add (i64.rotl (local.get $hash) (i64.const 7))
        (i64.extend_i32_u (ref.is_null (table.get $t (local.get $at))))))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (table.size $t))))
    (table.init $t $spare (i32.const 0) (i32.const 0) (i32.const 1))
    (memory.init $passive (i32.const 0) (i32.const 0) (i32.const 7))
    (i64.add (local.get $hash) (global.get $g))))"#;

/// Another module, with more memory and other data.
const OTHER: &str = r#"(module
  (memory (export "memory") 5 9)
  (data (i32.const 65530) "across the border")
  (data (i32.const 300000) "far out")
  (table $t 10 externref)
  (func (export "null") (param i32) (result i32) (ref.is_null (table.get $t (local.get 0)))))"#;

struct Tenants {
    region: Region,
    hostile: Prepared<()>,
    other: Prepared<()>,
}

impl Tenants {
    fn new(reset: Reset) -> Self {
        let region = Region::builder()
            .slots(1)
            .table_elements(50_000)
            .reset(reset)
            .build();
        let region = region.expect("a region");
        let prepare = |text: &str| -> Prepared<()> {
            let module: Module = common::wat(text);
            region.prepare(&module, &Linker::new()).expect("it fits")
        };
        Self {
            hostile: prepare(HOSTILE),
            other: prepare(OTHER),
            region,
        }
    }

    /// Creates a hostile instance, runs it and drops it.
    fn dirty(&self, pages: i32, trap: bool) {
        let mut instance = self.hostile.try_instantiate(()).expect("the slot is free");
        let params = [Value::I32(pages), Value::I32(i32::from(trap))];
        match instance.call_values("dirty", &params) {
            Ok(_) => assert!(!trap),
            Err(CallError::Trap(found)) => assert!(trap, "{found}"),
            Err(error) => panic!("{error}"),
        }
        let memory = instance.memory();
        assert!(
            memory.as_slice().iter().all(|byte| *byte == 0xa5),
            "the guest changed all state that it can reach"
        );
    }
}

/// The initial memory that the module's text specifies.
fn expected(pages: usize, data: &[(usize, &[u8])]) -> Vec<u8> {
    let mut memory = vec![0; pages << 16];
    for (at, bytes) in data {
        memory[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    memory
}

fn check_hostile(mut instance: Instance<()>) {
    let initial = expected(2, &[(100, b"first page"), (70000, b"second page")]);
    assert!(
        instance.memory().as_slice() == initial,
        "the memory has its initial content"
    );
    assert_eq!(instance.global("g"), Some(Value::I64(11)));
    // Three elements: null, a function, null.
    let nulls = ((3_i64.rotate_left(7) + 1).rotate_left(7)).rotate_left(7) + 1;
    assert_eq!(
        instance
            .call_values("look", &[])
            .expect("no segment is dropped"),
        [Value::I64(nulls + 11)]
    );
}

fn check_other(mut instance: Instance<()>) {
    let initial = expected(5, &[(65530, b"across the border"), (300_000, b"far out")]);
    assert!(
        instance.memory().as_slice() == initial,
        "the memory has its initial content"
    );
    for at in 0..10 {
        let null = instance
            .call_values("null", &[Value::I32(at)])
            .expect("it is in the table");
        assert_eq!(null, [Value::I32(1)]);
    }
    instance
        .call_values("null", &[Value::I32(10)])
        .expect_err("the table has ten elements");
}

#[test]
fn the_next_instance_has_its_own_initial_state() {
    for reset in common::resets() {
        let tenants = Tenants::new(reset);
        for (pages, trap) in [(0, false), (0, true), (1, false), (62, true), (7, false)] {
            tenants.dirty(pages, trap);
            check_hostile(
                tenants
                    .hostile
                    .try_instantiate(())
                    .expect("the slot is free"),
            );
            tenants.dirty(pages, trap);
            check_other(tenants.other.try_instantiate(()).expect("the slot is free"));
            check_hostile(
                tenants
                    .hostile
                    .try_instantiate(())
                    .expect("the slot is free"),
            );
        }
        assert_eq!(tenants.region.slots_free(), 1);
    }
}

#[test]
fn memory_past_the_size_of_the_next_instance_is_inaccessible() {
    let reader = common::wat(
        "(module (memory 1) (func (export \"read\") (param i32) (result i32)
           (i32.load8_u (local.get 0))))",
    );
    for reset in common::resets() {
        let tenants = Tenants::new(reset);
        let reader = tenants
            .region
            .prepare(&reader, &Linker::new())
            .expect("it fits");
        let read = reader.func::<u32, u32>("read").expect("it is exported");
        for _ in 0..3 {
            tenants.dirty(20, false);
            let mut instance = reader.try_instantiate(()).expect("the slot is free");
            assert_eq!(
                instance.call(&read, 65535).expect("the range is in bounds"),
                0
            );
            for at in [65536, 70000, 131_072, 20 << 16, u32::MAX] {
                instance
                    .call(&read, at)
                    .expect_err("the address is out of bounds");
            }
        }
    }
}

/// Memory that a previous instance grew and wrote must be zero when the next instance grows.
#[test]
fn memory_that_grows_again_is_zero() {
    for reset in common::resets() {
        let tenants = Tenants::new(reset);
        let grower = common::wat(
            "(module (memory (export \"memory\") 0 40)
               (func (export \"grow\") (param i32) (result i32) (memory.grow (local.get 0))))",
        );
        let grower = tenants
            .region
            .prepare(&grower, &Linker::new())
            .expect("it fits");
        let grow = grower.func::<i32, i32>("grow").expect("it is exported");
        for _ in 0..3 {
            tenants.dirty(30, false);
            for _ in 0..2 {
                let mut instance = grower.try_instantiate(()).expect("the slot is free");
                for pages in [1, 3, 36] {
                    assert_ne!(instance.call(&grow, pages).expect("no trap"), -1);
                    let (memory, _) = instance.split();
                    assert!(memory.as_slice().iter().all(|byte| *byte == 0));
                }
                assert_eq!(instance.call(&grow, 1).expect("no trap"), -1, "it is full");
                let mut memory = instance.memory_mut();
                memory.as_mut_slice().fill(0x5a);
            }
        }
    }
}

#[test]
fn writes_of_the_host_do_not_reach_the_next_instance() {
    for reset in common::resets() {
        let tenants = Tenants::new(reset);
        let mut instance = tenants
            .hostile
            .try_instantiate(())
            .expect("the slot is free");
        instance.memory_mut().as_mut_slice().fill(0xff);
        drop(instance);
        check_hostile(
            tenants
                .hostile
                .try_instantiate(())
                .expect("the slot is free"),
        );
    }
}

#[test]
fn one_module_linked_in_two_ways_shares_no_table() {
    // One slot and one module. Its table contains values that differ between two linkers.
    let module = common::wat(
        "(module (import \"host\" \"reference\" (global $r externref))
           (import \"host\" \"place\" (global $place i32))
           (table $t 4 externref) (elem (table $t) (global.get $place) externref (global.get $r))
           (func (export \"get\") (param i32) (result externref) (table.get $t (local.get 0))))",
    );
    let region = Region::builder().slots(1).build().expect("a region");
    let reference = |number| NonZeroU64::new(number).map(ExternRef::new);
    let prepared = |number: u64, place: i32| -> Prepared<()> {
        let mut linker = Linker::new();
        let value = Value::ExternRef(reference(number));
        linker
            .global("host", "reference", value)
            .expect("the name is free");
        linker
            .global("host", "place", Value::I32(place))
            .expect("the name is free");
        region.prepare(&module, &linker).expect("it links")
    };
    let tenants = [(prepared(1, 0), 1, 0), (prepared(2, 3), 2, 3)];
    for _ in 0..3 {
        for (prepared, number, place) in &tenants {
            let get = prepared
                .func::<i32, Option<ExternRef>>("get")
                .expect("it is exported");
            let mut instance = prepared.try_instantiate(()).expect("the slot is free");
            for at in 0..4 {
                let expected = if at == *place {
                    reference(*number)
                } else {
                    None
                };
                assert_eq!(instance.call(&get, at).expect("it returns"), expected);
            }
        }
    }
}
