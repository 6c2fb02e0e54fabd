//! Accesses of the shapes that the compiler rewrites, and of similar ones, at the boundaries of
//! memories and sums.

use super::{Guests, PAGE, function, image, is_rewritten, module, region, take};
use crate::common::campaign::sampled;
use pirn_runtime::TrapCode;

/// Constants that are added to an index: within a page or not, within the guard region or not, and
/// such that the sum wraps around.
pub(super) const CONSTANTS: [u32; 18] = [
    1,
    4,
    8,
    16,
    255,
    0x7ff0,
    0xfff8,
    0xffff,
    0x1_0000,
    0x1_0001,
    (32 << 20) - 8,
    32 << 20,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_0000,
    0xffff_fff0,
    0xffff_fff8,
    0xffff_ffff,
];

/// A shape: its name, and its statements for a constant.
pub(super) type Shape = (&'static str, fn(i64) -> String);

/// An index plus a constant.
fn plus(index: &str, constant: i64) -> String {
    let constant = constant as u32 as i32;
    format!("(i32.add {index} (i32.const {constant}))")
}

fn load(index: &str) -> String {
    take(&format!("(i64.load {index})"))
}

fn byte(index: &str) -> String {
    take(&format!("(i64.load8_u {index})"))
}

fn store(index: &str) -> String {
    format!("(i64.store {index} (i64.const 0x1122334455667788))\n")
}

const P: &str = "(local.get $p)";
const Q: &str = "(local.get $q)";
const A: &str = "(local.get $a)";
const SUM: &str = "(i32.add (local.get $p) (local.get $q))";

pub(super) const SHAPES: &[Shape] = &[
    ("behind a load", |c| load(P) + &load(&plus(P, c))),
    ("behind a store", |c| store(P) + &store(&plus(P, c))),
    ("behind a byte", |c| {
        byte(P) + &byte(&plus(P, c)) + &store(&plus(P, c))
    }),
    ("below a load", |c| {
        load(&plus(P, c)) + &load(P) + &load(&plus(P, c - 8)) + &store(&plus(P, c + 8))
    }),
    ("sums that wrap to nothing", |c| {
        load(&plus(P, c)) + &store(&plus(&plus(P, c), -c)) + &load(&plus(&plus(P, c), c))
    }),
    ("at offsets", |c| {
        take(&format!("(i64.load offset=24 {P})"))
            + &take(&format!("(i64.load offset=8 {})", plus(P, c)))
            + &take(&format!("(i64.load offset=33554424 {})", plus(P, c)))
            + &take(&format!("(i64.load offset=4294967295 {})", plus(P, c)))
    }),
    ("at an offset that reaches back", |c| {
        // The first load is in bounds only if the sum does not wrap around.
        let offset = (c as u32).wrapping_neg();
        take(&format!("(i64.load offset={offset} {})", plus(P, c))) + &load(P)
    }),
    ("two terms", |c| {
        load(SUM) + &load(&plus(SUM, c)) + &load(&format!("(i32.add {} {Q})", plus(P, c)))
    }),
    ("the terms by turns", |c| {
        let turned = format!("(i32.add {} {})", plus(Q, c), plus(P, 8));
        load(SUM) + &store(&turned)
    }),
    ("in a dominated block", |c| {
        format!(
            "{} (if {Q} (then {}) (else {}))\n{}",
            load(P),
            load(&plus(P, c)),
            store(&plus(P, c)),
            load(&plus(P, c))
        )
    }),
    ("in the other arm", |c| {
        format!(
            "(if {Q} (then {}) (else {}))\n{}",
            load(P),
            load(&plus(P, c)),
            store(&plus(P, c))
        )
    }),
    ("behind a branch past it", |c| {
        format!(
            "(block $out (br_if $out {Q}) {})\n{}",
            store(P),
            load(&plus(P, c))
        )
    }),
    ("behind a loop", |c| {
        format!(
            "(local.set $a {P}) (loop $again {}
               (local.set $a {}) (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
               (br_if $again (local.get $turns)))\n{}{}",
            load(A),
            plus(A, c),
            load(&plus(A, -c)),
            load(&plus(P, c))
        )
    }),
    ("in a loop whose index wraps", |c| {
        format!(
            "(local.set $a {P}) (loop $again {}{}
               (local.set $a {}) (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
               (br_if $again (local.get $turns)))\n",
            byte(A),
            byte(&plus(A, c)),
            plus(A, -c)
        )
    }),
    ("a loop that begins with what it knew", |c| {
        format!(
            "(local.set $a {P}) (loop $again
               (if {Q} (then {}) (else {}))
               (local.set $q (i32.eqz {Q})) (local.set $a {})
               (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
               (br_if $again (local.get $turns)))\n",
            load(A),
            load(&plus(A, c)),
            plus(A, 8)
        )
    }),
    ("bytes of a word as indices", |c| {
        let mut code = String::new();
        for scale in 0..4 {
            for by in [0, 1, 7, 8, 14, 16, 21, 22, 23, 24, 25, 31, 32, 40, 63] {
                for turn in ["shr_u", "shl", "shr_s"] {
                    let turned = format!("(i32.{turn} {P} (i32.const {by}))");
                    let index = format!("(i32.and {turned} (i32.const {}))", 255 << scale);
                    code += &byte(&index);
                    code += &byte(&plus(&index, c & 0xfff));
                }
            }
        }
        code
    }),
    ("vectors", |c| {
        let lane = |of: &str| take(&format!("(i64x2.extract_lane 1 {of})"));
        let at = plus(P, c);
        lane(&format!("(v128.load {P})"))
            + &lane(&format!("(v128.load {at})"))
            + &lane(&format!("(v128.load32_splat {at})"))
            + &lane(&format!("(v128.load64_zero {at})"))
            + &lane(&format!("(v128.load8x8_s {at})"))
            + &lane(&format!("(v128.load64_lane 1 {at} (v128.const i64x2 1 2))"))
            + &format!("(v128.store8_lane 3 {at} (v128.load {P}))\n")
            + &format!("(v128.store {at} (v128.load {P}))\n")
    }),
    ("narrow accesses", |c| {
        let at = plus(P, c);
        let loads = [
            "load8_s", "load8_u", "load16_s", "load16_u", "load32_s", "load32_u",
        ];
        let loads = loads.map(|name| take(&format!("(i64.{name} {at})")));
        let stores = ["store8", "store16", "store32"]
            .map(|name| format!("(i64.{name} {at} (local.get $s))\n"));
        byte(P) + &loads.concat() + &stores.concat()
    }),
    ("copies and fills of a few bytes", |c| {
        let at = plus(P, c);
        let copy =
            |to: &str, from: &str| format!("(memory.copy {to} {from} (i32.const 23)) {}", byte(to));
        copy(P, Q) + &copy(&at, P) + &format!("(memory.fill {at} {Q} (i32.const 40))\n")
    }),
    ("constants", |c| {
        let whole = format!("(i32.const {})", c as u32 as i32);
        load(&whole) + &load(&plus(&whole, c)) + &store(&plus(&whole, -c))
    }),
    ("after the memory has grown", |c| {
        format!(
            "{}(local.set $b (memory.grow {Q}))\n{}{}",
            byte(P),
            byte(&plus(P, c)),
            store(&plus(P, c))
        )
    }),
    ("a load that nobody wants", |c| {
        format!("(drop (i64.load {P}))\n") + &store(&plus(P, c))
    }),
    ("a store that is written over", |c| {
        store(P) + &store(P) + &store(&plus(P, c)) + &load(P)
    }),
    ("the index of each is the sum of the last", |c| {
        let mut code = format!("(local.set $a {P})\n");
        for _ in 0..10 {
            code += &byte(A);
            code += &format!("(local.set $a {})\n", plus(A, c));
        }
        code
    }),
];

/// Indices computed from `p` and `q` that are small, or look small to the compiler.
fn indices() -> Vec<String> {
    let op = |name: &str, by: u32| format!("(i32.{name} {P} (i32.const {}))", by.cast_signed());
    let low = |of: &str, mask: u32| format!("(i32.and {of} (i32.const {}))", mask.cast_signed());
    let shl = |of: &str, by| format!("(i32.shl {of} (i32.const {by}))");
    let both = |name: &str, a: &str, b: &str| format!("(i32.{name} {a} {b})");
    let (a, b, top) = (low(P, 0x7ff8), low(Q, 0x3fff), low(P, 1 << 31));
    // At most 0x10000; a shift that drops the top bit makes it smaller.
    let even = both("add", &low(P, 0xffff), &low(Q, 1));
    let mut all: Vec<_> = ["load8_u", "load8_s", "load16_u", "load16_s", "load"]
        .map(|load| format!("(i32.{load} {Q})"))
        .into();
    let masks = [0xff, 0x1fe, 0x3fc, 0x7f8, 0xff0, 0xfffc, 0xffff_fff8];
    all.extend(masks.map(|mask| op("and", mask)));
    for by in [0, 1, 17, 31, 32, 33, 48, 63] {
        all.extend(["shr_u", "shr_s", "shl", "rotl"].map(|name| op(name, by)));
        all.push(shl(&low(Q, 0x7fff), by));
    }
    all.extend(["shr_u", "shl"].map(|name| both(name, P, Q)));
    all.extend(["add", "or", "xor", "mul", "sub"].map(|name| both(name, &a, &b)));
    all.extend([
        both("or", &a, &top),
        both("add", &top, &top),
        both("add", &both("add", &top, &b), &top),
        both("add", &low(P, 0xffff_fff0), &low(Q, 0xff)),
        both("add", &low(Q, 0xff), &low(P, 0xffff_fff0)),
        shl(&even, 16),
        both("or", &shl(&even, 15), &top),
        both("and", &op("or", 1 << 31), P),
        format!("(i32.shr_u {} (i32.const 1))", both("add", P, Q)),
        format!("(i32.wrap_i64 (i64.add (i64.extend_i32_s {P}) (i64.const -8)))"),
        format!("(i32.wrap_i64 (i64.shr_u (i64.extend_i32_s {P}) (i64.const 8)))"),
        format!("(i8x16.extract_lane_u 0 (i8x16.splat {P}))"),
        format!("(i8x16.extract_lane_s 0 (i8x16.splat {P}))"),
        format!("(i32.extend8_s {P})"),
        format!("(i32.extend16_s {P})"),
        format!("(i32.eqz {P})"),
        format!("(select {a} {P} {Q})"),
    ]);
    all
}

/// Indices at the ends of a page and of 32 bits, and indices from which a constant reaches these.
pub(super) fn ends(constant: u32) -> Vec<u32> {
    let size = PAGE as u32;
    let ends = [
        0,
        1,
        8,
        100,
        size - 17,
        size - 16,
        size - 8,
        size - 7,
        size - 1,
        size,
    ];
    let far = [2 * size - 8, 1 << 31, u32::MAX - 7, u32::MAX];
    let ends = ends.into_iter().chain(far);
    let mut all: Vec<_> = ends
        .flat_map(|end| [end, end.wrapping_sub(constant)])
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// At boundaries, rewritten addresses give the results and traps of unoptimised code.
#[test]
fn addresses_at_boundaries_equal_unoptimised_ones() {
    if !is_rewritten() {
        return;
    }
    let (region, image) = (region(), image());
    let (mut returned, mut trapped) = (0, 0);
    let far = PAGE as u32 - 8;
    for (fuel, seconds) in [(false, &[0, far][..]), (true, &[1])] {
        // By default each shape has half of the constants, and each of these half of the indices.
        for (number, (shape, code)) in sampled(SHAPES.iter().enumerate(), 2, fuel.into()) {
            let constants: Vec<_> = sampled(CONSTANTS, 2, number / 2).collect();
            let functions = constants
                .iter()
                .map(|constant| function(&constant.to_string(), &code(i64::from(*constant))));
            let functions: String = functions.collect();
            let mut guests = Guests::new(&region, &module(&functions), fuel);
            for (at, constant) in constants.into_iter().enumerate() {
                for p in sampled(ends(constant), 2, at + number) {
                    for q in seconds {
                        let left =
                            guests.call(&constant.to_string(), (p, *q, constant), &image, shape);
                        match left.result {
                            Ok(_) => returned += 1,
                            Err(code) => {
                                assert_eq!(code, TrapCode::MemoryOutOfBounds);
                                trapped += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    let calls = returned + trapped;
    assert!(
        returned * 8 > calls && trapped * 8 > calls,
        "{returned} of {calls} returned"
    );
}

/// Each index has a module of its own, so that a trap at one index does not prevent the others.
#[test]
fn apparently_small_indices_equal_unoptimised_ones() {
    if !is_rewritten() {
        return;
    }
    let (region, image) = (region(), image());
    for (number, index) in sampled(indices(), 4, 0).enumerate() {
        let functions = CONSTANTS.map(|constant| {
            let at = plus(&index, i64::from(constant));
            function(
                &constant.to_string(),
                &(byte(&at) + &load(&at) + &store(&at)),
            )
        });
        let mut guests = Guests::new(&region, &module(&functions.concat()), false);
        for (at, constant) in CONSTANTS.into_iter().enumerate() {
            for p in sampled(ends(constant), 2, at + number) {
                for q in [1, PAGE as u32 - 8] {
                    guests.call(&constant.to_string(), (p, q, 0), &image, &index);
                }
            }
        }
    }
}

/// Compares with results that this test computes, including where sums wrap around.
#[test]
fn a_sum_that_wraps_addresses_the_start_of_the_memory() {
    let (region, image) = (region(), image());
    let first = u64::from_le_bytes(image[..8].try_into().expect("eight"));
    let last = u64::from_le_bytes(image[PAGE - 8..].try_into().expect("eight"));
    let functions: String = CONSTANTS
        .map(|constant| {
            let at = plus(P, i64::from(constant));
            function(&constant.to_string(), &take(&format!("(i64.load {at})")))
        })
        .concat();
    let mut guests = Guests::new(&region, &module(&functions), false);
    for constant in CONSTANTS {
        let mut load = |index: u32| {
            let params = (index.wrapping_sub(constant), 0, 0);
            let left = guests.call(&constant.to_string(), params, &image, "one load");
            assert!(left.memory == image, "{constant:#x}");
            left.result
        };
        let size = PAGE as u32;
        assert_eq!(load(0), Ok(first), "{constant:#x}");
        assert_eq!(load(size - 8), Ok(last), "{constant:#x}");
        for index in [size - 7, size, u32::MAX] {
            assert_eq!(
                load(index),
                Err(TrapCode::MemoryOutOfBounds),
                "{constant:#x}"
            );
        }
    }
}
