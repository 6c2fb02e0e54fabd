//! Attacks on typed function references and relaxed operators: nearly equal types, imports with
//! nearly equal types, and uses of null before its check. Also slots that held other tables, and
//! many operators in one function.

use crate::common;
mod relaxed;

use common::campaign::share;
use common::file::File;
use common::random::Random;
use common::values::{Lend as _, external, group, instance, levels, number};
use pirn_compiler::Options;
use pirn_format::cpu::{self, Arch};
use pirn_runtime::{CallError, Group, GroupError, LinkError, Linker, Region, TrapCode, Value};
use std::fmt::Write as _;

fn code(result: Result<Vec<Value>, CallError>) -> TrapCode {
    match result {
        Err(CallError::Trap(trap)) => trap.code(),
        other => panic!("expected a trap, found {other:?}"),
    }
}

/// A value type of a function type: a word, or a reference to a function of an earlier type.
#[derive(Clone, Copy)]
enum Part {
    Word(&'static str),
    Typed { null: bool, index: usize },
}

/// Parameters and results.
type Type = [Vec<Part>; 2];

fn types(random: &mut Random, count: usize) -> Vec<Type> {
    const WORDS: [&str; 4] = ["i32", "funcref", "(ref func)", "externref"];
    let part = |random: &mut Random, before: usize| match random.below(3) {
        0 if before > 0 => Part::Typed {
            null: random.below(2) == 0,
            index: random.below(before as u64) as usize,
        },
        1 if before > 0 => Part::Typed {
            null: true,
            index: before - 1,
        },
        _ => Part::Word(WORDS[random.below(4) as usize]),
    };
    let mut types: Vec<Type> = vec![];
    for before in 0..count {
        // Repeat some earlier types.
        if before > 0 && random.below(5) == 0 {
            types.push(types[random.below(before as u64) as usize].clone());
            continue;
        }
        types.push([(); 2].map(|()| {
            let count = random.below(3);
            (0..count).map(|_| part(random, before)).collect()
        }));
    }
    types
}

/// The text of a type, with the full text of each type that it refers to. Equal types have equal
/// texts.
fn written(types: &[Type], index: usize) -> String {
    types[index]
        .each_ref()
        .map(|parts| {
            let parts = parts.iter().map(|part| match part {
                Part::Word(word) => (*word).to_owned(),
                Part::Typed { null, index } => format!("{null}<{}>", written(types, *index)),
            });
            parts.collect::<Vec<_>>().join(",")
        })
        .join("->")
}

/// A module of these types: for each, a function that traps, and a function that calls a table
/// element by that type.
fn callers(types: &[Type], table: &str) -> String {
    let mut text = "(module".to_owned();
    let text_of = |part: &Part| match part {
        Part::Word(word) => (*word).to_owned(),
        Part::Typed { null: true, index } => format!("(ref null {index})"),
        Part::Typed { index, .. } => format!("(ref {index})"),
    };
    for [params, results] in types {
        let [params, results] = [params, results].map(|parts| {
            let parts = parts.iter().map(text_of);
            parts.collect::<Vec<_>>().join(" ")
        });
        let _ = write!(text, "\n(type (func (param {params}) (result {results})))");
    }
    text += table;
    text += "(elem declare func";
    for at in 0..types.len() {
        let _ = write!(text, " $f{at}");
    }
    text += ")";
    for (at, [params, results]) in types.iter().enumerate() {
        let _ = write!(
            text,
            "\n(func $f{at} (export \"f{at}\") (type {at}) unreachable)"
        );
        let _ = write!(text, "(func (export \"by{at}\") (param $at i32)");
        for part in params {
            let _ = match part {
                Part::Word("i32") => write!(text, "(i32.const 3)"),
                Part::Word("externref") => write!(text, "(ref.null extern)"),
                Part::Word(_) => write!(text, "(ref.func $f0)"),
                Part::Typed { index, .. } => write!(text, "(ref.func $f{index})"),
            };
        }
        let _ = write!(text, "(call_indirect (type {at}) (local.get $at))");
        text += &"drop ".repeat(results.len());
        text += ")";
    }
    text + ")"
}

fn funcs(count: usize) -> String {
    (0..count).map(|at| format!(" $f{at}")).collect()
}

/// The compiler compares types for known tables, the runtime for indirect calls, and the linker for
/// imports. All three must agree.
#[test]
fn compiler_runtime_and_linker_agree_on_equal_types() {
    const COUNT: usize = 12;
    const ROUNDS: u64 = 12;
    let linker = Linker::new();
    for round in 0..share(ROUNDS, 4) {
        let mut random = Random(round);
        let [one, other] = [(); 2].map(|()| types(&mut random, COUNT));
        // The first types equal those of `one`, so that many types are equal.
        let mut all = one[..4].to_vec();
        all.extend_from_slice(&other[4..]);
        let other = all;
        let all = [&one, &other];
        let written = all.map(|types| (0..COUNT).map(|at| written(types, at)).collect::<Vec<_>>());
        let is_equal = |found: &str, wanted: &str| match found == wanted {
            true => TrapCode::Unreachable,
            false => TrapCode::IndirectCallTypeMismatch,
        };
        let options = &levels()[round as usize % 3];
        let known = format!("(table funcref (elem {}))", funcs(COUNT));
        let mut guest = instance(&callers(&one, &known), options);
        for (by, at) in (0..COUNT).flat_map(|by| (0..COUNT).map(move |at| (by, at))) {
            let found = code(guest.call_values(&format!("by{by}"), &[Value::I32(at as i32)]));
            assert_eq!(
                found,
                is_equal(&written[0][by], &written[0][at]),
                "{by} {at}"
            );
        }
        let mut group = group(40);
        let own = format!(
            "(table (export \"t\") {} funcref) (elem (i32.const 0) func {})",
            2 * COUNT,
            funcs(COUNT)
        );
        let shared = format!(
            "(import \"o\" \"t\" (table {} funcref)) (elem (i32.const {COUNT}) func {})",
            2 * COUNT,
            funcs(COUNT)
        );
        let members = [callers(&one, &own), callers(&other, &shared)].map(|text| {
            let member = group.instantiate(&common::wat_with(&text, options), &linker);
            let member = member.expect("it starts");
            group.name("o", member);
            member
        });
        group.name("o", members[0]);
        let elements = written.concat();
        for (member, written) in members.iter().zip(&written) {
            for (by, wanted) in written.iter().enumerate() {
                for (at, found) in elements.iter().enumerate() {
                    let at = [Value::I32(at as i32)];
                    let found_code = code(group.lend(*member).call_values(&format!("by{by}"), &at));
                    assert_eq!(found_code, is_equal(found, wanted), "{found} by {wanted}");
                }
            }
        }
        for _ in 0..8 {
            let [by, at] = [(); 2].map(|()| random.below(COUNT as u64) as usize);
            let import = format!("(import \"o\" \"f{at}\" (func (type {by})))");
            let text = callers(&other, &format!("{import} (table 1 funcref)"));
            let linked = group.instantiate(&common::wat(&text), &linker);
            let fits = written[0][at] == written[1][by];
            match linked {
                Ok(_) if fits => {}
                Err(GroupError::Link(LinkError::Mismatch { .. })) if !fits => {}
                other => panic!("{} as {}: {other:?}", written[0][at], written[1][by]),
            }
        }
    }
}

/// The reference types of a module, each with its supertypes and itself. `$a` and `$b` are equal in
/// no module.
const REFERENCES: [(&str, &[usize]); 8] = [
    ("funcref", &[0]),
    ("(ref func)", &[0, 1]),
    ("(ref null $a)", &[0, 2]),
    ("(ref $a)", &[0, 1, 2, 3]),
    ("(ref null $b)", &[0, 4]),
    ("(ref $b)", &[0, 1, 4, 5]),
    ("externref", &[6]),
    ("(ref extern)", &[6, 7]),
];

/// Imported tables and mutable globals must have exactly the declared type. Immutable globals may
/// have a subtype.
#[test]
fn only_immutable_imports_may_have_a_subtype() {
    let mut owner = "(module (type $a (func (param i32))) (type $b (func (param (ref null $a))))
      (import \"h\" \"e\" (global $e (ref extern)))
      (func $fa (type $a)) (func $fb (type $b)) (elem declare func $fa $fb)"
        .to_owned();
    for (at, (ty, _)) in REFERENCES.iter().enumerate() {
        let value = match at {
            0..=3 => "(ref.func $fa)",
            4..=5 => "(ref.func $fb)",
            _ => "(global.get $e)",
        };
        let _ = write!(
            owner,
            "(global (export \"g{at}\") {ty} {value}) (global (export \"m{at}\") (mut {ty}) {value})
             (table (export \"t{at}\") 3 5 {ty} {value})"
        );
    }
    owner += ")";
    let mut linker = Linker::new();
    linker.global("h", "e", external(9)).expect("it is free");
    let region = Region::builder().slots(80).tables(8).build();
    let mut group = Group::new(&region.expect("a region"), ());
    let member = group.instantiate(&common::wat(&owner), &linker);
    group.name("o", member.expect("it starts"));
    for (found, (from, wider)) in REFERENCES.iter().enumerate() {
        for (wanted, (into, _)) in REFERENCES.iter().enumerate() {
            for (kind, ty, fits) in [
                ("t", format!("table 3 5 {into}"), found == wanted),
                ("m", format!("global (mut {into})"), found == wanted),
                ("g", format!("global {into}"), wider.contains(&wanted)),
            ] {
                let text = format!(
                    "(module (type $no (func)) (type $a (func (param i32)))
                     (type $same (func (param i32))) (type $b (func (param (ref null $same))))
                     (import \"o\" \"{kind}{found}\" ({ty})))"
                );
                match group.instantiate(&common::wat(&text), &linker) {
                    Ok(_) if fits => {}
                    Err(GroupError::Link(LinkError::Mismatch { .. })) if !fits => {}
                    other => panic!("{kind} {from} as {into}: {other:?}"),
                }
            }
        }
    }
}

/// References to later types, invalid supertypes, and values of a wrong type.
#[test]
fn invalid_types_are_refused() {
    for body in [
        "(type (sub 0 (func)))",
        "(type $t (func)) (type (sub $t (func)))",
        "(rec (type (sub 1 (func))) (type (sub (func))))",
        "(type $t (sub (func))) (type (sub $t (struct)))",
        "(type (struct (field (ref 1)))) (type (struct))",
        "(type $t (func (param (ref null 1)))) (type (func))",
        "(type $t (func (param (ref null 7))))",
        "(table 1 (ref null 0))",
        "(type (func)) (table 1 (ref 0))",
        "(type (func)) (table 0 (ref 0))",
        "(type (func)) (table 1 (ref 0) (ref.null 0))",
        "(type (func)) (global (ref 0) (ref.null 0))",
        "(type (func)) (func (local (ref 0)) (drop (local.get 0)))",
        "(type $a (func)) (func $f (param i32)) (elem declare func $f) (func (call_ref $a (ref.func $f)))",
        "(type $a (func)) (func (param funcref) (call_ref $a (local.get 0)))",
        "(type $a (func)) (table $t 1 funcref) (table $u 1 (ref null $a)) (func \
         (table.copy $u $t (i32.const 0) (i32.const 0) (i32.const 0)))",
        "(type $a (func)) (table $u 1 (ref null $a)) (elem $e func) (func (table.init $u $e (i32.const 0) (i32.const 0) (i32.const 0)))",
        "(type $a (func)) (table $t 1 (ref null $a)) (func $f (param i32)) (elem (table $t) (i32.const 0) func $f)",
        "(type $a (func)) (func $f) (table 1 (ref null $a) (ref.func $f)) \
         (global $g (mut (ref null $a)) (ref.null $a)) (table 1 (ref null $a) (global.get $g))",
        "(table 1 externref) (func (call_indirect (i32.const 0)))",
        "(table 1 1 (ref func) (ref.null func))",
    ] {
        let text = format!("(module {body})");
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
        let compiled = pirn_compiler::compile(&wasm, &Options::default());
        assert!(compiled.is_err(), "{body}");
    }
    // `(type (sub final (func)))`, which is another spelling of `(type (func))`.
    let same = b"\0asm\x01\0\0\0\x01\x06\x01\x4f\x00\x60\x00\x00";
    assert!(pirn_compiler::compile(same, &Options::default()).is_ok());
}

/// Each type refers twice to the type before it. Fully expanded, the last one would have 2^10,000
/// words.
#[test]
fn deeply_nested_types_compare_in_little_time() {
    let mut text = "(module (type (func))".to_owned();
    for at in 0..10_000 {
        let _ = write!(text, "(type (func (param (ref null {at}) (ref {at}))))");
    }
    text += "(func (export \"f\") (type 10000)) (func (export \"null\") (result (ref null 9999)) (ref.null 9999)))";
    let mut guest = instance(&text, &Options::default());
    let null = guest.call_values("null", &[]).expect("it returns");
    let error = guest.call_values("f", &[null[0], null[0]]);
    let error = error.expect_err("it is not null").to_string();
    assert!(error.contains("takes (ref 9999) as value 1"), "{error}");
}

/// No field of a function reference may be loaded before the null check.
#[test]
fn no_field_of_a_null_reference_is_loaded() {
    const TEXT: &str = r#"(module
      (type $i (func (param i32) (result i32)))
      (elem declare func $f)
      (global $g (mut (ref null $i)) (ref.null $i))
      (table $t 2 (ref null $i))
      (func $f (type $i) (i32.add (local.get 0) (i32.const 1)))
      (func (export "set") (param i32) (if (local.get 0) (then (global.set $g (ref.func $f)))
        (else (global.set $g (ref.null $i)))))
      (func $loop (param $r (ref null $i)) (param $n i32) (param $often i32) (result i32) (local $sum i32)
        (loop $next
          (if (i32.lt_u (local.get $n) (local.get $often)) (then
            (local.set $sum (call_ref $i (local.get $sum) (local.get $r)))
            (local.set $sum (call_ref $i (local.get $sum) (local.get $r)))))
          (block $null
            (local.set $sum (call_ref $i (local.get $sum) (br_on_null $null (local.get $r)))))
          (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $sum))
      (func (export "loop") (param i32 i32) (result i32)
        (call $loop (global.get $g) (local.get 0) (local.get 1)))
      (func (export "both") (param $r i32) (result i32) (local $x (ref null $i))
        (local.set $x (table.get $t (local.get $r)))
        (if (result i32) (ref.is_null (local.get $x))
          (then (i32.const -1))
          (else (i32.add (call_ref $i (i32.const 1) (local.get $x)) (call_ref $i (i32.const 1) (local.get $x))))))
      (func (export "non_null") (param i32) (result i32)
        (i32.const 9)
        (block $l (result (ref $i))
          (br_on_non_null $l (table.get $t (local.get 0)))
          (br_on_non_null $l (global.get $g))
          (return (i32.const -1)))
        (return_call_ref $i)
        (unreachable)))"#;
    for mut options in levels() {
        for (fuel, spectre) in [(false, true), (true, false)] {
            (options.fuel, options.spectre) = (fuel, spectre);
            let mut guest = instance(TEXT, &options);
            let mut call = |name: &str, params: &[i32]| {
                let params: Vec<_> = params.iter().copied().map(Value::I32).collect();
                guest.call_values(name, &params)
            };
            assert_eq!(number(call("loop", &[10, 0])), 0);
            assert_eq!(
                code(call("loop", &[10, 5])),
                TrapCode::NullFunctionReference
            );
            assert_eq!(number(call("both", &[1])), -1);
            assert_eq!(number(call("non_null", &[0])), -1);
            call("set", &[1]).expect("it returns");
            assert_eq!(number(call("loop", &[10, 5])), 18);
            assert_eq!(number(call("non_null", &[0])), 10);
            call("set", &[0]).expect("it returns");
            assert_eq!(number(call("loop", &[10, 0])), 0);
        }
    }
}

/// Reference operators in unreachable code, where operands have no type.
#[test]
fn reference_operators_in_unreachable_code_compile() {
    const TEXT: &str = r#"(module
      (type $i (func (param i32) (result i32)))
      (type $r (func (result (ref $i))))
      (type $many (func (param (ref $i) (ref null $i) v128 (ref func)) (result v128 (ref $i) (ref func))))
      (table $t 3 (ref $i) (ref.func $f))
      (func $f (type $i) (local.get 0))
      (func (result i32) (unreachable) (call_ref $i))
      (func (result i32) (unreachable) (return_call_ref $i))
      (func (result (ref $i)) (unreachable) (ref.as_non_null))
      (func (result (ref $i)) (unreachable) (br_on_null 0) (drop) (unreachable))
      (func (unreachable) (br_on_null 0) (drop))
      (func (result (ref $i)) (unreachable) (br_on_non_null 0) (unreachable))
      (func (type $many) (unreachable) (call_ref $many))
      (func (result (ref $i)) (local $l (ref $i)) (unreachable) (local.set $l) (local.get $l))
      (func (result (ref $i)) (local $l (ref $i)) (loop (local.set $l (ref.func $f)) (br 0)) (unreachable))
      (func (export "loop") (param i32) (result (ref $i))
        (loop $l (result (ref $i)) (br_if $l (i32.eqz (local.get 0))) (ref.func $f)))
      (func (export "null_loop") (param $n i32) (result i32) (local $x (ref null $i))
        (loop $l
          (local.set $n (i32.sub (local.get $n) (i32.const 1)))
          (if (i32.eqz (local.get $n)) (then (local.set $x (ref.func $f))))
          (br_on_null $l (local.get $x))
          (drop))
        (local.get $n))
      (func (export "block_type") (param i32) (result i32)
        (ref.func $f) (ref.null $i)
        (block $in (param (ref $i) (ref null $i)) (result (ref $i))
          (br_on_null $in) (drop))
        (drop) (i32.const 5))
      (func (export "if") (param i32) (result i32) (local $l (ref $i))
        (if (local.get 0) (then (local.set $l (ref.func $f))) (else (return (i32.const 3))))
        (local.set $l (table.get $t (i32.const 2)))
        (call_ref $i (i32.const 8) (local.get $l))))"#;
    for mut options in levels() {
        for (fuel, debug_info) in [(false, true), (true, false)] {
            (options.fuel, options.debug_info) = (fuel, debug_info);
            let mut guest = instance(TEXT, &options);
            let mut call = |name: &str, n| guest.call_values(name, &[Value::I32(n)]);
            assert!(matches!(
                call("loop", 1).expect("it returns")[..],
                [Value::FuncRef(Some(_))]
            ));
            assert_eq!(number(call("null_loop", 4)), 0);
            assert_eq!(number(call("block_type", 1)), 5);
            assert_eq!(number(call("if", 1)), 8);
            assert_eq!(number(call("if", 0)), 3);
        }
    }
}

/// Guests with and without initial table values use one slot in turns, and write to typed tables in
/// all ways. No guest may find an element of another.
#[test]
fn tables_of_a_reused_slot_hold_no_old_elements() {
    const FULL: &str = r#"(module
      (type $i (func (result i32)))
      (import "h" "e" (global $e (ref extern)))
      (table $big 70000 80000 (ref $i) (ref.func $one))
      (table $any 6 70000 funcref (ref.func $two))
      (table $ext 5 50000 (ref extern) (global.get $e))
      (table $empty 0 10 (ref $i) (ref.func $two))
      (elem $late (ref null $i) (ref.func $two) (ref.null $i) (item ref.func $one))
      (elem (table $big) (i32.const 69998) (ref $i) (ref.func $two) (ref.func $two))
      (func $one (type $i) (i32.const 1))
      (func $two (type $i) (i32.const 2))
      (func (export "big") (param i32) (result i32) (call_ref $i (table.get $big (local.get 0))))
      (func (export "any") (param i32) (result i32) (call_indirect $any (type $i) (local.get 0)))
      (func (export "ext") (param i32) (result (ref extern)) (table.get $ext (local.get 0)))
      (func (export "empty") (param i32) (result i32) (call_ref $i (table.get $empty (local.get 0))))
      (func (export "write") (param i32) (result i32)
        (table.copy $any $big (i32.const 0) (i32.const 69997) (i32.const 3))
        (table.init $any $late (i32.const 3) (i32.const 0) (i32.const 3))
        (drop (table.grow $empty (ref.func $one) (i32.const 10)))
        (drop (table.grow $ext (global.get $e) (i32.const 30000)))
        (table.fill $big (i32.const 0) (ref.func $two) (i32.const 70000))
        (table.grow $big (ref.func $one) (i32.const 10000))))"#;
    const NONE: &str = r#"(module
      (type $i (func (result i32)))
      (table $a 90000 (ref null $i)) (table $b 90000 funcref) (table $c 90000 externref) (table $d 20 (ref null $i))
      (func (export "count") (param $at i32) (result i32) (local $found i32)
        (local.set $at (i32.const 90000))
        (loop $next
          (local.set $at (i32.sub (local.get $at) (i32.const 1)))
          (local.set $found (i32.add (local.get $found) (i32.add
            (ref.is_null (table.get $a (local.get $at)))
            (i32.add (ref.is_null (table.get $b (local.get $at))) (ref.is_null (table.get $c (local.get $at)))))))
          (br_if $next (local.get $at)))
        (local.get $found)))"#;
    let mut linker = Linker::<()>::new();
    linker.global("h", "e", external(77)).expect("it is free");
    for reset in common::resets() {
        let region = Region::builder().slots(1).reset(reset);
        let region = region.table_elements(100_000).tables(4).build();
        let region = region.expect("a region");
        for options in levels() {
            let prepare = |text: &str| {
                let prepared = region.prepare(&common::wat_with(text, &options), &linker);
                prepared.expect("it links")
            };
            let (full, none) = (prepare(FULL), prepare(NONE));
            for _ in 0..3 {
                for _ in 0..2 {
                    let mut guest = full.try_instantiate(()).expect("the slot is free");
                    let mut call = |name: &str, at| guest.call_values(name, &[Value::I32(at)]);
                    for (at, found) in [(0, 1), (69_997, 1), (69_998, 2), (69_999, 2)] {
                        assert_eq!(number(call("big", at)), found);
                    }
                    assert_eq!(code(call("big", 70_000)), TrapCode::TableOutOfBounds);
                    assert_eq!(code(call("empty", 0)), TrapCode::TableOutOfBounds);
                    assert_eq!(number(call("any", 5)), 2);
                    assert_eq!(call("ext", 4).expect("it returns"), [external(77)]);
                    assert_eq!(number(call("write", 0)), 70_000);
                    let any = [1, 2, 2, 2];
                    for (at, found) in any.into_iter().enumerate() {
                        assert_eq!(number(call("any", at as i32)), found);
                    }
                    assert_eq!(code(call("any", 4)), TrapCode::UninitializedElement);
                    assert_eq!(number(call("any", 5)), 1);
                    assert_eq!(number(call("empty", 9)), 1);
                    assert_eq!(number(call("big", 79_999)), 1);
                    assert_eq!(call("ext", 30_004).expect("it returns"), [external(77)]);
                }
                let mut guest = none.try_instantiate(()).expect("the slot is free");
                assert_eq!(
                    number(guest.call_values("count", &[Value::I32(0)])),
                    270_000
                );
            }
        }
    }
}

/// References of dropped guests, while other guests use their slots, and of dropped groups.
#[test]
fn references_of_dropped_guests_are_refused() {
    const TEXT: &str = r#"(module
      (type $i (func (result i32)))
      (func $f (type $i) (i32.const 5)) (elem declare func $f)
      (func (export "get") (result (ref $i)) (ref.func $f))
      (func (export "typed") (param (ref $i)) (result i32) (call_ref $i (local.get 0)))
      (func (export "null") (param (ref null $i)) (result i32) (call_ref $i (local.get 0)))
      (func (export "any") (param (ref func)) (result i32) (i32.const 1)))"#;
    let module = common::wat(TEXT);
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(&module, &Linker::new()).expect("it links");
    let mut old = vec![];
    for _ in 0..3 {
        let mut guest = prepared.try_instantiate(()).expect("the slot is free");
        for reference in &old {
            for name in ["typed", "null", "any"] {
                let error = guest.call_values(name, &[*reference]);
                let error = error.expect_err("it is refused").to_string();
                assert!(error.contains("another instance"), "{error}");
            }
        }
        let own = guest.call_values("get", &[]).expect("it returns")[0];
        assert_eq!(number(guest.call_values("typed", &[own])), 5);
        old.push(own);
        let mut linker = Linker::<()>::new();
        linker.global("h", "g", own).expect_err("it is another's");
    }
    let mut group = group(2);
    let members = [(); 2].map(|()| {
        let member = group.instantiate(&module, &Linker::new());
        member.expect("it starts")
    });
    let of_group = group
        .lend(members[0])
        .call_values("get", &[])
        .expect("it returns")[0];
    for name in ["typed", "null"] {
        assert_eq!(
            number(group.lend(members[1]).call_values(name, &[of_group])),
            5
        );
        for reference in &old {
            group
                .lend(members[1])
                .call_values(name, &[*reference])
                .expect_err("it is refused");
        }
    }
}

/// References to intrinsics can be called.
#[test]
fn intrinsics_are_called_by_reference() {
    if cpu::detect().arch() != Arch::X86_64 {
        return;
    }
    const TEXT: &str = r#"(module
      (type $aes (func (param v128 v128) (result v128)))
      (import "h" "f" (func $host (result i32)))
      (import "hw" "x86.aesenc" (func $aesenc (type $aes)))
      (import "h" "g" (func $other (result i32)))
      (import "hw" "x86.aesenclast" (func $last (type $aes)))
      (global $g (ref $aes) (ref.func $last))
      (table $t 3 (ref $aes) (ref.func $aesenc))
      (table $u 2 funcref (ref.func $other))
      (elem (table $u) (i32.const 0) func $last)
      (func (export "f") (param v128 v128) (result v128)
        (call_ref $aes (call $aesenc (local.get 0) (local.get 1)) (local.get 1) (global.get $g)))
      (func (export "t") (param v128 v128) (result v128)
        (call_indirect $u (type $aes)
          (call_indirect $t (type $aes) (local.get 0) (local.get 1) (i32.const 2)) (local.get 1) (i32.const 0)))
      (func (export "host") (result i32) (call_indirect $u (result i32) (i32.const 1))))"#;
    let mut linker = Linker::<()>::new();
    linker.func("h", "f", || 1_i32).expect("it is free");
    linker.func("h", "g", || 2_i32).expect("it is free");
    let mut found = vec![];
    for mut options in levels() {
        for cpu in [cpu::detect(), options.cpu] {
            options.cpu = cpu;
            let region = Region::builder().slots(1).build().expect("a region");
            let prepared = region.prepare(&common::wat_with(TEXT, &options), &linker);
            let mut guest = prepared
                .expect("it links")
                .try_instantiate(())
                .expect("the slot is free");
            for name in ["f", "t"] {
                let params = [Value::V128(u128::MAX / 7), Value::V128(u128::MAX / 13)];
                found.push(guest.call_values(name, &params).expect("it returns"));
            }
            assert_eq!(number(guest.call_values("host", &[])), 2);
        }
    }
    assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:?}");
}

