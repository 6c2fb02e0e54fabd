//! Typed function references: calls, nulls, initial values of tables, references that pass between
//! host and guest, and type equality across modules.

use crate::common;

use common::values::{Lend as _, external, group, instance, levels, number, prepare};
use pirn_compiler::Options;
use pirn_runtime::{
    CallError, CompositeKind, FuncType, GroupError, HeapType, LinkError, Linker, Region, TrapCode,
    ValType, Value,
};

fn one(result: Result<Vec<Value>, CallError>) -> Value {
    match result.expect("it returns")[..] {
        [value] => value,
        ref other => panic!("{other:?}"),
    }
}

#[track_caller]
fn trapped(result: Result<Vec<Value>, CallError>, code: TrapCode) {
    match result {
        Err(CallError::Trap(trap)) if trap.code() == code => {
            assert!(trap.wasm_offset().is_some(), "{trap}");
        }
        other => panic!("expected {code}, found {other:?}"),
    }
}

const GUEST: &str = r#"(module
  (type $i (func (param i32) (result i32)))
  (type $far (func (param i32 (ref $i)) (result i32)))
  (elem declare func $double $count $far $odd)
  (global $n (mut i32) (i32.const 0))
  (global $typed (mut (ref null $i)) (ref.null $i))
  (func $double (export "double") (type $i) (i32.mul (local.get 0) (i32.const 2)))
  (func $far (type $far) (i32.add (call_ref $i (local.get 0) (local.get 1)) (i32.const 1)))
  (func (export "calls") (type $i) (call_ref $i (local.get 0) (ref.func $double)))
  (func (export "calls_far") (type $i) (call_ref $far (local.get 0) (ref.func $double) (ref.func $far)))
  (func (export "calls_null") (type $i) (call_ref $i (local.get 0) (ref.null $i)))
  (func (export "calls_typed") (type $i) (call_ref $i (local.get 0) (global.get $typed)))
  (func (export "tail_calls_typed") (type $i) (return_call_ref $i (local.get 0) (global.get $typed)))
  (func (export "sets") (type $i) (global.set $typed (ref.func $double)) (i32.const 0))
  (func $count (export "counts") (type $i)
    (if (result i32) (local.get 0)
      (then (return_call_ref $i (i32.sub (local.get 0) (i32.const 1))
        (select (result (ref $i)) (ref.func $odd) (ref.func $count) (i32.and (local.get 0) (i32.const 1)))))
      (else (i32.const 60))))
  (func $odd (type $i)
    (if (result i32) (local.get 0)
      (then (return_call_ref $i (i32.sub (local.get 0) (i32.const 1)) (ref.func $count)))
      (else (i32.const 61))))
  (func (export "as_non_null") (type $i) (call_ref $i (local.get 0) (ref.as_non_null (global.get $typed))))
  (func (export "on_null") (type $i)
    (block $null
      (return (call_ref $i (local.get 0) (br_on_null $null (global.get $typed)))))
    (i32.const -1))
  (func (export "on_non_null") (type $i) (local $l (ref $i))
    (block $typed (result (ref $i))
      (br_on_non_null $typed (global.get $typed))
      (return (i32.const -1)))
    (local.set $l)
    (call_ref $i (i32.add (local.get 0) (i32.const 100)) (local.get $l))))"#;

#[test]
fn calls_of_references_run_or_trap_on_null() {
    for mut options in levels() {
        for fuel in [false, true] {
            options.fuel = fuel;
            let mut guest = instance(GUEST, &options);
            let mut call = |name: &str, n| guest.call_values(name, &[Value::I32(n)]);
            assert_eq!(number(call("calls", 4)), 8);
            assert_eq!(number(call("calls_far", 4)), 9);
            trapped(call("calls_null", 4), TrapCode::NullFunctionReference);
            trapped(call("calls_typed", 4), TrapCode::NullFunctionReference);
            trapped(call("tail_calls_typed", 4), TrapCode::NullFunctionReference);
            trapped(call("as_non_null", 4), TrapCode::NullReference);
            assert_eq!(number(call("on_null", 4)), -1);
            assert_eq!(number(call("on_non_null", 4)), -1);
            assert_eq!(number(call("sets", 4)), 0);
            for name in ["calls_typed", "tail_calls_typed", "as_non_null", "on_null"] {
                assert_eq!(number(call(name, 21)), 42, "{name}");
            }
            assert_eq!(number(call("on_non_null", 21)), 242);
            assert_eq!(number(call("counts", 5_000_000)), 61);
        }
    }
}

