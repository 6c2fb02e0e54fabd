//! Initial content of memories, content of grown bytes, and the host's views.

use super::{FILLER, PAGE, region};
use crate::common::values::Lend as _;
use crate::common::{self, values};
use pirn_runtime::{Group, Instance, Linker, Region, Value};

/// Grown bytes must be zero, whatever instance had the slot before, and whatever the image's last
/// page contains.
#[test]
fn grown_bytes_are_zero_in_every_instance() {
    let texts = [
        (
            r#"(memory (export "a") 3 4) (memory (export "b") 2 4)"#,
            1,
            vec![],
            vec![],
        ),
        (
            r#"(memory (export "a") 100 (pagesize 1)) (memory (export "b") 5 (pagesize 1))
               (data (i32.const 92) "the last") (data (memory 1) (i32.const 0) "five5")"#,
            70_000,
            [vec![0; 92], b"the last".to_vec()].concat(),
            b"five5".to_vec(),
        ),
        (
            r#"(memory (export "a") 69633 (pagesize 1)) (memory (export "b") 0 (pagesize 1))
               (data (i32.const 69632) "!") (data (i32.const 4095) "xy")"#,
            3000,
            {
                let mut bytes = vec![0; 69_633];
                (bytes[69_632], bytes[4095], bytes[4096]) = (b'!', b'x', b'y');
                bytes
            },
            vec![],
        ),
        (
            r#"(memory (export "a") 0 (pagesize 1)) (memory (export "b") 65536 (pagesize 1))"#,
            131_073,
            vec![],
            vec![0; PAGE],
        ),
    ];
    let source = |memories: &str, by: u64| {
        format!(
            r#"(module {memories}
              (func (export "grow") (param i32 i32) (result i32)
                (if (result i32) (local.get 0) (then (memory.grow 1 (local.get 1)))
                  (else (memory.grow 0 (local.get 1)))))
              (func (export "dirty") (drop (memory.grow 0 (i32.const {by}))) (drop (memory.grow 1 (i32.const {by})))))"#
        )
    };
    for reset in common::resets() {
        let region = Region::builder().slots(1).memories(2).reset(reset);
        let region = region.memory_bytes_max(4 * PAGE).build().expect("a region");
        let prepared: Vec<_> = texts
            .iter()
            .map(|(memories, by, ..)| {
                let module = common::wat(&source(memories, *by));
                let prepared = region.prepare(&module, &Linker::<()>::new());
                prepared.expect("it fits")
            })
            .collect();
        for n in [0, 1, 1, 0, 2, 2, 1, 3, 3, 2, 0, 3, 1, 2, 3, 1] {
            let (_, _, a, b) = &texts[n];
            let mut guest = prepared[n].try_instantiate(()).expect("the slot");
            let mut expected = match n {
                0 => [vec![0; 3 * PAGE], vec![0; 2 * PAGE]],
                _ => [a.clone(), b.clone()],
            };
            let check = |guest: &Instance<()>, expected: &[Vec<u8>; 2]| {
                for (name, bytes) in ["a", "b"].iter().zip(expected) {
                    let memory = guest.exported_memory(name).expect("it is exported");
                    assert!(memory.as_slice() == bytes, "{reset} {n} {name}");
                }
            };
            check(&guest, &expected);
            if n > 0 {
                for by in [1, 3, 4000, 1, 61_500, 1, 65_000] {
                    for (memory, bytes) in expected.iter_mut().enumerate() {
                        let params = [memory as i32, by].map(Value::I32);
                        let before = values::number(guest.call_values("grow", &params));
                        assert_eq!(before as usize, bytes.len(), "{reset} {n}");
                        bytes.resize(before as usize + by as usize, 0);
                    }
                    check(&guest, &expected);
                    for (name, bytes) in ["a", "b"].iter().zip(&mut expected) {
                        let mut memory = guest.exported_memory_mut(name).expect("it is exported");
                        memory.as_mut_slice().fill(FILLER);
                        bytes.fill(FILLER);
                    }
                }
            }
            guest.call_values("dirty", &[]).expect("it returns");
            for name in ["a", "b"] {
                let mut memory = guest.exported_memory_mut(name).expect("it is exported");
                memory.as_mut_slice().fill(FILLER);
            }
        }
    }
}

