//! Attacks on types: nearly equal types in two modules, every instruction that checks a supertype,
//! the limit of supertypes and one more, and files with damaged types.

use super::{call, instance, region, trap};
use crate::common;
use crate::common::campaign::{sampled, share};
use crate::common::file::File;
use crate::common::random::Random;
use crate::common::values::{Lend as _, levels};
use pirn_runtime::{CallError, Group, Linker, MemberId, TrapCode, Value};
use std::fmt::Write as _;

/// A struct type.
#[derive(Debug, Clone)]
struct Type {
    /// Index of the first type in its recursion group.
    group: usize,
    is_final: bool,
    above: Option<usize>,
    /// For each field: the type that it may refer to, or `None` for a number.
    fields: Vec<Option<usize>>,
}

/// Random types in `groups` recursion groups. Types refer to earlier types and to types of their
/// own group.
fn types(random: &mut Random, groups: u64) -> Vec<Type> {
    let mut types: Vec<Type> = vec![];
    for _ in 0..groups {
        let group = types.len();
        let end = group + 1 + random.below(3) as usize;
        for at in group..end {
            let above = match random.below(2) {
                0 if at > 0 => Some(random.below(at as u64) as usize),
                _ => None,
            };
            let above = above.filter(|above| !types[*above].is_final);
            let mut fields = above.map_or(vec![], |above| types[above].fields.clone());
            for _ in 0..random.below(3) {
                let link = random.below(end as u64 + 1) as usize;
                fields.push((link < end).then_some(link));
            }
            types.push(Type {
                group,
                is_final: random.below(3) == 0,
                above,
                fields,
            });
        }
    }
    types
}

/// A copy of the types in which one field of a type without subtypes refers to another type.
fn nearly(types: &[Type], random: &mut Random) -> Vec<Type> {
    let mut types = types.to_vec();
    let at = random.below(types.len() as u64) as usize;
    let has_subtypes = types.iter().any(|ty| ty.above == Some(at));
    let inherited = types[at].above.map_or(0, |above| types[above].fields.len());
    let own = types[at].fields.len() - inherited;
    if !has_subtypes && own > 0 {
        let field = inherited + random.below(own as u64) as usize;
        types[at].fields[field] = match random.below(3) {
            0 => None,
            _ => Some(random.below(at as u64 + 1) as usize),
        };
    } else if !has_subtypes {
        types[at].is_final ^= true;
    }
    types
}

/// The same types, after the given number of unrelated types.
fn moved(types: &[Type], by: usize) -> Vec<Type> {
    let others = (0..by).map(|group| Type {
        group,
        is_final: true,
        above: None,
        fields: vec![None; 5 + group],
    });
    let moved = types.iter().map(|ty| Type {
        group: ty.group + by,
        is_final: ty.is_final,
        above: ty.above.map(|above| above + by),
        fields: ty
            .fields
            .iter()
            .map(|link| link.map(|link| link + by))
            .collect(),
    });
    others.chain(moved).collect()
}

/// The text of a type, with the full text of its group. Equal types have equal texts.
fn written(types: &[Type], index: usize) -> String {
    let group = types[index].group;
    let link = |to: usize| match to.checked_sub(group) {
        Some(within) => format!("#{within}"),
        None => format!("<{}>", written(types, to)),
    };
    let members = types.iter().filter(|ty| ty.group == group);
    let mut text = format!("{}@", index - group);
    for ty in members {
        let above = ty.above.map(link);
        let fields: Vec<_> = ty.fields.iter().map(|to| to.map(link)).collect();
        let _ = write!(text, "{} {above:?} {fields:?};", ty.is_final);
    }
    text
}

