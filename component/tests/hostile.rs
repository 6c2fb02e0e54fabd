//! Hostile guests at run time: allocators, functions after results, handles, strings and futures.

use crate::common;

use common::{Later, compiled, guest, run};
use pirn_component::{CallError, Limits, Linker, Resource, State, Value};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// A component that imports `host` and has these core functions beside a memory; `take` takes a
/// string, `give` returns one, and `after` runs after `give`.
fn guest_text(core: &str, options: &str) -> String {
    format!(
        r#"(component
      (import "host" (func $host))
      (core func $host (canon lower (func $host)))
      (core module $m
        (import "" "host" (func $host))
        (memory (export "memory") 1)
        {core})
      (core instance $i (instantiate $m (with "" (instance (export "host" (func $host))))))
      (func (export "ok") (canon lift (core func $i "ok")))
      (func (export "take") (param "s" string) (result u32)
        (canon lift (core func $i "take") (memory (core memory $i "memory"))
          (realloc (core func $i "realloc")) {options}))
      (func (export "give") (result string)
        (canon lift (core func $i "give") (memory (core memory $i "memory"))
          (post-return (core func $i "after")) {options})))"#
    )
}

const PLAIN: &str = r#"
  (func (export "ok"))
  (func (export "take") (param i32 i32) (result i32) (local.get 1))"#;

fn linker() -> Linker<()> {
    let mut linker = Linker::<()>::new();
    let host = |_: &mut State<()>, _: Vec<Value>| Ok(None);
    linker.func_values("", "host", host).expect("it is new");
    linker
}

#[test]
fn allocators_cannot_harm_the_host() {
    for (realloc, wanted) in [
        ("(i32.const 65536)", "exceeds the memory"),
        ("(i32.const -1)", "exceeds the memory"),
        ("(i32.const 0x7fffffff)", "exceeds the memory"),
        ("(unreachable)", "unreachable"),
        ("(call $host) (i32.const 64)", "may not be left"),
        ("(call $again (i32.const 0))", "stack"),
    ] {
        let core = format!(
            r#"{PLAIN}
            (func $again (param i32) (result i32) (call $again (i32.const 0)))
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) {realloc})
            (func (export "give") (result i32) (i32.const 8))
            (func (export "after") (param i32))"#
        );
        let mut guest = guest(&guest_text(&core, ""), &linker());
        let error = guest.call("take", &[text("abc")]).expect_err(realloc);
        assert!(error.contains(wanted), "{realloc}: {error}");
        assert!(matches!(
            guest.call_typed("ok", &[]),
            Err(CallError::Failed)
        ));
        assert_eq!(guest.free_slots_after_drop(), 1);
    }
    // It may grow the memory.
    let core = format!(
        r#"{PLAIN}
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
          (i32.mul (memory.grow (i32.const 1)) (i32.const 65536)))
        (func (export "give") (result i32) (i32.const 8))
        (func (export "after") (param i32))"#
    );
    let mut guest = guest(&guest_text(&core, ""), &linker());
    for _ in 0..3 {
        assert_eq!(guest.call("take", &[text("abc")]), Ok(Some(Value::U32(3))));
    }
}

#[test]
fn what_runs_after_a_result_cannot_leave_the_instance() {
    for (after, wanted) in [
        ("(call $host)", Err("may not be left")),
        ("(unreachable)", Err("unreachable")),
        (
            "(memory.fill (i32.const 0) (i32.const 255) (i32.const 65536))",
            Ok(()),
        ),
    ] {
        let core = format!(
            r#"{PLAIN}
            (data (i32.const 8) "\10\00\00\00\03\00\00\00abc")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
            (func (export "give") (result i32) (i32.const 8))
            (func (export "after") (param i32) {after})"#
        );
        let mut guest = guest(&guest_text(&core, ""), &linker());
        match (guest.call("give", &[]), wanted) {
            (Ok(value), Ok(())) => assert_eq!(value, Some(text("abc"))),
            (Err(error), Err(wanted)) => {
                assert!(error.contains(wanted), "{error}");
                assert!(matches!(
                    guest.call_typed("ok", &[]),
                    Err(CallError::Failed)
                ));
            }
            (found, _) => panic!("{after}: {found:?}"),
        }
    }
}

