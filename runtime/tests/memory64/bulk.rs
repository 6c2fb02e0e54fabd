//! Copies, fills and initialisations with 64-bit addresses and lengths, compared with a model.

use super::{Guest, LEVELS, PAGE, edges, i64, region};
use crate::common::random::Random;
use pirn_compiler::OptLevel;
use pirn_runtime::{TrapCode, Value};

/// Constant lengths: expanded inline, done by the runtime, and longer than any memory.
const LENGTHS: [u64; 12] = [
    0,
    1,
    16,
    40,
    128,
    129,
    1024,
    PAGE,
    (1 << 32) + 1,
    (1 << 32) + 40,
    1 << 63,
    u64::MAX,
];

/// The bytes of the data segment.
const SEGMENT: &str = "0123456789abcdef";

fn text(memory: &str) -> String {
    let lengths = LENGTHS.map(|length| {
        format!(
            r#"(func (export "copy {length}") (param i64 i64) (memory.copy (local.get 0) (local.get 1) (i64.const {length})))
               (func (export "fill {length}") (param i64 i32) (memory.fill (local.get 0) (local.get 1) (i64.const {length})))"#
        )
    });
    format!(
        r#"(module {memory} (data $d "{SEGMENT}")
             (func (export "copy") (param i64 i64 i64) (memory.copy (local.get 0) (local.get 1) (local.get 2)))
             (func (export "fill") (param i64 i32 i64) (memory.fill (local.get 0) (local.get 1) (local.get 2)))
             (func (export "init") (param i64 i32 i32) (memory.init $d (local.get 0) (local.get 1) (local.get 2)))
             {})"#,
        lengths.concat()
    )
}

/// The range of `length` bytes at `start`, if it is within the first `bytes` bytes.
fn range(start: u64, length: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
    let end = u128::from(start) + u128::from(length);
    (end <= bytes as u128).then_some(start as usize..end as usize)
}

struct Bench {
    guest: Guest,
    /// The expected content of the memory.
    model: Vec<u8>,
    done: usize,
}

impl Bench {
    fn new(mut guest: Guest) -> Self {
        let mut random = Random(3);
        let bytes = guest.memory(<[u8]>::len);
        let model: Vec<_> = (0..bytes).map(|_| random.u64() as u8).collect();
        guest.write(&model);
        let done = 0;
        Self { guest, model, done }
    }

    fn check(&mut self, name: &str, params: &[Value], is_inside: bool) {
        let found = self.guest.call(name, params);
        let wanted = match is_inside {
            true => Ok(vec![]),
            false => Err(TrapCode::MemoryOutOfBounds),
        };
        assert_eq!(found, wanted, "{name} {params:x?}");
        assert!(self.guest.holds(&self.model), "{name} {params:x?}");
        self.done += usize::from(is_inside);
    }

    fn copy(&mut self, to: u64, from: u64, length: u64) {
        let bytes = self.model.len();
        let (into, out) = (range(to, length, bytes), range(from, length, bytes));
        let is_inside = into.is_some() && out.is_some();
        if let (Some(into), Some(out)) = (into, out) {
            self.model.copy_within(out, into.start);
        }
        self.check("copy", &[i64(to), i64(from), i64(length)], is_inside);
        if LENGTHS.contains(&length) {
            // The constant length repeats the copy. If the ranges overlap, that may change bytes,
            // so the model repeats it too.
            let (into, out) = (range(to, length, bytes), range(from, length, bytes));
            if let (Some(into), Some(out)) = (into, out) {
                self.model.copy_within(out, into.start);
            }
            self.check(&format!("copy {length}"), &[i64(to), i64(from)], is_inside);
        }
    }

    fn fill(&mut self, to: u64, byte: u8, length: u64) {
        let into = range(to, length, self.model.len());
        let is_inside = into.is_some();
        // Only the lowest 8 bits of the value count.
        let value = Value::I32(0x0bad_0000 | i32::from(byte));
        for (name, byte) in [
            ("fill".to_owned(), byte),
            (format!("fill {length}"), byte ^ 0x55),
        ] {
            let said = name != "fill";
            if said && !LENGTHS.contains(&length) {
                continue;
            }
            let value = match (said, value) {
                (true, Value::I32(value)) => Value::I32(value ^ 0x55),
                (_, value) => value,
            };
            if let Some(into) = into.clone() {
                self.model[into].fill(byte);
            }
            let params = match said {
                true => vec![i64(to), value],
                false => vec![i64(to), value, i64(length)],
            };
            self.check(&name, &params, is_inside);
        }
    }

