//! Attacks on the results of operators, and on reports to the embedder.

use super::*;
use crate::common::campaign::share;
use crate::common::values::Lend as _;

/// A page as a new memory has it.
static ZEROS: [u8; PAGE] = [0; PAGE];

#[derive(Default)]
struct Asked {
    asked: Vec<(&'static str, u64, u64, Option<u64>)>,
    failed: u32,
    refuses: bool,
}

fn asking(name: &'static str) -> Linker<Asked> {
    let mut linker = Linker::new();
    linker.memory_limiter(move |data: &mut Asked, growth: Growth| {
        data.asked
            .push((name, growth.current, growth.desired, growth.maximum));
        !data.refuses
    });
    linker.growth_failed(|data: &mut Asked, _, _| data.failed += 1);
    linker
}

/// Two instances re-export a memory, the last one under other names. Only the owner's limiter may
/// decide about its growth.
#[test]
fn the_owners_limiter_decides_about_growth() {
    let region = Region::builder()
        .slots(3)
        .memories(3)
        .memory_bytes_max(6 * PAGE);
    let region = region.build().expect("a region");
    let grows = |count: usize| {
        let grow = |memory| {
            format!(
                "(func (export \"grow{memory}\") (param i32) (result i32) (memory.grow {memory} (local.get 0)))
                 (func (export \"size{memory}\") (result i32) (memory.size {memory}))
                 (func (export \"load{memory}\") (param i32) (result i32) (i32.load8_u {memory} (local.get 0)))"
            )
        };
        (0..count).map(grow).collect::<String>()
    };
    let owner = format!(
        r#"(module (memory 1) (memory (export "b") 1 3) (memory (export "c") 2) {})"#,
        grows(3)
    );
    let hand = format!(
        r#"(module (import "o" "c" (memory 2)) (import "o" "b" (memory 1 3)) (memory (export "own") 1 5)
                 (memory (export "more") 0)
             (export "c" (memory 0)) (export "b" (memory 1)) {})"#,
        grows(4)
    );
    let last = format!(
        r#"(module (import "h" "b" (memory 1)) (import "h" "c" (memory 1)) (import "h" "more" (memory 0))
                 (import "h" "b" (memory 1 4)) {})"#,
        grows(4)
    );
    let mut group = Group::new(&region, Asked::default());
    let owner = group.instantiate(&common::wat(&owner), &asking("o"));
    let owner = owner.expect("it fits");
    group.name("o", owner);
    let hand = group.instantiate(&common::wat(&hand), &asking("h"));
    let hand = hand.expect("it fits");
    group.name("h", hand);
    let last = group.instantiate(&common::wat(&last), &asking("l"));
    let last = last.expect("it fits");
    let pages = |pages: u64| pages * PAGE as u64;
    let grow = |group: &mut Group<Asked>, member, memory: u32, delta: u32, previous: i32| {
        let grown = outcome(
            group
                .lend(member)
                .call_values(&format!("grow{memory}"), &[i32(delta)]),
        );
        assert_eq!(grown, Ok(vec![Value::I32(previous)]), "{memory} by {delta}");
        std::mem::take(group.data_mut())
    };
    // The owner's `b` with at most 3 pages, grown through an instance that imports it from another
    // importer.
    let told_of = grow(&mut group, last, 0, 1, 1);
    assert_eq!(told_of.asked, [("o", pages(1), pages(2), Some(pages(3)))]);
    let told_of = grow(&mut group, last, 3, 2, -1);
    assert_eq!((told_of.asked.len(), told_of.failed), (0, 1));
    grow(&mut group, last, 3, 1, 2);
    grow(&mut group, hand, 1, 1, -1);
    // The owner's `c`, which only the region limits.
    let told_of = grow(&mut group, last, 1, 4, 2);
    assert_eq!(told_of.asked, [("o", pages(2), pages(6), None)]);
    grow(&mut group, owner, 2, 1, -1);
    grow(&mut group, owner, 2, u32::MAX, -1);
    // A memory of the instance between, and a refused growth.
    let told_of = grow(&mut group, last, 2, 2, 0);
    assert_eq!(told_of.asked, [("h", pages(0), pages(2), None)]);
    group.data_mut().refuses = true;
    let told_of = grow(&mut group, hand, 3, 1, -1);
    assert_eq!(told_of.asked, [("h", pages(2), pages(3), None)]);
    assert_eq!(told_of.failed, 0);
    // All instances see the same size of a memory and can access all of it.
    for (member, memory, size) in [
        (owner, 0, 1),
        (owner, 1, 3),
        (owner, 2, 6),
        (hand, 0, 6),
        (hand, 1, 3),
        (hand, 2, 1),
        (hand, 3, 2),
        (last, 0, 3),
        (last, 1, 6),
        (last, 2, 2),
        (last, 3, 3),
    ] {
        let found = outcome(
            group
                .lend(member)
                .call_values(&format!("size{memory}"), &[]),
        );
        assert_eq!(found, Ok(vec![Value::I32(size)]), "{memory}");
        let load = format!("load{memory}");
        let end = (size as u32) << 16;
        let inside = outcome(group.lend(member).call_values(&load, &[i32(end - 1)]));
        assert_eq!(inside, Ok(vec![Value::I32(0)]), "{memory}");
        let outside = outcome(group.lend(member).call_values(&load, &[i32(end)]));
        assert_eq!(outside, Err(TrapCode::MemoryOutOfBounds), "{memory}");
    }
    for (name, pages) in [("c", 6), ("b", 3), ("own", 1), ("more", 2)] {
        let lent = group.at(hand);
        let memory = lent.exported_memory(name).expect("it is exported");
        assert_eq!(memory.len(), pages * PAGE, "{name}");
    }
}

/// Elements are written first, then data in order. Segments before one that does not fit stay
/// written, also in memories of other instances.
#[test]
fn segments_are_written_in_order_until_one_does_not_fit() {
    const OWNER: &str = r#"(module (memory (export "a") 1) (memory (export "b") 1) (table (export "t") 2 funcref)
      (func (export "null") (param i32) (result i32) (ref.is_null (table.get 0 (local.get 0)))))"#;
    let owner = common::wat(OWNER);
    let imports = r#"(import "o" "a" (memory $a 1)) (import "o" "b" (memory $b 1))
                 (import "o" "b" (memory $same 1)) (import "o" "t" (table 1 funcref)) (memory $own 1)
                 (memory $more 1)"#;
    for (segments, starts, a, b, null) in [
        // All segments fit. Later ones overwrite earlier ones, and one memory has two names.
        (
            r#"(data (memory $b) (i32.const 0) "12345") (data (memory $same) (i32.const 1) "ab") (data (memory $b)
                 (i32.const 2) "x")
               (data (memory $own) (i32.const 65535) "o") (data (memory $more) (i32.const 65535) "m")
                 (data (memory $a) (i32.const 0) "A")"#,
            true,
            &b"A"[..],
            &b"1ax45"[..],
            1,
        ),
        (
            r#"(elem (i32.const 0) $f) (data (memory $a) (i32.const 0) "A") (data (memory $more)
                 (i32.const 65535) "12") (data (memory $b) (i32.const 0) "B")"#,
            false,
            b"A",
            b"\0",
            0,
        ),
        (
            r#"(elem (i32.const 0) $f) (elem (i32.const 2) $f) (data (memory $a) (i32.const 0) "A")"#,
            false,
            b"\0",
            b"\0",
            0,
        ),
        (
            r#"(data (memory $a) (i32.const 0) "A") (data (memory $own) (i32.const 65535) "12") (data (memory $b)
                 (i32.const 0) "B")"#,
            false,
            b"A",
            b"\0",
            1,
        ),
        (
            r#"(data (memory $b) (i32.const 3) "B") (data (memory $a) (i32.const 65536) "") (data (memory $a)
                 (i32.const 1) "A") (data (memory $a) (i32.const 65537) "") (data (memory $a) (i32.const 5) "A")"#,
            false,
            b"\0A\0\0\0\0",
            b"\0\0\0B",
            1,
        ),
        (
            r#"(data (memory $own) (i32.const 0) "own") (data (memory $same) (i32.const -1) "") (data (memory $b)
                 (i32.const 0) "B")"#,
            false,
            b"\0",
            b"\0",
            1,
        ),
    ] {
        for start in ["", "(start $trap)"] {
            let text =
                format!("(module {imports} (func $f) (func $trap unreachable) {segments} {start})");
            let mut group = Group::new(&region(2, 2), ());
            let owner = group.instantiate(&owner, &Linker::new()).expect("it fits");
            group.name("o", owner);
            let user = group.instantiate(&common::wat(&text), &Linker::new());
            match user {
                Ok(_) => assert!(starts && start.is_empty(), "{text}"),
                Err(GroupError::Instantiate(_)) => {
                    assert!(!starts || !start.is_empty(), "{text}");
                }
                Err(other) => panic!("{other}"),
            }
            for (name, bytes) in [("a", a), ("b", b)] {
                let lent = group.at(owner);
                let memory = lent.exported_memory(name).expect("it is exported");
                let (begin, rest) = memory.as_slice().split_at(bytes.len());
                assert_eq!(begin, bytes, "{name} {text}");
                assert!(rest.iter().all(|byte| *byte == 0), "{name} {text}");
            }
            let found = outcome(group.lend(owner).call_values("null", &[Value::I32(0)]));
            assert_eq!(found, Ok(vec![Value::I32(null)]), "{text}");
        }
    }
}

