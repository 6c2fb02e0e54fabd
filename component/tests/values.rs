//! Values cross between the host and guests, and between guests: all types, in both directions.

use crate::common;

use common::{Guest, guest};
use pirn_component::{AbiError, CallError, Linker, Value};

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn some(value: Value) -> Option<Box<Value>> {
    Some(Box::new(value))
}

/// A component whose function `echo` returns its parameter of type `ty`, with a memory, a bump
/// allocator, and this core function.
fn echo(declared: &str, ty: &str, options: &str, core: &str) -> Guest {
    let wat = format!(
        r#"(component
          (core module $m
            (memory (export "memory") 2)
            (global $next (mut i32) (i32.const 1024))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
              (global.set $next (i32.and
                (i32.add (global.get $next) (i32.sub (local.get 2) (i32.const 1)))
                (i32.sub (i32.const 0) (local.get 2))))
              (global.get $next)
              (global.set $next (i32.add (global.get $next) (local.get 3))))
            {core})
          (core instance $i (instantiate $m))
          {declared}
          (func (export "echo") (param "value" {ty}) (result {ty})
            (canon lift (core func $i "echo") (memory (core memory $i "memory"))
              (realloc (core func $i "realloc")) {options})))"#
    );
    guest(&wat, &Linker::<()>::new())
}

/// Returns what it was given, as it is in memory: for types of two core values.
const PAIR: &str = r#"(func (export "echo") (param i32 i32) (result i32)
  (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1))
  (i32.const 16))"#;

