//! Accesses that the compiler rewrites to memory operands, and address sums that it rewrites.

use super::{GROW, Guest, LOADS, OUT, PAGE, Place, options};
use crate::common::values::Lend as _;
use pirn_compiler::OptLevel;
use pirn_format::cpu::{self, CpuFeatures};
use pirn_runtime::Value;
use std::fmt::Write;

/// Operators with a load as operand, for each load.
fn users() -> Vec<String> {
    let mut all = vec![];
    let mut of = |load: &str, templates: &[&str]| {
        let load = format!("({load} $m (local.get 0))");
        all.extend(templates.iter().map(|one| one.replace('@', &load)));
    };
    for bits in [32, 64] {
        let float = format!("f{bits}.load");
        let with = |text: &str| text.replace("FF", &format!("f{bits}"));
        let unary = ["abs", "neg", "sqrt", "ceil", "floor", "trunc", "nearest"];
        for op in unary {
            of(&float, &[&with(&format!("(FF.{op} @)"))]);
        }
        for op in ["add", "sub", "mul", "div", "min", "max", "copysign", "lt"] {
            let one = with(&format!("(FF.{op} (FF.const 1.5) @)"));
            let other = with(&format!("(FF.{op} @ (FF.const 1.5))"));
            of(&float, &[&one, &other]);
        }
        let lanes = format!("x{}", 128 / bits);
        let splat = with(&format!("(FF{lanes}.splat @)"));
        let first = with(&format!(
            "(FF{lanes}.replace_lane 0 (v128.const i64x2 3 4) @)"
        ));
        let second = first.replace("lane 0", "lane 1");
        let doubled = with(&format!(
            "(FF{lanes}.add (FF{lanes}.splat @) (v128.const i64x2 3 4))"
        ));
        of(&float, &[&splat, &first, &second, &doubled]);
        for int in ["i32", "i64"] {
            for sign in ["s", "u"] {
                let saturated = format!("({int}.trunc_sat_f{bits}_{sign} @)");
                of(&float, &[&saturated]);
                let converted = with(&format!("(FF.convert_{int}_{sign} @)"));
                of(&format!("{int}.load"), &[&converted]);
            }
        }
    }
    of(
        "f32.load",
        &["(f64.promote_f32 @)", "(i32.reinterpret_f32 @)"],
    );
    of(
        "f64.load",
        &["(f32.demote_f64 @)", "(i64.reinterpret_f64 @)"],
    );
    for (int, load, wide) in [("i32", "i32.load", false), ("i64", "i64.load", true)] {
        for op in [
            "add", "sub", "mul", "and", "or", "xor", "shl", "shr_u", "rotl", "lt_u", "eq",
        ] {
            let one = format!("({int}.{op} ({int}.const 77) @)");
            let other = format!("({int}.{op} @ ({int}.const 77))");
            of(load, &[&one, &other]);
        }
        for op in ["clz", "ctz", "popcnt", "eqz", "extend8_s", "extend16_s"] {
            of(load, &[&format!("({int}.{op} @)")]);
        }
        let lanes = if wide { "i64x2" } else { "i32x4" };
        let replaced = format!("({lanes}.replace_lane 1 (v128.const i64x2 3 4) @)");
        let moved = format!("(f{}.reinterpret_{int} @)", &int[1..]);
        of(load, &[&format!("({lanes}.splat @)"), &replaced, &moved]);
    }
    of("i64.load", &["(i32.wrap_i64 @)"]);
    for (load, lanes) in [("i32.load8_u", "i8x16"), ("i32.load16_u", "i16x8")] {
        let splat = format!("({lanes}.splat @)");
        let replaced = format!("({lanes}.replace_lane 5 (v128.const i64x2 3 4) @)");
        let shifted = format!("({lanes}.shl (v128.const i64x2 3 4) @)");
        of(load, &[&splat, &replaced, &shifted, "(i64.extend_i32_u @)"]);
    }
    let loads = LOADS.iter().filter(|(_, ty, _)| *ty == "v128");
    for (load, ..) in loads {
        for op in [
            "i8x16.add",
            "i64x2.mul",
            "f32x4.add",
            "f64x2.max",
            "f64x2.pmin",
            "i8x16.swizzle",
            "i16x8.extmul_low_i8x16_u",
            "i64x2.extmul_high_i32x4_s",
            "i32x4.dot_i16x8_s",
            "i8x16.eq",
            "v128.andnot",
            "i8x16.narrow_i16x8_s",
            "i16x8.q15mulr_sat_s",
        ] {
            let one = format!("({op} (v128.const i64x2 0x0102030405060708 3) @)");
            let other = format!("({op} @ (v128.const i64x2 0x0102030405060708 3))");
            of(load, &[&one, &other]);
        }
        for op in [
            "i8x16.abs",
            "i8x16.popcnt",
            "i64x2.neg",
            "f32x4.sqrt",
            "f64x2.nearest",
            "f64x2.abs",
            "f64x2.promote_low_f32x4",
            "f32x4.demote_f64x2_zero",
            "f64x2.convert_low_i32x4_s",
            "f64x2.convert_low_i32x4_u",
            "f32x4.convert_i32x4_u",
            "i32x4.trunc_sat_f64x2_u_zero",
            "i16x8.extend_low_i8x16_s",
            "i16x8.extend_high_i8x16_u",
            "i64x2.extend_low_i32x4_u",
            "i32x4.extadd_pairwise_i16x8_s",
            "v128.not",
            "v128.any_true",
            "i8x16.bitmask",
            "f64x2.extract_lane 0",
            "i8x16.extract_lane_u 0",
            "i64x2.extract_lane 0",
        ] {
            of(load, &[&format!("({op} @)")]);
        }
        let shuffle =
            "(i8x16.shuffle 0 1 2 3 4 5 6 7 0 1 2 3 16 17 18 19 @ (v128.const i64x2 3 4))";
        let select = "(v128.bitselect (v128.const i64x2 3 4) @ (v128.const i64x2 5 6))";
        of(load, &[shuffle, select]);
    }
    all
}

