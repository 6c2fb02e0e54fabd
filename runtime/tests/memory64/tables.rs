//! Tables with 64-bit indices, known to the compiler or not. An index of 2^32 + k must not be taken
//! for k.

use super::{Guest, LEVELS, Outcome, i64, region};
use pirn_runtime::{TrapCode, Value};

/// Indices that a 32-bit mask or a scale of 8 bytes could turn into a valid index.
fn indices() -> Vec<u64> {
    let far = [
        1 << 29,
        1 << 31,
        1 << 32,
        1 << 35,
        1 << 60,
        1 << 61,
        1 << 62,
        1 << 63,
    ];
    let near = |at: u64| (0..8).map(move |k| at.wrapping_add(k));
    let below = |at: u64| (1..4).map(move |k| at.wrapping_sub(k));
    let mut all: Vec<_> = [0].into_iter().chain(far).flat_map(near).collect();
    all.extend([0].into_iter().chain(far).flat_map(below));
    all
}

/// Functions for the tables. Those of type `$t` return a number that identifies them.
const ELEMENTS: &str = r#"
  (type $t (func (result i32))) (type $u (func (param i64) (result i64)))
  (func $a (type $t) (i32.const 10)) (func $b (type $t) (i32.const 20)) (func $c (type $u) (local.get 0))"#;

/// The result of a call by `$t` at an index of the table `$a $b $c null $a`.
fn called(index: u64) -> Outcome {
    match index {
        0 | 4 => Ok(vec![Value::I32(10)]),
        1 => Ok(vec![Value::I32(20)]),
        2 => Err(TrapCode::IndirectCallTypeMismatch),
        3 => Err(TrapCode::UninitializedElement),
        _ => Err(TrapCode::UndefinedElement),
    }
}

fn calls(export: &str) -> String {
    let constants = indices().into_iter().map(|index| {
        format!(
            r#"(func (export "call {index}") (result i32) (call_indirect $x (type $t) (i64.const {index})))
               (func (export "tail {index}") (result i32) (return_call_indirect $x (type $t) (i64.const {index})))"#
        )
    });
    format!(
        r#"(module {ELEMENTS}
             (table $x {export} i64 5 5 funcref)
             (elem (table $x) (i64.const 0) func $a $b $c) (elem (table $x) (i64.const 4) func $a)
             (func (export "call") (param i64) (result i32) (call_indirect $x (type $t) (local.get 0)))
             (func (export "tail") (param i64) (result i32) (return_call_indirect $x (type $t) (local.get 0)))
             (func (export "one") (param i64) (result i64) (call_indirect $x (type $u) (i64.const 7) (local.get 0)))
             {})"#,
        constants.collect::<String>()
    )
}

#[test]
fn calls_use_all_64_bits_of_an_index() {
    let region = region(1);
    for level in LEVELS {
        // The table is known to the compiler, and not.
        for export in ["", "(export \"x\")"] {
            let mut guest = Guest::alone(&region, &calls(export), level, false);
            for index in indices() {
                for name in ["call", "tail"] {
                    let found = guest.call(name, &[i64(index)]);
                    assert_eq!(found, called(index), "{name} {index:#x} {export} {level:?}");
                    let found = guest.call(&format!("{name} {index}"), &[]);
                    assert_eq!(
                        found,
                        called(index),
                        "constant {index:#x} {export} {level:?}"
                    );
                }
                let one = match index {
                    2 => Ok(vec![Value::I64(7)]),
                    0 | 1 | 4 => Err(TrapCode::IndirectCallTypeMismatch),
                    other => called(other),
                };
                let found = guest.call("one", &[i64(index)]);
                assert_eq!(found, one, "{index:#x} {export} {level:?}");
            }
        }
    }
}