/// The first memory gets its segments from an image. The runtime writes the segments of other
/// memories at each start. Some memories have 64-bit addresses, and some segments do not fit.
#[test]
fn each_memory_has_its_segments_or_instantiation_fails() {
    for (memories, segments, expected) in [
        (
            "(memory (export \"0\") 1) (memory (export \"1\") 1)",
            r#"(data (memory 1) (i32.const 7) "one") (data (i32.const 7) "zero") (data (memory 1)
                 (i32.const 8) "NE")"#,
            Some([&b"zero"[..], b"oNE"]),
        ),
        (
            "(memory (export \"0\") i64 1) (memory (export \"1\") i64 1)",
            r#"(data (i64.const 7) "zero") (data (memory 1) (i64.const 7) "one")"#,
            Some([b"zero", b"one"]),
        ),
        (
            "(memory (export \"0\") i64 1) (memory (export \"1\") 1) ",
            r#"(data (i64.const 7) "zero") (data (memory 1) (i32.add (i32.const 3) (i32.const 4)) "one")"#,
            Some([b"zero", b"one"]),
        ),
        (
            "(memory (export \"0\") 0) (memory (export \"1\") 1)",
            r#"(data (i32.const 0) "") (data (memory 1) (i32.const 7) "one")"#,
            Some([b"", b"one"]),
        ),
        (
            "(memory (export \"0\") 1) (memory (export \"1\") i64 1)",
            r#"(data (i32.const 7) "zero") (data (memory 1) (i64.const 0x100000007) "one")"#,
            None,
        ),
        (
            "(memory (export \"0\") 1) (memory (export \"1\") 0)",
            r#"(data (i32.const 7) "zero") (data (memory 1) (i32.const 0) "1")"#,
            None,
        ),
    ] {
        for reset in common::resets() {
            let region = Region::builder().slots(1).memories(2).reset(reset);
            let region = region.build().expect("a region");
            let module = common::wat(&format!("(module {memories} {segments})"));
            let prepared = region.prepare(&module, &Linker::<()>::new());
            let prepared = prepared.expect("it fits");
            for _ in 0..3 {
                let instance = prepared.try_instantiate(());
                let (Ok(mut instance), Some(expected)) = (instance, expected) else {
                    assert!(expected.is_none(), "{segments}");
                    continue;
                };
                for (name, bytes) in ["0", "1"].into_iter().zip(expected) {
                    let memory = instance.exported_memory_mut(name);
                    let mut memory = memory.expect("it is exported");
                    let mut whole = vec![0; memory.len()];
                    if !bytes.is_empty() {
                        whole[7..7 + bytes.len()].copy_from_slice(bytes);
                    }
                    assert!(memory.as_slice() == whole, "{segments} {name} {reset}");
                    memory.as_mut_slice().fill(1);
                }
            }
            assert_eq!(region.slots_free(), 1);
        }
    }
}