/// A damaged file with a matching hash is refused, or can be prepared. Nothing of it is executed
/// here.
#[test]
fn damaged_types_are_refused_or_harmless() {
    const TEXT: &str = r#"(module
      (type $i (func (param i32) (result i32)))
      (type $r (func (param (ref $i) (ref null $i) (ref func) externref) (result (ref $i))))
      (type $far (func (param (ref $r)) (result (ref null $r))))
      (import "h" "f" (func $host (type $i)))
      (import "h" "e" (global $e (ref extern)))
      (table $t 5 9 (ref $i) (ref.func $f))
      (table $u 4 (ref null $r))
      (table $x 3 (ref extern) (global.get $e))
      (global $g (mut (ref $i)) (ref.func $host))
      (elem (table $t) (i32.const 2) (ref $i) (ref.func $host) (ref.func $f))
      (elem $p (ref null $r) (ref.null $r) (ref.func $r))
      (func $f (export "f") (type $i) (call_ref $i (local.get 0) (global.get $g)))
      (func $r (export "r") (type $r) (table.get $t (i32.const 1)))
      (func (export "far") (type $far) (table.get $u (i32.const 0))))"#;
    let files = share(6000, 6);
    let file = File::new(TEXT);
    let region = Region::builder().slots(1).build().expect("a region");
    let mut linker = Linker::<()>::new();
    linker.func("h", "f", |n: i32| n).expect("it is free");
    linker.global("h", "e", external(3)).expect("it is free");
    let mut random = Random(7);
    let mut taken = 0;
    for _ in 0..files {
        let Ok(module) = file.damaged(&mut random, 3, 16) else {
            continue;
        };
        taken += 1;
        let _ = region.prepare(&module, &linker);
    }
    assert!(taken > 0 && taken < files, "{taken} were taken");
}
