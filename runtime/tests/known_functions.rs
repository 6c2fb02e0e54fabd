//! Imports that one operator computes have the results that Java defines: at edges, on random
//! operands, called directly, by a tail call, by table, by reference and by the host.

use crate::common;

use common::random::Random;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{Linker, Module, Region, Value};

const ROUNDS: u32 = 500;

/// The result of Java's `Math.sqrt`, `floor` or `ceil`.
fn model(name: &str, operand: f64) -> f64 {
    match name {
        "sqrt" => operand.sqrt(),
        "floor" => operand.floor(),
        "ceil" => operand.ceil(),
        _ => unreachable!("no other function is known"),
    }
}

/// What the specification of `java.lang.Math` says of special operands, and the nearest others.
const EDGES: [(&str, f64, f64); 36] = [
    ("sqrt", 0.0, 0.0),
    ("sqrt", -0.0, -0.0),
    ("sqrt", f64::INFINITY, f64::INFINITY),
    ("sqrt", f64::NEG_INFINITY, f64::NAN),
    ("sqrt", f64::NAN, f64::NAN),
    ("sqrt", -1.0, f64::NAN),
    ("sqrt", -5e-324, f64::NAN),
    ("sqrt", 4.0, 2.0),
    ("sqrt", 2.0, std::f64::consts::SQRT_2),
    ("sqrt", 5e-324, 2.2227587494850775e-162),
    ("sqrt", f64::MAX, 1.3407807929942596e154),
    ("floor", 0.0, 0.0),
    ("floor", -0.0, -0.0),
    ("floor", f64::INFINITY, f64::INFINITY),
    ("floor", f64::NEG_INFINITY, f64::NEG_INFINITY),
    ("floor", f64::NAN, f64::NAN),
    ("floor", 0.5, 0.0),
    ("floor", -0.5, -1.0),
    ("floor", -5e-324, -1.0),
    ("floor", 2.9999999999999996, 2.0),
    ("floor", -2.0000000000000004, -3.0),
    ("floor", 4503599627370495.5, 4503599627370495.0),
    ("floor", 9007199254740993.0, 9007199254740992.0),
    ("floor", f64::MIN, f64::MIN),
    ("ceil", 0.0, 0.0),
    ("ceil", -0.0, -0.0),
    ("ceil", f64::INFINITY, f64::INFINITY),
    ("ceil", f64::NEG_INFINITY, f64::NEG_INFINITY),
    ("ceil", f64::NAN, f64::NAN),
    // Less than zero and greater than -1: negative zero.
    ("ceil", -0.5, -0.0),
    ("ceil", -5e-324, -0.0),
    ("ceil", -0.9999999999999999, -0.0),
    ("ceil", 5e-324, 1.0),
    ("ceil", -2.5, -2.0),
    ("ceil", -4503599627370495.5, -4503599627370495.0),
    ("ceil", f64::MAX, f64::MAX),
];

fn is_same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn results_are_those_of_java() {
    for (name, operand, result) in EDGES {
        assert!(is_same(model(name, operand), result), "{name} {operand}");
    }
    for name in ["sqrt", "floor", "ceil"] {
        let text = format!(
            r#"(module
              (import "teavmMath" "{name}" (func $known (param f64) (result f64)))
              (type $ty (func (param f64) (result f64)))
              (table 1 funcref) (elem (i32.const 0) func $known)
              (func (export "direct") (param f64) (result f64) (call $known (local.get 0)))
              (func (export "tail") (param f64) (result f64) (return_call $known (local.get 0)))
              (func (export "table") (param f64) (result f64)
                (call_indirect (type $ty) (local.get 0) (i32.const 0)))
              (func (export "reference") (param f64) (result f64)
                (call_ref $ty (local.get 0) (ref.func $known)))
              (export "host" (func $known)))"#
        );
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
        let mut levels = vec![];
        for (opt_level, fuel) in [
            (OptLevel::None, false),
            (OptLevel::Speed, false),
            (OptLevel::Speed, true),
        ] {
            let mut options = Options::default();
            options.opt_level = opt_level;
            options.fuel = fuel;
            levels.push(pirn_compiler::compile(&wasm, &options).expect("it is valid"));
        }
        for so in levels {
            let module = Module::from_bytes(&so).expect("it opens");
            let region = Region::builder().slots(1).build().expect("a region");
            // Nothing is linked: the module imports nothing.
            let prepared = region.prepare(&module, &Linker::new()).expect("it links");
            let mut instance = prepared.instantiate(()).expect("a slot");
            let mut random = Random(26);
            let edges = EDGES.iter().map(|(_, operand, _)| *operand);
            let mut operands: Vec<f64> = edges.collect();
            for _ in 0..ROUNDS {
                operands.push(f64::from_bits(random.u64()));
                operands.push(f64::from(random.u64() as i32 >> 8) / 8.0);
            }
            for operand in operands {
                for export in ["direct", "tail", "table", "reference", "host"] {
                    let results = instance.call_values(export, &[Value::F64(operand.to_bits())]);
                    let [Value::F64(bits)] = results.expect("it returns")[..] else {
                        panic!("{name} has another result");
                    };
                    let (found, expected) = (f64::from_bits(bits), model(name, operand));
                    assert!(
                        is_same(found, expected),
                        "{name}({operand:?}) by {export}: {found:?}, not {expected:?}"
                    );
                }
            }
        }
    }
}

/// An import of another type is the host's, and its absence is one line.
#[test]
fn another_type_is_an_import_of_the_host() {
    let text = r#"(module (import "teavmMath" "sqrt" (func (param f32) (result f32))))"#;
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let so = pirn_compiler::compile(&wasm, &Options::default()).expect("it is valid");
    let module = Module::from_bytes(&so).expect("it opens");
    let region = Region::builder().slots(1).build().expect("a region");
    let error = region.prepare(&module, &Linker::<()>::new());
    let error = error.expect_err("nobody defines it").to_string();
    assert!(error.contains("teavmMath"), "{error}");
    assert!(error.contains("sqrt"), "{error}");
    assert!(!error.contains('\n'), "{error}");
    let mut linker = Linker::<()>::new();
    linker
        .func("teavmMath", "sqrt", |n: f32| n)
        .expect("the name is free");
    region.prepare(&module, &linker).expect("it links");
}