#[test]
fn dropped_segments_are_empty_for_all_memories() {
    const TEXT: &str = r#"(module (memory $a (export "a") 1) (memory $b (export "b") 1) (memory $c (export "c") i64 1)
      (data $p "passive") (data $used (memory $b) (i32.const 0) "used") (data $image (memory $a)
                 (i32.const 0) "image")
      (func (export "init a") (param i32 i32 i32) (memory.init $a $p (local.get 0) (local.get 1) (local.get 2)))
      (func (export "init b") (param i32 i32 i32) (memory.init $b $p (local.get 0) (local.get 1) (local.get 2)))
      (func (export "init c") (param i64 i32 i32) (memory.init $c $p (local.get 0) (local.get 1) (local.get 2)))
      (func (export "used") (param i32 i32 i32) (memory.init $a $used (local.get 0) (local.get 1) (local.get 2)))
      (func (export "image") (param i32 i32 i32) (memory.init $b $image (local.get 0) (local.get 1) (local.get 2)))
      (func (export "drop") (data.drop $p)))"#;
    let prepared = region(1, 3).prepare(&common::wat(TEXT), &Linker::<()>::new());
    let prepared = prepared.expect("it fits");
    for _ in 0..2 {
        let mut instance = prepared.try_instantiate(()).expect("the slot is free");
        let mut init = |name: &str, to: i64, from: u32, len: u32| {
            let to = if name == "init c" {
                Value::I64(to)
            } else {
                Value::I32(to as i32)
            };
            outcome(instance.call_values(name, &[to, i32(from), i32(len)]))
        };
        let outside = Err(TrapCode::MemoryOutOfBounds);
        for (name, to, from, len, inside) in [
            ("init a", 65_529, 0, 7, true),
            ("init b", 65_529, 0, 7, true),
            ("init c", 65_529, 0, 7, true),
            ("init a", 65_530, 0, 7, false),
            ("init b", 65_536, 7, 0, true),
            ("init b", 65_537, 7, 0, false),
            ("init c", 0x1_0000_0000, 0, 1, false),
            ("init c", -1, 0, 1, false),
            ("init b", 0, 3, 5, false),
            ("init b", 0, u32::MAX, 2, false),
            ("used", 0, 0, 1, false),
            ("used", 65_536, 0, 0, true),
            ("image", 0, 0, 5, false),
            ("image", 65_537, 0, 0, false),
        ] {
            let expected = if inside { Ok(vec![]) } else { outside.clone() };
            assert_eq!(
                init(name, to, from, len),
                expected,
                "{name} {to} {from} {len}"
            );
        }
        instance.call_values("drop", &[]).expect("it returns");
        for name in ["a", "b", "c"] {
            let to = if name == "c" { Value::I64(0) } else { i32(0) };
            let init = format!("init {name}");
            let dropped = outcome(instance.call_values(&init, &[to, i32(0), i32(1)]));
            assert_eq!(dropped, outside, "{name}");
            let memory = instance.exported_memory(name).expect("it is exported");
            assert_eq!(&memory.as_slice()[PAGE - 7..], b"passive", "{name}");
        }
        let b = instance.exported_memory("b").expect("it is exported");
        assert_eq!(&b.as_slice()[..5], b"used\0");
    }
}