fn module(types: &[Type]) -> String {
    let mut text = "(module".to_owned();
    for (at, ty) in types.iter().enumerate() {
        if ty.group == at {
            text += if at > 0 { ")\n(rec" } else { "\n(rec" };
        }
        let is_final = if ty.is_final { "final" } else { "" };
        let above = ty.above.map_or(String::new(), |above| above.to_string());
        let _ = write!(text, "\n(type (sub {is_final} {above} (struct");
        for link in &ty.fields {
            let _ = match link {
                None => write!(text, " (field i64)"),
                Some(link) => write!(text, " (field (ref null {link}))"),
            };
        }
        text += ")))";
    }
    text += ")";
    for at in 0..types.len() {
        let _ = write!(
            text,
            "\n(func (export \"new{at}\") (result anyref) (struct.new_default {at}))
            (func (export \"is{at}\") (param anyref) (result i32) (ref.test (ref {at}) (local.get 0)))
            (func (export \"cast{at}\") (param anyref) (result anyref) (ref.cast (ref null {at}) (local.get 0)))
            (func (export \"branch{at}\") (param anyref) (result i32)
              (block $l (result anyref)
                (br_on_cast_fail $l anyref (ref {at}) (local.get 0)) (return (drop) (i32.const 1)))
              (drop) (i32.const 0))"
        );
    }
    text + ")"
}

fn one(result: Result<Vec<Value>, CallError>) -> Value {
    let values = result.expect("it returns");
    match values[..] {
        [value] => value,
        _ => panic!("{values:?}"),
    }
}

/// A cast to a type of another module succeeds if that type equals the object's type or a
/// supertype. One changed reference in a recursion group makes all its types different.
#[test]
fn nearly_equal_types_are_different() {
    let mut random = Random(3);
    let region = region(1 << 20);
    let (mut equal, mut different) = (0, 0);
    let rounds = share(24, 3) as u32;
    for round in 0..rounds as usize {
        let first = types(&mut random, 4);
        let second = nearly(&moved(&first, round % 3), &mut random);
        let mut members = Group::new(&region, ());
        let mut add = |types: &[Type]| {
            let member = members.instantiate(&common::wat(&module(types)), &Linker::new());
            member.expect("it starts")
        };
        let both: [(&[Type], MemberId); 2] = [(&first, add(&first)), (&second, add(&second))];
        for (makes, maker) in both {
            for (made, _) in makes.iter().enumerate() {
                let value = one(members.lend(maker).call_values(&format!("new{made}"), &[]));
                let mut above = vec![];
                let mut next = Some(made);
                while let Some(at) = next {
                    above.push(written(makes, at));
                    next = makes[at].above;
                }
                for (asks, who) in both {
                    for asked in 0..asks.len() {
                        let is_it = above.contains(&written(asks, asked));
                        let bit = Value::I32(is_it.into());
                        let mut call = |name: &str| {
                            members
                                .lend(who)
                                .call_values(&format!("{name}{asked}"), &[value])
                        };
                        assert_eq!(one(call("is")), bit, "{makes:?} {made} {asks:?} {asked}");
                        assert_eq!(
                            one(call("branch")),
                            bit,
                            "{makes:?} {made} {asks:?} {asked}"
                        );
                        match call("cast") {
                            Ok(found) => assert!(is_it && found == [value]),
                            other => assert!(
                                !is_it && trap(other.map(|_| value)) == TrapCode::CastFailure
                            ),
                        }
                        equal += u32::from(is_it);
                        different += u32::from(!is_it);
                    }
                }
            }
        }
    }
    let least = 500 * rounds / 24;
    assert!(equal > least && different > least, "{equal} {different}");
}

/// Indirect calls accept functions of the expected type and its subtypes, whether or not the
/// compiler knows the table.
#[test]
fn indirect_calls_accept_subtypes() {
    // For each type: the type and its supertypes.
    const ABOVE: [&[usize]; 6] = [&[0], &[1, 0], &[2, 1, 0], &[3], &[4, 0], &[5]];
    let text = |table: &str| {
        let mut text = r#"(module
          (type $0 (sub (func (result anyref)))) (type $1 (sub $0 (func (result eqref))))
          (type $2 (sub final $1 (func (result i31ref)))) (type $3 (func (result anyref)))
          (type $4 (sub final $0 (func (result structref)))) (type $5 (sub (func (result eqref))))"#
            .to_owned();
        text += table;
        for (at, result) in [
            "(i32.const 0)",
            "(i32.const 1)",
            "(i32.const 2)",
            "(i32.const 3)",
            "",
            "(i32.const 5)",
        ]
        .iter()
        .enumerate()
        {
            let body = if at == 4 {
                "(struct.new_default $s)".to_owned()
            } else {
                format!("(ref.i31 {result})")
            };
            let _ = write!(
                text,
                "(func $f{at} (type {at}) {body})
                (func (export \"by{at}\") (param i32) (drop (call_indirect (type {at}) (local.get 0))))
                (func (export \"cast{at}\") (param i32) (drop (call_ref {at} (ref.cast (ref {at}) (table.get (local.get 0))))))"
            );
            for to in 0..6 {
                let _ = write!(
                    text,
                    "(func (export \"by{at}to{to}\") (drop (call_indirect (type {at}) (i32.const {to}))))
                    (func (export \"tail{at}to{to}\") (result anyref) (return_call_indirect (type {at}) (i32.const {to})))"
                );
            }
        }
        text + "(type $s (struct)))"
    };
    const ELEMENTS: &str = "6 6 funcref) (elem (i32.const 0) func $f0 $f1 $f2 $f3 $f4 $f5)";
    for options in levels() {
        for table in ["(table ", "(table (export \"t\") "] {
            let module = common::wat_with(&text(&format!("{table}{ELEMENTS}")), &options);
            let region = region(1 << 20);
            let mut guest = instance(&region, &module);
            for (func, above) in ABOVE.iter().enumerate() {
                for ty in 0..6 {
                    let at = [Value::I32(func as i32)];
                    for (name, params, code) in [
                        (
                            format!("by{ty}"),
                            &at[..],
                            TrapCode::IndirectCallTypeMismatch,
                        ),
                        (format!("cast{ty}"), &at[..], TrapCode::CastFailure),
                        (
                            format!("by{ty}to{func}"),
                            &[],
                            TrapCode::IndirectCallTypeMismatch,
                        ),
                        (
                            format!("tail{ty}to{func}"),
                            &[],
                            TrapCode::IndirectCallTypeMismatch,
                        ),
                    ] {
                        let result = call(&mut guest, &name, params);
                        match above.contains(&ty) {
                            true => assert!(result.is_ok(), "{name} {func}: {result:?}"),
                            false => assert_eq!(trap(result), code, "{name} {func}"),
                        }
                    }
                }
            }
        }
    }
}

/// A chain of types in which each is a subtype of the one before.
fn chain(count: usize) -> String {
    let mut text = "(type (sub (struct)))".to_owned();
    for at in 1..count {
        let _ = write!(text, "(type (sub {} (struct)))", at - 1);
    }
    text
}

#[test]
fn types_may_have_the_maximum_number_of_supertypes() {
    // The last type has a sibling that shares all of the chain but the end.
    let mut text = format!("(module {} (type (sub 62 (struct (field i32))))", chain(64));
    for at in 0..65 {
        let _ = write!(
            text,
            "(func (export \"new{at}\") (result anyref) (struct.new_default {at}))
            (func (export \"is{at}\") (param anyref) (result i32) (ref.test (ref {at}) (local.get 0)))"
        );
    }
    let module = common::wat(&(text + ")"));
    let region = region(1 << 20);
    let mut guest = instance(&region, &module);
    for made in [0, 1, 31, 62, 63, 64] {
        let value = call(&mut guest, &format!("new{made}"), &[]).expect("it is made");
        for asked in 0..65 {
            let is_it = asked == made || asked < made && asked < 63;
            let found = call(&mut guest, &format!("is{asked}"), &[value]);
            assert_eq!(
                found.expect("it runs"),
                Value::I32(is_it.into()),
                "{made} {asked}"
            );
        }
    }
    let text = format!("(module {})", chain(65));
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let error = common::open(&wasm).expect_err("one too many");
    assert!(error.contains("depth"), "{error}");
}

#[test]
fn structs_may_have_the_maximum_number_of_fields() {
    let fields = |count: usize| "(field (mut v128))".repeat(count);
    let text = |count| {
        format!(
            "(module (type $t (struct {})) (global $a (mut (ref null $t)) (ref.null $t)) (global $b (mut (ref null $t)) (ref.null $t))
            (func (export \"make\") (global.set $a (struct.new_default $t)) (global.set $b (struct.new_default $t)))
            (func (export \"set\") (struct.set $t {last} (global.get $a) (v128.const i64x2 -1 -1)))
            (func (export \"last\") (result i64) (i64x2.extract_lane 1 (struct.get $t {last} (global.get $a))))
            (func (export \"first\") (result i32) (v128.any_true (struct.get $t 0 (global.get $b)))))",
            fields(count),
            last = count - 1
        )
    };
    let region = region(1 << 20);
    let mut guest = instance(&region, &common::wat(&text(10_000)));
    for _ in 0..3 {
        call(&mut guest, "make", &[]).expect("there is room");
        call(&mut guest, "set", &[]).expect("it is there");
        assert_eq!(
            call(&mut guest, "last", &[]).expect("it is there"),
            Value::I64(-1)
        );
        assert_eq!(
            call(&mut guest, "first", &[]).expect("it is there"),
            Value::I32(0)
        );
    }
    // An object has 160,008 bytes, so 1 MiB has room for six.
    assert_eq!(trap(call(&mut guest, "make", &[])), TrapCode::HeapExhausted);
    let text = text(10_001);
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("it is well-formed");
    let error = common::open(&wasm).expect_err("one too many");
    assert!(error.contains("fields"), "{error}");
}

/// Many types that each refer to the one before, and many casts in one function. Compiling and
/// opening must be fast and must not recurse.
#[test]
fn long_chains_of_types_and_casts_compile_fast() {
    let mut text = format!("(module {} (type $n (struct (field i32)))", chain(64));
    for at in 0..20_000 {
        let _ = write!(
            text,
            "(type (struct (field (ref null {})) (field i{})))",
            64 + at,
            32 << (at % 2)
        );
    }
    text += "(func (export \"f\") (param anyref) (result i32)";
    for at in 0..2_000 {
        let _ = write!(
            text,
            "(drop (block (result anyref) (br_on_cast 0 anyref (ref {}) (local.get 0))))",
            at % 64
        );
    }
    let module = common::wat(&(text + "(ref.test (ref 5) (local.get 0))))"));
    let region = region(1 << 20);
    let mut members = Group::new(&region, ());
    let member = members.instantiate(&module, &Linker::new());
    let found = members
        .lend(member.expect("it starts"))
        .call_values("f", &[Value::AnyRef(None)]);
    assert_eq!(one(found), Value::I32(0));
}

/// Damaged types are refused, or the file opens and prepares. The runtime must not crash or confuse
/// types.
#[test]
fn damaged_types_are_refused_or_valid() {
    const TEXT: &str = r#"(module
      (rec (type $a (sub (struct (field (mut (ref null $b)))))) (type $b (sub $a (struct (field (mut (ref null $b))) (field i8)))))
      (type $c (sub final $b (struct (field (mut (ref null $b))) (field i8) (field v128))))
      (type $d (array (mut i16))) (type $e (sub (array (ref null $a)))) (type $f (sub $e (array (ref $b))))
      (type $g (sub (func (param (ref $b)) (result (ref $a))))) (type $h (sub $g (func (param (ref $a)) (result (ref $b)))))
      (import "h" "e" (global $given externref))
      (global $any anyref (any.convert_extern (global.get $given)))
      (global $out externref (extern.convert_any (ref.i31 (i32.const 5))))
      (global $array (ref $d) (array.new $d (i32.const 7) (i32.const 9)))
      (global $struct (ref $c) (struct.new $c (ref.null $b) (i32.const 1) (v128.const i64x2 1 2)))
      (table $t 2 (ref null $a) (struct.new_default $b)) (table $u 2 funcref)
      (elem $fixed (ref $e) (item (array.new_fixed $e 2 (ref.null $a) (global.get $struct))))
      (elem (table $t) (i32.const 1) (ref null $a) (item (struct.new_default $a)))
      (elem (table $u) (i32.const 0) func $h)
      (data $data "0123456789")
      (tag (export "tag") (param (ref null $f)))
      (func $h (export "h") (type $h) (ref.cast (ref $b) (local.get 0)))
      (func (export "call") (type $g) (call_indirect $u (type $g) (local.get 0) (i32.const 0)))
      (func (export "data") (result (ref $d)) (array.new_data $d $data (i32.const 0) (i32.const 3))))"#;
    let files = share(4000, 6);
    let file = File::new(TEXT);
    let region = region(1 << 20);
    let mut linker = Linker::<()>::new();
    let given = common::values::external(3);
    linker.global("h", "e", given).expect("it is free");
    let whole = file.open(&[]).expect("it is whole");
    let prepared = region.prepare(&whole, &linker).expect("it fits");
    prepared.instantiate(()).expect("it starts");
    let mut random = Random(11);
    let mut taken = 0;
    for _ in 0..files {
        let Ok(module) = file.damaged(&mut random, 3, 24) else {
            continue;
        };
        taken += 1;
        let _ = region.prepare(&module, &linker);
    }
    // Each byte of the metadata, with its lowest bit flipped and with three fixed values.
    let changes = file.metadata.clone();
    let changes = changes.flat_map(|at| [file.bytes[at] ^ 1, 0, 0x7f, 0xff].map(|to| (at, to)));
    // By default one change of five, so that all kinds take turns.
    for (at, byte) in sampled(changes, 5, 0) {
        if let Ok(module) = file.open(&[(at, &[byte])]) {
            let _ = region.prepare(&module, &linker);
        }
    }
    assert!(taken > 0 && taken < files, "{taken} were taken");
}
