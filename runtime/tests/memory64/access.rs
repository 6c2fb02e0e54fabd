//! Loads and stores of every width, at offsets and addresses whose sum may wrap around or look in
//! bounds.

use super::{GUARD, Guest, LEVELS, Outcome, PAGE, edges, i64, region};
use crate::common::{self, campaign, random::Random};
use pirn_compiler::OptLevel;
use pirn_runtime::{Linker, TrapCode, Value};

/// Loads with their number of bytes: each returns an i64 made from the bytes at `A`.
const LOADS: [(u64, &str); 21] = [
    (1, "(i64.load8_u A)"),
    (1, "(i64.load8_s A)"),
    (1, "(i64.extend_i32_s (i32.load8_s A))"),
    (1, "(i64.extend_i32_u (i32.load8_u A))"),
    (2, "(i64.load16_u A)"),
    (2, "(i64.load16_s A)"),
    (2, "(i64.extend_i32_s (i32.load16_s A))"),
    (2, "(i64.extend_i32_u (i32.load16_u A))"),
    (4, "(i64.load32_u A)"),
    (4, "(i64.load32_s A)"),
    (4, "(i64.extend_i32_u (i32.load A))"),
    (4, "(i64.extend_i32_u (i32.reinterpret_f32 (f32.load A)))"),
    (8, "(i64.load A)"),
    (8, "(i64.reinterpret_f64 (f64.load A))"),
    (16, "(call $fold (v128.load A))"),
    (8, "(call $fold (v128.load8x8_s A))"),
    (8, "(call $fold (v128.load16x4_u A))"),
    (2, "(call $fold (v128.load16_splat A))"),
    (4, "(call $fold (v128.load32_zero A))"),
    (
        1,
        "(call $fold (v128.load8_lane A 3 (v128.const i64x2 5 6)))",
    ),
    (
        8,
        "(call $fold (v128.load64_lane A 1 (v128.const i64x2 5 6)))",
    ),
];

/// Stores of `$v` at `A`, with their number of bytes.
const STORES: [(u64, &str); 12] = [
    (1, "(i32.store8 A (i32.wrap_i64 (local.get $v)))"),
    (1, "(i64.store8 A (local.get $v))"),
    (2, "(i32.store16 A (i32.wrap_i64 (local.get $v)))"),
    (2, "(i64.store16 A (local.get $v))"),
    (4, "(i32.store A (i32.wrap_i64 (local.get $v)))"),
    (4, "(i64.store32 A (local.get $v))"),
    (
        4,
        "(f32.store A (f32.reinterpret_i32 (i32.wrap_i64 (local.get $v))))",
    ),
    (8, "(i64.store A (local.get $v))"),
    (8, "(f64.store A (f64.reinterpret_i64 (local.get $v)))"),
    (16, "(v128.store A (i64x2.splat (local.get $v)))"),
    (1, "(v128.store8_lane A 9 (i64x2.splat (local.get $v)))"),
    (8, "(v128.store64_lane A 1 (i64x2.splat (local.get $v)))"),
];

/// Offsets: zero, at the ends of page and guard, at the limits of 32 bits and of a displacement,
/// and where a sum wraps around.
const OFFSETS: [u64; 19] = [
    0,
    1,
    PAGE - 8,
    PAGE,
    GUARD - 16,
    GUARD - 8,
    GUARD - 1,
    GUARD,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 16,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 8,
    1 << 63,
    u64::MAX - (1 << 32),
    u64::MAX - 15,
    u64::MAX - 1,
    u64::MAX,
];

/// One of how many offsets each load and each store has by default.
const SAMPLE: usize = 4;

/// The offsets of the load or store with this number. By default the next one has others.
fn offsets(number: usize) -> Vec<u64> {
    campaign::sampled(OFFSETS, SAMPLE, number).collect()
}

