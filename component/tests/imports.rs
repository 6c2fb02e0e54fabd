//! Functions of the host that components import: their values, memory for results, futures,
//! versions of interfaces, and what a guest may not do meanwhile.

use crate::common;

use common::{Guest, Later, component, guest, module, run};
use pirn_component::{CallError, Limits, LinkError, Linker, State, Value};
use pirn_runtime::{HostError, Region};
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

/// A component that imports `host#name` of type `ty` and exports it again as `run`, lifted from a
/// core function that calls it.
fn caller(ty: &str, core_import: &str, core: &str) -> String {
    format!(
        r#"(component
          (import "test:host/api@1.2.0" (instance $host (export "name" (func {ty}))))
          (core module $libc
            (memory (export "memory") 1)
            (global $next (mut i32) (i32.const 1024))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32)
              (global.get $next)
              (global.set $next (i32.add (global.get $next) (i32.const 64)))))
          (core instance $libc (instantiate $libc))
          (core func $name (canon lower (func $host "name") (memory (core memory $libc "memory"))
            (realloc (core func $libc "realloc"))))
          (core module $m
            (import "libc" "memory" (memory 1))
            (import "host" "name" (func $name {core_import}))
            {core})
          (core instance $i (instantiate $m (with "libc" (instance $libc))
            (with "host" (instance (export "name" (func $name))))))
          (func (export "run") {ty}
            (canon lift (core func $i "run") (memory (core memory $libc "memory"))
              (realloc (core func $libc "realloc")))))"#
    )
}

const STRINGS: &str = r#"(func (export "run") (param i32 i32) (result i32)
  (call $name (local.get 0) (local.get 1) (i32.const 16)) (i32.const 16))"#;

