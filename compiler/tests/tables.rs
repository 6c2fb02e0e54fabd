//! Indirect calls. If a table cannot grow, its size is a constant in the code. If the compiler
//! knows the elements, calls are direct or use a dispatch table in the text. `runtime/tests/known`
//! checks that guests observe no difference.

use crate::common;

use common::emit;
use pirn_compiler::{Emit, Options, compile, parse_text};
use pirn_format::cpu::Arch;
use pirn_testing::campaign::sampled;
use std::collections::HashMap;

/// How often a function with an indirect call compares with the constant 1,234.
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

/// A module with a table of five elements, functions of two types, a call, and more fields.
fn module(call: &str, rest: &str) -> String {
    format!(
        r#"(module
             (import "a" "b" (func $import (param i32) (result i32)))
             (type $many (func (param i32) (result i32))) (type $one (func (result i32)))
             (type $same (func (param i32) (result i32)))
             (table $t 5 funcref) (elem (i32.const 1) func $f $g $h)
             (func (export "run") (param i32) (result i32) {call})
             (func $f (type $many) (local.get 0)) (func $g (type $many) (i32.const 7)) (func $h (type $one) (i32.const 8))
             {rest})"#
    )
}

const MANY: &str = "(call_indirect (type $same) (i32.const 5) (local.get 0))";
const ONE: &str = "(call_indirect (type $one) (local.get 0))";

/// The kinds of calls in a module's first function.
fn ways(text: &str, arch: Arch) -> Vec<&'static str> {
    let mut options = Options::new(arch);
    options.inline = false;
    let listing = common::listing(text, &options);
    let function = listing.split("\n\n").next().expect("a function");
    let (direct, by_register) = match arch {
        Arch::X86_64 => (": call 0x", ": call *"),
        Arch::Aarch64 => (": bl 0x", ": blr x"),
    };
    let has = |what: &str| function.contains(what);
    let is_direct = |line: &str| line.contains(direct) && !line.contains("stub");
    let mut ways = vec![];
    ways.extend(function.lines().any(is_direct).then_some("direct"));
    ways.extend(has(by_register).then_some("by register"));
    ways.extend(has("-> table 0").then_some("array"));
    ways.extend(has("uninitialized element").then_some("null"));
    ways
}

/// Calls through a known table are direct, go through a dispatch table, or trap.
#[test]
fn calls_through_known_tables_are_direct_or_dispatched() {
    for arch in Arch::ALL {
        for (call, found) in [
            (MANY, &["by register", "array"][..]),
            (ONE, &["direct", "array"]),
            (
                "(call_indirect (type $many) (i32.const 5) (i32.const 2))",
                &["direct"],
            ),
            ("(call_indirect (type $one) (i32.const 3))", &["direct"]),
            // These calls trap.
            ("(call_indirect (type $one) (i32.const 2))", &["array"]),
            (
                "(call_indirect (type $many) (i32.const 5) (i32.const 0))",
                &["by register", "array"],
            ),
            (
                "(call_indirect (result i64) (local.get 0)) drop (i32.const 1)",
                &["by register", "null"],
            ),
        ] {
            assert_eq!(ways(&module(call, ""), arch), found, "{arch}: {call}");
        }
    }
}

/// Exports, imports and writes, even unreachable ones, make the content of a table unknown.
#[test]
fn tables_that_may_change_are_unknown() {
    for arch in Arch::ALL {
        for call in [MANY, ONE] {
            for rest in [
                r#"(export "t" (table $t))"#,
                "(elem (i32.const 1) func $import)",
                "(elem (i32.const 4) func $f $f)",
                "(elem (i32.const -1) func $f)",
                "(func (table.set $t (i32.const 0) (ref.null func)))",
                "(func (drop (table.grow $t (ref.null func) (i32.const 0))))",
                "(func (table.fill $t (i32.const 0) (ref.null func) (i32.const 0)))",
                "(func (table.copy $t $t (i32.const 0) (i32.const 0) (i32.const 0)))",
                "(func (table.init $t 0 (i32.const 0) (i32.const 0) (i32.const 0)))",
                "(func (return) (table.set $t (i32.const 0) (ref.null func)))",
                "(table $u 65532 funcref)",
            ] {
                let ways = ways(&module(call, rest), arch);
                assert_eq!(ways, ["by register", "null"], "{arch}: {rest}");
            }
            for rest in [
                "(table $u 65531 funcref)",
                "(elem func $import)",
                "(elem (i32.const 5) func)",
            ] {
                assert!(
                    ways(&module(call, rest), arch).contains(&"array"),
                    "{arch}: {rest}"
                );
            }
        }
    }
}