/// The UTF-8 check reads blocks of 64 bytes. The test puts each sequence at every offset in two
/// blocks and a part of a third, between characters of one byte or of two bytes.
#[test]
fn invalid_utf8_is_refused_wherever_it_is() {
    const BYTES: usize = 150;
    let wat = r#"(component
      (core module $m
        (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export "text") (param i32 i32) (result i32)
          (i32.store (i32.const 16) (local.get 0))
          (i32.store (i32.const 20) (local.get 1))
          (i32.const 16)))
      (core instance $i (instantiate $m))
      (func (export "text") (param "bytes" (list u8)) (result string)
        (canon lift (core func $i "text") (memory (core memory $i "memory"))
          (realloc (core func $i "realloc")))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    let func = guest.prepared.typed::<(&[u8],), String>("text");
    let func = func.expect("its types");
    let sequences: [&[u8]; 12] = [
        b"a",
        "\u{fc}".as_bytes(),
        "\u{20ac}".as_bytes(),
        "\u{1f600}".as_bytes(),
        b"\x80",
        b"\xff",
        b"\xc3",
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xe2\x82",
        b"\xf0\x9f\x98",
        b"\xf4\x90\x80\x80",
    ];
    for sequence in sequences {
        for at in 0..=BYTES {
            for filler in ["a", "\u{fc}"] {
                let mut bytes = filler.repeat(at / filler.len()).into_bytes();
                bytes.extend(sequence);
                let rest = BYTES.saturating_sub(bytes.len()) / filler.len();
                bytes.extend(filler.repeat(rest).into_bytes());
                let instance = guest.instance.as_mut().expect("it lives");
                match (
                    instance.call_typed(&func, (&bytes,)),
                    String::from_utf8(bytes),
                ) {
                    (Ok(found), Ok(wanted)) => assert_eq!(found, wanted),
                    (Err(error), Err(_)) => {
                        assert_eq!(error.to_string(), "a string is not valid UTF-8");
                        // A failed instance refuses further calls.
                        guest.instance = None;
                        guest.instance = guest.prepared.instantiate(()).ok();
                    }
                    (found, wanted) => panic!("{found:?} for {wanted:?}"),
                }
            }
        }
    }
}

#[test]
fn strings_of_a_guest_that_lie() {
    let (utf8, utf16, both) = ("", "string-encoding=utf16", "string-encoding=latin1+utf16");
    for (options, address, length, data, wanted) in [
        (utf8, 16, 3, "a\\80b", Err("not valid UTF-8")),
        (utf8, 16, 3, "\\ed\\a0\\80", Err("not valid UTF-8")),
        (utf8, 16, u32::MAX, "", Err("exceeds the memory")),
        (utf8, u32::MAX, u32::MAX, "", Err("exceeds the memory")),
        (utf8, 16, 0x7fff_ffff, "", Err("exceeds the memory")),
        (utf8, 65536, 0, "", Ok("")),
        (utf8, 65537, 0, "", Err("exceeds the memory")),
        (utf16, 16, 1, "\\00\\d8", Err("not valid UTF-16")),
        (utf16, 16, 1, "\\00\\dc", Err("not valid UTF-16")),
        (utf16, 16, 2, "\\3d\\d8\\00\\de", Ok("\u{1f600}")),
        (utf16, 17, 1, "", Err("not aligned")),
        (utf16, 16, 0x3fff_ffff, "", Err("exceeds the memory")),
        (utf16, 16, 0x8000_0000, "", Err("exceeds the memory")),
        (both, 16, 2, "\\fca", Ok("\u{fc}a")),
        (both, 16, 0x8000_0001, "\\00\\d8", Err("not valid UTF-16")),
        (both, 16, 0x8000_0002, "\\3d\\d8\\00\\de", Ok("\u{1f600}")),
        (both, 16, 0xffff_ffff, "", Err("exceeds the memory")),
        (both, 17, 1, "", Err("not aligned")),
    ] {
        let core = format!(
            r#"{PLAIN}
            (data (i32.const 16) "{data}")
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
            (func (export "give") (result i32)
              (i32.store (i32.const 8) (i32.const {address}))
              (i32.store (i32.const 12) (i32.const {length})) (i32.const 8))
            (func (export "after") (param i32))"#
        );
        let mut guest = guest(&guest_text(&core, options), &linker());
        match (guest.call("give", &[]), wanted) {
            (Ok(value), Ok(wanted)) => assert_eq!(value, Some(text(wanted))),
            (Err(error), Err(wanted)) => assert!(error.contains(wanted), "{error}"),
            (found, _) => panic!("{options} {address} {length}: {found:?}"),
        }
    }
}