#[test]
fn null_references_have_their_trap_messages() {
    let mut guest = instance(GUEST, &Options::default());
    let mut error = |name: &str| {
        let error = guest.call_values(name, &[Value::I32(1)]);
        error.expect_err("it traps").to_string()
    };
    assert!(error("calls_null").contains("null function reference"));
    assert!(error("as_non_null").contains("null reference"));
}

/// Tables with initial values. With [`CHANGES`] the guest writes to them, so the compiler does not
/// know their elements.
const TABLES: &str = r#"(module
  (type $i (func (param i32) (result i32)))
  (type $same (func (param i32) (result i32)))
  (type $l (func (param i64) (result i64)))
  (table $all 5 (ref $i) (ref.func $one))
  (table $any 4 funcref (ref.func $two))
  (table $null 3 (ref null $i))
  (elem (table $all) (i32.const 2) (ref $i) (ref.func $two) (ref.func $three))
  (elem (table $any) (i32.const 1) funcref (ref.null func) (ref.func $long))
  (elem (table $null) (i32.const 1) (ref null $i) (ref.func $three))
  (elem declare func $three)
  (func $one (type $i) (i32.add (local.get 0) (i32.const 1)))
  (func $two (type $same) (i32.add (local.get 0) (i32.const 2)))
  (func $three (type $i) (i32.add (local.get 0) (i32.const 3)))
  (func $long (type $l) (local.get 0))
  (func (export "all") (param i32 i32) (result i32)
    (call_indirect $all (type $same) (local.get 1) (local.get 0)))
  (func (export "any") (param i32 i32) (result i32)
    (call_indirect $any (type $i) (local.get 1) (local.get 0)))
  (func (export "null") (param i32 i32) (result i32)
    (call_indirect $null (type $i) (local.get 1) (local.get 0)))
  (func (export "ref") (param i32 i32) (result i32)
    (call_ref $i (local.get 1) (table.get $all (local.get 0))))
  CHANGES)"#;

const CHANGES: &str = r#"
  (func (export "change") (param i32) (result i32)
    (table.set $all (local.get 0) (ref.func $three))
    (table.fill $any (i32.const 0) (ref.func $three) (i32.const 4))
    (table.grow $all (ref.func $two) (i32.const 2)))"#;

#[test]
fn tables_have_their_initial_values_in_each_instance() {
    for options in levels() {
        for changes in ["", CHANGES] {
            let prepared = prepare(&TABLES.replace("CHANGES", changes), &options);
            for _ in 0..3 {
                let mut guest = prepared.try_instantiate(()).expect("the slot is free");
                let mut call = |name: &str, at| guest.call_values(name, &[at, 10].map(Value::I32));
                for (at, added) in [(0, 1), (1, 1), (2, 2), (3, 3), (4, 1)] {
                    assert_eq!(number(call("all", at)), 10 + added, "{at}");
                    assert_eq!(number(call("ref", at)), 10 + added, "{at}");
                }
                trapped(call("all", 5), TrapCode::UndefinedElement);
                trapped(call("ref", 5), TrapCode::TableOutOfBounds);
                assert_eq!(number(call("any", 0)), 12);
                trapped(call("any", 1), TrapCode::UninitializedElement);
                trapped(call("any", 2), TrapCode::IndirectCallTypeMismatch);
                assert_eq!(number(call("any", 3)), 12);
                trapped(call("null", 0), TrapCode::UninitializedElement);
                assert_eq!(number(call("null", 1)), 13);
                trapped(call("null", 2), TrapCode::UninitializedElement);
                if !changes.is_empty() {
                    let before = number(guest.call_values("change", &[Value::I32(0)]));
                    assert_eq!(before, 5);
                    let mut call =
                        |name: &str, at| guest.call_values(name, &[at, 10].map(Value::I32));
                    assert_eq!(number(call("all", 0)), 13);
                    assert_eq!(number(call("all", 6)), 12);
                    assert_eq!(number(call("any", 1)), 13);
                }
            }
        }
    }
}