/// A segment that ends with the memory's last byte is written; one that ends past it writes
/// nothing.
#[test]
fn segments_end_with_the_last_byte() {
    for (ty, address) in [("", "i32"), ("i64", "i64")] {
        for (at, size, fits) in [
            (96, 100, true),
            (97, 100, false),
            (100, 100, false),
            (65_532, PAGE, true),
            (65_533, PAGE, false),
            (65_533, PAGE + 1, true),
            (4, 4, false),
            (0, 3, false),
            (0, 4, true),
            (u32::MAX as usize, 100, false),
        ] {
            let data = format!(
                "(data (offset ({address}.const 0)) \"a\") (data ({address}.const {at}) \"last\")"
            );
            let memory = format!("(memory (export \"m\") {ty} {size} (pagesize 1))");
            let module = common::wat(&format!("(module {memory} {data})"));
            let prepared = region(1)
                .prepare(&module, &Linker::<()>::new())
                .expect("it fits");
            match prepared.try_instantiate(()) {
                Ok(guest) => {
                    assert!(fits, "{at} {size}");
                    let memory = guest.memory();
                    assert_eq!(memory.as_slice()[at..], *b"last");
                }
                Err(error) => {
                    assert!(!fits, "{at} {size}: {error}");
                    assert!(error.to_string().contains("out of bounds"), "{error}");
                }
            }
            // In the memory of another instance, earlier writes stay.
            let mut group = Group::new(&region(2), ());
            let owner =
                group.instantiate(&common::wat(&format!("(module {memory})")), &Linker::new());
            let owner = owner.expect("it fits");
            group.name("o", owner);
            let text = format!("(module (import \"o\" \"m\" (memory {ty} 0 (pagesize 1))) {data})");
            let ended = group.instantiate(&common::wat(&text), &Linker::new());
            assert_eq!(ended.is_ok(), fits, "{at} {size}");
            let mut expected = vec![0; size];
            expected[0] = b'a';
            if fits {
                expected[at..].copy_from_slice(b"last");
            }
            let lent = group.at(owner);
            let memory = lent.memory();
            assert!(memory.as_slice() == expected, "{at} {size}");
        }
    }
}

/// The host's views also end with the last byte.
#[test]
fn views_end_with_the_last_byte() {
    let text =
        "(module (memory (export \"m\") 5000 (pagesize 1)) (memory (export \"n\") 3 (pagesize 1))
      (memory (export \"e\") 0 (pagesize 1)))";
    let prepared = region(1).prepare(&common::wat(text), &Linker::<()>::new());
    let mut guest = prepared
        .expect("it fits")
        .try_instantiate(())
        .expect("the slot");
    for (name, size) in [("m", 5000), ("n", 3), ("e", 0_u32)] {
        let mut memory = guest.exported_memory_mut(name).expect("it is exported");
        assert_eq!(memory.len(), size as usize);
        assert_eq!(memory.as_mut_slice().len(), size as usize);
        for len in [0, 1, 3, 8, 4096] {
            let last = size.wrapping_sub(len);
            for at in [0, last, last.wrapping_add(1), size, size + 1, u32::MAX] {
                let fits = u64::from(at) + u64::from(len) <= u64::from(size);
                let mut buffer = vec![1; len as usize];
                assert_eq!(memory.read(at, &mut buffer).is_ok(), fits, "{at} {len}");
                assert_eq!(memory.write(at, &buffer).is_ok(), fits, "{at} {len}");
                assert_eq!(memory.slice(at, len).is_ok(), fits, "{at} {len}");
                assert_eq!(memory.slice_mut(at, len).is_ok(), fits, "{at} {len}");
                let prefix = memory.write_prefix(at, len, &[]);
                assert_eq!(prefix.is_ok(), fits, "{at} {len}");
            }
        }
        let word = |bytes: u32| size.wrapping_sub(bytes);
        assert_eq!(memory.read_u32(word(4)).is_ok(), size >= 4);
        assert!(memory.read_u32(word(3)).is_err() && memory.write_u32(word(3), 1).is_err());
        assert_eq!(memory.write_u64(word(8), 1).is_ok(), size >= 8);
        assert!(memory.read_u64(word(7)).is_err() && memory.write_u64(word(7), 1).is_err());
    }
}
