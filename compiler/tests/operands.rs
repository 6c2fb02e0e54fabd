//! A two-address instruction overwrites an operand. If that operand is used later, the compiler
//! should choose operands or an instruction that need no copy.

use crate::common;

use pirn_compiler::Options;
use pirn_format::cpu::Arch;

/// The instructions of a function with parameters `$a` and `$b`, without its frame.
fn listed(ty: &str, body: &str) -> Vec<String> {
    let text = format!(
        "(module (func (export \"run\") (param $a {ty}) (param $b {ty}) (result {ty})
           (local $x {ty}) {body}))"
    );
    let mut found = common::first_function(&text, &Options::new(Arch::X86_64));
    found.retain(|instruction| !instruction.contains("%rbp"));
    found
}

#[test]
fn operands_of_commutative_operators_may_be_swapped_at_no_cost() {
    for ty in ["i32", "i64"] {
        for op in ["add", "and", "or", "xor", "mul"] {
            let [first, last] = ["$a) (local.get $b", "$b) (local.get $a"].map(|operands| {
                let body = format!(
                    "(local.set $b ({ty}.shl (local.get $b) (local.get $a)))
                     (local.set $x ({ty}.{op} (local.get {operands})))
                     ({ty}.sub (local.get $a) ({ty}.rotl (local.get $x) ({ty}.const 7)))"
                );
                listed(ty, &body)
            });
            assert_eq!(first.len(), last.len(), "{ty}.{op}: {first:?} and {last:?}");
        }
    }
}

/// A function that computes `something` from `$a`, and uses `$a` later.
fn of_what_stays(ty: &str, something: &str) -> Vec<String> {
    let body = format!(
        "(local.set $x ({ty}.mul {something} (local.get $b)))
         ({ty}.mul (local.get $x) ({ty}.sub (local.get $a) (local.get $b)))"
    );
    listed(ty, &body)
}

#[test]
fn byte_extensions_and_subtractions_of_constants_need_no_copy() {
    for (ty, something, instruction) in [
        ("i32", "(i32.and (local.get $a) (i32.const 255))", "movzbl"),
        (
            "i32",
            "(i32.and (local.get $a) (i32.const 65535))",
            "movzwl",
        ),
        (
            "i32",
            "(i32.add (local.get $a) (i32.const -7))",
            "lea -0x7(",
        ),
        ("i32", "(i32.sub (local.get $a) (i32.const 7))", "lea -0x7("),
        ("i64", "(i64.and (local.get $a) (i64.const 255))", "movzb"),
        ("i64", "(i64.and (local.get $a) (i64.const 65535))", "movzw"),
        (
            "i64",
            "(i64.add (local.get $a) (i64.const -7))",
            "lea -0x7(",
        ),
    ] {
        let found = of_what_stays(ty, something);
        let count = found.iter().filter(|each| each.starts_with(instruction));
        assert_eq!(count.count(), 1, "{something}: {found:?}");
        // The instruction under test, two products, a difference, the return, and one copy. The
        // copy is of the difference's operand, or of the result.
        assert!(found.len() <= 6, "{something}: {found:?}");
    }
}

#[test]
fn masked_bits_that_are_only_tested_are_not_extracted() {
    let found = listed(
        "i32",
        "(if (i32.and (local.get $a) (i32.const 255)) (then (local.set $b (i32.const 9)))) (local.get $b)",
    );
    let is_test = |each: &&String| each.starts_with("test");
    assert_eq!(found.iter().filter(is_test).count(), 1, "{found:?}");
    assert!(
        !found.iter().any(|each| each.starts_with("movz")),
        "{found:?}"
    );
}

#[test]
fn bytes_compared_with_a_value_are_extracted_without_a_copy() {
    let found = listed(
        "i32",
        "(if (i32.eq (i32.and (local.get $a) (i32.const 255)) (local.get $b))
           (then (return (i32.const 9)))) (local.get $a)",
    );
    let count = |name: &str| found.iter().filter(|each| each.starts_with(name)).count();
    assert_eq!([count("movz"), count("and")], [1, 0], "{found:?}");
}

