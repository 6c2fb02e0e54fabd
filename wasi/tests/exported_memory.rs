//! Pointers of preview 1 are offsets in the memory that the guest exports as `memory`, whatever
//! index that memory has.

use crate::common::setup::{self, linker};
use pirn_runtime::{ExternType, Group, LinkError, Module, Region, SharedMemory, Value};
use pirn_wasi::pipe::WritePipe;
use pirn_wasi::{WasiCtx, WasiCtxBuilder};
use std::io::Cursor;

const IMPORTS: &str = r#"
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
"#;

/// `run` writes a vector and the bytes at 16 of one memory to standard output, and random bytes to
/// 64.
fn run(memory: usize, letters: &str) -> String {
    format!(
        r#"(func (export "run") (result i32)
             (i32.store {memory} (i32.const 0) (i32.const 16)) (i32.store {memory} (i32.const 4) (i32.const 3))
             (i32.or (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
               (call $random (i32.const 64) (i32.const 32))))
           (data (memory {memory}) (i32.const 16) "{letters}")"#
    )
}

fn module(fields: &str) -> Module {
    setup::module(&format!("(module {fields})"))
}

fn region() -> Region {
    let region = Region::builder().slots(3).memories(3).build();
    region.expect("a region")
}

type Output = WritePipe<Cursor<Vec<u8>>>;

fn context() -> (WasiCtx, Output) {
    let output = WritePipe::new_in_memory();
    let wasi = WasiCtxBuilder::new().stdout(output.clone());
    (wasi.build(), output)
}

fn said(output: Output) -> String {
    let output = output.try_into_inner().expect("the guest is gone");
    String::from_utf8(output.into_inner()).expect("letters")
}

/// Runs a guest. Returns its output, and for each of these exported memories whether the guest
/// wrote to it.
fn ran(region: &Region, text: &str, memories: &[&str]) -> (String, Vec<bool>) {
    let prepared = region.prepare(&module(text), &linker()).expect("it links");
    let (wasi, output) = context();
    let mut instance = prepared.try_instantiate(wasi).expect("a slot is free");
    let results = instance.call_values("run", &[]).expect("it returns");
    assert_eq!(results, [Value::I32(0)], "{text}");
    let written = memories.iter().map(|name| {
        let memory = instance.exported_memory(name).expect("it is exported");
        let count = memory.read_u32(8).expect("it is inside");
        let random = memory.slice(64, 32).expect("it is inside");
        let is_random = random.iter().any(|byte| *byte != 0);
        assert_eq!(is_random, count == 3, "{text} {name}");
        is_random
    });
    let written = written.collect();
    drop(instance);
    (said(output), written)
}

/// The memory exported as `memory` is used, whatever its index is.
#[test]
fn wasi_uses_the_memory_exported_as_memory() {
    // One region, so that slots are reused by guests whose `memory` has another index.
    let region = region();
    for _ in 0..3 {
        for at in 0..3 {
            let name = |i: usize| {
                if i == at {
                    "memory"
                } else {
                    ["a", "b", "c"][i]
                }
            };
            let names = [name(0), name(1), name(2)];
            let memories = names.map(|name| format!("(memory (export \"{name}\") 1)"));
            let text = format!("{IMPORTS} {} {}", memories.concat(), run(at, "yes"));
            let (said, written) = ran(&region, &text, &names);
            let expected = [0, 1, 2].map(|i| i == at);
            assert_eq!(
                (said.as_str(), &written[..]),
                ("yes", &expected[..]),
                "{at}"
            );
        }
    }
}

/// Without an export `memory`, memory 0 is used.
#[test]
fn wasi_uses_memory_0_without_such_an_export() {
    let region = region();
    let memories = r#"(memory (export "a") 1) (memory (export "b") 1)"#;
    let text = format!("{IMPORTS} {memories} {}", run(0, "one"));
    let (said, written) = ran(&region, &text, &["a", "b"]);
    assert_eq!((said.as_str(), &written[..]), ("one", &[true, false][..]));
    // An export `memory` of another kind is ignored.
    let text = format!("{text} (func (export \"memory\"))");
    assert_eq!(ran(&region, &text, &["a", "b"]), (said, written));
}

