//! Functions of every kind in tables, and operators in every encoding.

use super::common::campaign::sampled;
use super::{EXPORT, FUEL, Guest, both, common, is_known, options, region};
use pirn_compiler::{Compilation, Emit, Options};
use pirn_runtime::{Linker, TrapCode, Value};

/// A function that multiplies 128-bit numbers, which the compiler recognises by its code, and its
/// parameters.
const MULTIPLY: &str = include_str!("../../../compiler/tests/multiply/digits-narrow.wat");

/// The largest number of parameters and results of a function that the validator permits.
const VALUES_MAX: usize = 1000;

/// Compares calls through a known table with calls through an exported one. Returns which calls
/// returned.
fn alike(text: &str, options: &Options, calls: &[(&str, Vec<Value>)]) -> Vec<bool> {
    let region = region();
    assert!(
        is_known(&text.replace(EXPORT, "memory"), options),
        "{options:?}: {text}"
    );
    let [mut known, mut open] = both(text).map(|text| {
        let guest = Guest::new(&region, &text, options);
        guest.expect("it starts")
    });
    let calls = calls.iter().map(|(name, params)| {
        let [one, other] = [&mut known, &mut open].map(|guest| {
            if guest.counts {
                guest.instance.set_fuel(FUEL).expect("it counts");
            }
            let result = super::outcome(guest.instance.call_values(name, params));
            let memory = guest.instance.memory();
            let mut bytes = [0; 64];
            memory.read(0, &mut bytes).expect("inside");
            (result, bytes, guest.instance.fuel())
        });
        assert_eq!(one, other, "{name}, {options:?}");
        one.0.is_ok()
    });
    calls.collect()
}

#[test]
fn functions_with_the_maximum_of_values_are_called() {
    let kinds = ["i32", "i64", "f32", "f64", "v128"];
    let list = (0..VALUES_MAX).map(|at| kinds[at % 5]);
    let list = list.collect::<Vec<_>>().join(" ");
    let get = |add: usize| -> String {
        let order = (0..VALUES_MAX).map(|at| (at + add) % VALUES_MAX);
        order.map(|at| format!("(local.get {at})")).collect()
    };
    // The other functions rotate the list by five and by ten, which keeps the types equal.
    let (plain, five, ten) = (get(0), get(5), get(10));
    let text = format!(
        r#"(module (type $all (func (param {list}) (result {list}))) (memory 1)
          (table $t 4 funcref) (elem (i32.const 1) func $five $ten $none)
          (func $five (type $all) {five}) (func $ten (type $all) {ten}) (func $none)
          (global $at (mut i32) (i32.const 0))
          (func (export "at") (param i32) (global.set $at (local.get 0)))
          (func (export "all") (type $all) {plain} (call_indirect (type $all) (global.get $at)))
          (func (export "second") (type $all) {plain} (call_indirect (type $all) (i32.const 2)))
          (func (export "none") (call_indirect (global.get $at)))
          (export "t" ({EXPORT} 0)))"#
    );
    let params: Vec<_> = (0..VALUES_MAX)
        .map(|at| match at % 5 {
            0 => Value::I32(at as i32),
            1 => Value::I64(-(at as i64)),
            2 => Value::F32((at as f32).to_bits()),
            3 => Value::F64((-(at as f64)).to_bits()),
            _ => Value::V128(at as u128 | 1 << 127),
        })
        .collect();
    // By default one set of options without the optimiser, and one with it and without masks.
    for mut options in sampled(options(), 2, 0) {
        // The fuel of these tests suffices only for a few operators.
        options.fuel = false;
        let mut calls = vec![("second", params.clone())];
        for at in 0..5 {
            calls.push(("at", vec![Value::I32(at)]));
            calls.push(("all", params.clone()));
            calls.push(("none", vec![]));
        }
        let returned = alike(&text, &options, &calls);
        assert_eq!(
            returned.iter().filter(|is_ok| **is_ok).count(),
            1 + 5 + 2 + 1
        );
    }
}