/// A table whose initial value is an imported global, and references to imported functions.
#[test]
fn tables_are_initialised_from_imports() {
    const OWNER: &str = r#"(module
      (type $i (func (param i32) (result i32)))
      (global $g (export "g") (ref $i) (ref.func $f))
      (global $m (mut i32) (i32.const 5))
      (func $f (export "f") (type $i) (i32.add (local.get 0) (global.get $m))))"#;
    const USER: &str = r#"(module
      (type $other (func))
      (type $i (func (param i32) (result i32)))
      (import "owner" "g" (global $g (ref $i)))
      (import "owner" "g" (global $wide funcref))
      (import "owner" "f" (func $f (type $i)))
      (table $t 3 (ref null $i) (global.get $g))
      (table $u 3 (ref $i) (ref.func $f))
      (elem (table $t) (i32.const 1) (ref null $i) (ref.null $i))
      (func (export "t") (param i32) (result i32) (call_indirect $t (type $i) (i32.const 1) (local.get 0)))
      (func (export "u") (param i32) (result i32) (call_ref $i (i32.const 1) (table.get $u (local.get 0))))
      (func (export "g") (result i32) (return_call_ref $i (i32.const 2) (global.get $g)))
      (func (export "wide") (result i32) (ref.is_null (global.get $wide))))"#;
    for options in levels() {
        let mut group = group(2);
        let linker = Linker::new();
        let owner = group.instantiate(&common::wat_with(OWNER, &options), &linker);
        let owner = owner.expect("it starts");
        group.name("owner", owner);
        let user = group.instantiate(&common::wat_with(USER, &options), &linker);
        let user = user.expect("it links");
        let at = |n| [Value::I32(n)];
        for n in [0, 2] {
            assert_eq!(number(group.lend(user).call_values("t", &at(n))), 6);
        }
        trapped(
            group.lend(user).call_values("t", &at(1)),
            TrapCode::UninitializedElement,
        );
        assert_eq!(number(group.lend(user).call_values("u", &at(2))), 6);
        assert_eq!(number(group.lend(user).call_values("g", &[])), 7);
        assert_eq!(number(group.lend(user).call_values("wide", &[])), 0);
        assert!(matches!(
            group.at(owner).global("g"),
            Some(Value::FuncRef(Some(_)))
        ));
    }
}

/// Functions that the host calls with references, and that return references.
const PUBLIC: &str = r#"(module
  (type $i (func (param i32) (result i32)))
  (type $none (func))
  (export "typed" (global $typed))
  (global $typed (ref $i) (ref.func $double))
  (func $double (type $i) (i32.mul (local.get 0) (i32.const 2)))
  (func $none (type $none))
  (elem declare func $none)
  (func (export "double") (result (ref $i)) (ref.func $double))
  (func (export "none") (result (ref func)) (ref.func $none))
  (func (export "null") (result (ref null $i)) (ref.null $i))
  (func (export "null_or") (param (ref null $i)) (result i32)
    (block $null (return (call_ref $i (i32.const 8) (br_on_null $null (local.get 0))))) (i32.const -1))
  (func (export "non_null") (param (ref $i)) (result i32) (call_ref $i (i32.const 9) (local.get 0)))
  (func (export "any") (param (ref func)) (result i32) (ref.is_null (local.get 0)))
  (func (export "extern") (param (ref extern)) (result (ref extern)) (local.get 0))
  (func (export "plain") (param funcref) (result i32) (ref.is_null (local.get 0))))"#;

