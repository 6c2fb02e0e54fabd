//! The capacity of a region for memories, and the initial memories of each instance.

use crate::common::{self, values};
use pirn_compiler::Options;
use pirn_runtime::{ExternType, Linker, Module, Region, TrapCode, Value};

const PAGE: usize = 1 << 16;

/// Three memories, each of which is filled, grown and checked.
const THREE: &str = r#"(module
  (memory (export "a") 1 4) (memory (export "b") 2 4) (memory (export "c") 0 4)
  (data (memory 0) (i32.const 10) "first") (data (memory 1) (i32.const 70000) "second")
  (func (export "dirty")
    (drop (memory.grow 0 (i32.const 1))) (drop (memory.grow 1 (i32.const 2))) (drop (memory.grow 2 (i32.const 3)))
    (memory.fill 0 (i32.const 0) (i32.const 1) (i32.mul (memory.size 0) (i32.const 65536)))
    (memory.fill 1 (i32.const 0) (i32.const 2) (i32.mul (memory.size 1) (i32.const 65536)))
    (memory.fill 2 (i32.const 0) (i32.const 3) (i32.mul (memory.size 2) (i32.const 65536))))
  (func (export "read") (param i32 i32) (result i32)
    (if (result i32) (i32.eqz (local.get 0)) (then (i32.load8_u 0 (local.get 1)))
      (else (if (result i32) (i32.eq (local.get 0) (i32.const 1)) (then (i32.load8_u 1 (local.get 1)))
        (else (i32.load8_u 2 (local.get 1))))))))"#;

/// Another guest, with fewer and larger memories.
const TWO: &str = r#"(module (memory (export "a") 3 4) (memory (export "b") 1 4)
  (func (export "dirty")
    (drop (memory.grow 1 (i32.const 3)))
    (memory.fill 0 (i32.const 0) (i32.const 4) (i32.mul (memory.size 0) (i32.const 65536)))
    (memory.fill 1 (i32.const 0) (i32.const 5) (i32.mul (memory.size 1) (i32.const 65536)))))"#;

/// A guest with one memory.
const ONE: &str = r#"(module (memory (export "a") 2 4)
  (func (export "dirty") (memory.fill 0 (i32.const 0) (i32.const 6) (i32.mul (memory.size 0) (i32.const 65536)))))"#;

fn initial(pages: usize, at: usize, bytes: &str) -> Vec<u8> {
    let mut memory = vec![0; pages * PAGE];
    memory[at..at + bytes.len()].copy_from_slice(bytes.as_bytes());
    memory
}

#[test]
fn every_instance_finds_its_own_initial_memories() {
    let expected = [
        vec![
            initial(1, 10, "first"),
            initial(2, 70_000, "second"),
            vec![],
        ],
        vec![initial(3, 0, ""), initial(1, 0, "")],
        vec![initial(2, 0, "")],
    ];
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(3).reset(reset);
        let region = region.memory_bytes_max(4 * PAGE).build().expect("a region");
        let prepared = [THREE, TWO, ONE].map(|text| {
            let module = common::wat(text);
            region
                .prepare(&module, &Linker::<()>::new())
                .expect("it fits")
        });
        for round in [0, 0, 1, 0, 2, 1, 2, 2, 0, 1, 1, 0] {
            let mut instance = prepared[round].try_instantiate(()).expect("the slot");
            for (name, bytes) in ["a", "b", "c"].iter().zip(&expected[round]) {
                let memory = instance.exported_memory(name).expect("it is exported");
                assert!(memory.as_slice() == bytes, "{reset} {round} {name}");
            }
            if round == 0 {
                for (memory, size) in [(0, 1), (1, 2), (2, 0)] {
                    for (at, fits) in [(size * PAGE, false), ((size * PAGE).wrapping_sub(1), true)]
                    {
                        if size == 0 && fits {
                            continue;
                        }
                        let params = [memory, at as i32].map(Value::I32);
                        match instance.call_values("read", &params) {
                            Ok(values) => assert_eq!((values, fits), (vec![Value::I32(0)], true)),
                            Err(error) => {
                                assert!(!fits, "{error}");
                                let told = error.to_string();
                                assert!(told.contains("out of bounds memory access"), "{told}");
                            }
                        }
                    }
                }
            }
            instance.call_values("dirty", &[]).expect("it returns");
            for (name, (byte, pages)) in ["a", "b", "c"].iter().zip(match round {
                0 => vec![(1, 2), (2, 4), (3, 3)],
                1 => vec![(4, 3), (5, 4)],
                _ => vec![(6, 2)],
            }) {
                let memory = instance.exported_memory(name).expect("it is exported");
                assert!(
                    memory.as_slice() == vec![byte; pages * PAGE],
                    "{reset} {round} {name}"
                );
            }
        }
    }
}