#[test]
fn intrinsics_are_called_through_known_tables() {
    let text = format!(
        r#"(module (type $bits (func (param i32 i32) (result i32))) (type $wide (func (param i64 i64) (result i64)))
          (import "h" "f" (func $h (param i32) (result i32)))
          (import "hw" "x86.pext_u32" (func $pext (type $bits)))
          (import "hw" "x86.pdep_u32" (func $pdep (type $bits)))
          (import "hw" "x86.pdep_u64" (func $wide (type $wide)))
          (memory 1)
          (table 6 funcref) (elem (i32.const 1) func $pext $pdep $own $wide)
          (func $own (type $bits) (i32.xor (local.get 0) (local.get 1)))
          (func (export "bits") (param i32) (result i32)
            (call_indirect (type $bits) (i32.const 0x12345) (i32.const 0x0ff0f0) (local.get 0)))
          (func (export "wide") (param i32) (result i64)
            (call_indirect (type $wide) (i64.const 0x12345) (i64.const 0x0ff0f0) (local.get 0)))
          (func (export "constant") (result i32 i32 i32 i64)
            (call_indirect (type $bits) (i32.const 0x12345) (i32.const 0x0ff0f0) (i32.const 1))
            (call_indirect (type $bits) (i32.const 0x12345) (i32.const 0x0ff0f0) (i32.const 2))
            (call_indirect (type $bits) (i32.const 0x12345) (i32.const 0x0ff0f0) (i32.const 3))
            (call_indirect (type $wide) (i64.const 0x12345) (i64.const 0x0ff0f0) (i32.const 4)))
          (export "t" ({EXPORT} 0)))"#
    );
    for options in options() {
        let mut calls = vec![("constant", vec![])];
        for at in 0..7 {
            calls.push(("bits", vec![Value::I32(at)]));
            calls.push(("wide", vec![Value::I32(at)]));
        }
        let returned = alike(&text, &options, &calls);
        assert_eq!(returned.iter().filter(|is_ok| **is_ok).count(), 1 + 4);
    }
}

#[test]
fn multiplications_are_called_through_known_tables() {
    let text = MULTIPLY.trim_end().strip_suffix(')').expect("a module");
    let text = text.replace("(memory (export \"memory\") 1)", "(memory 1)");
    let text = text.split_once("(module").expect("a module").1;
    for others in ["", "$other"] {
        let text = format!(
            r#"(module {text} (type $m (func (param i32 i64 i64)))
              (func $other (type $m) (i64.store (local.get 0) (local.get 1)))
              (table 4 funcref) (elem (i32.const 1) func $multiply {others})
              (func (export "run") (param i32 i32) (call_indirect (type $m)
                (local.get 1) (i64.const 0x123456789abcdef) (i64.const 0xfedcba9876543210) (local.get 0)))
              (func (export "constant") (param i32) (call_indirect (type $m)
                (local.get 0) (i64.const 0x123456789abcdef) (i64.const 0xfedcba9876543210) (i32.const 1)))
              (export "t" ({EXPORT} 0)))"#
        );
        for options in options() {
            let mut calls = vec![("constant", vec![Value::I32(3)])];
            for at in 0..4 {
                calls.push(("run", [at, 9].map(Value::I32).to_vec()));
            }
            alike(&text, &options, &calls);
        }
    }
}

/// A section of a module, with fewer than 128 bytes of content.
fn section(id: u8, contents: &[u8]) -> Vec<u8> {
    [&[id, contents.len() as u8], contents].concat()
}

/// A module with two tables of three elements. Their functions return 7 and 8, in opposite order in
/// the second table. A third function makes the given call at its parameter, and a fourth has the
/// given body.
fn binary(call: &[u8], body: &[u8]) -> Vec<u8> {
    let body = [&[0], body, &[0x0b]].concat();
    let call = [&[0, 0x20, 0][..], call, &[0x0b]].concat();
    let bodies: [&[u8]; 4] = [&[0, 0x41, 7, 0x0b], &[0, 0x41, 8, 0x0b], &call, &body];
    let bodies = bodies
        .map(|body| [&[body.len() as u8], body].concat())
        .concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(
            1,
            &[3, 0x60, 0, 1, 0x7f, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 0, 0],
        ),
        section(3, &[4, 0, 0, 1, 2]),
        section(4, &[2, 0x70, 0, 3, 0x70, 0, 3]),
        section(7, &[1, 3, b'r', b'u', b'n', 0, 2]),
        section(
            9,
            &[
                3, 0, 0x41, 1, 0x0b, 2, 0, 1, 2, 1, 0x41, 1, 0x0b, 0, 2, 1, 0, 1, 0, 1, 1,
            ],
        ),
        section(10, &[&[4], &bodies[..]].concat()),
    ]
    .concat()
}