/// A component that gives a string to the host and returns the host's string.
fn strings() -> String {
    caller(
        r#"(param "s" string) (result string)"#,
        "(param i32 i32 i32)",
        STRINGS,
    )
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn shout(params: &[Value]) -> Option<Value> {
    match params {
        [Value::String(given)] => Some(text(&format!("{given}!"))),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_host_gets_and_returns_strings() {
    let mut linker = Linker::<u32>::new();
    let shouts = |state: &mut State<u32>, params: Vec<Value>| {
        *state.data_mut() += 1;
        Ok(shout(&params))
    };
    linker
        .func_values("test:host/api@1.2.0", "name", shouts)
        .expect("it is new");
    let mut guest = guest(&strings(), &linker);
    for _ in 0..3 {
        assert_eq!(
            guest.call("run", &[text("hello")]),
            Ok(Some(text("hello!")))
        );
    }
    assert_eq!(
        guest.instance.as_ref().map(|instance| *instance.data()),
        Some(3)
    );
}

#[test]
fn lists_of_strings_need_memory_for_each() {
    let ty = r#"(param "s" string) (result (list string))"#;
    let mut linker = Linker::<()>::new();
    let split = |_: &mut State<()>, params: Vec<Value>| match &params[..] {
        [Value::String(given)] => Ok(Some(Value::List(given.split(' ').map(text).collect()))),
        other => panic!("{other:?}"),
    };
    linker
        .func_values("test:host/api@1.2.0", "name", split)
        .expect("it is new");
    let mut guest = guest(&caller(ty, "(param i32 i32 i32)", STRINGS), &linker);
    let words = ["a", "list", "of", "words", ""].map(text).to_vec();
    assert_eq!(
        guest.call("run", &[text("a list of words ")]),
        Ok(Some(Value::List(words)))
    );
}

#[test]
fn results_without_memory_are_returned_or_written() {
    let core = r#"(func (export "run") (param i32) (result i64) (call $name (local.get 0)))"#;
    let wat = caller(
        r#"(param "n" u32) (result u64)"#,
        "(param i32) (result i64)",
        core,
    );
    let mut linker = Linker::<()>::new();
    let square = |_: &mut State<()>, params: Vec<Value>| match params[..] {
        [Value::U32(n)] => Ok(Some(Value::U64(u64::from(n) * u64::from(n)))),
        _ => panic!("{params:?}"),
    };
    linker
        .func_values("test:host/api@1.2.0", "name", square)
        .expect("it is new");
    let mut numbers = guest(&wat, &linker);
    let squared = numbers.call("run", &[Value::U32(u32::MAX)]);
    assert_eq!(squared, Ok(Some(Value::U64(0xffff_fffe_0000_0001))));

    let core = r#"(func (export "run") (param i32) (result i32)
      (call $name (local.get 0) (i32.const 16)) (i32.const 16))"#;
    let wat = caller(
        r#"(param "n" u32) (result (tuple u8 u64))"#,
        "(param i32 i32)",
        core,
    );
    let mut linker = Linker::<()>::new();
    let pair = Value::Tuple(vec![Value::U8(1), Value::U64(2)]);
    let returned = pair.clone();
    let give = move |_: &mut State<()>, _: Vec<Value>| Ok(Some(returned.clone()));
    linker
        .func_values("test:host/api@1.2.0", "name", give)
        .expect("it is new");
    assert_eq!(
        guest(&wat, &linker).call("run", &[Value::U32(0)]),
        Ok(Some(pair))
    );
}

#[test]
fn errors_and_wrong_values_of_the_host_end_the_call() {
    for (answer, wanted) in [
        (Err("no luck"), "no luck"),
        (
            Ok(Some(Value::U8(1))),
            "test:host/api@1.2.0#name is u8, its type is string",
        ),
        (Ok(None), "returned no result, its type has one"),
    ] {
        let mut linker = Linker::<()>::new();
        let give =
            move |_: &mut State<()>, _: Vec<Value>| answer.clone().map_err(HostError::message);
        linker
            .func_values("test:host/api@1.2.0", "name", give)
            .expect("it is new");
        let mut guest = guest(&strings(), &linker);
        let error = guest
            .call("run", &[text("x")])
            .expect_err("the host failed");
        assert!(error.contains(wanted), "{error}");
        assert_eq!(guest.free_slots_after_drop(), 1);
    }
}

#[test]
fn an_allocator_may_not_call_the_host() {
    let wat = r#"(component
      (import "test:host/api" (instance $host (export "name" (func))))
      (core module $table
        (table (export "t") 1 funcref))
      (core instance $table (instantiate $table))
      (core module $libc
        (import "table" "t" (table 1 funcref))
        (memory (export "memory") 1)
        (type $f (func))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
          (call_indirect (type $f) (i32.const 0)) (i32.const 64))
        (func (export "take") (param i32 i32))
        (func (export "run") (call_indirect (type $f) (i32.const 0))))
      (core instance $libc (instantiate $libc (with "table" (instance $table))))
      (core func $name (canon lower (func $host "name")))
      (core module $fill
        (import "table" "t" (table 1 funcref))
        (import "host" "name" (func $name))
        (elem (i32.const 0) $name))
      (core instance (instantiate $fill (with "table" (instance $table))
        (with "host" (instance (export "name" (func $name))))))
      (func (export "take") (param "s" string)
        (canon lift (core func $libc "take") (memory (core memory $libc "memory"))
          (realloc (core func $libc "realloc"))))
      (func (export "run") (canon lift (core func $libc "run"))))"#;
    let mut linker = Linker::<()>::new();
    let nothing = |_: &mut State<()>, _: Vec<Value>| Ok(None);
    linker
        .func_values("test:host/api", "name", nothing)
        .expect("it is new");
    let mut guest = guest(wat, &linker);
    assert_eq!(guest.call("run", &[]), Ok(None));
    let error = guest
        .call("take", &[text("x")])
        .expect_err("it may not be left");
    assert_eq!(
        error,
        "an import is called while the component instance may not be left"
    );
}

#[test]
fn versions_match_if_they_are_compatible() {
    let region = Region::builder().slots(1).build().expect("a region");
    let component = component(&strings());
    for (version, fits) in [
        ("1.2.0", true),
        ("1.0.0", true),
        ("1.9.3", true),
        ("2.0.0", false),
        ("0.1.0", false),
        ("1.2.0-rc1", false),
    ] {
        let mut linker = Linker::<()>::new();
        let interface = format!("test:host/api@{version}");
        let shouts = |_: &mut State<()>, params: Vec<Value>| Ok(shout(&params));
        linker
            .func_values(&interface, "name", shouts)
            .expect("it is new");
        let prepared = linker.prepare(&region, &component);
        assert_eq!(prepared.is_ok(), fits, "{version}");
        if let Err(error) = prepared {
            assert!(matches!(error, LinkError::MissingFunc { .. }));
            assert!(error.to_string().contains("test:host/api@1.2.0#name"));
        }
        let again = linker.func_values(&interface, "name", shouts).err();
        assert!(matches!(again, Some(LinkError::Duplicate(_))));
    }
}