/// Every table instruction, with a 64-bit and a 32-bit table.
const ALL: &str = r#"(module (type $t (func (result i32)))
  (func $a (type $t) (i32.const 10))
  (table $l i64 4 10 funcref) (table $s 4 10 funcref)
  (elem $e func $a $a $a)
  (func (export "set") (param i64) (table.set $l (local.get 0) (ref.func $a)))
  (func (export "get") (param i64) (result i32) (ref.is_null (table.get $l (local.get 0))))
  (func (export "size") (result i64) (table.size $l))
  (func (export "grow") (param i64) (result i64) (table.grow $l (ref.func $a) (local.get 0)))
  (func (export "fill") (param i64 i64) (table.fill $l (local.get 0) (ref.func $a) (local.get 1)))
  (func (export "clear") (table.fill $l (i64.const 0) (ref.null func) (table.size $l))
    (table.fill $s (i32.const 0) (ref.null func) (table.size $s)))
  (func (export "init") (param i64 i32 i32) (table.init $l $e (local.get 0) (local.get 1) (local.get 2)))
  (func (export "ll") (param i64 i64 i64) (table.copy $l $l (local.get 0) (local.get 1) (local.get 2)))
  (func (export "ls") (param i64 i32 i32) (table.copy $l $s (local.get 0) (local.get 1) (local.get 2)))
  (func (export "sl") (param i32 i64 i32) (table.copy $s $l (local.get 0) (local.get 1) (local.get 2)))
  (func (export "mark") (table.fill $s (i32.const 0) (ref.func $a) (i32.const 4)))
  (func (export "short") (param i32) (result i32) (ref.is_null (table.get $s (local.get 0)))))"#;

struct Tables {
    guest: Guest,
    /// For each element of both tables, whether it is not null.
    long: Vec<bool>,
    short: Vec<bool>,
}

impl Tables {
    fn check(&mut self, name: &str, params: &[Value], is_inside: bool) {
        let wanted = match is_inside {
            true => Ok(vec![]),
            false => Err(TrapCode::TableOutOfBounds),
        };
        assert_eq!(self.guest.call(name, params), wanted, "{name} {params:x?}");
        self.look(&format!("{name} {params:x?}"));
    }

    fn look(&mut self, what: &str) {
        let size = self.guest.call("size", &[]).expect("it returns");
        assert_eq!(size, [i64(self.long.len() as u64)], "{what}");
        for (at, is_there) in (0..).zip(&self.long) {
            let null = self.guest.call("get", &[i64(at)]);
            assert_eq!(null, Ok(vec![Value::I32((!is_there).into())]), "{what}");
        }
        for (at, is_there) in (0..).zip(&self.short) {
            let null = self.guest.call("short", &[Value::I32(at)]);
            assert_eq!(null, Ok(vec![Value::I32((!is_there).into())]), "{what}");
        }
    }

    fn clear(&mut self) {
        self.guest.call("clear", &[]).expect("it returns");
        self.long.fill(false);
        self.short.fill(false);
    }
}

fn inside(start: u64, len: u64, size: usize) -> bool {
    u128::from(start) + u128::from(len) <= size as u128
}

#[test]
fn table_instructions_use_all_64_bits_of_an_index() {
    let region = region(1);
    for level in LEVELS {
        let mut tables = Tables {
            guest: Guest::alone(&region, ALL, level, false),
            long: vec![false; 4],
            short: vec![false; 4],
        };
        let size = 4;
        for index in indices() {
            let is_inside = inside(index, 1, size);
            if is_inside {
                tables.long[index as usize] = true;
            }
            tables.check("set", &[i64(index)], is_inside);
            let got = tables.guest.call("get", &[i64(index)]);
            assert_eq!(got.is_ok(), is_inside, "{index:#x}");
            for len in [0, 1, 4, 1 << 32, (1 << 32) + 1, u64::MAX] {
                tables.clear();
                let is_inside = inside(index, len, size);
                if is_inside {
                    tables.long[index as usize..(index + len) as usize].fill(true);
                }
                tables.check("fill", &[i64(index), i64(len)], is_inside);
                tables.clear();
                // All elements are null here, so only traps are compared.
                let both = is_inside && inside(1, len, size);
                tables.check("ll", &[i64(index), i64(1), i64(len)], both);
                tables.check("ll", &[i64(1), i64(index), i64(len)], both);
            }
            for len in [0_u32, 1, 3, u32::MAX] {
                let number = Value::I32(len.cast_signed());
                let is_inside = inside(index, len.into(), size) && len <= 3;
                tables.clear();
                if is_inside {
                    tables.long[index as usize..][..len as usize].fill(true);
                }
                let from = Value::I32(0);
                tables.check("init", &[i64(index), from, number], is_inside);
                tables.clear();
                tables.guest.call("mark", &[]).expect("it returns");
                tables.short.fill(true);
                if is_inside {
                    tables.long[index as usize..][..len as usize].fill(true);
                }
                tables.check("ls", &[i64(index), from, number], is_inside);
                tables.clear();
                tables.check("sl", &[from, i64(index), number], is_inside);
            }
            tables.clear();
        }
        for delta in [7, 1 << 32, (1 << 32) + 1, 1 << 61, 1 << 63, u64::MAX] {
            let found = tables.guest.call("grow", &[i64(delta)]);
            assert_eq!(found, Ok(vec![Value::I64(-1)]), "{delta:#x}");
        }
        for (delta, before) in [(0, 4), (5, 4), (1, 9), (0, 10)] {
            let found = tables.guest.call("grow", &[i64(delta)]);
            assert_eq!(found, Ok(vec![i64(before)]));
            tables.long.resize((before + delta) as usize, true);
            tables.look("grown");
        }
        assert_eq!(
            tables.guest.call("grow", &[i64(1)]),
            Ok(vec![Value::I64(-1)])
        );
    }
}