/// Two components with a memory each. The inner one calls the host.
fn two_memories(ty: &str, core: &str, call: &str) -> String {
    format!(
        r#"(component
      (import "host" (func $host (param "s" string) (result {ty})))
      (component $inner
        (import "host" (func $host (param "s" string) (result {ty})))
        (core module $libc (memory (export "memory") 1) (data (i32.const 64) "abc")
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 128)))
        (core instance $libc (instantiate $libc))
        (core func $host (canon lower (func $host) (memory (core memory $libc "memory"))
          (realloc (core func $libc "realloc"))))
        (core module $m (import "" "host" (func $host {core})) (import "l" "memory" (memory 1))
          (func (export "run") (result i32) {call}))
        (core instance $i (instantiate $m (with "l" (instance $libc))
          (with "" (instance (export "host" (func $host))))))
        (func (export "run") (result u32) (canon lift (core func $i "run"))))
      (component $outer
        (import "run" (func $run (result u32)))
        (core func $run (canon lower (func $run)))
        (core module $m (import "" "run" (func $run (result i32))) (memory (export "memory") 1)
          (func (export "take") (param i32 i32) (result i32) (call $run))
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 128)))
        (core instance $i (instantiate $m (with "" (instance (export "run" (func $run))))))
        (func (export "take") (param "s" string) (result u32)
          (canon lift (core func $i "take") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc")))))
      (instance $inner (instantiate $inner (with "host" (func $host))))
      (instance $outer (instantiate $outer (with "run" (func $inner "run"))))
      (export "take" (func $outer "take")))"#
    )
}