fn waiting() -> Guest<u32> {
    let mut linker = Linker::<u32>::new();
    linker
        .func_values_async("test:host/api@1.2.0", "name", |state, params| {
            Box::pin(async move {
                Later(false).await;
                *state.data_mut() += 1;
                Later(false).await;
                Ok(shout(&params))
            })
        })
        .expect("it is new");
    guest(&strings(), &linker)
}

#[test]
fn functions_of_the_host_may_wait() {
    let mut guest = waiting();
    let func = guest.prepared.func("run").expect("it is exported");
    let instance = guest.instance.as_mut().expect("it lives");
    for n in 1..4 {
        let params = [text("later")];
        let value = run(instance.call_async(&func, &params), 1000).expect("it ends");
        let value = value.expect("it answers");
        assert_eq!(value, Some(text("later!")));
        assert_eq!(*instance.data(), n);
    }
    let limits = Limits {
        deadline: Some(Duration::from_secs(3600)),
        timeslice: Some(Duration::from_secs(3600)),
    };
    let params = [text("x")];
    let value = run(instance.call_async_within(limits, &func, &params), 1000).expect("it ends");
    assert_eq!(value.expect("it answers"), Some(text("x!")));
}

#[test]
fn a_call_that_cannot_wait_is_refused_by_name() {
    let mut guest = waiting();
    let error = guest.call("run", &[text("x")]).expect_err("nobody polls");
    assert!(error.contains("call_async"), "{error}");
}

#[test]
fn a_future_that_is_dropped_ends_the_instance() {
    let mut guest = waiting();
    let func = guest.prepared.func("run").expect("it is exported");
    let instance = guest.instance.as_mut().expect("it lives");
    let params = [text("x")];
    {
        let mut call = pin!(instance.call_async(&func, &params));
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    assert!(matches!(
        instance.call(&func, &params),
        Err(CallError::Failed)
    ));
    assert_eq!(guest.free_slots_after_drop(), 1);
}

#[test]
fn a_deadline_ends_all_parts_of_a_call() {
    let wat = r#"(component
      (core module $m
        (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
          (loop $l (br $l)) (unreachable))
        (func (export "take") (param i32 i32)))
      (core instance $i (instantiate $m))
      (func (export "take") (param "s" string)
        (canon lift (core func $i "take") (memory (core memory $i "memory"))
          (realloc (core func $i "realloc")))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    let func = guest.prepared.func("take").expect("it is exported");
    let instance = guest.instance.as_mut().expect("it lives");
    let limits = Limits {
        deadline: Some(Duration::from_millis(20)),
        timeslice: None,
    };
    let ended = instance.call_within(limits, &func, &[text("x")]);
    assert!(matches!(
        ended,
        Err(CallError::Core(pirn_runtime::CallError::Deadline { .. }))
    ));
    let error = guest.prepared.func("none").expect_err("there is none");
    let message = r#"the component exports no function "none", only take; name one of them"#;
    assert_eq!(error.to_string(), message);
}

#[test]
fn a_missing_function_is_named() {
    let wat = r#"(component
      (import "a-name" (func $f))
      (core func $f (canon lower (func $f)))
      (core module $m (import "" "f" (func)))
      (core instance (instantiate $m (with "" (instance (export "f" (func $f)))))))"#;
    let region = Region::builder().slots(1).build().expect("a region");
    let linked = Linker::<()>::new().prepare(&region, &component(wat));
    let error = linked.err().expect("there is no such function").to_string();
    assert!(error.contains("a-name"), "{error}");
    // A linker of core modules does not ask for a function that only this crate provides.
    let linked = region.prepare(&module(wat), &pirn_runtime::Linker::<()>::new());
    let error = linked.expect_err("it is a component");
    assert!(
        matches!(error, pirn_runtime::LinkError::Component { .. }),
        "{error}"
    );
    let error = error.to_string();
    assert!(
        error.contains("of a component, this linker is for core"),
        "{error}"
    );
}