/// LEB128 numbers with more bytes than needed: every reader must decode them alike.
#[test]
fn overlong_encodings_of_operators_are_equal() {
    let listing = |wasm: &[u8]| {
        let options = Options::default();
        let listing = Compilation::new(&options).emit(Emit::Asm).run(wasm)?;
        Ok::<_, pirn_compiler::CompileError>(String::from_utf8(listing.bytes).expect("text"))
    };
    let region = region();
    for (call, table) in [
        (&[0x11, 0, 0][..], 0),
        (&[0x11, 0x80, 0, 0x80, 0x80, 0], 0),
        (&[0x11, 0, 1], 1),
        (&[0x11, 0, 0x81, 0x80, 0x80, 0x80, 0], 1),
    ] {
        let wasm = binary(call, &[]);
        let text = listing(&wasm).expect("it is valid");
        assert!(text.contains(&format!("-> table {table}")), "{call:x?}");
        let module = common::open(&wasm).expect("it is valid");
        let prepared = region.prepare(&module, &Linker::new()).expect("it fits");
        let mut instance = prepared.instantiate(()).expect("a slot");
        let mut run = |at| instance.call_values("run", &[Value::I32(at)]);
        let wanted = [[7, 8], [8, 7]][table];
        for (at, wanted) in (1..).zip(wanted) {
            assert_eq!(
                run(at).expect("it returns"),
                [Value::I32(wanted)],
                "{call:x?}"
            );
        }
        for (at, code) in [
            (0, TrapCode::UninitializedElement),
            (3, TrapCode::UndefinedElement),
        ] {
            assert_eq!(super::outcome(run(at)).expect_err("it traps").0, code);
        }
    }
    // Operands: zeros, or nulls as references to no function.
    let null = [0xd0, 0x70];
    let [zero, zeros] = [&[0x41, 0][..], &[0x41, 0, 0x41, 0, 0x41, 0]];
    let writes: [(&[u8], Vec<u8>); 12] = [
        (&[0x26, 0], [zero, &null].concat()),
        (&[0x26, 0x81, 0x80, 0], [zero, &null].concat()),
        (&[0xfc, 0x0c, 2, 0], zeros.to_vec()),
        (&[0xfc, 0x8c, 0, 2, 0], zeros.to_vec()),
        (
            &[0xfc, 0x8c, 0x80, 0x80, 0x80, 0, 0x82, 0, 0x80, 0],
            zeros.to_vec(),
        ),
        (&[0xfc, 0x0e, 0, 1], zeros.to_vec()),
        (&[0xfc, 0x8e, 0x80, 0, 0x80, 0, 0x81, 0], zeros.to_vec()),
        (&[0xfc, 0x0f, 0, 0x1a], [&null, zero].concat()),
        (&[0xfc, 0x8f, 0, 0x80, 0, 0x1a], [&null, zero].concat()),
        (&[0xfc, 0x11, 1], [zero, &null, zero].concat()),
        (
            &[0xfc, 0x91, 0x80, 0x80, 0, 1],
            [zero, &null, zero].concat(),
        ),
        // The write is in unreachable code.
        (&[0xfc, 0x8c, 0, 2, 0, 0x00], [&[0x00][..], zeros].concat()),
    ];
    for (write, operands) in writes {
        let text = listing(&binary(&[0x11, 0, 0], &[&operands[..], write].concat()));
        let text = text.unwrap_or_else(|error| panic!("{write:x?}: {error}"));
        assert!(!text.contains("-> table"), "{write:x?}");
    }
    // Numbers with too many bytes, and bodies that continue past their end.
    for body in [
        &[
            0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x8c, 0x80, 0x80, 0x80, 0x80, 0, 2, 0,
        ][..],
        &[0x0b, 0x41, 0, 0xd0, 0x70, 0x26, 0],
        &[0x0b, 0x01],
        &[0x02],
        &[0x0e, 0xff, 0xff, 0xff, 0xff, 0x0f],
    ] {
        listing(&binary(&[0x11, 0, 0], body)).expect_err("it is not valid");
    }
}