#[test]
fn references_pass_between_host_and_guest() {
    let mut guest = instance(PUBLIC, &Options::default());
    let mut get = |name: &str| one(guest.call_values(name, &[]));
    let [double, none, null] = ["double", "none", "null"].map(&mut get);
    assert_eq!(null, Value::FuncRef(None));
    assert_eq!(
        guest.global("typed").map(|value| value.ty()),
        Some(ValType::FUNCREF)
    );
    let mut call = |name: &str, value| guest.call_values(name, &[value]);
    assert_eq!(number(call("null_or", double)), 16);
    assert_eq!(number(call("null_or", null)), -1);
    assert_eq!(number(call("non_null", double)), 18);
    assert_eq!(number(call("any", none)), 0);
    assert_eq!(number(call("any", double)), 0);
    assert_eq!(number(call("plain", none)), 0);
    assert_eq!(number(call("plain", null)), 1);
    assert_eq!(one(call("extern", external(7))), external(7));
    for (name, value, found) in [
        (
            "null_or",
            none,
            "takes (ref null 0) as value 0, a function of another type than (i32) -> i32 was given",
        ),
        (
            "non_null",
            none,
            "takes (ref 0) as value 0, a function of another type than (i32) -> i32 was given",
        ),
        (
            "non_null",
            null,
            "takes (ref 0) as value 0, null of type funcref was given",
        ),
        (
            "any",
            null,
            "takes (ref func) as value 0, null of type funcref was given",
        ),
        (
            "extern",
            external(0),
            "takes (ref extern) as value 0, null of type externref was given",
        ),
        (
            "extern",
            double,
            "takes (ref extern) as value 0, funcref was given",
        ),
        (
            "non_null",
            external(3),
            "takes (ref 0) as value 0, externref was given",
        ),
        (
            "null_or",
            Value::I32(0),
            "takes (ref null 0) as value 0, i32 was given",
        ),
    ] {
        let error = call(name, value).expect_err("it is refused").to_string();
        let wanted = format!("function {name:?} {found}; give a value of that type");
        assert_eq!(error, wanted);
    }
    // A reference of another instance is refused.
    let mut other = instance(PUBLIC, &Options::default());
    for name in ["null_or", "non_null", "any", "plain"] {
        let error = other
            .call_values(name, &[double])
            .expect_err("it is refused");
        assert!(
            error.to_string().contains("another instance"),
            "{name}: {error}"
        );
    }
}

#[test]
fn functions_of_typed_references_are_called_by_values() {
    let prepared = prepare(PUBLIC, &Options::default());
    let error = prepared.func::<Option<pirn_runtime::FuncRef>, i32>("non_null");
    let error = error.expect_err("it is of another type").to_string();
    let wanted = "function \"non_null\" has type ((ref 0)) -> i32, the caller wants (funcref) -> \
                  i32; ask for the type that it has";
    assert_eq!(error, wanted);
}

#[test]
fn references_from_host_functions_are_checked() {
    const TEXT: &str = r#"(module
      (import "h" "f" (func $f (param (ref extern)) (result (ref extern))))
      (import "h" "g" (func $g (param (ref func)) (result (ref func))))
      (elem declare func $g)
      (func (export "f") (param externref) (result externref)
        (block $null (return (call $f (br_on_null $null (local.get 0))))) (ref.null extern))
      (func (export "g") (result i32) (ref.is_null (call $g (ref.func $g)))))"#;
    let ty = |ty: ValType| FuncType {
        params: vec![ty],
        results: vec![ty],
    };
    for gives_null in [false, true] {
        let mut linker = Linker::<()>::new();
        for (name, wanted) in [
            ("f", ValType::non_null(HeapType::Extern)),
            ("g", ValType::non_null(HeapType::Func)),
        ] {
            let func = linker.func_values("h", name, ty(wanted), move |_, params, results| {
                if !gives_null {
                    results[0] = params[0];
                }
                Ok(())
            });
            func.expect("the names are free");
        }
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region
            .prepare(&common::wat(TEXT), &linker)
            .expect("it links");
        let mut guest = prepared.try_instantiate(()).expect("the slot is free");
        let f = guest.call_values("f", &[external(4)]);
        let g = guest.call_values("g", &[]);
        if gives_null {
            for (result, ty, wanted) in [
                (f, "externref", "(ref extern)"),
                (g, "funcref", "(ref func)"),
            ] {
                let error = result.expect_err("it is refused").to_string();
                let told = format!(
                    "returned null of type {ty}, its type says {wanted}; return a value of \
                     that type"
                );
                assert!(error.contains(&told), "{error}");
            }
        } else {
            assert_eq!(one(f), external(4));
            assert_eq!(number(g), 0);
        }
    }
    for named in [
        ValType::nullable(HeapType::Concrete(CompositeKind::Func, 0)),
        ValType::non_null(HeapType::Concrete(CompositeKind::Func, 3)),
    ] {
        let mut linker = Linker::<()>::new();
        let error = linker.func_values("h", "f", ty(named), |_, _, _| Ok(()));
        let error = error.expect_err("the host cannot make this type");
        assert!(matches!(error, LinkError::HostFunc { .. }));
        let wanted = format!(
            "host function h.f has a value of type {named}, which a module defines; use an \
             abstract type, such as funcref or (ref func)"
        );
        assert_eq!(error.to_string(), wanted);
    }
}