/// The offset and the items of an element segment may read globals that the module defines.
#[test]
fn globals_of_the_module_are_constants_and_those_of_the_host_are_not() {
    for arch in Arch::ALL {
        for (global, segment, is_known) in [
            ("(i32.const 4)", "(global.get $at) func $f", true),
            ("(i32.const 5)", "(global.get $at) func $f", false),
            ("(i32.const -1)", "(global.get $at) func $f", false),
            ("(global.get $host)", "(global.get $at) func $f", false),
            (
                "(i32.const 3)",
                "(offset (i32.add (global.get $at) (i32.const 1))) func $f",
                true,
            ),
            (
                "(i32.const 0)",
                "(offset (i32.mul (global.get $host) (global.get $at))) func $f",
                false,
            ),
            (
                "(i32.const 4)",
                "(global.get $at) funcref (global.get $fn)",
                true,
            ),
            (
                "(i32.const 4)",
                "(global.get $at) funcref (global.get $hostfn)",
                false,
            ),
        ] {
            let rest = format!(
                "(global $at i32 {global}) (global $fn funcref (ref.func $g)) (elem {segment})"
            );
            let imports = r#"(import "a" "c" (global $host i32))
                (import "a" "d" (global $hostfn funcref)) (type $many"#;
            let text = module(MANY, &rest).replacen("(type $many", imports, 1);
            let found = ways(&text, arch).contains(&"array");
            assert_eq!(found, is_known, "{arch}: {global} {segment}");
        }
    }
}

/// The addresses of dispatch tables in `--emit asm`, for a text of many pages. The test computes
/// the expected addresses itself.
#[test]
fn dispatch_tables_are_at_the_addresses_in_the_code() {
    let functions = 2000;
    let items: String = (0..functions).map(|at| format!(" $f{at}")).collect();
    let funcs = (0..functions).map(|at| {
        format!("(func $f{at} (param i32) (result i32) (call_indirect (param i32) (result i32) (i32.const {at}) (local.get 0)))\n")
    });
    let funcs: String = funcs.collect();
    let text = format!(
        "(module (table {} funcref) (elem (i32.const 1) func {items}) {funcs})",
        functions + 1
    );
    for arch in Arch::ALL {
        let listing = common::listing(&text, &Options::new(arch));
        let (code, array) = listing.split_once(";; table 0\n").expect("an array");
        let array = array.split("\n\n").next().expect("it ends");
        let hex = |text: &str| {
            let digits = text.trim_start_matches(['#', '$']).trim_start_matches("0x");
            u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{text} is a number"))
        };
        let place = |line: &str| hex(line.trim_start().split(':').next().expect("a place"));
        let start = place(array);
        let (mut page, mut uses) = (0, 0);
        for line in code.lines().filter(|line| line.contains("-> table 0")) {
            let text = line
                .split(": ")
                .nth(1)
                .expect("an instruction")
                .split(" ;;")
                .next()
                .expect("it");
            let words: Vec<_> = text
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .collect();
            match words[..] {
                ["lea", target, _] => assert_eq!(hex(target), start, "{line}"),
                ["adrp", _, target] => {
                    page = hex(target);
                    continue;
                }
                ["add", to, from, low] if to == from => {
                    assert_eq!(page + hex(low), start, "{line}");
                }
                _ => panic!("{line}"),
            }
            uses += 1;
        }
        assert_eq!(uses, functions, "{arch}");
        // The start of each function, by its number.
        let pieces = code.split("\n\n").filter_map(|piece| {
            let (title, code) = piece.split_once('\n')?;
            let number = title.strip_prefix(";; ")?.split([':', ' ']).next()?;
            Some((number.to_owned(), place(code)))
        });
        let starts: HashMap<_, _> = pieces.collect();
        // The stub that the entries without a function point to. It traps.
        let stub = starts["stub"];
        let entries: Vec<_> = array
            .lines()
            .map(|line| line.split(".long ").nth(1).expect("an entry"))
            .collect();
        assert_eq!(entries.len(), functions + 2);
        assert_eq!(entries[0], format!("{stub:#x}-{start:#x}, 0xffffffff"));
        assert_eq!(
            entries[functions + 1],
            format!("{stub:#x}-{start:#x}, 0xfffffffe")
        );
        for (at, entry) in entries[1..=functions].iter().enumerate() {
            assert_eq!(
                *entry,
                format!("{:#x}-{start:#x}, 0x0", starts[&at.to_string()]),
                "{arch}: {at}"
            );
        }
    }
}

/// A conditional move masks the index, so a mispredicted branch cannot make the code read past the
/// dispatch table. An aarch64 processor may predict the mask too, so a barrier follows there.
#[test]
fn indices_are_masked_before_the_dispatch_table_is_read() {
    for (arch, is_mask, is_read) in [
        (Arch::X86_64, "cmov", "mov 0x4("),
        (Arch::Aarch64, "csel ", "ldr w"),
    ] {
        for (call, spectre) in [(MANY, true), (MANY, false), (ONE, true), (ONE, false)] {
            let mut options = Options::new(arch);
            options.spectre = spectre;
            let code = common::first_function(&module(call, ""), &options);
            let first = |what: &str| code.iter().position(|line| line.starts_with(what));
            let (mask, read) = (first(is_mask), first(is_read));
            assert!(mask.is_some() && mask < read, "{arch}: {code:#?}");
            let has_barrier = spectre && arch == Arch::Aarch64;
            let barrier = first("csdb").filter(|at| Some(*at) > mask && Some(*at) < read);
            assert_eq!(barrier.is_some(), has_barrier, "{arch}: {code:#?}");
        }
    }
}

/// A section of a module, with fewer than 128 bytes of content.
fn section(id: u8, contents: &[u8]) -> Vec<u8> {
    [&[id, contents.len() as u8], contents].concat()
}

/// Element segments of all forms (spec 5.5.12), and tables with an implicit null, an explicit null,
/// and a function as initial value.
#[test]
fn element_segments_of_every_form_are_read() {
    let header = b"\0asm\x01\0\0\0".to_vec();
    let types = section(1, &[1, 0x60, 0, 1, 0x7f]);
    let funcs = section(3, &[2, 0, 0]);
    // The first function calls by a loaded index.
    let body = [0, 0x41, 0, 0x28, 2, 0, 0x11, 0, 0, 0x0b];
    let bodies = [&[2, body.len() as u8][..], &body, &[4, 0, 0x41, 7, 0x0b]].concat();
    let code = section(10, &bodies);
    let memory = section(5, &[1, 0, 1]);
    let build = |table: &[u8], segment: &[u8]| {
        let segment = [&[1], segment].concat();
        [
            &header[..],
            &types,
            &funcs,
            &section(4, table),
            &memory,
            &section(9, &segment),
            &code,
        ]
        .concat()
    };
    let is_known = |wasm: &[u8]| {
        let listing = emit(wasm, &Options::new(Arch::X86_64), Emit::Asm);
        let listing = String::from_utf8(listing.expect("it is valid")).expect("text");
        listing.contains("-> table 0")
    };
    let table = [1, 0x70, 0, 5];
    let item = [0xd2, 1, 0x0b];
    let offset = [0x41, 2, 0x0b];
    for (flags, segment, is_active) in [
        (0, [&offset[..], &[1, 1]].concat(), true),
        (1, vec![0, 1, 1], false),
        (2, [&[0][..], &offset, &[0, 1, 1]].concat(), true),
        (3, vec![0, 1, 1], false),
        (4, [&offset[..], &[1], &item].concat(), true),
        (5, [&[0x70, 1][..], &item].concat(), false),
        (6, [&[0][..], &offset, &[0x70, 1], &item].concat(), true),
        (7, [&[0x70, 1][..], &item].concat(), false),
    ] {
        let segment = [&[flags], &segment[..]].concat();
        assert_eq!(is_known(&build(&table, &segment)), is_active, "{flags}");
        // The last offset at which the segment fits, and one more.
        if is_active {
            let at = segment
                .iter()
                .position(|byte| *byte == 0x41)
                .expect("an offset")
                + 1;
            for (place, fits) in [(4, true), (5, false), (0x7f, false)] {
                let mut segment = segment.clone();
                segment[at] = place;
                assert_eq!(
                    is_known(&build(&table, &segment)),
                    fits,
                    "{flags} at {place}"
                );
            }
        }
    }
    let none: &[u8] = &[0, 0x41, 2, 0x0b, 0];
    let one: &[u8] = &[0, 0x41, 2, 0x0b, 1, 1];
    let null: &[u8] = &[1, 0x40, 0, 0x70, 0, 5, 0xd0, 0x70, 0x0b];
    let func: &[u8] = &[1, 0x40, 0, 0x70, 0, 5, 0xd2, 1, 0x0b];
    // Without a function no call succeeds, so the table is not treated as known.
    for (table, segment, known) in [
        (null, none, false),
        (null, one, true),
        (func, none, true),
        (func, one, true),
    ] {
        assert_eq!(
            is_known(&build(table, segment)),
            known,
            "{table:x?} {segment:x?}"
        );
    }
    // A module without a table.
    let none = [&header[..], &types, &funcs, &memory, &code].concat();
    compile(&none, &Options::default()).expect_err("there is no table");
}

/// A body may end inside an operator, or without `end`. The analysis of tables must leave the error
/// to the translator.
#[test]
fn damaged_bodies_cause_no_internal_error() {
    let text = module(MANY, "(func (table.set $t (i32.const 0) (ref.null func)))");
    let wasm = parse_text(text.as_bytes())
        .expect("it is well-formed")
        .into_owned();
    let code = wasm.len() - 40;
    let bytes = |at| [0x26, 0xfc, 0xff, 0].map(|byte| (at, byte));
    for (at, byte) in sampled((code..wasm.len()).flat_map(bytes), 3, 0) {
        let mut wasm = wasm.clone();
        wasm[at] = byte;
        let error = compile(&wasm, &Options::default()).err();
        let line = error.map_or(String::new(), |error| error.to_string());
        assert!(!line.contains("fault"), "{line}");
    }
}