/// The result type of an operator.
fn result_of(text: &str) -> &'static str {
    let op = text[1..].split(' ').next().expect("an operator");
    let (ty, name) = op.split_once('.').expect("a type");
    let compares = name.ends_with("_true") || name == "bitmask" || name == "eqz";
    let is_lane = name.starts_with("extract_lane");
    match ty {
        _ if compares => "i32",
        "i32" | "f32" | "i64" | "f64" if ["lt", "lt_u", "eq"].contains(&name) => "i32",
        "i32" => "i32",
        "i64" => "i64",
        "f32" => "f32",
        "f64" => "f64",
        "f64x2" if is_lane => "f64",
        "i64x2" if is_lane => "i64",
        _ if is_lane => "i32",
        _ => "v128",
    }
}

/// An instruction with a memory operand must not read more bytes than the load that it replaces. So
/// its result must be right near the end of the accessible bytes and of the memory.
#[test]
fn memory_operands_read_no_more_bytes_than_the_load() {
    let machine = cpu::detect();
    let baseline = CpuFeatures::level(machine.arch(), "baseline").expect("it exists");
    let users = users();
    let mut body = format!("{GROW}(memory $large (export \"l\") 1)");
    for (n, user) in users.iter().enumerate() {
        let (result, other) = (result_of(user), user.replace("$m", "$large"));
        let _ = write!(
            body,
            "(func (export \"b{n}\") (param i32) (result {result}) {user})
             (func (export \"l{n}\") (param i32) (result {result}) {other})"
        );
    }
    let widths: Vec<_> = users
        .iter()
        .map(|user| {
            let mut found = LOADS.iter().filter(|(load, ..)| {
                let load = format!("({load} $m");
                user.contains(&load)
            });
            found.next().expect("it loads").2
        })
        .collect();
    let pattern = *b"\x81\x02\x83\x04\x41\x06\x87\x3f\x89\x0a\x8b\x0c\x4d\x0e\x8f\x40";
    for (cpu, spectre) in [(baseline, true), (machine, true), (baseline, false)] {
        let mut options = options(OptLevel::Speed, spectre);
        options.cpu = cpu;
        let mut guest = Guest::new(Place::First, false, "300", &body, &options);
        let mut size = 300;
        for next in [300, 65_530, PAGE] {
            guest.grow((next - size) as u64);
            size = next;
            guest.write(size - 16, &pattern);
            let mut lent = guest.group.lend(guest.member);
            let large = lent.exported_memory_mut("l");
            let mut large = large.expect("it is exported");
            large.write(PAGE as u32 - 16, &pattern).expect("inside");
            for (n, (user, width)) in users.iter().zip(&widths).enumerate() {
                let tail = &pattern[16 - *width as usize..];
                guest.write(100, tail);
                let expected = guest.call(&format!("b{n}"), &[100]);
                let at = size as u64 - width;
                assert!(expected.is_ok(), "{user}");
                assert_eq!(guest.call(&format!("b{n}"), &[at]), expected, "{user}");
                let at_end = PAGE as u64 - width;
                let large = guest.call(&format!("l{n}"), &[at_end]);
                assert_eq!(large, expected, "{user}, pages of 64 KiB");
                assert_eq!(guest.call(&format!("b{n}"), &[at + 1]), OUT, "{user}");
            }
        }
    }
}

/// Sums, masks and adjacent accesses that the compiler merges into fewer instructions. Each access
/// is still checked by itself, and sums wrap around as specified.
#[test]
fn rewritten_sums_stay_in_bounds() {
    const BODY: &str = "
      (func (export \"up\") (param $p i32) (result i32)
        (i32.add (i32.load8_u $m (local.get $p))
          (i32.load8_u $m (i32.add (local.get $p) (i32.const 12)))))
      (func (export \"down\") (param $p i32) (result i32)
        (i32.add (i32.load8_u $m (i32.add (local.get $p) (i32.const 12)))
          (i32.load8_u $m (local.get $p))))
      (func (export \"byte\") (param $p i32) (result i32)
        (i32.load8_u $m offset=100 (i32.shl (i32.and (local.get $p) (i32.const 255)) (i32.const 3))))
      (func (export \"masked\") (param $p i32) (result i32)
        (i32.load8_u $m (i32.add (i32.and (local.get $p) (i32.const 0x7f8)) (i32.const 60))))
      (func (export \"constant\") (result i32)
        (i32.load8_u $m offset=50 (i32.const 1949)))
      (func (export \"behind\") (result i32)
        (i32.load8_u $m offset=51 (i32.const 1949)))
      (func (export \"wraps\") (result i32)
        (i32.load8_u $m offset=1 (i32.const -1)))
      (func (export \"stores\") (param $p i32)
        (i32.store8 $m (local.get $p) (i32.const 1))
        (i32.store8 $m offset=1 (local.get $p) (i32.const 2))
        (i64.store $m offset=2 (local.get $p) (i64.const -1)))
      (func (export \"both\") (param $p i32) (result i32)
        (i32.store8 $other (local.get $p) (i32.const 3))
        (i32.store8 $other (i32.add (local.get $p) (i32.const 8)) (i32.const 3))
        (i32.load8_u $m (i32.add (local.get $p) (i32.const 8))))";
    const SIZE: u64 = 2000;
    for options in [true, false].map(|spectre| options(OptLevel::Speed, spectre)) {
        let mut guest = Guest::new(Place::Further, false, "2000", BODY, &options);
        let is_inside = |at: u64| at & 0xffff_ffff < SIZE;
        let near = (SIZE - 30..SIZE + 10).chain((1 << 32) - 30..1 << 32);
        for at in near.chain(0..5) {
            let ok = |fits: bool| if fits { Ok(vec![Value::I32(0)]) } else { OUT };
            let both = ok(is_inside(at) && is_inside(at + 12));
            assert_eq!(guest.call("up", &[at]), both, "{at:#x}");
            assert_eq!(guest.call("down", &[at]), both, "{at:#x}");
            let byte = (at & 255) * 8 + 100;
            assert_eq!(guest.call("byte", &[at]), ok(byte < SIZE), "{at:#x}");
            let masked = (at & 0x7f8) + 60;
            assert_eq!(guest.call("masked", &[at]), ok(masked < SIZE), "{at:#x}");
            if at < SIZE + 10 {
                let both = ok(at + 8 < SIZE);
                assert_eq!(guest.call("both", &[at]), both, "{at:#x}");
            }
            let mut expected = guest.bytes();
            let mut fits = true;
            for (offset, bytes) in [(0, &[1][..]), (1, &[2]), (2, &[255; 8])] {
                let start = at + offset;
                fits &= start + bytes.len() as u64 <= SIZE;
                if fits {
                    expected[start as usize..][..bytes.len()].copy_from_slice(bytes);
                }
            }
            let stored = guest.call("stores", &[at]);
            assert_eq!(stored, if fits { Ok(vec![]) } else { OUT }, "{at:#x}");
            assert!(guest.bytes() == expected, "{at:#x}");
            guest.write(0, &[0; SIZE as usize]);
        }
        assert_eq!(guest.call("constant", &[]), Ok(vec![Value::I32(0)]));
        assert_eq!(guest.call("behind", &[]), OUT);
        assert_eq!(guest.call("wraps", &[]), OUT);
    }
}
