//! Stack overflows anywhere in the trampolines of bulk operations.

use super::{common, options};
use pirn_compiler::OptLevel;
use pirn_runtime::{CallError, Linker, Region, TrapCode};
use std::collections::BTreeMap;

/// Number of values that are live across the operation, up to more than there are registers.
const KEPT: std::ops::Range<usize> = 0..14;

/// Number of bytes that are copied and filled.
const LENGTHS: [u32; 5] = [0, 1, 20, 70, 2000];

/// A recursive function with bulk operations across which `kept` values are live. Each combination
/// has its own name and frame size.
fn recursion(kept: usize, length: u32) -> String {
    let name = name(kept, length);
    let locals = " i64".repeat(kept);
    let each = |text: fn(usize) -> String| (0..kept).map(text).collect::<String>();
    let load = each(|k| format!("(local.set {} (i64.load (i32.const {})))\n", k + 2, k * 8));
    let store = each(|k| format!("(i64.store (i32.const {}) (local.get {}))\n", k * 8, k + 2));
    format!(
        r#"(func ${name} (export "{name}") (param i32 i32) (local {locals}) {load}
          (memory.copy (i32.const 1003) (i32.const 1000) (local.get 0))
          (memory.fill (i32.const 8000) (i32.const 1) (local.get 0))
          (memory.copy (i32.const 9003) (i32.const 1000) (i32.const 100))
          (call ${name} (local.get 0) (local.get 1))
          {store})"#
    )
}

fn name(kept: usize, length: u32) -> String {
    format!("f{kept}_{length}")
}

fn cases() -> impl Iterator<Item = (usize, u32)> {
    KEPT.flat_map(|kept| LENGTHS.map(|length| (kept, length)))
}

#[test]
fn a_stack_overflow_in_a_bulk_operation_is_a_trap() {
    let funcs: String = cases()
        .map(|(kept, length)| recursion(kept, length))
        .collect();
    let text = format!("(module (memory (export \"memory\") 1) {funcs})");
    for (level, fuel) in [
        (OptLevel::None, false),
        (OptLevel::None, true),
        (OptLevel::Speed, false),
        (OptLevel::Speed, true),
    ] {
        let module = common::wat_with(&text, &options(level, fuel));
        let region = Region::builder().slots(1).stack_bytes(64 << 10).build();
        let region = region.expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new());
        let prepared = prepared.expect("it fits");
        let mut places = BTreeMap::<_, u32>::new();
        for (kept, length) in cases() {
            let func = prepared.func::<(u32, u32), ()>(&name(kept, length));
            let func = func.expect("it is exported");
            let mut instance = prepared.try_instantiate(()).expect("a slot is free");
            if fuel {
                instance.set_fuel(1 << 40).expect("it counts");
            }
            match instance.call(&func, (length, 0)) {
                Err(CallError::Trap(trap)) => {
                    assert_eq!(trap.code(), TrapCode::StackOverflow);
                    assert!(trap.backtrace().len() >= 60);
                    *places.entry(trap.wasm_offset().is_some()).or_default() += 1;
                }
                other => panic!("{other:?}"),
            }
            // The instance is still usable.
            assert!(instance.call(&func, (length, 0)).is_err());
        }
        println!("{level:?} {fuel}: {places:?}");
    }
}
