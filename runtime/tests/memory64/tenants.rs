//! Two guests use one slot in turns, with equal or different address types. Neither may find data
//! of the other.

use super::{Guest, LEVELS, PAGE, common, i64, module};
use pirn_runtime::{Linker, Region, TrapCode, Value};

/// A guest whose memory and table have this address type. It fills all state that it can reach.
fn tenant(address: &str, pages: u64, mark: u32) -> String {
    let prefix = if address == "i64" { "i64" } else { "" };
    format!(
        r#"(module (memory {prefix} {pages} 8) (data ({address}.const 100) "tenant {mark}")
             (table $t {prefix} 2 100 funcref) (func $f) (elem declare func $f)
             (func (export "dirty") (result {address})
               (drop (memory.grow ({address}.const 3)))
               (memory.fill ({address}.const 0) (i32.const {mark}) ({address}.shl (memory.size) ({address}.const 16)))
               (drop (table.grow $t (ref.func $f) ({address}.const 50)))
               (table.fill $t ({address}.const 0) (ref.func $f) (table.size $t))
               (memory.size))
             (func (export "null") (param {address}) (result i32) (ref.is_null (table.get $t (local.get 0))))
             (func (export "read") (param {address}) (result i32) (i32.load8_u (local.get 0))))"#
    )
}

#[test]
fn instances_with_different_address_types_find_no_old_data() {
    for reset in common::resets() {
        let region = Region::builder()
            .slots(1)
            .memory_bytes_max(8 << 16)
            .reset(reset);
        let region = region.build().expect("a region");
        for level in LEVELS {
            let tenants = [("i64", 2, 1), ("i32", 1, 2), ("i64", 1, 3), ("i64", 1, 4)];
            let prepared = tenants.map(|(address, pages, mark)| {
                let module = module(&tenant(address, pages, mark), level, false);
                region
                    .prepare(&module, &Linker::<()>::new())
                    .expect("it fits")
            });
            for round in 0..40 {
                let which = [0, 1, 0, 0, 2, 3, 1, 3, 2, 0][round % 10];
                let (address, pages, mark) = tenants[which];
                let instance = prepared[which].try_instantiate(()).expect("the slot");
                let mut guest = Guest::Alone(instance);
                let what = format!("{reset} {level:?} {round} {address}");
                let mut fresh = vec![0; pages as usize * PAGE as usize];
                let name = format!("tenant {mark}");
                fresh[100..][..name.len()].copy_from_slice(name.as_bytes());
                assert!(guest.holds(&fresh), "{what}");
                let number = |value: u64| match address {
                    "i64" => i64(value),
                    _ => Value::I32((value as u32).cast_signed()),
                };
                for at in [0, 1] {
                    let null = guest.call("null", &[number(at)]);
                    assert_eq!(null, Ok(vec![Value::I32(1)]), "{what}");
                }
                let end = pages * PAGE;
                for outside in [end, end + PAGE, 8 * PAGE - 1] {
                    let read = guest.call("read", &[number(outside)]);
                    assert_eq!(read, Err(TrapCode::MemoryOutOfBounds), "{what} {outside}");
                }
                assert_eq!(
                    guest.call("null", &[number(2)]),
                    Err(TrapCode::TableOutOfBounds)
                );
                let size = guest.call("dirty", &[]);
                assert_eq!(size, Ok(vec![number(pages + 3)]), "{what}");
            }
        }
    }
}
