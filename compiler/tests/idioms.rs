//! Idiom recognition: the compiler replaces known implementations of a multiplication by
//! instructions. It must recognise these functions, and no function with another result.

use crate::common::emit;
use pirn_compiler::{Emit, Options, parse_text};

const TEXTS: [&str; 4] = [
    include_str!("multiply/digits.wat"),
    include_str!("multiply/carries.wat"),
    include_str!("multiply/digits-narrow.wat"),
    include_str!("multiply/carries-narrow.wat"),
];

/// Number of functions in a text that call the first one.
fn callers(text: &str) -> usize {
    text.matches("(call $multiply").count()
}

/// Number of functions in the compiled module that still call the first one.
fn calls(text: &str, options: &Options) -> usize {
    let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
    let clif = emit(&wasm, options, Emit::Clif).expect("the module is valid");
    let clif = String::from_utf8(clif).expect("it is text");
    let functions = clif.split(";; ");
    functions
        .filter(|text| text.contains("colocated u0:0 "))
        .count()
}

#[test]
fn known_multiplications_are_recognised() {
    let options = Options::default();
    for text in TEXTS {
        assert_eq!(calls(text, &options), 0);
        // Changes that keep the product: the order of operands, and the roles of the factors.
        let swapped = text
            .replace("$a", "$x")
            .replace("$b", "$a")
            .replace("$x", "$b");
        assert_eq!(calls(&swapped, &options), 0);
        // The address type may change together with the memory's type. With another type the module
        // is invalid.
        let wide = text.replace("$to i32", "$to i64");
        let wide = wide.replace("\"memory\") 1)", "\"memory\") i64 1)");
        assert_ne!(wide, text);
        assert_eq!(calls(&wide, &options), 0);
    }
}

/// The function would be recognised, but its address has another type than the memory's addresses.
/// The validator must refuse it.
#[test]
fn an_address_of_another_type_is_a_validation_error() {
    for text in TEXTS {
        for wrong in [
            text.replace("$to i32", "$to i64"),
            text.replace("\"memory\") 1)", "\"memory\") i64 1)"),
        ] {
            let wasm = parse_text(wrong.as_bytes()).expect("the text is well-formed");
            let result = pirn_compiler::compile(&wasm, &Options::default());
            let error = result.expect_err("it is not valid").to_string();
            assert!(error.contains("type mismatch"), "{error}");
        }
    }
}

#[test]
fn multiplications_are_not_replaced_if_fuel_is_counted() {
    let mut options = Options::default();
    options.fuel = true;
    for text in TEXTS {
        assert_eq!(calls(text, &options), callers(text));
    }
}

/// Replaces tokens of the body by valid tokens with another meaning. The compiler must then call
/// the function.
#[test]
fn functions_with_another_result_are_not_recognised() {
    let others = [
        ("0xffffffff", "0xfffffffe"),
        ("const 32", "const 31"),
        ("const 32", "const 96"),
        ("i64.shr_u", "i64.shr_s"),
        ("i64.shr_u", "i64.rotr"),
        ("i64.mul", "i64.add"),
        ("i64.add", "i64.sub"),
        ("i64.add", "i64.or"),
        ("i64.and", "i64.or"),
        ("i64.or", "i64.add"),
        ("i64.lt_u", "i64.le_u"),
        ("i64.lt_u", "i64.gt_u"),
        ("i64.gt_u", "i64.gt_s"),
        ("extend_i32_u", "extend_i32_s"),
        ("offset=8", "offset=4"),
        ("offset=8 ", ""),
        ("i64.store ", "i64.store16 "),
        (
            "(i64.store ",
            "(drop (i64.load (local.get $to))) (i64.store ",
        ),
        ("local.get $a)", "local.get $b)"),
        ("local.get $b)", "local.get $a)"),
        ("local.get $a_high)", "local.get $a)"),
        ("local.get $b_high)", "local.get $a_high)"),
        ("local.get $low)", "local.get $middle)"),
        ("local.get $middle)", "local.get $low)"),
    ];
    let options = Options::default();
    let mut tried = 0;
    for text in TEXTS {
        let start = text.find("(local $").expect("the body begins");
        let end = text
            .find("(func (export \"called\")")
            .expect("the body ends");
        for (one, other) in others {
            for (at, _) in text[start..end].match_indices(one) {
                let at = start + at;
                let changed = [&text[..at], other, &text[at + one.len()..]].concat();
                tried += 1;
                assert_eq!(
                    calls(&changed, &options),
                    callers(text),
                    "{one} is {other} in {changed}"
                );
            }
        }
    }
    assert!(tried > 100, "{tried} were tried");
}

#[test]
fn doubling_sums_are_searched_in_linear_time() {
    let doubled = "local.get 1 local.get 1 i64.add local.set 1 ".repeat(50);
    let text = format!(
        "(module (memory 1) (func (param i32 i64 i64 i64 i64) {doubled})
           (func (export \"called\") (call 0 (i32.const 0) (i64.const 1) (i64.const 2)
             (i64.const 3) (i64.const 4))))"
    );
    assert_eq!(calls(&text, &Options::default()), 1);
}