/// The code of one instance faults in a memory of a second one, during a call from a third.
#[test]
fn faults_in_imported_memories_trap_the_call() {
    const OWNER: &str = r#"(module (memory 1) (memory (export "m") 1) (memory (export "n") 2))"#;
    const USER: &str = r#"(module (import "o" "m" (memory 1)) (import "o" "n" (memory 1)) (memory 3)
      (func (export "load") (param i32) (result i32) (i32.add (i32.load8_u 0 (local.get 0))
                 (i32.load8_u 1 (local.get 0))))
      (func (export "copy") (param i32) (memory.copy 1 0 (i32.const 0) (local.get 0) (i32.const 16))))"#;
    const CALLER: &str = r#"(module (import "u" "load" (func $load (param i32) (result i32)))
                 (import "u" "copy" (func $copy (param i32)))
      (memory 5) (func (export "load") (param i32) (result i32) (call $load (local.get 0)))
      (func (export "copy") (param i32) (call $copy (local.get 0))))"#;
    let mut group = Group::new(&region(3, 3), ());
    for (name, text) in [("o", OWNER), ("u", USER), ("c", CALLER)] {
        let member = group.instantiate(&common::wat(text), &Linker::new());
        group.name(name, member.expect("it fits"));
    }
    let caller = group.named("c").expect("it is named");
    for _ in 0..3 {
        for (name, at, inside) in [
            ("load", 65_535, true),
            ("load", 65_536, false),
            ("load", u32::MAX, false),
            ("copy", 65_520, true),
            ("copy", 65_521, false),
        ] {
            let ended = outcome(group.lend(caller).call_values(name, &[i32(at)]));
            match ended {
                Ok(_) => assert!(inside, "{name} {at:#x}"),
                Err(code) => assert_eq!((inside, code), (false, TrapCode::MemoryOutOfBounds)),
            }
        }
    }
}