#[test]
fn numbers_keep_their_bits() {
    for (ty, core, value) in [
        ("bool", "i32", Value::Bool(true)),
        ("s8", "i32", Value::S8(-128)),
        ("u8", "i32", Value::U8(255)),
        ("s16", "i32", Value::S16(-32768)),
        ("u16", "i32", Value::U16(65535)),
        ("s32", "i32", Value::S32(i32::MIN)),
        ("u32", "i32", Value::U32(u32::MAX)),
        ("s64", "i64", Value::S64(i64::MIN)),
        ("u64", "i64", Value::U64(u64::MAX)),
        ("f32", "f32", Value::F32(-0.5)),
        ("f64", "f64", Value::F64(1e300)),
        ("char", "i32", Value::Char('\u{10FFFF}')),
    ] {
        let core =
            format!(r#"(func (export "echo") (param {core}) (result {core}) (local.get 0))"#);
        let mut guest = echo("", ty, "", &core);
        assert_eq!(
            guest.call("echo", std::slice::from_ref(&value)),
            Ok(Some(value)),
            "{ty}"
        );
    }
}

#[test]
fn numbers_of_a_guest_are_cut_to_their_type() {
    let core = r#"(func (export "echo") (param i32) (result i32) (i32.const 0x1ff))"#;
    let mut guest = echo("", "u8", "", core);
    let value = guest.call("echo", &[Value::U8(0)]);
    assert_eq!(value, Ok(Some(Value::U8(255))));
    let mut guest = echo("", "bool", "", core);
    let value = guest.call("echo", &[Value::Bool(false)]);
    assert_eq!(value, Ok(Some(Value::Bool(true))));
}

/// The canonical ABI ignores bits past the last flag, as a guest may set them.
#[test]
fn bits_that_name_no_flag_are_ignored() {
    for number in [1, 3, 8, 13, 31, 32] {
        let names: Vec<_> = (0..number).map(|flag| format!("f{flag}")).collect();
        let declared = format!(
            r#"(type $f' (flags {})) (export $f "f" (type $f'))"#,
            names
                .iter()
                .map(|name| format!("{name:?} "))
                .collect::<String>()
        );
        let call = |bits: &str| {
            let core = format!(r#"(func (export "echo") (param i32) (result i32) {bits})"#);
            let mut guest = echo(&declared, "$f", "", &core);
            guest.call("echo", &[Value::Flags(vec![])])
        };
        let value = call("(i32.const -1)");
        assert_eq!(value, Ok(Some(Value::Flags(names))), "{number} flags");
        if number < 32 {
            // The account counts no memory for these bits, so they must not take any.
            let value = call(&format!("(i32.const {})", u32::MAX << number));
            let Ok(Some(Value::Flags(set))) = value else {
                panic!("{value:?}")
            };
            assert_eq!((set.len(), set.capacity()), (0, 0), "{number} flags");
        }
    }
}

#[test]
fn strings_of_each_encoding() {
    for (options, texts) in [
        ("", ["", "plain", "gr\u{fc}n \u{1f600}"]),
        (
            "string-encoding=utf16",
            ["", "plain", "gr\u{fc}n \u{1f600}"],
        ),
        (
            "string-encoding=latin1+utf16",
            ["", "gr\u{fc}n", "\u{1f600}"],
        ),
    ] {
        let mut guest = echo("", "string", options, PAIR);
        for each in texts {
            let value = guest.call("echo", &[text(each)]);
            assert_eq!(value, Ok(Some(text(each))), "{options}");
        }
    }
}

#[test]
fn compound_values() {
    let list = Value::List(vec![text("a"), text(""), text("bc")]);
    let mut guest = echo("", "(list string)", "", PAIR);
    assert_eq!(
        guest.call("echo", std::slice::from_ref(&list)),
        Ok(Some(list))
    );

    // A variant of an option of a number: a discriminant, another, and the number.
    let declared = r#"
      (type $o (option u64))
      (type $v' (variant (case "none") (case "some" $o) (case "text" string)))
      (export $v "v" (type $v'))"#;
    let core = r#"(func (export "echo") (param i32 i32 i64) (result i32)
      (i32.store8 (i32.const 32) (local.get 0))
      (if (i32.eq (local.get 0) (i32.const 2))
        (then (i32.store (i32.const 40) (local.get 1))
          (i32.store (i32.const 44) (i32.wrap_i64 (local.get 2))))
        (else (i32.store8 (i32.const 40) (local.get 1))
          (i64.store (i32.const 48) (local.get 2))))
      (i32.const 32))"#;
    let mut guest = echo(declared, "$v", "", core);
    for value in [
        Value::Variant("none".into(), None),
        Value::Variant("some".into(), some(Value::Option(some(Value::U64(7))))),
        Value::Variant("some".into(), some(Value::Option(None))),
        Value::Variant("text".into(), some(text("variant"))),
    ] {
        assert_eq!(
            guest.call("echo", std::slice::from_ref(&value)),
            Ok(Some(value))
        );
    }
}

#[test]
fn records_flags_enums_and_results() {
    let declared = r#"
      (type $f' (flags "a" "b" "c")) (export $f "f" (type $f'))
      (type $e' (enum "x" "y")) (export $e "e" (type $e'))
      (type $r' (record (field "flags" $f) (field "kind" $e) (field "size" u16)))
      (export $r "r" (type $r'))"#;
    let core = r#"(func (export "echo") (param i32 i32 i32) (result i32)
      (i32.store8 (i32.const 16) (local.get 0)) (i32.store8 (i32.const 17) (local.get 1))
      (i32.store16 (i32.const 18) (local.get 2)) (i32.const 16))"#;
    let mut guest = echo(declared, "$r", "", core);
    let value = Value::Record(vec![
        ("flags".into(), Value::Flags(vec!["a".into(), "c".into()])),
        ("kind".into(), Value::Enum("y".into())),
        ("size".into(), Value::U16(513)),
    ]);
    assert_eq!(
        guest.call("echo", std::slice::from_ref(&value)),
        Ok(Some(value))
    );

    let core = r#"(func (export "echo") (param i32 i32) (result i32)
      (i32.store8 (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1))
      (i32.const 16))"#;
    let mut guest = echo("", "(result u32 (error s32))", "", core);
    for value in [
        Value::Result(Ok(some(Value::U32(9)))),
        Value::Result(Err(some(Value::S32(-9)))),
    ] {
        assert_eq!(
            guest.call("echo", std::slice::from_ref(&value)),
            Ok(Some(value))
        );
    }
}

#[test]
fn many_parameters_are_passed_in_memory() {
    let params: String = (0..17).map(|n| format!(r#"(param "p{n}" u32) "#)).collect();
    let wat = format!(
        r#"(component
          (core module $m
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
            (func (export "last") (param i32) (result i32)
              (i32.load (i32.add (local.get 0) (i32.const 64)))))
          (core instance $i (instantiate $m))
          (func (export "last") {params} (result u32)
            (canon lift (core func $i "last") (memory (core memory $i "memory"))
              (realloc (core func $i "realloc")))))"#
    );
    let mut guest = guest(&wat, &Linker::<()>::new());
    let params: Vec<Value> = (0..17).map(Value::U32).collect();
    assert_eq!(guest.call("last", &params), Ok(Some(Value::U32(16))));
}

#[test]
fn values_of_other_types_are_refused_and_the_instance_stays() {
    let mut guest = echo("", "(list u8)", "", PAIR);
    for (value, message) in [
        (
            Value::U32(1),
            "value is u32, its type is list<u8>; give a value of that type",
        ),
        (
            Value::List(vec![Value::U8(1), text("x")]),
            "value is string, its type is u8; give a value of that type",
        ),
    ] {
        assert_eq!(guest.call("echo", &[value]), Err(message.to_owned()));
    }
    let error = guest.call("echo", &[]).expect_err("there is one parameter");
    assert_eq!(error, "echo takes 1 parameters, not 0");
    let list = Value::List(vec![Value::U8(1)]);
    assert_eq!(
        guest.call("echo", std::slice::from_ref(&list)),
        Ok(Some(list))
    );
}

#[test]
fn values_that_break_a_rule_end_the_instance() {
    let constant = |first: u32, second: u32| {
        format!(
            r#"(func (export "echo") (param i32 i32) (result i32)
              (i32.store (i32.const 16) (i32.const {first}))
              (i32.store (i32.const 20) (i32.const {second})) (i32.const 16))"#
        )
    };
    for (ty, core, value, wanted) in [
        (
            "string",
            constant(131_000, 100),
            text(""),
            "a string of 100 bytes at 0x1ffb8 exceeds the memory of 131072 bytes",
        ),
        (
            "(list u32)",
            constant(6, 1),
            Value::List(vec![]),
            "a list at 0x6 is not aligned to 4 bytes",
        ),
        (
            "(list u32)",
            constant(8, 0x4000_0001),
            Value::List(vec![]),
            "a list of 4294967300 bytes at 0x8 exceeds the memory of 131072 bytes",
        ),
        (
            "string",
            constant(16, 1).replace("i32.const 16))", "i32.const 18))"),
            text(""),
            "a result at 0x12 is not aligned to 4 bytes",
        ),
    ] {
        let mut guest = echo("", ty, "", &core);
        let error = guest.call("echo", std::slice::from_ref(&value));
        assert_eq!(error, Err(wanted.to_owned()), "{ty}");
        let error = guest.call("echo", &[value]).expect_err("it has failed");
        assert!(error.contains("an earlier call of the instance has failed"));
        assert_eq!(guest.free_slots_after_drop(), 1);
    }
    let core = r#"(func (export "echo") (param i32) (result i32) (i32.const 0xd800))"#;
    let mut guest = echo("", "char", "", core);
    let error = guest.call_typed("echo", &[Value::Char('a')]);
    let abi = match error {
        Err(CallError::Abi(abi)) => abi,
        other => panic!("{other:?}"),
    };
    assert_eq!(abi, AbiError::Char(0xd800));
}

#[test]
fn an_allocator_that_returns_nonsense_ends_the_instance() {
    for (address, wanted) in [
        (
            "(i32.const -8)",
            "allocated memory of 5 bytes at 0xfffffff8 exceeds the memory of 65536 bytes",
        ),
        ("(unreachable)", "unreachable"),
    ] {
        let wat = format!(
            r#"(component
              (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) {address})
                (func (export "take") (param i32 i32)))
              (core instance $i (instantiate $m))
              (func (export "take") (param "s" string)
                (canon lift (core func $i "take") (memory (core memory $i "memory"))
                  (realloc (core func $i "realloc")))))"#
        );
        let mut guest = guest(&wat, &Linker::<()>::new());
        let error = guest.call("take", &[text("hello")]).expect_err("no memory");
        assert!(error.contains(wanted), "{error}");
        assert_eq!(guest.free_slots_after_drop(), 1);
    }
}