/// A module with all accesses to the memory that `memory` declares, which has this address type.
/// `offsets` returns the offsets of a load or store by its number.
fn text(memory: &str, address: &str, offsets: impl Fn(usize) -> Vec<u64>) -> String {
    let mut funcs = String::new();
    let mut add = |kind: char, at: usize, code: &str, offset: u64| {
        // An alignment of 1 is valid for every access.
        let place = format!("offset={offset} align=1 ");
        // Immediates precede operands in the text.
        let code = match code.split_once(" A ") {
            Some((op, rest)) if op.ends_with("_lane") => {
                let (lane, rest) = rest.split_once(' ').expect("a lane");
                format!("{op} {place}{lane} (local.get $a) {rest}")
            }
            _ => code.replace('A', &format!("{place}(local.get $a)")),
        };
        let result = if kind == 'l' { "(result i64)" } else { "" };
        funcs += &format!(
            "(func (export \"{kind}{at} {offset}\") (param $a {address}) (param $v i64) {result} {code})\n"
        );
    };
    for (at, (_, code)) in LOADS.iter().enumerate() {
        for offset in offsets(at) {
            add('l', at, code, offset);
        }
    }
    for (at, (_, code)) in STORES.iter().enumerate() {
        for offset in offsets(at) {
            add('s', at, code, offset);
        }
    }
    format!(
        "(module {memory}
           (func $fold (param v128) (result i64)
             (i64.xor (i64x2.extract_lane 0 (local.get 0))
               (i64.mul (i64x2.extract_lane 1 (local.get 0)) (i64.const 3))))
           {funcs})"
    )
}

/// Runs all accesses in a guest whose memory has this number of bytes, and compares them with a
/// 32-bit guest.
fn accesses(mut guest: Guest, bytes: u64, what: &str) {
    let image: Vec<u8> = {
        let mut random = Random(7);
        (0..bytes).map(|_| random.u64() as u8).collect()
    };
    let narrow = region(1);
    let mut twin = Guest::alone(
        &narrow,
        &text(&format!("(memory {})", bytes / PAGE), "i32", |_| vec![0]),
        OptLevel::None,
        false,
    );
    guest.write(&image);
    twin.write(&image);
    let all = edges(bytes);
    let kinds = LOADS.iter().enumerate().map(|(at, (n, _))| ('l', at, *n));
    let stores = STORES.iter().enumerate().map(|(at, (n, _))| ('s', at, *n));
    let (mut inside, mut outside) = (0, 0);
    for (kind, at, access_bytes) in kinds.chain(stores) {
        for offset in offsets(at) {
            let shifted = all.iter().map(|edge| edge.wrapping_sub(offset));
            let last = bytes.wrapping_sub(access_bytes).wrapping_sub(offset);
            let ends = [last, last.wrapping_add(1), last.wrapping_add(1 << 32)];
            for index in all.iter().copied().chain(shifted).chain(ends) {
                let value = i64(index.rotate_left(17) ^ 0x0123_4567_89ab_cdef);
                let name = format!("{kind}{at} {offset}");
                let found = guest.call(&name, &[i64(index), value]);
                let start = u128::from(index) + u128::from(offset);
                let wanted: Outcome = if start + u128::from(access_bytes) > u128::from(bytes) {
                    outside += 1;
                    Err(TrapCode::MemoryOutOfBounds)
                } else {
                    inside += 1;
                    let start = Value::I32((start as u32).cast_signed());
                    twin.call(&format!("{kind}{at} 0"), &[start, value])
                };
                assert_eq!(found, wanted, "{what}: {name} at {index:#x}");
                // aarch64 may have stored the bytes before the end: see docs/internals/safety.md.
                let is_cut = found.is_err() && start < u128::from(bytes);
                if is_cut && std::env::consts::ARCH != "x86_64" {
                    let before: Vec<u8> = twin.memory(<[u8]>::to_vec);
                    assert!(
                        guest.memory(|found| found[..start as usize] == before[..start as usize])
                    );
                    guest.write(&before);
                } else if kind == 's' {
                    assert!(guest.is_like(&twin), "{what}: {name} at {index:#x}");
                }
            }
        }
    }
    let nth = campaign::every(SAMPLE);
    assert!(
        inside > 3_000 / nth && outside > 50_000 / nth,
        "{inside} {outside}"
    );
}

