//! The type of a 64-bit memory or table when it is imported or prepared.

use super::{common, region};
use crate::common::values::Lend as _;
use pirn_runtime::{
    AddrType, ExternType, Group, GroupError, LinkError, Linker, Module, Region, TrapCode, Value,
};

fn linked(region: &Region, export: &str, import: &str) -> Result<(), GroupError> {
    let mut group = Group::new(region, ());
    let owner = common::wat(&format!("(module {export})"));
    let owner = group.instantiate(&owner, &Linker::new()).expect("it fits");
    group.name("own", owner);
    let module = common::wat(&format!("(module (import \"own\" \"x\" {import}))"));
    group.instantiate(&module, &Linker::new()).map(drop)
}

#[test]
fn imports_must_have_the_declared_address_type() {
    let region = region(2);
    for (export, good, bad, words) in [
        (
            "(memory (export \"x\") i64 1 2)",
            "(memory i64 1 2)",
            "(memory 1 2)",
            ["a memory of i64 1..2 pages", "a memory of 1..2 pages"],
        ),
        (
            "(memory (export \"x\") 1 2)",
            "(memory 1)",
            "(memory i64 1)",
            ["a memory of 1..2 pages", "a memory of i64 1.. pages"],
        ),
        (
            "(table (export \"x\") i64 1 2 funcref)",
            "(table i64 0 2 funcref)",
            "(table 0 2 funcref)",
            ["a table i64 1..2 funcref", "a table 0..2 funcref"],
        ),
        (
            "(table (export \"x\") 1 2 externref)",
            "(table 1 externref)",
            "(table i64 1 externref)",
            ["a table 1..2 externref", "a table i64 1.. externref"],
        ),
    ] {
        linked(&region, export, good).expect("it is the same");
        let error = linked(&region, export, bad).expect_err("it is another");
        let GroupError::Link(LinkError::Mismatch { found, wanted, .. }) = &error else {
            panic!("{error}")
        };
        assert_eq!([found, wanted], words, "{error}");
    }
}