/// A host function accesses the memory 0 of an instance, which is another instance's second memory.
#[test]
fn a_host_function_sees_an_imported_second_memory() {
    let mut linker = Linker::<Vec<(usize, u8)>>::new();
    linker
        .func(
            "h",
            "look",
            |mut caller: Caller<'_, Vec<(usize, u8)>>, at: u32| {
                let (mut memory, seen) = caller.split();
                let mut byte = [0];
                memory.read(at, &mut byte)?;
                memory.write(at, &[byte[0] + 1])?;
                seen.push((memory.len(), byte[0]));
                Ok::<_, HostError>(())
            },
        )
        .expect("it is free");
    const OWNER: &str = r#"(module (memory (export "first") 1) (memory (export "second") 0 4)
                 (memory (export "third") i64 2))"#;
    const USER: &str = r#"(module (import "h" "look" (func $look (param i32))) (import "o" "second" (memory 0))
                 (import "o" "first" (memory 1))
      (memory (export "own") 1) (export "again" (memory 0))
      (func (export "look") (param i32) (call $look (local.get 0)))
      (func (export "grow") (result i32)
        (call $look (i32.const 0)) (drop (memory.grow 0 (i32.const 1))) (call $look (i32.const 0x10000))
        (drop (memory.grow 0 (i32.const 1))) (call $look (i32.const 0x1ffff)) (memory.size)))"#;
    let mut group = Group::new(&region(2, 3), vec![]);
    let owner = group.instantiate(&common::wat(OWNER), &linker);
    let owner = owner.expect("it fits");
    group.name("o", owner);
    let user = group.instantiate(&common::wat(USER), &linker);
    let user = user.expect("it fits");
    let ended = outcome(group.lend(user).call_values("look", &[i32(0)]));
    assert_eq!(ended, Err(TrapCode::MemoryOutOfBounds), "it has no byte");
    assert_eq!(group.at(user).memory().len(), 0);
    for name in ["second", "first", "third", "none", "look"] {
        let lent = group.at(owner);
        let found = lent.exported_memory(name).map(|memory| memory.len());
        let expected = match name {
            "second" => Some(0),
            "first" => Some(PAGE),
            "third" => Some(2 * PAGE),
            _ => None,
        };
        assert_eq!(found, expected, "{name}");
    }
    assert!(group.at(user).exported_memory("look").is_none());
    // The guest loads byte 0 before it grows its memory. The memory has no page yet, so the load
    // traps.
    let ended = outcome(group.lend(user).call_values("grow", &[]));
    assert_eq!(
        ended,
        Err(TrapCode::MemoryOutOfBounds),
        "it has no byte yet"
    );
    let mut group = Group::new(&region(2, 3), vec![]);
    let owner = group
        .instantiate(&common::wat(OWNER), &linker)
        .expect("it fits");
    group.name("o", owner);
    let text = USER.replace("(call $look (i32.const 0)) (drop", "(drop");
    let text = text.replace("0x10000)", "0xffff)");
    let user = group
        .instantiate(&common::wat(&text), &linker)
        .expect("it fits");
    let ended = outcome(group.lend(user).call_values("grow", &[]));
    assert_eq!(ended, Ok(vec![Value::I32(2)]));
    assert_eq!(*group.data(), [(PAGE, 0), (2 * PAGE, 0)]);
    for (member, name) in [(owner, "second"), (user, "again")] {
        let lent = group.at(member);
        let memory = lent.exported_memory(name).expect("it is exported");
        let ones = memory
            .as_slice()
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte != 0);
        assert_eq!(
            ones.map(|(at, byte)| (at, *byte)).collect::<Vec<_>>(),
            [(0xffff, 1), (0x1_ffff, 1)]
        );
    }
    let mut lent = group.lend(user);
    let mut memory = lent.exported_memory_mut("again").expect("it is exported");
    memory.as_mut_slice().fill(3);
    for name in ["first", "third"] {
        let lent = group.at(owner);
        let memory = lent.exported_memory(name).expect("it is exported");
        assert!(memory.as_slice().iter().all(|byte| *byte == 0), "{name}");
    }
    let lent = group.at(user);
    let own = lent.exported_memory("own").expect("it is exported");
    assert!(own.as_slice().iter().all(|byte| *byte == 0));
}

