//! What loops compute again in each turn: constants in registers.

mod common;

use pirn_compiler::{Options, Pass};
use pirn_format::cpu::Arch;

/// The instructions of a function with three parameters and a memory, with a pass or without.
fn listed(arch: Arch, body: &str, without: Option<Pass>) -> Vec<String> {
    let mut options = Options::new(arch);
    if let Some(pass) = without {
        options.passes = options.passes.without(pass);
    }
    let text = format!(
        "(module (memory 1) (func (export \"run\") (param i32 i32 i32) (result i32)
           (local $x i32) {body}))"
    );
    common::first_function(&text, &options)
}

#[test]
fn a_stored_byte_that_is_a_constant_is_an_immediate() {
    for (store, instruction) in [
        ("i32.store8 (local.get 0) (i32.const 257)", "movb $0x1, "),
        ("i32.store8 (local.get 0) (i32.const -1)", "movb $0xff, "),
        (
            "i32.store16 (local.get 0) (i32.const 65535)",
            "movw $0xffff, ",
        ),
        ("i64.store8 (local.get 0) (i64.const 7)", "movb $0x7, "),
        (
            "i64.store32 (local.get 0) (i64.const -2)",
            "movl $0xfffffffe, ",
        ),
    ] {
        let found = listed(Arch::X86_64, &format!("({store}) (local.get 0)"), None);
        let is_there = found.iter().any(|each| each.starts_with(instruction));
        assert!(is_there, "{instruction}: {found:?}");
    }
}