#[test]
fn multiplications_by_three_five_and_nine_are_lea() {
    for ty in ["i32", "i64"] {
        for (factor, instruction) in [(3, ",2)"), (5, ",4)"), (9, ",8)")] {
            for body in [
                format!("({ty}.mul (local.get $a) ({ty}.const {factor}))"),
                format!("({ty}.mul ({ty}.const {factor}) (local.get $a))"),
            ] {
                let found = listed(ty, &body);
                let is_sum = |each: &&String| each.starts_with("lea") && each.contains(instruction);
                assert_eq!(found.iter().filter(is_sum).count(), 1, "{body}: {found:?}");
                assert!(
                    !found.iter().any(|each| each.starts_with("imul")),
                    "{found:?}"
                );
            }
        }
        let found = listed(ty, &format!("({ty}.mul (local.get $a) ({ty}.const 7))"));
        assert!(
            found.iter().any(|each| each.starts_with("imul")),
            "{found:?}"
        );
    }
}

/// The instructions of a function with a memory. Parameters: the address `$p`, and `$a` and `$b`.
fn with_memory(ty: &str, body: &str) -> Vec<String> {
    let text = format!(
        "(module (memory 1)
           (func (export \"run\") (param $p i32) (param $a {ty}) (param $b {ty}) (result {ty})
             (local $x {ty}) {body}))"
    );
    common::first_function(&text, &Options::new(Arch::X86_64))
}

/// Whether exactly one instruction with this operator has its operand in the guest's memory.
fn has_operand_in_memory(found: &[String], operator: &str) -> bool {
    let is = |each: &&String| each.starts_with(operator) && each.contains(" 0x8(%rdi,");
    found.iter().filter(is).count() == 1
}

/// A load becomes a memory operand also if the operator's result has several uses.
#[test]
fn a_load_is_an_operand_of_an_operator_with_several_uses() {
    for ty in ["i32", "i64"] {
        for op in ["add", "sub", "and", "or", "xor", "mul"] {
            let operator = op.replace("mul", "imul");
            let load = format!("({ty}.load offset=8 (local.get $p))");
            let used_twice =
                format!("({ty}.mul (local.get $x) ({ty}.rotl (local.get $x) ({ty}.const 7)))");
            let body = format!(
                "(local.set $a ({ty}.rotl (local.get $a) (local.get $b)))
                 (local.set $x ({ty}.{op} (local.get $a) {load})) (return {used_twice})"
            );
            let found = with_memory(ty, &body);
            assert!(
                has_operand_in_memory(&found, &operator),
                "{ty}.{op}: {found:?}"
            );
            // Another load follows, which the optimiser moves before the operator.
            let body = format!(
                "(local.set $x ({ty}.{op} (local.get $a) {load}))
                 (local.set $b ({ty}.load offset=64 (local.get $p)))
                 (return ({ty}.sub {used_twice} (local.get $b)))"
            );
            let found = with_memory(ty, &body);
            assert!(
                has_operand_in_memory(&found, &operator),
                "{ty}.{op}: {found:?}"
            );
            // A load before a store stays before it.
            let body = format!(
                "(local.set $x {load})
                 ({ty}.store (local.get $p) (local.get $b))
                 (local.set $x ({ty}.{op} ({ty}.rotl (local.get $a) (local.get $b)) (local.get $x)))
                 (return {used_twice})"
            );
            let found = with_memory(ty, &body);
            let at = |what: &str| found.iter().position(|each| each.contains(what));
            let (load, store) = (at("0x8(%rdi,"), at(", (%rdi,"));
            assert!(load.is_some() && load < store, "{ty}.{op}: {found:?}");
        }
    }
}