/// A region permits the configured number of memories, each up to the configured size.
#[test]
fn modules_with_too_many_or_too_large_memories_are_refused() {
    let region = Region::builder()
        .slots(1)
        .memories(3)
        .memory_bytes_max(2 * PAGE);
    let region = region.build().expect("a region");
    let full = "(memory 2) ".repeat(3);
    for (text, setting) in [
        (full.clone(), None),
        (full.clone() + "(memory 0)", Some("memories")),
        ("(memory 0) ".repeat(100), Some("memories")),
        (
            "(memory 1) (memory 1) (memory 3)".to_owned(),
            Some("memory_bytes_max"),
        ),
        (
            "(memory 1) (memory 65535)".to_owned(),
            Some("memory_bytes_max"),
        ),
        (
            "(memory 1) (memory i64 0x1000000000000)".to_owned(),
            Some("memory_bytes_max"),
        ),
    ] {
        let whole = format!("(module {text})");
        let wasm = pirn_compiler::parse_text(whole.as_bytes()).expect("it is well-formed");
        let Ok(module) = common::open(&wasm) else {
            assert!(text.contains("0x1"), "{text}");
            continue;
        };
        let prepared = region.prepare(&module, &Linker::<()>::new());
        match (prepared, setting) {
            (Ok(prepared), None) => drop(prepared.try_instantiate(()).expect("it fits")),
            (Err(LinkError::Limit { setting: found, .. }), Some(setting)) => {
                assert_eq!(found, setting, "{text}");
            }
            (other, _) => panic!("{text}: {other:?}"),
        }
    }
    let whole = format!("(module {})", "(memory 0) ".repeat(101));
    let wasm = pirn_compiler::parse_text(whole.as_bytes()).expect("it is well-formed");
    common::open(&wasm).expect_err("there are too many");
    for (memories, slots) in [(0, 1), (101, 1), (2, 16_251), (100, 326)] {
        let region = Region::builder().slots(slots).memories(memories).build();
        region.expect_err("it is out of range");
    }
    // The largest number of memories, in the last of several reservations.
    let region = Region::builder()
        .slots(30)
        .memories(100)
        .memory_bytes_max(PAGE);
    let region = region.build().expect("a region");
    let mut text = String::from("(module ");
    let mut sum = String::from("(i32.const 0)");
    for memory in 0..100 {
        text += &format!(
            "(memory (export \"{memory}\") 1) (data (memory {memory}) (i32.const 65535) \"\\{memory:02x}\")"
        );
        sum = format!("(i32.add {sum} (i32.load8_u {memory} (i32.const 65535)))");
    }
    text += &format!(
        "(func (export \"sum\") (result i32) {sum})
                 (func (export \"end\") (drop (i32.load8_u 99 (i32.const 65536)))))"
    );
    let prepared = region.prepare(&common::wat(&text), &Linker::new());
    let prepared = prepared.expect("it fits");
    let mut instances: Vec<_> = (0..30)
        .map(|_| prepared.try_instantiate(()).expect("a slot is free"))
        .collect();
    for (number, instance) in instances.iter_mut().enumerate() {
        for memory in 0..100 {
            let mut memory = instance.exported_memory_mut(&memory.to_string());
            let memory = memory.as_mut().expect("it is exported");
            assert!(memory.as_slice()[..PAGE - 1] == ZEROS[..PAGE - 1]);
            memory.as_mut_slice()[..PAGE - 1].fill(number as u8 + 1);
        }
        let sum = outcome(instance.call_values("sum", &[]));
        assert_eq!(sum, Ok(vec![Value::I32(99 * 100 / 2)]));
        let end = outcome(instance.call_values("end", &[]));
        assert_eq!(end, Err(TrapCode::MemoryOutOfBounds));
    }
}

/// Growth by 64-bit numbers, next to an imported memory.
#[test]
fn growth_uses_numbers_of_the_memorys_address_type() {
    const TEXT: &str = r#"(module (memory 1 3) (memory i64 1 0x1000000000000) (memory i64 0 2)
      (func (export "0") (param i64) (result i64) (i64.extend_i32_s (memory.grow 0 (i32.wrap_i64 (local.get 0)))))
      (func (export "1") (param i64) (result i64) (memory.grow 1 (local.get 0)))
      (func (export "2") (param i64) (result i64) (memory.grow 2 (local.get 0)))
      (func (export "sizes") (result i32 i64 i64) (memory.size 0) (memory.size 1) (memory.size 2)))"#;
    for level in LEVELS {
        let mut options = Options::default();
        options.opt_level = level;
        let prepared =
            region(1, 3).prepare(&common::wat_with(TEXT, &options), &Linker::<()>::new());
        let mut instance = prepared
            .expect("it fits")
            .try_instantiate(())
            .expect("a slot");
        for (memory, delta, expected) in [
            ("0", -1, -1),
            ("1", -1, -1),
            ("2", -1, -1),
            ("1", 1 << 32, -1),
            ("2", (1 << 32) + 1, -1),
            ("1", 1 << 48, -1),
            ("1", i64::MIN, -1),
            ("0", 3, -1),
            ("2", 3, -1),
            ("1", 8, -1),
            ("2", 2, 0),
            ("1", 7, 1),
            ("0", 2, 1),
            ("0", 0, 3),
            ("1", 0, 8),
            ("2", 0, 2),
            ("2", 1, -1),
        ] {
            let grown = outcome(instance.call_values(memory, &[Value::I64(delta)]));
            assert_eq!(grown, Ok(vec![Value::I64(expected)]), "{memory} by {delta}");
        }
        let sizes = outcome(instance.call_values("sizes", &[]));
        assert_eq!(sizes, Ok(vec![Value::I32(3), Value::I64(8), Value::I64(2)]));
    }
}

/// A function that stores its product to another memory than the first must not be replaced by the
/// builtin for multiplication.
#[test]
fn products_are_stored_in_the_named_memory() {
    const KNOWN: &str = include_str!("../../../../compiler/tests/multiply/digits.wat");
    for (memory, first, second) in [
        (0, "i32", "i32"),
        (0, "i32", "i64"),
        (1, "i32", "i32"),
        (1, "i64", "i32"),
    ] {
        let (types, to) = ([first, second], [first, second][memory]);
        let ty = |at: usize| if types[at] == "i64" { "i64" } else { "" };
        let both = format!(
            "(memory (export \"memory\") {} 1) (memory (export \"1\") {} 1)",
            ty(0),
            ty(1)
        );
        let text = KNOWN.replace("(memory (export \"memory\") 1)", &both);
        let text = text.replace("i64.store", &format!("i64.store {memory}"));
        let text = text.replace("$to i32", &format!("$to {to}"));
        assert!(text.contains(&both) && text.contains("i64.store"), "{text}");
        let module = common::wat(&text);
        let prepared = region(1, 2).prepare(&module, &Linker::<()>::new());
        let mut instance = prepared
            .expect("it fits")
            .try_instantiate(())
            .expect("a slot");
        let (a, b) = (
            0x1234_5678_9abc_def0_1122_3344_5566_7788_u128,
            u128::MAX / 7,
        );
        let halves =
            [a, b].map(|n| [n as u64, (n >> 64) as u64].map(|half| Value::I64(half.cast_signed())));
        for name in ["itself", "called"] {
            for address in [0, 65_520, 65_521] {
                for memory in ["memory", "1"] {
                    instance
                        .exported_memory_mut(memory)
                        .expect("exported")
                        .as_mut_slice()
                        .fill(0xa5);
                }
                let index = if to == "i64" {
                    Value::I64(address)
                } else {
                    Value::I32(address as i32)
                };
                let params = [&[index][..], &halves[0], &halves[1]].concat();
                let ended = outcome(instance.call_values(name, &params));
                assert_eq!(ended.is_ok(), address <= 65_520, "{name} {memory}");
                if ended.is_ok() {
                    let product = a.wrapping_mul(b).to_le_bytes();
                    let named = ["memory", "1"][memory];
                    let found = instance.exported_memory(named).expect("exported");
                    assert_eq!(
                        found.as_slice()[address as usize..][..16],
                        product,
                        "{name}"
                    );
                }
                let other = ["1", "memory"][memory];
                let other = instance.exported_memory(other).expect("exported");
                assert!(
                    other.as_slice().iter().all(|byte| *byte == 0xa5),
                    "{name} {memory}"
                );
            }
        }
    }
}

/// Damaged metadata with a matching hash is refused, or its new content is what the runtime uses.
#[test]
fn damaged_metadata_of_memories_is_refused_or_harmless() {
    const TEXT: &str = r#"(module (import "a" "m" (memory 1)) (memory (export "x") 1 3)
                 (memory (export "y") i64 2 5) (memory (export "z") 3)
      (data (memory 1) (i32.const 8) "one") (data (memory 2) (i64.const 8) "two") (data (memory 3)
                 (i32.const 8) "three") (data "passive"))"#;
    let files = share(3000, 6);
    let file = File::new(TEXT);
    let region = region(2, 3);
    let mut random = Random(17);
    let (mut opened, mut linked) = (0, 0);
    for _ in 0..files {
        let Ok(module) = file.damaged(&mut random, 2, 8) else {
            continue;
        };
        opened += 1;
        let mut group = Group::new(&region, ());
        let owner = group.instantiate(&owner_of_a_memory(), &Linker::new());
        group.name("a", owner.expect("it fits"));
        let Ok(user) = group.instantiate(&module, &Linker::new()) else {
            continue;
        };
        linked += 1;
        for name in ["x", "y", "z"] {
            if let Some(memory) = group.at(user).exported_memory(name) {
                // Most pages are zero. A comparison is faster than an unoptimised sum.
                let pages = memory.as_slice().chunks(PAGE);
                let written = pages.filter(|page| **page != ZEROS[..page.len()]);
                let sum = written.flatten().map(|byte| u64::from(*byte)).sum::<u64>();
                assert!(sum < 10_000, "{name}: {sum}");
            }
        }
    }
    assert_eq!(region.slots_free(), 2, "none is leaked");
    assert!(
        0 < linked && linked < opened && opened < files,
        "{linked} of {opened}"
    );
}