#[test]
fn every_access_is_in_bounds_or_traps() {
    let region = region(2);
    for level in LEVELS {
        let text = text("(memory i64 2)", "i64", offsets);
        let guest = Guest::alone(&region, &text, level, level == OptLevel::None);
        accesses(guest, 2 * PAGE, &format!("{level:?}"));
    }
}

#[test]
fn every_access_to_an_imported_memory_is_in_bounds_or_traps() {
    let region = region(2);
    let memory = r#"(import "own" "memory" (memory i64 2))"#;
    let text = text(memory, "i64", offsets);
    let guest = Guest::importing(&region, "i64 2", &text, OptLevel::Speed);
    accesses(guest, 2 * PAGE, "imported");
}

/// Accesses of [`every_access_is_in_bounds_or_traps`] to an empty memory, where all are out of
/// bounds.
#[test]
fn every_access_to_an_empty_memory_traps() {
    let region = region(1);
    let text = text("(memory i64 0)", "i64", |_| OFFSETS.to_vec());
    let mut guest = Guest::alone(&region, &text, OptLevel::Speed, false);
    for index in edges(0) {
        for offset in OFFSETS {
            let found = guest.call(&format!("l0 {offset}"), &[i64(index), i64(0)]);
            assert_eq!(found, Err(TrapCode::MemoryOutOfBounds), "{index} {offset}");
        }
    }
}

/// The reported size of a growth that exceeds 64 bits is not smaller than the requested size.
#[test]
fn failed_growth_past_64_bits_reports_its_size() {
    let text = "(module (memory i64 1) (func (export \"grow\") (param i64) (result i64) (memory.grow (local.get 0))))";
    let region = region(1);
    let mut linker = Linker::<Vec<u64>>::new();
    linker.growth_failed(|reported: &mut Vec<u64>, growth, _| reported.push(growth.desired));
    let prepared = region.prepare(&common::wat(text), &linker);
    let prepared = prepared.expect("it fits");
    let mut instance = prepared.try_instantiate(vec![]).expect("a slot is free");
    for delta in [1 << 16, (1 << 47) - 1, 1 << 48, (1 << 48) + 1, u64::MAX] {
        let result = instance.call_values("grow", &[i64(delta)]);
        assert_eq!(result.expect("it returns"), [Value::I64(-1)]);
    }
    assert_eq!(
        instance.into_data(),
        [65_537 * PAGE, 1 << 63, u64::MAX, u64::MAX, u64::MAX]
    );
}

/// Sizes have 64 bits, and so does the result -1.
#[test]
fn a_memory_grows_by_pages_of_64_bits() {
    let region = region(1);
    let text = r#"(module (memory i64 1 0x1000000000000)
      (func (export "size") (result i64) (memory.size))
      (func (export "grow") (param i64) (result i64) (memory.grow (local.get 0)))
      (func (export "last") (result i64) (i64.load8_u (i64.sub (i64.shl (memory.size) (i64.const 16)) (i64.const 1)))))"#;
    for level in LEVELS {
        let mut guest = Guest::alone(&region, text, level, false);
        // The region permits 64 pages.
        for delta in [
            64,
            65_535,
            65_536,
            1 << 32,
            (1 << 32) + 1,
            1 << 48,
            (1 << 48) + 1,
            1 << 63,
            u64::MAX,
            u64::MAX - 1,
        ] {
            let found = guest.call("grow", &[i64(delta)]);
            assert_eq!(found, Ok(vec![Value::I64(-1)]), "{delta:#x}");
        }
        let counts = [(0, 1), (3, 1), (60, 4), (1, -1)];
        for (delta, found) in counts {
            assert_eq!(
                guest.call("grow", &[i64(delta)]),
                Ok(vec![Value::I64(found)])
            );
        }
        assert_eq!(guest.call("size", &[]), Ok(vec![Value::I64(64)]));
        assert_eq!(guest.call("last", &[]), Ok(vec![Value::I64(0)]));
    }
}