#[test]
fn wasi_uses_a_shared_memory_exported_as_memory() {
    let region = region();
    for (is_shared, exports) in [
        (
            false,
            r#"(export "own" (memory 1)) (export "shared" (memory 0))"#,
        ),
        (
            true,
            r#"(export "own" (memory 1)) (export "memory" (memory 0))"#,
        ),
        (
            false,
            r#"(export "memory" (memory 1)) (export "shared" (memory 0))"#,
        ),
    ] {
        // Without an export of that name, memory 0 is used, which is shared here.
        let is_shared = is_shared || !exports.contains("\"memory\"");
        let imports = format!(
            "(import \"env\" \"memory\" (memory 1 1 shared)) {IMPORTS} (memory 1) {exports}"
        );
        let module = module(&format!(
            "{imports} {}",
            run(usize::from(!is_shared), "yes")
        ));
        let ty = module.imports().find_map(|(_, _, ty)| match ty {
            ExternType::Memory(ty) => Some(ty),
            _ => None,
        });
        let memory = SharedMemory::new(&ty.expect("it imports one")).expect("memory");
        let mut linker = linker();
        linker
            .memory("env", "memory", &memory)
            .expect("the name is free");
        let prepared = region.prepare(&module, &linker).expect("it links");
        // A preparation with another memory in place of the first must use that one.
        let other = SharedMemory::new(&memory.ty()).expect("memory");
        let with_other = prepared
            .with_memory("env", "memory", &other)
            .expect("it fits");
        for (prepared, memory) in [(&prepared, &memory), (&with_other, &other)] {
            let (wasi, output) = context();
            let mut instance = prepared.try_instantiate(wasi).expect("a slot is free");
            let results = instance.call_values("run", &[]).expect("it returns");
            assert_eq!(results, [Value::I32(0)], "{exports}");
            drop(instance);
            assert_eq!(said(output), "yes", "{exports}");
            let count = memory.atomic_u32(8).expect("it is inside");
            let count = count.load(std::sync::atomic::Ordering::Relaxed);
            assert_eq!(count == 3, is_shared, "{exports}");
        }
    }
}

/// In a group, the calling member's own `memory` is used.
#[test]
fn wasi_uses_the_calling_members_memory_in_a_group() {
    let region = region();
    let (wasi, output) = context();
    let mut group = Group::new(&region, wasi);
    let owner = format!(
        "{IMPORTS} (memory (export \"first\") 1) (memory (export \"memory\") 1) {}",
        run(1, "one")
    );
    // The user's own memory follows the imported one. The user also calls the owner.
    let user = |exported: usize| {
        format!(
            r#"(import "owner" "first" (memory 1)) {IMPORTS} (import "owner" "run" (func $owner (result i32)))
               (memory 1) (export "memory" (memory {exported})) {}
               (func (export "both") (result i32)
                 (i32.or (call 3) (call $owner)))"#,
            run(exported, ["two", "six"][exported])
        )
    };
    let linker = linker();
    let owner = group
        .instantiate(&module(&owner), &linker)
        .expect("it links");
    group.name("owner", owner);
    let mut expected = String::new();
    for exported in [0, 1] {
        let user = group
            .instantiate(&module(&user(exported)), &linker)
            .expect("it links");
        let results = group
            .member_mut(user)
            .expect("a member")
            .call_values("both", &[])
            .expect("it returns");
        assert_eq!(results, [Value::I32(0)]);
        expected = expected + ["two", "six"][exported] + "one";
        let lent = group.member(user).expect("a member");
        let memory = lent.exported_memory("memory").expect("it is exported");
        assert_eq!(memory.read_u32(8).expect("it is inside"), 3);
    }
    drop(group);
    assert_eq!(said(output), expected);
}

#[test]
fn the_memory_for_wasi_must_have_32_bit_addresses() {
    let region = region();
    let narrow = r#"(memory (export "memory") 1)"#;
    let wide = r#"(memory (export "memory") i64 1)"#;
    for (memories, is_refused) in [
        (format!("(memory i64 1) {narrow}"), false),
        (format!("{narrow} (memory i64 1)"), false),
        (format!("(memory 1) {wide}"), true),
        (format!("{wide} (memory 1)"), true),
        ("(memory i64 1) (memory 1)".to_owned(), true),
        ("(memory 1) (memory i64 1)".to_owned(), false),
    ] {
        let text = format!("{IMPORTS} {memories}");
        let prepared = region.prepare(&module(&text), &linker());
        match prepared.err() {
            Some(LinkError::Addresses { .. }) => assert!(is_refused, "{memories}"),
            Some(error) => panic!("{memories}: {error}"),
            None => assert!(!is_refused, "{memories}"),
        }
    }
}
