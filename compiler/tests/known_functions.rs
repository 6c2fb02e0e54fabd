//! Imports that one operator computes: the operator is at each call, and the module does not import
//! them. Imports that differ in module, name or type stay imports.

use crate::common::emit;
use pirn_compiler::{Emit, OptLevel, Options, compile, parse_text};
use pirn_format::cpu::Arch;
use pirn_format::read::Checked;

fn imports(text: &str, options: &Options) -> Vec<(String, String)> {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let so = compile(&wasm, options).expect("it is valid");
    let metadata = Checked::new(&so).expect("it is sound").metadata;
    let imports = metadata.imports.iter();
    imports
        .map(|import| (import.module.clone(), import.name.clone()))
        .collect()
}

/// The lines of the listing of one function.
fn listing(text: &str, options: &Options, name: &str) -> Vec<String> {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let listing = emit(&wasm, options, Emit::Asm).expect("it is valid");
    let listing = String::from_utf8(listing).expect("it is text");
    let (_, rest) = listing
        .split_once(&format!("({name}):"))
        .expect("the function is listed");
    let lines = rest.lines().take_while(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn a_call_is_an_instruction() {
    let known = [
        ("sqrt", "sqrtsd", "fsqrt"),
        ("floor", "roundsd", "frintm"),
        ("ceil", "roundsd", "frintp"),
    ];
    for (name, x86_64, aarch64) in known {
        let text = format!(
            r#"(module
              (import "a" "f" (func $f))
              (import "teavmMath" "{name}" (func $known (param f64) (result f64)))
              (import "a" "g" (func $g))
              (func $direct (export "direct") (param f64) (result f64)
                (call $known (local.get 0)))
              (func $tail (export "tail") (param f64) (result f64)
                (return_call $known (local.get 0))))"#
        );
        for (arch, instruction) in [(Arch::X86_64, x86_64), (Arch::Aarch64, aarch64)] {
            for level in [OptLevel::None, OptLevel::Speed] {
                let mut options = Options::new(arch);
                options.opt_level = level;
                let left = imports(&text, &options);
                let left: Vec<_> = left.iter().map(|(_, name)| &name[..]).collect();
                assert_eq!(left, ["f", "g"], "{name} {arch:?} {level:?}");
                for func in ["direct", "tail"] {
                    let lines = listing(&text, &options, func);
                    let count = |part: &str| lines.iter().filter(|l| l.contains(part)).count();
                    assert_eq!(count(instruction), 1, "{name} {func}: {lines:#?}");
                    assert_eq!(count("call"), 0, "{name} {func}: {lines:#?}");
                    assert_eq!(count(": bl"), 0, "{name} {func}: {lines:#?}");
                }
            }
        }
    }
}

#[test]
fn other_modules_names_and_types_stay_imports() {
    let cases = [
        ("teavmMath", "sin", "(func (param f64) (result f64))"),
        ("teavmMath", "pow", "(func (param f64 f64) (result f64))"),
        ("teavmMath", "Sqrt", "(func (param f64) (result f64))"),
        ("teavmMath", "sqrtf", "(func (param f64) (result f64))"),
        ("teavmmath", "sqrt", "(func (param f64) (result f64))"),
        ("env", "sqrt", "(func (param f64) (result f64))"),
        ("", "sqrt", "(func (param f64) (result f64))"),
        ("teavmMath", "sqrt", "(func (param f32) (result f32))"),
        ("teavmMath", "sqrt", "(func (param f64 f64) (result f64))"),
        ("teavmMath", "sqrt", "(func (param f64) (result f64 f64))"),
        ("teavmMath", "sqrt", "(func (param f64))"),
        ("teavmMath", "floor", "(func (result f64))"),
        ("teavmMath", "ceil", "(func (param f64) (result i64))"),
        ("teavmMath", "sqrt", "(global f64)"),
        ("teavmMath", "sqrt", "(memory 1)"),
        ("teavmMath", "sqrt", "(table 1 funcref)"),
        ("teavmMath", "sqrt", "(tag (param f64))"),
    ];
    for (module, name, ty) in cases {
        let text = format!("(module (import \"{module}\" \"{name}\" {ty}))");
        for arch in Arch::ALL {
            let left = imports(&text, &Options::new(arch));
            assert_eq!(left, [(module.to_owned(), name.to_owned())], "{text}");
        }
    }
}

/// A function type that is final, or that has a supertype, is the same type for this purpose.
#[test]
fn the_type_may_have_a_supertype() {
    let text = r#"(module
      (type $open (sub (func (param f64) (result f64))))
      (type $sub (sub final $open (func (param f64) (result f64))))
      (import "teavmMath" "sqrt" (func (type $sub))))"#;
    assert_eq!(imports(text, &Options::new(Arch::X86_64)), []);
}

/// Both kinds of provided functions keep the indices of all others right.
#[test]
fn known_functions_and_intrinsics_share_a_module() {
    let text = r#"(module
      (import "teavmMath" "ceil" (func $ceil (param f64) (result f64)))
      (import "a" "f" (func $f (param i32)))
      (import "hw" "x86.crc32_u8" (func $crc (param i32 i32) (result i32)))
      (import "teavmMath" "sqrt" (func $sqrt (param f64) (result f64)))
      (func $own (export "own") (call $f (i32.const 1)))
      (export "sqrt" (func $sqrt)))"#;
    for arch in Arch::ALL {
        let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
        let so = compile(&wasm, &Options::new(arch)).expect("it is valid");
        let metadata = Checked::new(&so).expect("it is sound").metadata;
        let names = [0, 1, 2, 3, 4].map(|index| metadata.func_name(index).unwrap_or("none"));
        let expected = [
            "f",
            "teavmMath.ceil",
            "hw.x86.crc32_u8",
            "teavmMath.sqrt",
            "own",
        ];
        assert_eq!(names, expected);
    }
}

#[test]
fn imports_of_known_functions_are_limited() {
    let compile = |count: usize| {
        let import = r#"(import "teavmMath" "sqrt" (func (param f64) (result f64)))"#;
        let text = format!("(module {})", import.repeat(count));
        let wasm = parse_text(text.as_bytes()).expect("it is well-formed");
        compile(&wasm, &Options::new(Arch::X86_64)).map_err(|error| error.to_string())
    };
    assert!(compile(1000).is_ok());
    let error = compile(1001).expect_err("too many");
    assert!(
        error.contains("1001 imports of hw or of known functions, the limit is 1000"),
        "{error}"
    );
}