#[test]
fn a_module_needs_a_region_with_enough_memories() {
    let module = common::wat(THREE);
    assert_eq!(module.memories(), 3);
    let region = Region::builder()
        .slots(1)
        .memories(2)
        .build()
        .expect("a region");
    let error = region
        .prepare(&module, &Linker::<()>::new())
        .expect_err("it does not fit");
    assert_eq!(
        error.to_string(),
        "module needs 3 memories, slots hold 2; raise `memories`"
    );
    let told = region.describe().to_string();
    assert!(told.contains("2 memories up to 65536 KiB"), "{told}");
    let small = Region::builder()
        .slots(1)
        .memories(3)
        .memory_bytes_max(PAGE);
    let small = small.build().expect("a region");
    let error = small
        .prepare(&module, &Linker::<()>::new())
        .expect_err("it does not fit");
    assert_eq!(
        error.to_string(),
        "module needs 2 pages of memory, slots hold 1; raise `memory_bytes_max`"
    );
    for (memories, told) in [
        (0, "`memories` is 0, the allowed range is 1 to 100"),
        (101, "`memories` is 101, the allowed range is 1 to 100"),
    ] {
        let error = Region::builder()
            .memories(memories)
            .build()
            .expect_err("it is refused");
        assert_eq!(error.to_string(), told);
    }
    let error = Region::builder().slots(326).memories(100).build();
    let error = error.expect_err("it is refused").to_string();
    assert_eq!(error, "`slots` is 326, the allowed range is 1 to 325");
}

/// A slot in the last chunk of a region with several chunks.
#[test]
fn slots_do_not_share_memories() {
    let module = common::wat(THREE);
    let region = Region::builder()
        .slots(70)
        .memories(30)
        .build()
        .expect("a region");
    let prepared = region
        .prepare(&module, &Linker::<()>::new())
        .expect("it fits");
    let instances: Vec<_> = (0..70u8)
        .map(|n| {
            let mut instance = prepared.try_instantiate(()).expect("a slot");
            for name in ["a", "b"] {
                let mut memory = instance.exported_memory_mut(name).expect("it is exported");
                memory.as_mut_slice().fill(n);
            }
            instance
        })
        .collect();
    for (n, instance) in (0..70u8).zip(&instances) {
        for name in ["a", "b"] {
            let memory = instance.exported_memory(name).expect("it is exported");
            assert!(
                memory.as_slice().iter().all(|byte| *byte == n),
                "{n} {name}"
            );
        }
    }
}

#[test]
fn memories_are_found_by_export_name() {
    let mut instance = values::instance(
        r#"(module (memory (export "m") 1 1) (export "n" (memory 0)) (func (export "f")))"#,
        &Options::default(),
    );
    let mut memory = instance.exported_memory_mut("m").expect("it is exported");
    memory.as_mut_slice()[3] = 7;
    assert_eq!(instance.memory().as_slice()[3], 7);
    let again = instance.exported_memory("n").expect("it is exported");
    assert_eq!(again.as_slice()[3], 7);
    assert!(instance.exported_memory("f").is_none() && instance.exported_memory("x").is_none());
}

#[test]
fn a_trap_in_a_second_memory_reports_its_offset() {
    const TEXT: &str = "(module (memory 1 1) (memory 1 1)
        (func (export \"f\") (param i32) (i64.store 1 offset=4 (local.get 0) (i64.const 1))))";
    for options in values::levels() {
        let module = common::wat_with(TEXT, &options);
        let region = Region::builder()
            .slots(1)
            .memories(2)
            .build()
            .expect("a region");
        let prepared = region
            .prepare(&module, &Linker::<()>::new())
            .expect("it fits");
        let mut instance = prepared.try_instantiate(()).expect("the slot");
        for (at, traps) in [(65_524, false), (65_525, true), (-1, true), (-5, true)] {
            let ended = instance.call_values("f", &[Value::I32(at)]);
            let trap = match ended {
                Err(pirn_runtime::CallError::Trap(trap)) => Some(trap),
                other => {
                    other.expect("it returns");
                    None
                }
            };
            assert_eq!(trap.is_some(), traps, "{at}");
            if let Some(trap) = trap {
                assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
                assert!(trap.wasm_offset().is_some());
            }
        }
    }
}

#[test]
fn types_of_all_memories_are_listed() {
    let module: Module = common::wat(THREE);
    let memories: Vec<_> = module
        .exports()
        .filter_map(|(name, ty)| match ty {
            ExternType::Memory(ty) => Some(format!("{name} {ty}")),
            _ => None,
        })
        .collect();
    assert_eq!(memories.len(), 3);
}
