//! A stack that ends anywhere in the trampolines of bulk operations.
mod common;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Linker, Region, TrapCode};

#[test]
fn a_stack_that_ends_in_a_bulk_operation_is_a_trap() {
    let mut text = String::from("(module (memory (export \"memory\") 1)\n");
    for live in 0..14 {
        for len in [0, 1, 20, 70, 2000] {
            let many: String = (0..live).map(|_| " i64").collect();
            let load: String = (0..live)
                .map(|k| format!("(local.set {} (i64.load (i32.const {})))\n", k + 2, k * 8))
                .collect();
            let store: String = (0..live)
                .map(|k| format!("(i64.store (i32.const {}) (local.get {}))\n", k * 8, k + 2))
                .collect();
            text += &format!(
                "(func $f{live}_{len} (export \"f{live}_{len}\") (param i32 i32) (local {many}) {load}
                   (memory.copy (i32.const 1003) (i32.const 1000) (local.get 0))
                   (memory.fill (i32.const 8000) (i32.const 1) (local.get 0))
                   (memory.copy (i32.const 9003) (i32.const 1000) (i32.const 100))
                   (call $f{live}_{len} (local.get 0) (local.get 1))
                   {store})\n");
        }
    }
    text += ")";
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("well-formed");
    for level in [OptLevel::None, OptLevel::Speed] {
        for fuel in [false, true] {
            let mut options = Options::default();
            options.opt_level = level;
            options.fuel = fuel;
            let module = common::open_with(&wasm, &options).expect("valid");
            let region = Region::builder()
                .slots(1)
                .stack(64 << 10)
                .build()
                .expect("a region");
            let prepared = region.prepare(&module, &Linker::<()>::new()).expect("fits");
            let mut places = std::collections::BTreeMap::<_, u32>::new();
            for live in 0..14 {
                for len in [0_u32, 1, 20, 70, 2000] {
                    let func = prepared
                        .func::<(u32, u32), ()>(&format!("f{live}_{len}"))
                        .expect("there");
                    let mut i = prepared.try_instantiate(()).expect("a slot");
                    if fuel {
                        i.set_fuel(1 << 40).expect("counts");
                    }
                    match i.call(&func, (len, 0)) {
                        Err(CallError::Trap(t)) => {
                            assert_eq!(t.code(), TrapCode::StackOverflow);
                            assert!(t.backtrace().len() >= 60);
                            *places.entry(t.wasm_offset().is_some()).or_default() += 1;
                        }
                        other => panic!("{other:?}"),
                    }
                    // Still usable.
                    assert!(i.call(&func, (len, 0)).is_err());
                }
            }
            println!("{level:?} {fuel}: {places:?}");
        }
    }
}