fn owner_of_a_memory() -> Module {
    static OWNER: std::sync::OnceLock<Module> = std::sync::OnceLock::new();
    let owner = || common::wat(r#"(module (memory (export "first") 0) (memory (export "m") 1))"#);
    OWNER.get_or_init(owner).clone()
}

/// An operator costs the same fuel in every memory.
#[test]
fn operators_cost_equal_fuel_in_each_memory() {
    let text = |memory: usize| {
        format!(
            r#"(module (memory 1) (memory 1) (memory 1) (data $p "abc")
              (func (export "run") (param i32)
                (i32.store {memory} (i32.const 0) (i32.load {memory} (i32.const 8)))
                (memory.fill {memory} (i32.const 0) (i32.const 1) (local.get 0))
                (memory.copy {memory} {memory} (i32.const 0) (i32.const 1) (local.get 0))
                (memory.init {memory} $p (i32.const 0) (i32.const 0) (i32.const 3))
                (drop (memory.grow {memory} (i32.const 1)))
                (drop (memory.size {memory}))))"#
        )
    };
    for level in LEVELS {
        let left = [0, 1, 2].map(|memory| {
            let module = common::counting(&text(memory), level);
            let prepared = region(1, 3).prepare(&module, &Linker::new());
            let mut instance = prepared
                .expect("it fits")
                .try_instantiate(())
                .expect("a slot");
            instance.set_fuel(100_000).expect("it counts");
            let lens = [5, 2000, 60_000];
            lens.map(|len| {
                instance.call_values("run", &[i32(len)]).expect("enough");
                instance.fuel().expect("it counts")
            })
        });
        assert!(left.iter().all(|other| *other == left[0]), "{left:?}");
        assert!(left[0][0] < 100_000);
    }
}
