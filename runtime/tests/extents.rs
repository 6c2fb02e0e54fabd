//! Extreme sizes under every reset: more slots than one reservation holds, and memories of 65,535
//! pages and of none.

use crate::common;

use common::campaign::every;
use pirn_runtime::{Instance, Linker, Module, Region, Value};

const WASM_PAGE: usize = 64 << 10;

/// A module with a memory that can grow, with the bytes `image` at an address.
fn module(pages: usize, max: usize, at: usize) -> Module {
    common::wat(&format!(
        r#"(module (memory (export "memory") {pages} {max}) (data (i32.const {at}) "image")
          (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
          (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0)))
          (func (export "store") (param i32) (i32.store8 (local.get 0) (i32.const 9))))"#
    ))
}

fn call(instance: &mut Instance<()>, name: &str, param: u32) -> Option<Value> {
    let params = [Value::I32(param.cast_signed())];
    let results = instance.call_values(name, &params).ok()?;
    Some(results.first().copied().unwrap_or(Value::I32(0)))
}

#[test]
fn slots_of_several_reservations_do_not_overlap() {
    // A reservation holds 1,024 slots.
    const SLOTS: u32 = 1024 + 5;
    let modules = [(module(2, 9, 70_000), 2, 70_000), (module(1, 9, 7), 1, 7)];
    for reset in common::resets() {
        let region = Region::builder()
            .slots(SLOTS)
            .memory_bytes_max(9 * WASM_PAGE);
        let region = region.reset(reset).build().expect("a region");
        for (round, which) in [0, 1, 0, 0].into_iter().enumerate() {
            // By default, the instances in some groups of adjacent slots use their memories, and
            // all at the ends of the reservations.
            let (nth, middle) = (every(6), 8..SLOTS - 13);
            let is_used = |number: &u32| {
                !middle.contains(number) || *number as usize / 4 % nth == round % nth
            };
            let (module, pages, at) = &modules[which];
            let mut expected = vec![0; pages * WASM_PAGE];
            expected[*at..at + 5].copy_from_slice(b"image");
            let prepared = region.prepare(module, &Linker::new()).expect("it fits");
            let instances = (0..SLOTS).map(|_| prepared.try_instantiate(()).expect("a slot"));
            let mut instances: Vec<_> = instances.collect();
            prepared.try_instantiate(()).expect_err("all are taken");
            for (number, instance) in (0..).zip(&mut instances).filter(|(at, _)| is_used(at)) {
                assert!(
                    instance.memory().as_slice() == expected,
                    "{reset}, {number}"
                );
                let end = expected.len() as u32;
                assert_eq!(call(instance, "load", end), None, "{reset}, {number}");
                call(instance, "grow", 2).expect("it returns");
                let mut memory = instance.memory_mut();
                memory.write_u32(100, number).expect("it is inside");
                memory.write_u32(end + 9, number).expect("it is inside");
            }
            for (number, instance) in (0..).zip(&instances).filter(|(at, _)| is_used(at)) {
                let memory = instance.memory();
                let end = expected.len() as u32;
                assert_eq!(
                    memory.read_u32(100).expect("it is inside"),
                    number,
                    "{reset}"
                );
                assert_eq!(
                    memory.read_u32(end + 9).expect("it is inside"),
                    number,
                    "{reset}"
                );
            }
        }
    }
}

#[test]
fn a_memory_grows_to_65_535_pages_and_shrinks_at_reset() {
    for reset in common::resets() {
        let region = Region::builder()
            .slots(2)
            .memory_bytes_max(4 << 30)
            .reset(reset);
        let region = region.build().expect("a region");
        let prepared = region
            .prepare(&module(1, 65_536, 7), &Linker::new())
            .expect("it fits");
        for round in 0..10 {
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            assert_eq!(
                instance.memory().slice(7, 5).expect("it is inside"),
                b"image"
            );
            assert_eq!(
                call(&mut instance, "load", 65_536),
                None,
                "{reset}, {round}"
            );
            assert_eq!(call(&mut instance, "grow", 65_534), Some(Value::I32(1)));
            for at in [65_536, 0x8000_0000, 0xfffe_ffff] {
                assert_eq!(
                    call(&mut instance, "load", at),
                    Some(Value::I32(0)),
                    "{reset}, {at}"
                );
                call(&mut instance, "store", at).expect("it is inside");
            }
            for at in [0xffff_0000, u32::MAX] {
                assert_eq!(call(&mut instance, "load", at), None, "{reset}, {at}");
            }
            assert_eq!(
                call(&mut instance, "grow", 1),
                Some(Value::I32(-1)),
                "it is full"
            );
        }
    }
}

#[test]
fn a_memory_of_no_pages_cannot_be_accessed() {
    let empty = common::wat(
        r#"(module (memory (export "memory") 0)
          (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
          (func (export "load") (param i32) (result i32) (i32.load8_u (local.get 0))))"#,
    );
    let none = common::wat(r#"(module (func (export "f")))"#);
    for reset in common::resets() {
        let region = Region::builder().slots(1).memory_bytes_max(0).reset(reset);
        let region = region.build().expect("a region");
        let empty = region
            .prepare(&empty, &Linker::<()>::new())
            .expect("it fits");
        let none = region
            .prepare(&none, &Linker::<()>::new())
            .expect("it fits");
        for _ in 0..5 {
            let mut instance = empty.try_instantiate(()).expect("the slot is free");
            assert_eq!(call(&mut instance, "load", 0), None, "{reset}");
            assert_eq!(
                call(&mut instance, "grow", 1),
                Some(Value::I32(-1)),
                "{reset}"
            );
            drop(instance);
            let mut instance = none.try_instantiate(()).expect("the slot is free");
            instance.call_values("f", &[]).expect("it returns");
            assert_eq!(instance.memory().len(), 0, "{reset}");
        }
    }
}
