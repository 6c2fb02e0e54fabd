//! Components that are made of components: values and resources between them.

use crate::common;

use common::guest;
use pirn_component::{Linker, Value};

/// A component that calls another one with a string, which returns it with something added.
fn strings(inner: &str, outer: &str) -> String {
    let libc = r#"
      (memory (export "memory") 1)
      (global $next (mut i32) (i32.const 1024))
      (func $realloc (export "realloc") (param i32 i32 i32 i32) (result i32)
        (global.get $next)
        (global.set $next (i32.add (global.get $next)
          (i32.and (i32.add (local.get 3) (i32.const 7)) (i32.const -8)))))"#;
    format!(
        r#"(component
      (component $inner
        (core module $m {libc}
          (func (export "mark") (param i32 i32) (result i32)
            (i32.store8 (local.get 0) (i32.const 0x2a))
            (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1))
            (i32.const 16)))
        (core instance $i (instantiate $m))
        (func (export "mark") (param "s" string) (result string)
          (canon lift (core func $i "mark") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc")) {inner})))
      (component $outer
        (import "mark" (func $mark (param "s" string) (result string)))
        (core module $libc {libc})
        (core instance $libc (instantiate $libc))
        (core func $mark (canon lower (func $mark) (memory (core memory $libc "memory"))
          (realloc (core func $libc "realloc")) {outer}))
        (core module $m
          (import "" "mark" (func $mark (param i32 i32 i32)))
          (func (export "run") (param i32 i32) (result i32)
            (call $mark (local.get 0) (local.get 1) (i32.const 32)) (i32.const 32)))
        (core instance $i (instantiate $m
          (with "" (instance (export "mark" (func $mark))))))
        (func (export "run") (param "s" string) (result string)
          (canon lift (core func $i "run") (memory (core memory $libc "memory"))
            (realloc (core func $libc "realloc")) {outer})))
      (instance $inner (instantiate $inner))
      (instance $outer (instantiate $outer (with "mark" (func $inner "mark"))))
      (func (export "run") (alias export $outer "run")))"#
    )
    .replace(
        r#"(func (export "run") (alias export $outer "run"))"#,
        r#"(export "run" (func $outer "run"))"#,
    )
}

#[test]
fn strings_move_between_components() {
    for options in ["", "string-encoding=utf16"] {
        let mut guest = guest(&strings(options, options), &Linker::<()>::new());
        for (given, wanted) in [("hello", "*ello"), ("x", "*")] {
            let value = guest.call("run", &[Value::String(given.to_owned())]);
            assert_eq!(
                value,
                Ok(Some(Value::String(wanted.to_owned()))),
                "{options}"
            );
        }
    }
}

#[test]
fn a_resource_moves_between_components() {
    let wat = r#"(component
      (component $inner
        (type $r' (resource (rep i32)))
        (export $r "r" (type $r'))
        (core func $new (canon resource.new $r'))
        (core module $m
          (import "" "new" (func $new (param i32) (result i32)))
          (func (export "make") (param i32) (result i32) (call $new (local.get 0)))
          (func (export "look") (param i32) (result i32) (local.get 0)))
        (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
        (func (export "make") (param "n" u32) (result (own $r))
          (canon lift (core func $i "make")))
        (func (export "look") (param "r" (borrow $r)) (result u32)
          (canon lift (core func $i "look"))))
      (instance $inner (instantiate $inner))
      (component $outer
        (import "inner" (instance $inner
          (export "r" (type $r (sub resource)))
          (export "make" (func (param "n" u32) (result (own $r))))
          (export "look" (func (param "r" (borrow $r)) (result u32)))))
        (alias export $inner "r" (type $r))
        (core func $make (canon lower (func $inner "make")))
        (core func $look (canon lower (func $inner "look")))
        (core func $drop (canon resource.drop $r))
        (core module $m
          (import "" "make" (func $make (param i32) (result i32)))
          (import "" "look" (func $look (param i32) (result i32)))
          (import "" "drop" (func $drop (param i32)))
          (func (export "run") (param i32) (result i32) (local $handle i32)
            (local.set $handle (call $make (local.get 0)))
            (call $look (local.get $handle))
            (call $drop (local.get $handle)))
          (func (export "twice") (param i32) (local $handle i32)
            (local.set $handle (call $make (local.get 0)))
            (call $drop (local.get $handle))
            (call $drop (local.get $handle))))
        (core instance $i (instantiate $m (with "" (instance
          (export "make" (func $make)) (export "look" (func $look))
          (export "drop" (func $drop))))))
        (func (export "run") (param "n" u32) (result u32) (canon lift (core func $i "run")))
        (func (export "twice") (param "n" u32) (canon lift (core func $i "twice"))))
      (instance $outer (instantiate $outer (with "inner" (instance $inner))))
      (export "run" (func $outer "run"))
      (export "twice" (func $outer "twice")))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    assert_eq!(
        guest.call("run", &[Value::U32(77)]),
        Ok(Some(Value::U32(77)))
    );
    let twice = guest.call("twice", &[Value::U32(1)]);
    assert_eq!(
        twice,
        Err("the component instance has no handle 1".to_owned())
    );
}

#[test]
fn a_shim_and_what_fills_it_are_left_out() {
    // As toolchains write it: the main module imports a shim's function. The shim's table is filled
    // when the main module has its memory.
    let wat = r#"(component
      (import "log" (func $log (param "s" string)))
      (core module $shim
        (type $t (func (param i32 i32)))
        (table (export "$imports") 1 1 funcref)
        (func (export "0") (type $t)
          (call_indirect (type $t) (local.get 0) (local.get 1) (i32.const 0))))
      (core instance $shim (instantiate $shim))
      (core module $main
        (import "log" "log" (func $log (param i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 8) "logged")
        (func (export "run") (call $log (i32.const 8) (i32.const 6))))
      (core instance $main (instantiate $main (with "log" (instance
        (export "log" (func $shim "0"))))))
      (core func $lowered (canon lower (func $log) (memory (core memory $main "memory"))))
      (core module $fixup
        (import "" "$imports" (table 1 1 funcref))
        (import "" "0" (func (param i32 i32)))
        (elem (i32.const 0) 0))
      (core instance (instantiate $fixup (with "" (instance
        (export "$imports" (table $shim "$imports")) (export "0" (func $lowered))))))
      (func (export "run") (canon lift (core func $main "run"))))"#;
    let mut linker = Linker::<Vec<String>>::new();
    linker
        .func_values("", "log", |state, params| match &params[..] {
            [Value::String(line)] => {
                state.data_mut().push(line.clone());
                Ok(None)
            }
            other => panic!("{other:?}"),
        })
        .expect("it is new");
    let mut guest = guest(wat, &linker);
    assert_eq!(guest.call("run", &[]), Ok(None));
    let instance = guest.instance.as_ref().expect("it lives");
    assert_eq!(instance.data(), &["logged"]);
    // No table is left.
    let module = guest.prepared.core().module().clone();
    let names: Vec<&str> = module.exports().map(|(name, _)| name).collect();
    assert_eq!(names, ["flags.0", "memory.0", "run"]);
}

#[test]
fn start_functions_run_between_the_segments_of_modules() {
    // The first module's start function reads what the second module's segment writes later.
    let wat = r#"(component
      (core module $a
        (memory (export "memory") 1)
        (global $seen (export "seen") (mut i32) (i32.const -1))
        (func $start (global.set $seen (i32.load8_u (i32.const 0))))
        (start $start)
        (func (export "seen-it") (result i32) (global.get $seen)))
      (core instance $a (instantiate $a))
      (core module $b
        (import "a" "memory" (memory 1))
        (data (i32.const 0) "\07")
        (func (export "now") (result i32) (i32.load8_u (i32.const 0))))
      (core instance $b (instantiate $b (with "a" (instance $a))))
      (func (export "seen") (result u32) (canon lift (core func $a "seen-it")))
      (func (export "now") (result u32) (canon lift (core func $b "now"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    assert_eq!(guest.call("seen", &[]), Ok(Some(Value::U32(0))));
    assert_eq!(guest.call("now", &[]), Ok(Some(Value::U32(7))));
}