#[test]
fn functions_of_the_host_may_wait_for_a_component_with_two_memories() {
    let numbers = two_memories(
        "u32",
        "(param i32 i32) (result i32)",
        "(call $host (i32.const 64) (i32.const 3))",
    );
    let strings = two_memories(
        "string",
        "(param i32 i32 i32)",
        "(call $host (i32.const 64) (i32.const 3) (i32.const 16)) (i32.load8_u (i32.const 129))",
    );
    let pairs = two_memories(
        "(tuple u32 u32)",
        "(param i32 i32 i32)",
        "(call $host (i32.const 64) (i32.const 3) (i32.const 16)) (i32.load (i32.const 20))",
    );
    let pair = Value::Tuple(vec![Value::U32(1), Value::U32(2)]);
    for (wat, result, wanted) in [
        (numbers, Value::U32(9), Ok(9)),
        (strings, text("xyz"), Ok(121)),
        (
            pairs,
            pair,
            Err("an asynchronous function of the host cannot return a record"),
        ),
    ] {
        let mut linker = Linker::<()>::new();
        let host = linker.func_values_async("", "host", move |_, params| {
            let result = result.clone();
            Box::pin(async move {
                assert_eq!(params, [text("abc")]);
                Later(false).await;
                Ok(Some(result))
            })
        });
        host.expect("it is new");
        let mut made = guest(&wat, &linker);
        let take = made.prepared.func("take").expect("it is exported");
        let instance = made.instance.as_mut().expect("it lives");
        let params = [text("q")];
        let value = run(instance.call_async(&take, &params), 100).expect("it ends");
        match (value, wanted) {
            (Ok(value), Ok(wanted)) => assert_eq!(value, Some(Value::U32(wanted))),
            (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
            (found, _) => panic!("{found:?}"),
        }
        // A call that is dropped at any point ends the instance, and the slot is free again.
        for polls in 0..2 {
            let mut made = guest(&wat, &linker);
            let instance = made.instance.as_mut().expect("it lives");
            let take = made.prepared.func("take").expect("it is exported");
            assert!(run(instance.call_async(&take, &params), polls).is_none());
            let after = instance.call(&take, &params);
            assert_eq!(
                matches!(after, Err(CallError::Failed)),
                polls > 0,
                "{after:?}"
            );
            assert_eq!(made.free_slots_after_drop(), 1);
        }
    }
}

/// A component that defines two resource types, and has functions over them.
const TWO: &str = r#"(component
  (core module $d (import "" "trap" (global $trap (mut i32)))
    (func (export "d") (param i32) (if (global.get $trap) (then (unreachable)))))
  (core module $g (global (export "trap") (mut i32) (i32.const 0)))
  (core instance $g (instantiate $g))
  (core instance $d (instantiate $d (with "" (instance $g))))
  (type $a' (resource (rep i32) (dtor (core func $d "d"))))
  (type $b' (resource (rep i32)))
  (export $a "a" (type $a'))
  (export $b "b" (type $b'))
  (core func $new-a (canon resource.new $a'))
  (core func $new-b (canon resource.new $b'))
  (core func $rep-a (canon resource.rep $a'))
  (core func $drop-a (canon resource.drop $a'))
  (core module $m
    (import "" "new-a" (func $new-a (param i32) (result i32)))
    (import "" "new-b" (func $new-b (param i32) (result i32)))
    (import "" "rep-a" (func $rep-a (param i32) (result i32)))
    (import "" "drop-a" (func $drop-a (param i32)))
    (import "g" "trap" (global $trap (mut i32)))
    (func (export "make") (result i32) (call $new-a (i32.const 5)))
    (func (export "wrong-rep") (result i32) (call $rep-a (call $new-b (i32.const 5))))
    (func (export "wrong-drop") (call $drop-a (call $new-b (i32.const 5))))
    (func (export "wrong-own") (result i32) (call $new-b (i32.const 5)))
    (func (export "many") (loop $l (drop (call $new-a (i32.const 1))) (br $l)))
    (func (export "trap") (global.set $trap (i32.const 1))))
  (core instance $i (instantiate $m (with "g" (instance $g)) (with "" (instance
    (export "new-a" (func $new-a)) (export "new-b" (func $new-b))
    (export "rep-a" (func $rep-a)) (export "drop-a" (func $drop-a))))))
  (func (export "make") (result (own $a)) (canon lift (core func $i "make")))
  (func (export "wrong-rep") (result u32) (canon lift (core func $i "wrong-rep")))
  (func (export "wrong-drop") (canon lift (core func $i "wrong-drop")))
  (func (export "wrong-own") (result (own $a)) (canon lift (core func $i "wrong-own")))
  (func (export "many") (canon lift (core func $i "many")))
  (func (export "trap") (canon lift (core func $i "trap"))))"#;

#[test]
fn handles_of_another_type_and_too_many_end_the_instance() {
    for (name, wanted) in [
        ("wrong-rep", "refers to a resource of another type"),
        ("wrong-drop", "refers to a resource of another type"),
        ("wrong-own", "refers to a resource of another type"),
        ("many", "more than 1048576 handles"),
    ] {
        let mut guest = guest(TWO, &Linker::<()>::new());
        let error = guest.call(name, &[]).expect_err(name);
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_destructor_that_traps_ends_the_instance() {
    let mut guest = guest(TWO, &Linker::<()>::new());
    let mut made = || match guest.call("make", &[]) {
        Ok(Some(Value::Own(resource))) => resource,
        other => panic!("{other:?}"),
    };
    let (one, two) = (made(), made());
    assert_eq!(guest.call("trap", &[]), Ok(None));
    let make = guest.prepared.func("make").expect("it is exported");
    let instance = guest.instance.as_mut().expect("it lives");
    assert!(instance.drop_resource(one).is_err());
    assert!(matches!(
        instance.drop_resource(two),
        Err(CallError::Failed)
    ));
    assert!(matches!(
        instance.drop_resource(Resource::host(1)),
        Err(CallError::Failed)
    ));
    assert!(matches!(instance.call(&make, &[]), Err(CallError::Failed)));
    let mut future = pin!(instance.call_async(&make, &[]));
    let polled = future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Err(CallError::Failed))));
}

#[test]
fn memories_that_no_canonical_function_may_have_and_deep_types_are_refused() {
    for (memory, wanted) in [("i64 1", "64-bit memories"), ("1 1 shared", "shared flag")] {
        let wat = format!(
            r#"(component
          (core module $m (memory (export "memory") {memory})
            (func (export "run") (result i32) (i32.const 0)))
          (core instance $i (instantiate $m))
          (func (export "run") (result string)
            (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#
        );
        let error = compiled(&wat).expect_err(memory);
        assert!(error.contains(wanted), "{error}");
    }
    for (depth, fits) in [(90, true), (200, false), (20_000, false)] {
        let types: String = (1..=depth)
            .map(|at| format!("(type $t{at} (option $t{}))", at - 1))
            .collect();
        let wat = format!(
            r#"(component (type $t0 (option u8)) {types}
          (import "f" (func (param "x" $t{depth}))))"#
        );
        assert_eq!(compiled(&wat).is_ok(), fits, "{depth}");
    }
}

#[test]
fn a_destructor_that_loops_ends_at_the_deadline() {
    let wat = TWO.replace("(then (unreachable))", "(then (loop $l (br $l)))");
    let mut guest = guest(&wat, &Linker::<()>::new());
    let Ok(Some(Value::Own(resource))) = guest.call("make", &[]) else {
        panic!("it makes one");
    };
    assert_eq!(guest.call("trap", &[]), Ok(None));
    let limits = Limits {
        deadline: Some(Duration::from_millis(20)),
        timeslice: None,
    };
    let instance = guest.instance.as_mut().expect("it lives");
    let ended = instance.drop_resource_within(limits, resource);
    assert!(matches!(
        ended,
        Err(CallError::Core(pirn_runtime::CallError::Deadline { .. }))
    ));
}

#[test]
fn a_message_about_a_type_with_long_names_is_short() {
    let long = "a".repeat(50_000);
    let wat = format!(
        r#"(component
          (type $r (record (field "{long}" u32)))
          (export $s "r" (type $r))
          (core module $m (func (export "f") (param i32)))
          (core instance $m (instantiate $m))
          (func (export "f") (param "p{long}" $s) (canon lift (core func $m "f"))))"#
    );
    let mut guest = guest::<()>(&wat, &Linker::new());
    let error = guest
        .call("f", &[Value::U32(1)])
        .expect_err("it is no record");
    assert!(error.len() < 1_000, "{} bytes", error.len());
    let error = guest
        .prepared
        .typed::<(u8,), ()>("f")
        .expect_err("it takes a record");
    assert!(error.to_string().len() < 2_000, "{error}");
}
