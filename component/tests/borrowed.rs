//! Calls with borrowed parameters.

use crate::common;

use common::{Guest, PAIR, guest};
use pirn_component::{
    CallError, CallParams, Limits, LinkError, Linker, Prepared, Typed, TypedFunc,
};
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A component whose function `echo` takes a value of the type `ty`, and returns it. `ty` must have
/// two core values. `types` has the definitions that it uses.
fn echo(types: &str, ty: &str) -> Guest {
    let wat = common::echo(types, ty, &["i32"; 2], PAIR);
    guest(&wat, &Linker::<()>::new())
}

/// Passes a borrowed value, and checks the result.
fn check<P: CallParams, R: Typed + PartialEq + Debug>(mut guest: Guest, params: P, wanted: &R) {
    let func = guest.prepared.typed::<P, R>("echo").expect("its types");
    let instance = guest.instance.as_mut().expect("it lives");
    let found = instance.call_typed(&func, params).expect("it returns");
    assert_eq!(&found, wanted);
}

#[test]
fn strings_and_lists_are_borrowed() {
    let text = "gr\u{fc}n".to_owned();
    check(echo("", "string"), (text.as_str(),), &text);
    check(echo("", "string"), (&text,), &text);
    check(echo("", "string"), (&&*text,), &text);
    let bytes = vec![0u8, 7, 255];
    check(echo("", "(list u8)"), (&bytes[..],), &bytes);
    check(echo("", "(list u8)"), (&bytes,), &bytes);
    let numbers = [1u64, u64::MAX];
    check(echo("", "(list u64)"), (&numbers[..],), &numbers.to_vec());
    let empty: &[u64] = &[];
    check(echo("", "(list u64)"), (empty,), &Vec::<u64>::new());
}

#[derive(Debug, Clone, PartialEq, Typed)]
struct Header {
    name: String,
    values: Vec<u16>,
}

const HEADER: &str = r#"
    (type $record (record (field "name" string) (field "values" (list u16))))
    (export $header "header" (type $record))"#;

#[test]
fn lists_of_records_are_borrowed() {
    let header = |name: &str, values: &[u16]| Header {
        name: name.to_owned(),
        values: values.to_vec(),
    };
    let headers = vec![header("a", &[1, 2]), header("", &[])];
    check(echo(HEADER, "(list $header)"), (&headers[..],), &headers);
    // References as the elements, and tuples as the records.
    let some: Vec<&Header> = headers.iter().rev().collect();
    let reversed: Vec<Header> = some.iter().map(|header| (*header).clone()).collect();
    check(echo(HEADER, "(list $header)"), (&some[..],), &reversed);
    let tuples = [("a", &[1u16, 2][..]), ("", &[])];
    check(echo(HEADER, "(list $header)"), (&tuples[..],), &headers);
}

#[test]
fn references_are_inside_other_types() {
    let texts = ["one", "two"];
    let wanted = texts.map(str::to_owned).to_vec();
    check(echo("", "(list string)"), (&texts[..],), &wanted);
    check(echo("", "(list string)"), (texts.to_vec(),), &wanted);
    let options = [Some("one"), None];
    let wanted = options.map(|some| some.map(str::to_owned)).to_vec();
    check(echo("", "(list (option string))"), (&options[..],), &wanted);
    let results = [Ok("fine"), Err(&[1u8, 2][..])];
    let wanted = vec![Ok("fine".to_owned()), Err(vec![1u8, 2])];
    let ty = "(list (result string (error (list u8))))";
    check(echo("", ty), (&results[..],), &wanted);
    let pair = ("two", 2u8);
    let tuples = [&pair];
    let wanted = vec![("two".to_owned(), 2u8)];
    check(
        echo("", "(list (tuple string u8))"),
        (&tuples[..],),
        &wanted,
    );
}

/// A struct of an embedder that keeps a function.
struct Echo {
    func: TypedFunc<(&'static str,), String>,
}

#[test]
fn a_function_outlives_what_its_calls_borrow() {
    let mut guest = echo("", "string");
    let func = guest.prepared.typed("echo").expect("its types");
    let kept = Echo { func };
    let instance = guest.instance.as_mut().expect("it lives");
    for n in 0..3 {
        let text = format!("text {n}");
        let found = instance.call_typed(&kept.func, (&text,));
        assert_eq!(found.expect("it returns"), text);
    }
}

/// The error of a look-up with wrong parameter types.
fn refused<P: CallParams>(prepared: &Prepared<()>) -> String {
    let error = prepared.typed::<P, String>("echo").err();
    let error = error.expect("it has other types");
    assert!(matches!(error, LinkError::FuncType { .. }));
    error.to_string()
}

#[test]
fn other_types_are_refused_as_those_of_owned_values() {
    let guest = echo("", "string");
    let prepared = &guest.prepared;
    for (borrowed, owned) in [
        (
            refused::<(&[u8],)>(prepared),
            refused::<(Vec<u8>,)>(prepared),
        ),
        (refused::<(&u32,)>(prepared), refused::<(u32,)>(prepared)),
        (
            refused::<(Option<&str>,)>(prepared),
            refused::<(Option<String>,)>(prepared),
        ),
        (
            refused::<(&str, &str)>(prepared),
            refused::<(String, String)>(prepared),
        ),
    ] {
        // The messages differ only in the names of the Rust types.
        let found = "func(value: string) -> string";
        assert!(
            borrowed.contains(found) && owned.contains(found),
            "{borrowed}\n{owned}"
        );
        let start = |message: &str| message.split(found).next().map(str::to_owned);
        assert_eq!(start(&borrowed), start(&owned));
    }
    let list = echo("", "(list u8)");
    assert!(list.prepared.typed::<(&[i8],), Vec<u8>>("echo").is_err());
    assert!(list.prepared.typed::<(&[&str],), Vec<u8>>("echo").is_err());
    assert!(list.prepared.typed::<(&str,), Vec<u8>>("echo").is_err());
}

#[test]
fn a_list_that_does_not_fit_the_memory_is_refused() {
    let mut guest = echo("", "(list u8)");
    let func = guest.prepared.typed::<(&[u8],), Vec<u8>>("echo");
    let instance = guest.instance.as_mut().expect("it lives");
    let large = vec![0; 3 << 16];
    let error = instance.call_typed(&func.expect("its types"), (&large,));
    assert!(matches!(error, Err(CallError::Abi(_))));
}

#[test]
fn the_future_of_a_call_borrows_the_parameters() {
    let mut guest = echo("", "string");
    let func = guest.prepared.typed::<(&str,), String>("echo");
    let func = func.expect("its types");
    let instance = guest.instance.as_mut().expect("it lives");
    for n in 0..2 {
        let text = format!("text {n}");
        let mut call = pin!(instance.call_typed_async(Limits::default(), &func, (&text,)));
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(found) = sendable(call.as_mut()).poll(&mut context) else {
            panic!("it waits for nothing");
        };
        assert_eq!(found.expect("it returns"), text);
    }
}

/// Requires that a future is `Send`, so that executors can move it to another thread.
fn sendable<F: Send>(future: F) -> F {
    future
}
