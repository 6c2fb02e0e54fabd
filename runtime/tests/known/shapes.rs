//! Tables of every shape: which functions the segments leave in a table, and in which cases the
//! compiler must not know the content.

use super::common::campaign::{every, sampled};
use super::{both, common, compare, is_known, module, options, region};
use crate::common::values::Lend as _;
use pirn_compiler::Options;
use pirn_runtime::{Group, Linker, Region, Value};

/// A second table with its own segments.
const OTHER: &str = "(table $u 3 5 funcref) (elem (table $u) (i32.const 1) func $b $o)";

/// Tables whose content the compiler knows. In each module, `$t` is the first table.
const KNOWN: [&str; 12] = [
    // One function of a type, and several of another type, at both ends of the table.
    "(table $t 7 funcref) (elem (i32.const 0) func $o $a) (elem (i32.const 4) func $c $d $e)",
    // Empty segments at the end of the table, and segments without effect.
    "(table $t 2 9 funcref) (elem (i32.const 2) func) (elem (i32.const 0) func $a $d)
     (elem func $b $c) (elem declare func $e)",
    // Segments that overwrite others.
    "(table $t 8 funcref) (elem (i32.const 1) func $a $b $c $d $e) (elem (i32.const 3) func $e $o)
     (elem (i32.const 0) func $d $d)",
    // Nulls that overwrite functions, and functions that overwrite nulls.
    "(table $t 6 funcref) (elem (i32.const 0) func $a $b $c $d $o)
     (elem (i32.const 1) funcref (ref.null func) (ref.func $e) (ref.null func))
     (elem (i32.const 3) funcref (item (ref.null func))) (elem (i32.const 3) func $d)",
    // A null overwrites the only function of its type.
    "(table $t 3 funcref) (elem (i32.const 1) func $o $a) (elem (i32.const 1) funcref (ref.null func))",
    // One function at several indices.
    "(table $t 6 funcref) (elem (i32.const 1) func $o $d $o $d $a)",
    // A function that is declared with the second of two equal types.
    "(table $t 3 funcref) (elem (i32.const 2) func $c)",
    // Computed offsets, one of which wraps around.
    "(table $t 6 funcref) (elem (offset (i32.add (i32.const 1) (i32.const 2))) func $a $d)
     (elem (offset (i32.mul (i32.const 0x10000) (i32.const 0x10000))) func $b)",
    // The module also has a table of host references with nulls.
    "(table $t 4 funcref) (table $x 5 externref) (elem (i32.const 1) func $a $b $d)
     (elem (table $x) (i32.const 1) externref (ref.null extern))",
    // Calls before and after `elem.drop`: an active segment is dropped at instantiation already.
    "(table $t 4 funcref) (elem $s (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32) (elem.drop $s) (i32.const 0))",
    // The start function calls through the table.
    "(table $t 4 funcref) (elem (i32.const 1) func $a $b $d)
     (func $begin (drop (call_indirect $t (type $i) (i32.const 4) (i32.const 2)))) (start $begin)",
    // The module declares a host function that is not in the table.
    "(table $t 4 funcref) (elem (i32.const 1) func $a $b $d) (elem declare func $h)",
];

/// Tables whose content the compiler must not treat as known.
const UNKNOWN: [&str; 17] = [
    // Empty tables. The tables after them are written to by an instruction.
    "(table $t 4 funcref)",
    "(table $t 0 funcref) (elem (i32.const 0) func)",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32) (table.set $t (i32.const 2) (ref.func $d)) (i32.const 0))",
    "(table $t 5 9 funcref) (elem (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32) (table.grow $t (ref.func $b) (i32.const 3)))",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32)
       (table.fill $t (i32.const 2) (ref.func $o) (i32.const 2)) (i32.const 0))",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32)
       (table.copy $t $u (i32.const 0) (i32.const 0) (i32.const 3)) (i32.const 0))",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d) (elem $s func $o $c)
     (func (export \"first\") (param i32 i32) (result i32)
       (table.init $t $s (i32.const 2) (i32.const 0) (i32.const 2)) (i32.const 0))",
    // The module writes only to another table, or only in unreachable code.
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32) (table.set $u (i32.const 0) (ref.func $d)) (i32.const 0))",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d)
     (func (export \"first\") (param i32 i32) (result i32)
       (return (i32.const 0)) (table.set $t (i32.const 0) (ref.func $d)))",
    // The table is exported under another name.
    "(table $t (export \"other\") 5 funcref) (elem (i32.const 1) func $a $b $d)",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b $d) (export \"other\" (table $u))",
    // A host function is in the table, or was there before another segment overwrote it.
    "(table $t 5 funcref) (elem (i32.const 1) func $a $h $d)",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $h $d) (elem (i32.const 2) func $a)",
    // The offset is an imported global.
    "(table $t 5 funcref) (elem (offset (global.get $g)) func $a $b)",
    "(table $t 5 funcref) (elem (i32.const 1) func $a $b) (elem (table $u) (offset (global.get $g)) func $a)",
    // The table has more elements than the compiler keeps track of.
    "(table $t 65534 funcref) (elem (i32.const 1) func $a $b)",
    "(table $t 10000000 funcref) (elem (i32.const 1) func $a $b)",
];

