//! Calls by a table: its size is a constant where it is one.

mod common;

use pirn_compiler::Options;
use pirn_format::cpu::Arch;

/// How often a function that calls by an index compares with the constant 1,234.
fn compared(table: &str, arch: Arch) -> usize {
    let text = format!(
        r#"(module {table}
             (func (export "run") (param i32) (result i32) (call_indirect (result i32) (local.get 0))))"#
    );
    let listing = common::listing(&text, &Options::new(arch));
    let function = listing.split("\n\n").next().expect("a function");
    let constant = match arch {
        Arch::X86_64 => "cmp $0x4d2,",
        Arch::Aarch64 => ", #0x4d2",
    };
    common::instructions(function)
        .filter(|text| text.contains(constant))
        .count()
}

#[test]
fn a_table_that_cannot_grow_has_a_constant_size() {
    for arch in Arch::ALL {
        assert!(compared("(table 1234 1234 funcref)", arch) > 0, "{arch}");
        for other in [
            "(table 1234 funcref)",
            "(table 1234 1235 funcref)",
            r#"(import "a" "b" (table 1234 1234 funcref))"#,
        ] {
            assert_eq!(compared(other, arch), 0, "{arch}: {other}");
        }
    }
}