/// A table whose size in bytes exceeds 64 bits is refused when it is prepared. The compiler does
/// not treat two tables as known if the sum of their sizes wraps around.
#[test]
fn tables_too_large_for_64_bits_are_refused() {
    let region = region(1);
    for text in [
        "(module (table i64 0x2000000000000001 funcref) (func (call_indirect (i64.const 0))))",
        "(module (table i64 0x8000000000000000 funcref) (table i64 0x8000000000000000 funcref)
           (func (call_indirect (i64.const 0))))",
        "(module (table i64 0xffffffffffffffff funcref) (elem (i64.const 0xffffffffffffffff) func 0)
           (func (call_indirect (i64.const 0))))",
    ] {
        let module = super::common::wat(text);
        let linker = pirn_runtime::Linker::<()>::new();
        let error = region.prepare(&module, &linker).expect_err("it is large");
        assert!(
            error.to_string().contains("raise `table_elements`"),
            "{error}"
        );
    }
}

/// Segment offsets have 64 bits.
#[test]
fn segments_have_offsets_of_64_bits() {
    let region = region(1);
    let linker = pirn_runtime::Linker::<()>::new();
    let start = |text: &str| {
        let prepared = region.prepare(&super::common::wat(text), &linker);
        prepared.expect("it fits").try_instantiate(())
    };
    for (offset, fits) in [
        ("(i64.const 2)", true),
        ("(i64.const 3)", false),
        ("(i64.const 0x100000000)", false),
        ("(i64.const 0x100000002)", false),
        ("(i64.const -1)", false),
        ("(i64.sub (i64.const 1) (i64.const -1))", true),
        (
            "(i64.add (i64.const -0x7fffffffffffffff) (i64.const -0x7fffffffffffffff))",
            true,
        ),
        (
            "(i64.mul (i64.const 0x100000000) (i64.const 0x100000000))",
            true,
        ),
        ("(i64.mul (i64.const 0x10000) (i64.const 0x10000))", false),
        // Offsets that are known only at instantiation.
        ("(global.get $two)", true),
        ("(global.get $far)", false),
    ] {
        let globals =
            r#"(import "g" "two" (global $two i64)) (import "g" "far" (global $far i64))"#;
        let globals = if offset.contains("global") {
            globals
        } else {
            ""
        };
        let mut linker = pirn_runtime::Linker::<()>::new();
        linker.global("g", "two", i64(2)).expect("once");
        linker.global("g", "far", i64(0x1_0000_0002)).expect("once");
        let table = format!(
            "(module {globals} (table i64 4 funcref) (elem (offset {offset}) func $f $f) (func $f))"
        );
        let memory = format!(
            "(module {globals} (memory i64 1) (data (offset (i64.mul (i64.const 32767) {offset})) \"ab\"))"
        );
        for text in [table, memory] {
            let prepared = region.prepare(&super::common::wat(&text), &linker);
            let made = prepared.expect("it fits").try_instantiate(());
            assert_eq!(made.is_ok(), fits, "{text}: {:?}", made.err());
        }
    }
    // A segment in bounds is written at its offset.
    let instance = start("(module (memory i64 1) (data (i64.const 65534) \"xy\"))");
    let instance = instance.expect("it fits");
    assert_eq!(instance.memory().slice(65_534, 2).expect("inside"), b"xy");
}
