//! Attempts to read another instance's objects, or memory at an address that the host or a guest
//! chose.

use crate::common;
use crate::common::values::Lend as _;
use crate::gc::{GUEST, call, instance, is_invalid, trap};
use pirn_runtime::{
    CallError, Caller, ExternRef, FuncType, Instance, Linker, Region, TrapCode, ValType, Value,
};
use std::num::NonZeroU64;

/// Under every reset, a guest fills the whole heap with addresses and numbers. The next instance
/// must find zeros.
#[test]
fn the_next_instance_finds_a_zeroed_heap() {
    let module = common::wat(GUEST);
    let other = common::wat("(module (memory (export \"m\") 2) (memory (export \"n\") 2))");
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(2).reset(reset);
        let region = region.memory_bytes_max(1 << 20).build().expect("a region");
        for round in 0..6 {
            let mut guest = instance(&region, &module);
            // Seven eighths of the heap, which overlap the previous instance's objects.
            let len = Value::I32((1 << 17) - 9);
            assert_eq!(
                call(&mut guest, "sum", &[len]).expect("it fits"),
                Value::I64(0),
                "{reset:?} {round}"
            );
            match round % 3 {
                0 => {
                    let full = trap(call(&mut guest, "forever", &[]));
                    assert_eq!(full, TrapCode::HeapExhausted);
                }
                1 => {
                    let limit = std::time::Duration::from_millis(1);
                    let forever = guest.deadline(limit).call_values("forever", &[]);
                    assert!(forever.is_err());
                }
                _ => {}
            }
            drop(guest);
            // Another module has memories at the same addresses.
            let guest = instance(&region, &other);
            for name in ["m", "n"] {
                let memory = guest.exported_memory(name).expect("it is there");
                assert!(memory.as_slice().iter().all(|byte| *byte == 0), "{reset:?}");
            }
        }
    }
}

/// Host functions try to forge an address in every way in which they can return a reference.
#[test]
fn host_functions_cannot_forge_an_address() {
    const FORGED: u64 = 0xfffe << 48 | 0x1000;
    let forged = || NonZeroU64::new(FORGED).map(ExternRef::new);
    let mut linker = Linker::new();
    let typed = move |_: Caller<'_, ()>| forged();
    linker.func("h", "typed", typed).expect("the name is free");
    let ty = FuncType {
        params: vec![],
        results: vec![ValType::EXTERNREF],
    };
    let untyped = move |_: Caller<'_, ()>, _: &[Value], results: &mut [Value]| {
        results[0] = Value::ExternRef(forged());
        Ok(())
    };
    linker
        .func_values("h", "untyped", ty, untyped)
        .expect("the name is free");
    linker
        .func_async("h", "async", move |_: Caller<'_, ()>, (): ()| {
            Box::pin(async move { forged() })
        })
        .expect("the name is free");
    let module = common::wat(
        r#"(module
             (import "h" "typed" (func $typed (result externref)))
             (import "h" "untyped" (func $untyped (result externref)))
             (import "h" "async" (func $async (result externref)))
             (type $t (struct (field i64)))
             (func $use (param externref) (result i64)
               (struct.get $t 0 (ref.cast (ref $t) (any.convert_extern (local.get 0)))))
             (func (export "typed") (result i64) (drop (struct.new_default $t)) (call $use (call $typed)))
             (func (export "untyped") (result i64) (call $use (call $untyped)))
             (func (export "async") (result i64) (call $use (call $async)))
             (func (export "given") (param externref) (result i64) (call $use (local.get 0))))"#,
    );
    let region = Region::builder().slots(1).memories(2).build();
    let region = region.expect("a region");
    let prepared = region.prepare(&module, &linker).expect("it fits");
    let mut guest = prepared.try_instantiate(()).expect("a slot");
    let refused = |result: Result<i64, CallError>, how: &str| {
        let error = result.expect_err(how).to_string();
        assert!(error.contains("of another instance"), "{how}: {error}");
    };
    for how in ["typed", "untyped"] {
        let func = prepared.func::<(), i64>(how).expect("it is there");
        refused(guest.call(&func, ()), how);
    }
    let func = prepared.func::<(), i64>("async").expect("it is there");
    refused(
        futures::executor::block_on(guest.call_async(&func, ())),
        "async",
    );
    let func = prepared
        .func::<Option<ExternRef>, i64>("given")
        .expect("it is there");
    refused(guest.call(&func, forged()), "given");
    is_invalid(
        call(&mut guest, "given", &[Value::ExternRef(forged())]),
        "another instance",
    );
}

