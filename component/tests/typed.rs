//! Calls with Rust types.

use crate::common;

use common::{PAIR, guest};
use pirn_component::{AbiError, CallError, Limits, LinkError, Linker, Typed, Value};
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Stores three core values where `echo` returns them.
const TRIPLE: &str = "(i32.store (i32.const 16) (local.get 0))
    (i32.store (i32.const 20) (local.get 1)) (i32.store (i32.const 24) (local.get 2))";

fn echo(ty: &str, flat: &[&str], stores: &str) -> String {
    common::echo("", ty, flat, stores)
}

fn check<T: Typed + PartialEq + Debug + Clone>(wat: &str, values: &[T]) {
    let mut guest = guest(wat, &Linker::<()>::new());
    let func = guest
        .prepared
        .typed::<(T,), T>("echo")
        .expect("it has these types");
    let instance = guest.instance.as_mut().expect("it lives");
    for value in values {
        let found = instance
            .call_typed(&func, (value.clone(),))
            .expect("it returns");
        assert_eq!(&found, value);
    }
}

#[test]
fn values_of_each_type_come_back() {
    check(&echo("bool", &["i32"], ""), &[true, false]);
    check(&echo("u8", &["i32"], ""), &[0u8, 255]);
    check(&echo("s8", &["i32"], ""), &[-128i8, 127]);
    check(&echo("u16", &["i32"], ""), &[u16::MAX]);
    check(&echo("s16", &["i32"], ""), &[i16::MIN]);
    check(&echo("u32", &["i32"], ""), &[u32::MAX]);
    check(&echo("s32", &["i32"], ""), &[i32::MIN]);
    check(&echo("u64", &["i64"], ""), &[u64::MAX]);
    check(&echo("s64", &["i64"], ""), &[i64::MIN]);
    check(&echo("f32", &["f32"], ""), &[-0.5f32]);
    check(&echo("f64", &["f64"], ""), &[1e300f64]);
    check(&echo("char", &["i32"], ""), &['\u{10FFFF}', 'a']);
    let texts = ["", "gr\u{fc}n", "\u{1f600}"].map(str::to_owned);
    check(&echo("string", &["i32", "i32"], PAIR), &texts);
    check(
        &echo("(list u16)", &["i32", "i32"], PAIR),
        &[vec![], vec![1u16, 65535]],
    );
    check(
        &echo("(list string)", &["i32", "i32"], PAIR),
        &[texts.to_vec()],
    );
    check(
        &echo("(tuple u32 s32)", &["i32", "i32"], PAIR),
        &[(1u32, -1i32)],
    );
    let option = "(i32.store8 (i32.const 16) (local.get 0))
        (i64.store (i32.const 24) (local.get 1))";
    check(
        &echo("(option u64)", &["i32", "i64"], option),
        &[None, Some(u64::MAX)],
    );
    let result = "(i32.store8 (i32.const 16) (local.get 0))
        (i32.store (i32.const 20) (local.get 1)) (i32.store (i32.const 24) (local.get 2))";
    let wat = echo("(result string (error u8))", &["i32", "i32", "i32"], result);
    check(&wat, &[Ok("fine".to_owned()), Err(7u8)]);
    let result = "(i32.store8 (i32.const 16) (local.get 0))
        (i32.store8 (i32.const 17) (local.get 1))";
    check(
        &echo("(result (error u8))", &["i32", "i32"], result),
        &[Ok(()), Err(7u8)],
    );
}

/// A value is compared with its type at each call. A wrong value does not end the instance.
#[test]
fn dynamic_values_are_among_the_rust_types() {
    let wat = echo("(tuple u32 (list u16))", &["i32", "i32", "i32"], TRIPLE);
    let list = |values: &[u16]| Value::List(values.iter().copied().map(Value::U16).collect());
    check(&wat, &[(Value::U32(7), list(&[1, 65535]))]);
    check(&wat, &[(7u32, vec![Value::U16(1)]), (8, vec![])]);
    check(&wat, &[Value::Tuple(vec![Value::U32(7), list(&[])])]);
    let mut guest = guest(&wat, &Linker::<()>::new());
    let func = guest.prepared.typed::<((Value, Value),), Value>("echo");
    let func = func.expect("a value represents every type");
    let instance = guest.instance.as_mut().expect("it lives");
    let mut call = |first, second| instance.call_typed(&func, ((first, second),));
    for (first, second, found) in [
        (
            Value::S32(7),
            list(&[]),
            "value is s32, its type is u32; give a value of that type",
        ),
        (
            Value::U32(7),
            Value::List(vec![Value::U16(1), Value::Bool(true)]),
            "value is bool, its type is u16; give a value of that type",
        ),
    ] {
        let error = call(first, second).expect_err("another type");
        assert!(matches!(error, CallError::Value(_)), "{error}");
        assert_eq!(error.to_string(), found);
    }
    let tuple = call(Value::U32(7), list(&[1])).expect("the instance lives");
    assert_eq!(tuple, Value::Tuple(vec![Value::U32(7), list(&[1])]));
}