#[test]
fn a_module_reports_its_address_types() {
    let module = common::wat(
        "(module (import \"a\" \"m\" (memory i64 1 0x1000000000000)) (table (export \"t\") i64 1 funcref)
           (table (export \"u\") 1 funcref))",
    );
    let (_, _, memory) = module.imports().next().expect("an import");
    assert_eq!(memory.to_string(), "memory i64 1..281474976710656 pages");
    let ExternType::Memory(memory) = memory else {
        panic!("{memory}")
    };
    assert_eq!(memory.address, AddrType::I64);
    let exports = module.exports().map(|(_, ty)| ty.to_string());
    assert_eq!(
        exports.collect::<Vec<_>>(),
        ["table i64 1.. funcref", "table 1.. funcref"]
    );
}

/// A host interface with 32-bit addresses is refused for a guest whose memory has 64-bit addresses.
#[test]
fn host_interfaces_with_32_bit_addresses_are_refused() {
    let region = region(2);
    let mut linker = Linker::<()>::new();
    linker.func("narrow", "f", |_: i32| ()).expect("once");
    linker.func("other", "f", |_: i32| ()).expect("once");
    linker.require_32_bit_addresses("narrow");
    let module = |from: &str, memory: &str| -> Module {
        common::wat(&format!(
            "(module (import \"{from}\" \"f\" (func (param i32))) {memory})"
        ))
    };
    for (from, memory, is_refused) in [
        ("narrow", "(memory i64 1 2)", true),
        ("narrow", "(memory 1 2)", false),
        ("narrow", "", false),
        ("other", "(memory i64 1 2)", false),
    ] {
        let module = module(from, memory);
        for linker in [linker.clone(), linker.clone().clone()] {
            let prepared = region.prepare(&module, &linker).map(drop);
            let mut group = Group::new(&region, ());
            let added = group.instantiate(&module, &linker).map(drop);
            if !is_refused {
                prepared.expect("it is fine");
                added.expect("it is fine");
                continue;
            }
            let errors = [
                prepared.expect_err("it is refused").to_string(),
                added.expect_err("it is refused").to_string(),
            ];
            for error in errors {
                assert_eq!(
                    error,
                    "import narrow.f is of an interface with 32-bit addresses, the module's memory \
                     is i64 1..2 pages; compile the guest with a 32-bit memory"
                );
            }
        }
    }
}

/// A host function converts a guest's 64-bit pointer to an address, or traps.
#[test]
fn a_64_bit_pointer_is_converted_or_traps() {
    let region = region(1);
    let mut linker = Linker::<()>::new();
    linker
        .func(
            "host",
            "read",
            |caller: pirn_runtime::Caller<'_, ()>,
             pointer: u64|
             -> Result<u32, pirn_runtime::Trap> {
                let memory = caller.memory();
                memory.read_u32(memory.address(pointer)?)
            },
        )
        .expect("once");
    let module = common::wat(
        "(module (import \"host\" \"read\" (func $read (param i64) (result i32))) (memory i64 1)
           (data (i64.const 8) \"\\01\\02\\03\\04\")
           (func (export \"go\") (param i64) (result i32) (call $read (local.get 0))))",
    );
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let mut instance = prepared.try_instantiate(()).expect("a slot is free");
    let mut go = |pointer| super::outcome(instance.call_values("go", &[super::i64(pointer)]));
    assert_eq!(go(8), Ok(vec![pirn_runtime::Value::I32(0x0403_0201)]));
    for outside in [
        65_533,
        (1 << 32) + 8,
        1 << 63 | 8,
        u64::MAX,
        u64::from(u32::MAX),
    ] {
        assert_eq!(
            go(outside),
            Err(pirn_runtime::TrapCode::MemoryOutOfBounds),
            "{outside:#x}"
        );
    }
}

/// Segments, growth and accesses of an importer use all 64 bits of the owner's memory and table.
#[test]
fn an_importer_uses_64_bit_addresses() {
    let region = region(2);
    let importer = |memory: &str, table: &str| {
        format!(
            r#"(module (import "own" "m" (memory i64 1)) (import "own" "t" (table $t i64 4 funcref))
                 (data (offset {memory}) "ab") (elem (table $t) (offset {table}) func $f $f) (func $f)
                 (func (export "grow") (param i64) (result i64) (memory.grow (local.get 0)))
                 (func (export "more") (param i64) (result i64) (table.grow $t (ref.func $f) (local.get 0)))
                 (func (export "load") (param i64) (result i32) (i32.load8_u (local.get 0)))
                 (func (export "call") (param i64) (call_indirect $t (local.get 0))))"#
        )
    };
    let linked = |memory: &str, table: &str| {
        let mut group = Group::new(&region, ());
        let owner = common::wat(
            "(module (memory (export \"m\") i64 1 3) (table (export \"t\") i64 4 6 funcref))",
        );
        let owner = group.instantiate(&owner, &Linker::new()).expect("it fits");
        group.name("own", owner);
        let module = common::wat(&importer(memory, table));
        let member = group.instantiate(&module, &Linker::new());
        member.map(|member| (group, member))
    };
    let (last, two) = ("(i64.const 65534)", "(i64.const 2)");
    for (memory, table) in [
        ("(i64.const 65535)", two),
        ("(i64.const 0x10000fffe)", two),
        ("(i64.const -1)", two),
        ("(i64.const 0x800000000000fffe)", two),
        (last, "(i64.const 3)"),
        (last, "(i64.const 0x100000002)"),
        (last, "(i64.const 0x2000000000000002)"),
        (last, "(i64.const -1)"),
    ] {
        assert!(linked(memory, table).is_err(), "{memory} {table}");
    }
    let (mut group, member) = linked(last, two).expect("both fit");
    let mut call = |name: &str, operand: u64| {
        super::outcome(group.lend(member).call_values(name, &[super::i64(operand)]))
    };
    let (memory, element) = (TrapCode::MemoryOutOfBounds, TrapCode::UndefinedElement);
    assert_eq!(call("load", 65_535), Ok(vec![Value::I32(b'b'.into())]));
    assert_eq!(call("load", 65_536), Err(memory));
    assert_eq!(call("call", 1), Err(TrapCode::UninitializedElement));
    assert_eq!(call("call", 3), Ok(vec![]));
    assert_eq!(call("call", 4), Err(element));
    for outside in [3, 1 << 32, (1 << 48) - 1, (1 << 48) + 1, u64::MAX] {
        assert_eq!(call("grow", outside), Ok(vec![Value::I64(-1)]));
        assert_eq!(call("more", outside), Ok(vec![Value::I64(-1)]));
    }
    assert_eq!(call("grow", 2), Ok(vec![Value::I64(1)]));
    assert_eq!(call("more", 2), Ok(vec![Value::I64(4)]));
    assert_eq!(call("load", 3 * 65_536 - 1), Ok(vec![Value::I32(0)]));
    assert_eq!(call("call", 5), Ok(vec![]));
    for above in [1 << 32, 1 << 61, 1 << 63] {
        assert_eq!(call("load", above + 3), Err(memory), "{above:#x}");
        assert_eq!(call("call", above + 5), Err(element), "{above:#x}");
    }
}

/// A group, like `prepare`, checks the size of a table before it allocates anything for it.
#[test]
fn a_group_checks_the_size_of_a_table_before_allocating() {
    let region = region(1);
    for text in [
        "(module (table i64 0x8000000000000000 funcref) (elem (i64.const 0x7fffffffffffffff) func 0) (func))",
        "(module (table i64 0x100000000 funcref) (elem (i64.const 0xffffffff) func 0) (func))",
    ] {
        let mut group = Group::new(&region, ());
        let error = group.instantiate(&common::wat(text), &Linker::new());
        let error = error.expect_err("it is large").to_string();
        assert!(error.contains("raise `table_elements`"), "{error}");
    }
}