#[test]
fn references_in_host_globals_are_checked() {
    let text = |ty: &str| format!("(module (type $t (func)) (import \"h\" \"g\" (global {ty})))");
    for (value, fits, refused) in [
        (
            external(5),
            vec!["externref", "(ref extern)"],
            vec!["funcref", "(ref null $t)"],
        ),
        (
            external(0),
            vec!["externref"],
            vec!["(ref extern)", "(ref null $t)"],
        ),
        (
            Value::FuncRef(None),
            vec!["funcref", "(ref null $t)"],
            vec!["(ref func)", "(ref $t)", "externref"],
        ),
    ] {
        let mut linker = Linker::<()>::new();
        linker.global("h", "g", value).expect("the name is free");
        let region = Region::builder().slots(1).build().expect("a region");
        for ty in fits {
            let prepared = region.prepare(&common::wat(&text(ty)), &linker);
            prepared.unwrap_or_else(|error| panic!("{value} as {ty}: {error}"));
        }
        for ty in refused {
            let error = region.prepare(&common::wat(&text(ty)), &linker);
            assert!(
                matches!(error, Err(LinkError::Mismatch { .. })),
                "{value} as {ty}"
            );
        }
    }
}

/// Calls and imports compare types by their definitions, not by their indices.
#[test]
fn types_of_different_modules_are_compared_by_structure() {
    const OWNER: &str = r#"(module
      (type $unused (func (param f64)))
      (type $i (func (param i32) (result i32)))
      (type $twice (func (param i32) (result i32)))
      (type $far (func (param (ref $twice)) (result i32)))
      (global (export "far") (ref $far) (ref.func $f))
      (global (export "mut") (mut (ref null $far)) (ref.func $f))
      (table (export "table") 2 (ref null $far) (ref.func $f))
      (table (export "any") 2 funcref (ref.func $f))
      (func $f (export "f") (type $far) (call_ref $i (i32.const 4) (local.get 0))))"#;
    const USER: &str = r#"(module
      (type $i (func (param i32) (result i32)))
      (type $far (func (param (ref $i)) (result i32)))
      (type $nullable (func (param (ref null $i)) (result i32)))
      (type $of_other (func (param (ref $far)) (result i32)))
      (elem declare func $double)
      IMPORT
      (func $double (type $i) (i32.mul (local.get 0) (i32.const 2)))
      (func (export "run") (result i32) RUN))"#;
    let links = [
        (
            "(import \"o\" \"f\" (func $x (type $far)))",
            "(call $x (ref.func $double))",
        ),
        (
            "(import \"o\" \"far\" (global $x (ref $far)))",
            "(call_ref $far (ref.func $double) (global.get $x))",
        ),
        (
            "(import \"o\" \"far\" (global $x (ref null $far)))",
            "(call_ref $far (ref.func $double) (global.get $x))",
        ),
        (
            "(import \"o\" \"far\" (global $x (ref func)))",
            "(i32.const 8)",
        ),
        (
            "(import \"o\" \"far\" (global $x funcref))",
            "(i32.const 8)",
        ),
        (
            "(import \"o\" \"mut\" (global $x (mut (ref null $far))))",
            "(call_ref $far (ref.func $double) (global.get $x))",
        ),
        (
            "(import \"o\" \"table\" (table $x 2 (ref null $far)))",
            "(call_ref $far (ref.func $double) (table.get $x (i32.const 1)))",
        ),
        (
            "(import \"o\" \"any\" (table $x 2 funcref))",
            "(call_indirect $x (type $far) (ref.func $double) (i32.const 1))",
        ),
    ];
    let refused = [
        "(import \"o\" \"f\" (func $x (type $nullable)))",
        "(import \"o\" \"f\" (func $x (type $of_other)))",
        "(import \"o\" \"far\" (global $x (ref $nullable)))",
        "(import \"o\" \"far\" (global $x (mut (ref $far))))",
        "(import \"o\" \"far\" (global $x externref))",
        "(import \"o\" \"mut\" (global $x (ref null $far)))",
        "(import \"o\" \"mut\" (global $x (mut funcref)))",
        "(import \"o\" \"mut\" (global $x (mut (ref $far))))",
        "(import \"o\" \"table\" (table $x 2 funcref))",
        "(import \"o\" \"table\" (table $x 2 (ref null $of_other)))",
        "(import \"o\" \"any\" (table $x 2 (ref null $far)))",
    ];
    let mut group = group(1 + links.len() as u32);
    let linker = Linker::new();
    let owner = group.instantiate(&common::wat(OWNER), &linker);
    group.name("o", owner.expect("it starts"));
    for (import, run) in links {
        let text = USER.replace("IMPORT", import).replace("RUN", run);
        let user = group.instantiate(&common::wat(&text), &linker);
        let user = user.unwrap_or_else(|error| panic!("{import}: {error}"));
        assert_eq!(
            number(group.lend(user).call_values("run", &[])),
            8,
            "{import}"
        );
    }
    for import in refused {
        let text = USER
            .replace("IMPORT", import)
            .replace("RUN", "(i32.const 0)");
        let error = group.instantiate(&common::wat(&text), &linker);
        assert!(
            matches!(error, Err(GroupError::Link(LinkError::Mismatch { .. }))),
            "{import}: {error:?}"
        );
    }
}

