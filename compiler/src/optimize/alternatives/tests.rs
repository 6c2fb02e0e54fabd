//! Tests which of two code versions is selected.

use super::*;
use crate::symbol::Symbol;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{InstBuilder, types};

fn function(bytes: usize) -> Option<CompiledFunction> {
    let mut function = CompiledFunction::new(Symbol::Func(0));
    function.code = vec![0; bytes];
    Some(function)
}

#[test]
fn the_other_version_is_kept_only_if_it_is_small_enough() {
    for (first, other, taken) in [
        (1000, 969, 969),
        (1000, 970, 1000),
        (1177, 1140, 1140),
        (1177, 1141, 1177),
        (199, 192, 192),
        (199, 193, 199),
        (50, 47, 47),
    ] {
        let found =
            smaller(function(first), function(other), 97).map(|function| function.code.len());
        assert_eq!(found, Some(taken), "{first} and {other}");
    }
}

#[test]
fn a_missing_version_is_never_kept() {
    let len = |function: Option<CompiledFunction>| function.map(|function| function.code.len());
    assert_eq!(len(smaller(None, function(9), 97)), Some(9));
    assert_eq!(len(smaller(function(9), None, 97)), Some(9));
    assert_eq!(len(smaller(None, None, 97)), None);
}

#[test]
fn a_function_with_a_long_block_has_alternatives_unless_it_is_huge() {
    for (instructions, is_tried) in [
        (TRIED_INSTRUCTIONS - 1, false),
        (TRIED_INSTRUCTIONS, true),
        (TRIED_INSTRUCTIONS_MAX, true),
        (TRIED_INSTRUCTIONS_MAX + 1, false),
    ] {
        let mut func = Function::new();
        let block = func.dfg.make_block();
        func.layout.append_block(block);
        let mut cursor = FuncCursor::new(&mut func).at_bottom(block);
        for number in 0..instructions {
            cursor.ins().iconst(types::I64, number as i64);
        }
        assert_eq!(has_alternatives(&func), is_tried, "{instructions}");
    }
}

#[test]
fn only_a_crowded_function_gets_another_order() {
    assert!(is_crowded(16_000, 1000));
    assert!(!is_crowded(15_999, 1000));
}

#[test]
fn a_function_that_the_optimiser_halved_is_compiled_again_only_if_it_spills() {
    let tried = |left, bytes| may_be_smaller(Arch::X86_64, 1000, left, &function(bytes));
    assert!(!tried(500, 2750));
    assert!(tried(501, 2750));
    assert!(tried(500, 2751));
    // The size is unknown.
    assert!(may_be_smaller(Arch::X86_64, 1000, 100, &None));
    let tried = |left| may_be_smaller(Arch::Aarch64, 1000, left, &function(9));
    assert!(!tried(620));
    assert!(tried(621));
}