    fn init(&mut self, to: u64, from: u32, length: u32) {
        let into = range(to, length.into(), self.model.len());
        let out = range(from.into(), length.into(), SEGMENT.len());
        let is_inside = into.is_some() && out.is_some();
        if let (Some(into), Some(out)) = (into, out) {
            self.model[into].copy_from_slice(&SEGMENT.as_bytes()[out]);
        }
        let numbers = [from, length].map(|number| Value::I32(number.cast_signed()));
        self.check("init", &[i64(to), numbers[0], numbers[1]], is_inside);
    }
}

fn operations(guest: Guest) {
    let mut bench = Bench::new(guest);
    let bytes = bench.model.len() as u64;
    let mut random = Random(0x6464);
    let edges = edges(bytes);
    let one_of = |random: &mut Random, all: &[u64]| all[random.below(all.len() as u64) as usize];
    for edge in &edges {
        for length in LENGTHS {
            // The end of the range is at the edge, also where the sum wraps around.
            for to in [*edge, edge.wrapping_sub(length)] {
                bench.fill(to, random.u64() as u8, length);
                bench.copy(to, 8, length);
                bench.copy(8, to, length);
            }
        }
        for length in [0, 1, 16, 17, u32::MAX] {
            for from in [0, 1, 16, u32::MAX] {
                bench.init(*edge, from, length);
                bench.init(edge.wrapping_sub(length.into()), from, length);
            }
        }
    }
    for _ in 0..20_000 {
        let length = match random.below(4) {
            0 => one_of(&mut random, &LENGTHS),
            1 => one_of(&mut random, &edges),
            _ => random.below(1100),
        };
        let address = |random: &mut Random| match random.below(4) {
            0 => edges[random.below(edges.len() as u64) as usize],
            1 => (1 << 32 | random.below(bytes)).wrapping_sub(length),
            _ => random.below(bytes),
        };
        let (to, from) = (address(&mut random), address(&mut random));
        match random.below(2) {
            0 => bench.copy(to, from, length),
            _ => bench.fill(to, from as u8, length),
        }
    }
    assert!(bench.done > 5_000, "{}", bench.done);
}

#[test]
fn bulk_operations_are_in_bounds_or_change_nothing() {
    let region = region(1);
    for level in LEVELS {
        operations(Guest::alone(&region, &text("(memory i64 2)"), level, false));
    }
}

/// The operations of this file in an imported memory.
#[test]
fn bulk_operations_on_an_imported_memory_are_in_bounds() {
    let region = region(2);
    let memory = r#"(import "own" "memory" (memory i64 2))"#;
    let guest = Guest::importing(&region, "i64 2", &text(memory), OptLevel::Speed);
    operations(guest);
}

/// A 64-bit length costs fuel and never increases it.
#[test]
fn fuel_of_64_bit_lengths_does_not_wrap() {
    let region = region(1);
    let text = r#"(module (memory i64 1) (table $t i64 10 20 funcref) (elem $e func $f) (func $f)
      (func (export "fill") (param i64) (memory.fill (i64.const 0) (i32.const 1) (local.get 0)))
      (func (export "copy") (param i64) (memory.copy (i64.const 0) (i64.const 0) (local.get 0)))
      (func (export "tfill") (param i64) (table.fill $t (i64.const 0) (ref.null func) (local.get 0)))
      (func (export "tcopy") (param i64) (table.copy $t $t (i64.const 0) (i64.const 0) (local.get 0)))
      (func (export "tgrow") (param i64) (drop (table.grow $t (ref.null func) (local.get 0)))))"#;
    for level in LEVELS {
        let Guest::Alone(mut instance) = Guest::alone(&region, text, level, true) else {
            unreachable!("it is alone")
        };
        for name in ["fill", "copy", "tfill", "tcopy", "tgrow"] {
            for length in [
                1 << 31,
                1 << 32,
                1 << 35,
                1 << 62,
                1 << 63,
                u64::MAX - 4,
                u64::MAX,
            ] {
                for fuel in [1000, u64::MAX] {
                    instance.set_fuel(fuel).expect("it counts");
                    let before = instance.fuel().expect("it counts");
                    let result = super::outcome(instance.call_values(name, &[i64(length)]));
                    let after = instance.fuel().expect("it counts");
                    assert!(after < before, "{name} {length:#x}: {before} {after}");
                    let wanted = match (name, fuel) {
                        // The growth fails and costs no fuel for elements.
                        ("tgrow", _) => Ok(vec![]),
                        (_, 1000) => Err(TrapCode::OutOfFuel),
                        ("fill" | "copy", _) => Err(TrapCode::MemoryOutOfBounds),
                        _ => Err(TrapCode::TableOutOfBounds),
                    };
                    assert_eq!(result, wanted, "{name} {length:#x} {fuel}");
                }
            }
        }
    }
}