/// A call with one type reaches a function declared with an equal type, whether or not the compiler
/// knows the table.
#[test]
fn equal_types_of_a_module_are_interchangeable() {
    const TEXT: &str = r#"(module
      (type $a (func (result i32))) (type $b (func (result i32)))
      (type $of_a (func (param (ref null $a)) (result i32)))
      (type $of_b (func (param (ref null $b)) (result i32)))
      (type $not_null (func (param (ref $b)) (result i32)))
      (table $t 4 funcref) (elem (i32.const 1) func $f $g)
      EXPORT
      (func $f (type $of_a) (i32.const 50))
      (func $g (type $not_null) (i32.const 51))
      (func (export "of_b") (param i32) (result i32) (call_indirect (type $of_b) (ref.null $a) (local.get 0)))
      (func (export "constant") (param i32) (result i32) (call_indirect (type $of_b) (ref.null $a) (i32.const 1)))
      (func (export "other") (param i32) (result i32) (call_indirect (type $of_b) (ref.null $a) (i32.const 2))))"#;
    for options in levels() {
        for export in ["", "(export \"t\" (table $t))"] {
            let mut guest = instance(&TEXT.replace("EXPORT", export), &options);
            let mut call = |name: &str, at| guest.call_values(name, &[Value::I32(at)]);
            assert_eq!(number(call("of_b", 1)), 50);
            assert_eq!(number(call("constant", 1)), 50);
            trapped(call("of_b", 2), TrapCode::IndirectCallTypeMismatch);
            trapped(call("other", 2), TrapCode::IndirectCallTypeMismatch);
            trapped(call("of_b", 0), TrapCode::UninitializedElement);
        }
    }
}