#[test]
fn more_parameters_than_fit_are_passed_in_memory() {
    let ty = "(tuple u64 u64 u64)";
    let params: String = (0..6).map(|n| format!(r#"(param "p{n}" {ty}) "#)).collect();
    let wat = format!(
        r#"(component
          (core module $m
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
            (func (export "last") (param i32) (result i64)
              (i64.load (i32.add (local.get 0) (i32.const 136)))))
          (core instance $i (instantiate $m))
          (func (export "last") {params} (result u64)
            (canon lift (core func $i "last") (memory (core memory $i "memory"))
              (realloc (core func $i "realloc")))))"#
    );
    let mut guest = guest(&wat, &Linker::<()>::new());
    type Three = (u64, u64, u64);
    type Six = (Three, Three, Three, Three, Three, Three);
    let func = guest
        .prepared
        .typed::<Six, u64>("last")
        .expect("it has these types");
    let instance = guest.instance.as_mut().expect("it lives");
    let all: [Three; 6] =
        std::array::from_fn(|n| (3 * n as u64, 3 * n as u64 + 1, 3 * n as u64 + 2));
    let last = instance.call_typed(&func, all.into());
    assert_eq!(last.expect("it returns"), 17);
}

#[test]
fn other_types_are_refused_when_the_function_is_looked_up() {
    let guest = guest(
        &echo("(list u8)", &["i32", "i32"], PAIR),
        &Linker::<()>::new(),
    );
    let error = guest.prepared.typed::<(Vec<u16>,), Vec<u8>>("echo");
    let error = error.expect_err("the elements are bytes");
    assert!(matches!(error, LinkError::FuncType { .. }));
    let message = error.to_string();
    assert!(
        message.contains("func(value: list<u8>) -> list<u8>"),
        "{message}"
    );
    for wrong in [
        guest.prepared.typed::<(Vec<u8>,), ()>("echo").is_ok(),
        guest.prepared.typed::<(), Vec<u8>>("echo").is_ok(),
        guest.prepared.typed::<(String,), Vec<u8>>("echo").is_ok(),
        guest
            .prepared
            .typed::<(Vec<u8>, u8), Vec<u8>>("echo")
            .is_ok(),
    ] {
        assert!(!wrong);
    }
}

#[test]
fn a_discriminant_without_a_case_ends_the_instance() {
    let option = "(i32.store8 (i32.const 16) (i32.const 2))";
    let mut guest = guest(
        &echo("(option u32)", &["i32", "i32"], option),
        &Linker::<()>::new(),
    );
    let func = guest
        .prepared
        .typed::<(Option<u32>,), Option<u32>>("echo")
        .expect("its types");
    let instance = guest.instance.as_mut().expect("it lives");
    let error = instance
        .call_typed(&func, (None,))
        .expect_err("there are two cases");
    let wanted = AbiError::Discriminant { found: 2, cases: 2 };
    assert!(matches!(error, CallError::Abi(error) if error == wanted));
    let again = instance.call_typed(&func, (None,));
    assert!(matches!(again, Err(CallError::Failed)));
}

#[test]
fn a_function_of_another_preparation_is_refused() {
    let wat = echo("u32", &["i32"], "");
    let (one, mut other) = (
        guest(&wat, &Linker::<()>::new()),
        guest(&wat, &Linker::<()>::new()),
    );
    let func = one
        .prepared
        .typed::<(u32,), u32>("echo")
        .expect("its types");
    let instance = other.instance.as_mut().expect("it lives");
    let error = instance.call_typed(&func, (1,)).expect_err("it is foreign");
    assert!(matches!(error, CallError::OtherPreparation));
    // Nothing has run, so the instance can be called.
    let own = other
        .prepared
        .typed::<(u32,), u32>("echo")
        .expect("its types");
    let instance = other.instance.as_mut().expect("it lives");
    assert_eq!(instance.call_typed(&own, (1,)).expect("it returns"), 1);
}

#[test]
fn typed_calls_have_limits_and_futures() {
    let mut guest = guest(&echo("string", &["i32", "i32"], PAIR), &Linker::<()>::new());
    let func = guest
        .prepared
        .typed::<(String,), String>("echo")
        .expect("its types");
    let instance = guest.instance.as_mut().expect("it lives");
    let limits = Limits {
        deadline: Some(Duration::from_secs(3600)),
        timeslice: None,
    };
    let text = || ("text".to_owned(),);
    // A time without end is no limit.
    let endless = Limits {
        deadline: Some(Duration::MAX),
        timeslice: None,
    };
    for limits in [limits, endless] {
        let found = instance.call_typed_within(limits, &func, text());
        assert_eq!(found.expect("it returns"), "text");
    }
    let mut call = pin!(instance.call_typed_async(limits, &func, text()));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(found) = call.as_mut().poll(&mut context) else {
        panic!("it waits for nothing");
    };
    assert_eq!(found.expect("it returns"), "text");
}