/// A reference that left its instance in an exception or a global still belongs to that instance.
#[test]
fn exported_references_stay_with_their_instance() {
    let module = common::wat(
        r#"(module (type $t (struct (field i64))) (tag $e (export "e") (param anyref externref))
             (global (export "g") (mut anyref) (ref.null any))
             (global $x (export "x") (mut externref) (ref.null extern))
             (func (export "throw") (local $a anyref)
               (local.set $a (struct.new $t (i64.const 9)))
               (global.set 0 (local.get $a)) (global.set $x (extern.convert_any (local.get $a)))
               (throw $e (local.get $a) (extern.convert_any (local.get $a))))
             (func (export "take") (param anyref) (result i64) (struct.get $t 0 (ref.cast (ref $t) (local.get 0))))
             (func (export "take_extern") (param externref) (result i64)
               (struct.get $t 0 (ref.cast (ref $t) (any.convert_extern (local.get 0))))))"#,
    );
    let region = Region::builder().slots(2).memories(2).build();
    let region = region.expect("a region");
    let take = |guest: &mut Instance<()>, value: Value| match value {
        Value::ExternRef(_) => call(guest, "take_extern", &[value]),
        value => call(guest, "take", &[value]),
    };
    let (mut one, mut other) = (instance(&region, &module), instance(&region, &module));
    let thrown = match one.call_values("throw", &[]) {
        Err(CallError::Exception(exception)) => exception.values().to_vec(),
        thrown => panic!("{thrown:?}"),
    };
    let globals = ["g", "x"].map(|name| one.global(name).expect("it is there"));
    let all = [thrown, globals.to_vec()].concat();
    assert_eq!(all.len(), 4);
    for value in &all {
        assert_eq!(
            take(&mut one, *value).expect("the value belongs to this instance"),
            Value::I64(9)
        );
        is_invalid(take(&mut other, *value), "another instance");
    }
    drop(one);
    let mut next = instance(&region, &module);
    assert!(next.call_values("throw", &[]).is_err());
    for value in &all {
        is_invalid(take(&mut next, *value), "another instance");
    }
}

/// Types that differ in one reference only are not equal. Casts among them fail, within a module
/// and between members of a group.
#[test]
fn casts_distinguish_types_with_one_different_reference() {
    let types = [
        "(rec (type $a (sub (struct (field (ref null $a)) (field i64)))))",
        "(rec (type $a (sub (struct (field (ref null $a)) (field i64)))) (type $b (struct)))",
        "(rec (type $b (struct)) (type $a (sub (struct (field (ref null $a)) (field i64)))))",
        "(rec (type $a (sub (struct (field (ref null any)) (field i64)))))",
        "(rec (type $a (sub (struct (field (ref null $a)) (field f64)))))",
        "(rec (type $a (sub final (struct (field (ref null $a)) (field i64)))))",
        "(type $r (sub (struct))) (type $a (sub $r (struct (field (ref null $r)) (field i64))))",
        "(rec (type $a (sub (struct (field (ref null $b)) (field i64)))) (type $b (sub (struct (field (ref null $a)) (field i64)))))",
        "(rec (type $a (sub (struct (field (mut (ref null $a))) (field i64)))))",
    ];
    let region = Region::builder().slots(20).memories(2).build();
    let region = region.expect("a region");
    let mut group = pirn_runtime::Group::new(&region, ());
    let linker = Linker::new();
    let members = types.map(|types| {
        let text = format!(
            r#"(module {types}
                 (func (export "make") (result anyref) (struct.new_default $a))
                 (func (export "is") (param anyref) (result i32) (ref.test (ref $a) (local.get 0)))
                 (func (export "cast") (param anyref) (drop (ref.cast (ref $a) (local.get 0)))))"#
        );
        let module = common::wat(&text);
        // Instantiate each twice: types with equal definitions are equal.
        [(); 2].map(|()| group.instantiate(&module, &linker).expect("it fits"))
    });
    for (makes, [maker, _]) in members.iter().enumerate() {
        let made = group
            .lend(*maker)
            .call_values("make", &[])
            .expect("it is made");
        for (tests, tested) in members.iter().enumerate() {
            for member in tested {
                let is_it = group
                    .lend(*member)
                    .call_values("is", &made)
                    .expect("it runs");
                let wanted = makes == tests;
                assert_eq!(is_it, [Value::I32(i32::from(wanted))], "{makes} {tests}");
                let cast = group.lend(*member).call_values("cast", &made);
                assert_eq!(cast.is_ok(), wanted, "{makes} {tests}");
            }
        }
    }
}