#[test]
fn a_list_cannot_take_more_of_the_host_than_a_call_may_have() {
    let mut linker = Linker::<()>::new();
    linker.host_bytes_max(1 << 20);
    let wat = r#"(component
      (core module $m
        (memory (export "memory") 16)
        (func (export "list") (result i32)
          (i32.store (i32.const 20) (i32.const 1000000)) (i32.const 16)))
      (core instance $i (instantiate $m))
      (func (export "list") (result (list u8))
        (canon lift (core func $i "list") (memory (core memory $i "memory")))))"#;
    let mut guest = guest(wat, &linker);
    let error = guest.call("list", &[]).expect_err("it is too long");
    assert!(
        error.contains("more bytes of the host, which keeps 0 of at most 1048576"),
        "{error}"
    );
}

#[test]
fn the_function_after_a_call_gets_the_result() {
    let wat = r#"(component
      (core module $m
        (memory (export "memory") 1)
        (data (i32.const 64) "text")
        (global $freed (mut i32) (i32.const 0))
        (func (export "get") (result i32)
          (i32.store (i32.const 16) (i32.const 64)) (i32.store (i32.const 20) (i32.const 4))
          (i32.const 16))
        (func (export "free") (param i32) (global.set $freed (local.get 0)))
        (func (export "freed") (result i32) (global.get $freed)))
      (core instance $i (instantiate $m))
      (func (export "get") (result string)
        (canon lift (core func $i "get") (memory (core memory $i "memory"))
          (post-return (core func $i "free"))))
      (func (export "freed") (result u32) (canon lift (core func $i "freed"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    assert_eq!(guest.call("freed", &[]), Ok(Some(Value::U32(0))));
    assert_eq!(guest.call("get", &[]), Ok(Some(text("text"))));
    assert_eq!(guest.call("freed", &[]), Ok(Some(Value::U32(16))));
}