/// Modules whose instantiation fails.
const FAILING: [&str; 5] = [
    "(table $t 3 funcref) (elem (i32.const 1) func $a $b $d)",
    "(table $t 3 9 funcref) (elem (i32.const 0) func $a) (elem (i32.const 4) func)",
    "(table $t 3 funcref) (elem (i32.const -1) func $a)",
    "(table $t 3 funcref) (elem (i32.const 0) func $a) (elem (i32.const 0xffffffff) func $a $b)",
    "(table $t 3 funcref) (elem (i32.const 0) func $a) (elem (table $u) (i32.const 3) func $b)",
];

const IMPORTS: &str = "(import \"h\" \"f\" (func $h (param i32) (result i32)))
  (import \"h\" \"g\" (global $g i32))";

fn text(shape: &str) -> String {
    module(IMPORTS, &["$t", "$u"], &format!("{shape} {OTHER}"))
}

/// Compares the results for a table shape under all options; returns how many calls returned.
fn check(region: &Region, shape: &str, known: bool) -> usize {
    let text = text(shape);
    let first = shape.contains("\"first\"").then_some("first");
    let mut returned = 0;
    for options in sampled(options(), 4, shape.len()) {
        let [one, other] = both(&text);
        assert_eq!(is_known(&one, &options), known, "{shape}");
        // A listing takes longer than a compilation. By default some shapes have a second one.
        if shape.len().is_multiple_of(every(3)) {
            assert!(!is_known(&other, &options), "{shape}");
        }
        returned = compare(region, &text, &["$t", "$u"], &options, first);
    }
    returned
}

#[test]
fn calls_through_known_tables_equal_other_calls() {
    let region = region();
    for shape in KNOWN {
        assert!(check(&region, shape, true) > 5, "{shape}");
    }
}

#[test]
fn calls_through_unknown_tables_equal_other_calls() {
    let region = Region::builder().slots(2).table_elements(10_000_100);
    let region = region.build().expect("a region");
    for shape in UNKNOWN {
        assert!(check(&region, shape, false) > 5, "{shape}");
    }
}

/// Instantiation traps if a segment does not fit, in both variants.
#[test]
fn a_segment_that_does_not_fit_traps_at_instantiation() {
    let region = region();
    for shape in FAILING {
        assert_eq!(check(&region, shape, false), 0, "{shape}");
    }
}

/// The limit of known elements, and one more.
#[test]
fn known_elements_are_limited() {
    let region = Region::builder().slots(2).table_elements(70_000);
    let region = region.build().expect("a region");
    // The other table takes three of the elements.
    for (elements, known) in [(65_533, true), (65_534, false)] {
        let last = elements - 1;
        let shape = format!(
            "(table $t {elements} funcref) (elem (i32.const 1) func $a $d) (elem (i32.const {last}) func $e)"
        );
        assert!(check(&region, &shape, known) > 5);
    }
}

/// Two instances in one group call each other. Each call must run with the callee's own state.
#[test]
fn each_call_runs_with_the_callees_own_state() {
    const TEXT: &str = r#"(module
      (import "before" "get" (func $before (param i32) (result i32)))
      (type $get (func (param i32) (result i32)))
      (table 4 funcref) (elem (i32.const 1) func $one $two $far)
      (global $g (mut i32) (i32.const START))
      (func $one (type $get) (i32.add (global.get $g) (local.get 0)))
      (func $two (type $get) (i32.mul (global.get $g) (local.get 0)))
      (func $far (type $get) (call $before (i32.const 2)))
      (func (export "get") (param i32) (result i32)
        (call_indirect (type $get) (i32.const 5) (local.get 0))))"#;
    let mut group = Group::new(&region(), ());
    let mut linker = Linker::new();
    linker
        .func("before", "get", |x: i32| -x)
        .expect("the name is free");
    for (start, through) in [(1000, -2), (2000, 5000)] {
        let text = TEXT.replace("START", &start.to_string());
        assert!(is_known(&text, &Options::default()));
        let module = common::wat(&text);
        let member = group.instantiate(&module, &linker).expect("it starts");
        let mut call = |index| {
            let result = group.lend(member).call_values("get", &[Value::I32(index)]);
            result.expect("it returns")[0]
        };
        assert_eq!(call(1), Value::I32(start + 5));
        assert_eq!(call(2), Value::I32(start * 5));
        assert_eq!(call(3), Value::I32(through));
        group.name("before", member);
    }
}
