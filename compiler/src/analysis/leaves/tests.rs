//! Examines small functions: which functions are leaves, and each reason to refuse a function.

use super::*;
use crate::parse;

/// Examines the last function of a module, which has a memory, a table, an import of type `$t`, a
/// tag and a global.
fn examine(function: &str) -> Result<u32, Refusal> {
    let text = format!(
        r#"(module (type $t (func (param i32) (result i32))) (type $s (struct (field i32)))
             (import "a" "b" (func $import (type $t)))
             (memory 1) (memory $wide i64 1) (table 1 funcref) (tag $e)
             (global $g (mut i32) (i32.const 0))
             (func $f {function}))"#
    );
    let wasm = parse::text::parse_text(text.as_bytes()).expect("the text is well-formed");
    let parsed = parse::parse(&wasm).expect("the module is valid");
    let body = parsed.bodies.last().expect("a function");
    leaf(body, &parsed.metadata, &parsed.intrinsics).map(|leaf| leaf.weight)
}

#[test]
fn small_functions_are_leaves() {
    for (function, weight) in [
        ("", 0),
        ("(result i32) (i32.const 5)", 0),
        ("(param i32) (result i32) (i32.load (local.get 0))", 1),
        (
            "(param i64) (i64.store $wide (local.get 0) (local.get 0))",
            1,
        ),
        (
            "(param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1))",
            4,
        ),
        (
            "(param v128) (result v128) (local v128) (i8x16.add (local.get 0) (local.get 1))",
            1,
        ),
        (
            "(param f32) (result i32) (i32.trunc_sat_f32_s (local.get 0))",
            1,
        ),
        (
            "(param i32) (result i32 i32) (local.get 0) (global.get $g)",
            1,
        ),
        (
            "(if (global.get $g) (then (return)) (else (unreachable)))",
            3,
        ),
        ("(block (br_table 0 0 1 (global.get $g)))", 5),
        ("(result i32) (memory.size)", 1),
        // The callee may turn out to be a leaf.
        ("(call $f)", 0),
    ] {
        assert_eq!(examine(function), Ok(weight), "{function}");
    }
}

#[test]
fn other_functions_are_refused() {
    let large = "(drop (i32.load (i32.const 0)))".repeat(WEIGHT_MAX as usize + 1);
    let long = "(drop (i64.const 0x7fffffffffffffff))".repeat(12);
    for (function, refusal) in [
        (&*large, Refusal::Weight),
        (&long, Refusal::Bytes),
        (
            "(local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)",
            Refusal::Values,
        ),
        ("(local externref)", Refusal::Reference),
        ("(param funcref)", Refusal::Reference),
        ("(result (ref null $s)) (unreachable)", Refusal::Reference),
        ("(drop (i32.const 1) (block (type $t)))", Refusal::BlockType),
        ("(loop)", Refusal::Loop),
        (
            "(drop (call_indirect (type $t) (i32.const 1) (i32.const 0)))",
            Refusal::Call,
        ),
        ("(return_call $f)", Refusal::Call),
        ("(call_ref $t (unreachable)) (unreachable)", Refusal::Call),
        ("(drop (call $import (i32.const 1)))", Refusal::Import),
        ("(drop (memory.grow (i32.const 1)))", Refusal::Operator),
        (
            "(memory.fill (i32.const 1) (i32.const 1) (i32.const 1))",
            Refusal::Operator,
        ),
        (
            "(memory.copy (i32.const 1) (i32.const 1) (i32.const 1))",
            Refusal::Operator,
        ),
        ("(drop (i32.atomic.load (i32.const 4)))", Refusal::Operator),
        (
            "(drop (memory.atomic.notify (i32.const 4) (i32.const 1)))",
            Refusal::Operator,
        ),
        ("(throw $e)", Refusal::Operator),
        ("(try_table)", Refusal::Operator),
        ("(drop (table.get (i32.const 0)))", Refusal::Operator),
        ("(drop (ref.null func))", Refusal::Operator),
        (
            "(drop (struct.get $s 0 (struct.new $s (i32.const 1))))",
            Refusal::Operator,
        ),
    ] {
        assert_eq!(examine(function), Err(refusal), "{function}");
    }
}

/// Each inlined call reads the hints, and no other limit bounds their number.
#[test]
fn a_function_with_more_hints_than_operators_is_refused() {
    let wasm = parse::text::parse_text(b"(module (func (nop)))").expect("the text is well-formed");
    let parsed = parse::parse(&wasm).expect("the module is valid");
    let mut body = parsed.bodies.into_iter().next().expect("a function");
    // The count, then each hint: offset, size and direction.
    let sections: [(&[u8], _); 2] = [
        (&[2, 1, 1, 0, 1, 1, 0], None),
        (&[3, 1, 1, 0, 1, 1, 0, 1, 1, 0], Some(Refusal::Hints)),
    ];
    for (section, refusal) in sections {
        let reader = wasmparser::BinaryReader::new(section, 0);
        body.hints = Some(SectionLimited::new(reader).expect("the section has a count"));
        let found = leaf(&body, &parsed.metadata, &parsed.intrinsics);
        assert_eq!(found.err(), refusal, "{section:?}");
    }
}

/// The leaves of a module, by index.
fn found(text: &str) -> Vec<u32> {
    let wasm = parse::text::parse_text(text.as_bytes()).expect("the text is well-formed");
    let parsed = parse::parse(&wasm).expect("the sections are valid");
    let leaves = Leaves::find(&parsed.bodies, &parsed.metadata, &parsed.intrinsics);
    let mut indices: Vec<u32> = leaves.0.keys().copied().collect();
    indices.sort_unstable();
    indices
}

#[test]
fn leaves_of_leaves_have_a_depth_and_a_size() {
    let chain =
        "(module (func $a) (func (call $a)) (func (call 1)) (func (call 2)) (func (call 3)))";
    assert_eq!(found(chain), (0..DEPTH_MAX).collect::<Vec<_>>());
    let recursive = "(module (func $a (call $b)) (func $b (call $a)) (func $c (call $c)))";
    assert!(found(recursive).is_empty());
    let loads = "(drop (i32.load (i32.const 0)))".repeat(WEIGHT_MAX as usize / 2);
    let sizes = format!(
        "(module (memory 1) (func $a {loads}) (func (call $a) (call $a)) (func (call $a) {loads})
           (func (call $a) (call $a) (drop (global.get 0))) (global i32 (i32.const 0)))"
    );
    assert_eq!(found(&sizes), [0, 1, 2]);
}

/// The validator makes the last check.
#[test]
fn invalid_functions_are_no_leaves() {
    let invalid =
        "(module (func $a (result i32) (i64.const 1)) (func $b (result i32) (i32.const 1)))";
    assert_eq!(found(invalid), [1]);
    assert!(found("(module (func (local.get 5) (drop)))").is_empty());
    assert!(found("(module (func (i32.load (i32.const 1)) (drop)))").is_empty());
}
