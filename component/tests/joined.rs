//! Hostile and unusual core modules in one component: what joining them must keep.

use crate::common;

use common::{compiled, guest};
use pirn_component::{CallError, Linker, State, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn number(value: Result<Option<Value>, String>) -> u32 {
    match value {
        Ok(Some(Value::U32(number))) => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_module_that_is_instantiated_twice_has_two_of_everything() {
    let wat = r#"(component
      (core module $m
        (type $other (func (param i64)))
        (type $t (func (result i32)))
        (import "" "seed" (global $seed i32))
        (memory $wide i64 1 2)
        (memory $m 1)
        (table $t 2 funcref)
        (table $wide i64 1 1 funcref)
        (tag $e (param i32))
        (global $own (mut i32) (global.get $seed))
        (data $passive "\05\06\07")
        (data (memory $wide) (i64.const 8) "\01")
        (elem $e func $one $two)
        (elem (table $wide) (offset (i64.const 0)) func $two)
        (elem declare func $sum)
        (func $one (type $t) (i32.const 1))
        (func $two (type $t) (i32.add (global.get $own) (i32.const 1)))
        (func $start
          (global.set $own (i32.add (global.get $own) (i32.const 1)))
          (memory.init $m $passive (i32.const 0) (i32.const 1) (i32.const 2))
          (table.init $t $e (i32.const 0) (i32.const 0) (i32.const 2))
          (data.drop $passive) (elem.drop $e))
        (start $start)
        (func $sum (export "sum") (result i32)
          (i32.add (i32.mul (global.get $own) (i32.const 1000))
            (i32.add (i32.load8_u $m (i32.const 1))
              (i32.add (call_indirect $wide (type $t) (i64.const 0))
                (i32.add (call_indirect $t (type $t) (i32.const 1))
                  (i32.load8_u $wide (i64.const 8)))))))
        (func (export "thrown") (result i32)
          (block $h (result i32)
            (try_table (catch $e $h) (throw $e (global.get $own)))
            (unreachable)))
        (func (export "again") (memory.init $m $passive (i32.const 0) (i32.const 0) (i32.const 1))))
      (core module $g (global (export "seed") i32 (i32.const 10))
        (global (export "other") i32 (i32.const 20)))
      (core instance $g (instantiate $g))
      (core instance $a (instantiate $m (with "" (instance (export "seed" (global $g "seed"))))))
      (core instance $b (instantiate $m (with "" (instance (export "seed" (global $g "other"))))))
      (func (export "a") (result u32) (canon lift (core func $a "sum")))
      (func (export "b") (result u32) (canon lift (core func $b "sum")))
      (func (export "throw") (result u32) (canon lift (core func $b "thrown")))
      (func (export "again") (canon lift (core func $b "again"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    assert_eq!(number(guest.call("a", &[])), 11_000 + 7 + 12 + 12 + 1);
    assert_eq!(number(guest.call("b", &[])), 21_000 + 7 + 22 + 22 + 1);
    assert_eq!(number(guest.call("throw", &[])), 21);
    let again = guest
        .call("again", &[])
        .expect_err("the segment was dropped");
    assert!(again.contains("out of bounds"), "{again}");
    let after = guest.call("a", &[]).expect_err("a call has failed");
    assert!(after.contains("an earlier call"), "{after}");
}

#[test]
fn segments_after_a_start_function_trap_after_it() {
    for segment in [
        r#"(data (i32.const 65535) "xy")"#,
        r#"(memory $own 1) (data (memory $own) (i32.const 65535) "xy")"#,
        "(table 1 funcref) (elem (i32.const 1) func $f)",
    ] {
        trap_after_start(segment);
    }
}

/// Checks that a segment that does not fit traps after the start function of an earlier module has
/// run.
fn trap_after_start(segment: &str) {
    let wat = r#"(component
      (import "log" (func $log))
      (core func $log (canon lower (func $log)))
      (core module $a
        (import "" "log" (func $log))
        (memory (export "memory") 1)
        (start $log))
      (core instance $a (instantiate $a (with "" (instance (export "log" (func $log))))))
      (core module $b (import "" "memory" (memory 1)) (func $f) SEGMENT)
      (core instance (instantiate $b (with "" (instance $a)))))"#;
    let wat = &wat.replace("SEGMENT", segment);
    let mut linker = Linker::<()>::new();
    let logged = Arc::new(AtomicU32::new(0));
    let log = {
        let logged = Arc::clone(&logged);
        move |_: &mut State<()>, _: Vec<Value>| {
            logged.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        }
    };
    linker.func_values("", "log", log).expect("it is new");
    let region = pirn_runtime::Region::builder()
        .slots(1)
        .memories(2)
        .build()
        .expect("a region");
    let prepared = linker
        .prepare(&region, &common::component(wat))
        .expect("it links");
    assert!(prepared.instantiate(()).is_err(), "{segment}");
    assert_eq!(logged.load(Ordering::Relaxed), 1, "{segment}");
    assert_eq!(region.slots_free(), 1);
}

/// The output of a linker for shared libraries has this form. One module exports the memory, the
/// table, and the offsets of the libraries; the libraries put their segments at these offsets.
#[test]
fn segments_at_the_value_of_another_module_s_global_are_there() {
    let wat = r#"(component
      (core module $env
        (memory (export "memory") 1)
        (table (export "table") 4 funcref)
        (global (export "data") i32 (i32.const 1024))
        (global (export "elements") i32 (i32.const 2))
        (data (i32.const 1026) "zz"))
      (core instance $env (instantiate $env))
      (core module $lib
        (import "env" "memory" (memory 1)) (import "env" "table" (table 4 funcref))
        (import "env" "data" (global $data i32)) (import "env" "elements" (global $elements i32))
        (type $t (func (result i32)))
        (data (global.get $data) "abc")
        (data (offset (i32.add (global.get $data) (i32.const 1))) "B")
        (elem (global.get $elements) func $load)
        (func $load (type $t) (i32.load (i32.const 1024)))
        (func (export "run") (type $t) (call_indirect (type $t) (i32.const 2))))
      (core instance $lib (instantiate $lib (with "env" (instance $env))))
      (func (export "run") (result u32) (canon lift (core func $lib "run"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    assert_eq!(number(guest.call("run", &[])), u32::from_le_bytes(*b"aBcz"));
}

/// A start function does not see the segments of later modules. When all modules have started, all
/// segments are present.
#[test]
fn start_functions_see_memories_and_tables_before_later_segments() {
    let wat = r#"(component
      (core module $a
        (memory (export "memory") 1)
        (table (export "table") 2 funcref)
        (global $seen (mut i32) (i32.const 0))
        (data (i32.const 0) "A")
        (func $start
          (global.set $seen (i32.add (i32.load (i32.const 0))
            (i32.shl (ref.is_null (table.get (i32.const 0))) (i32.const 8)))))
        (start $start)
        (func (export "seen") (result i32) (global.get $seen)))
      (core instance $a (instantiate $a))
      (core module $b
        (import "" "memory" (memory $old 1)) (import "" "table" (table $old 2 funcref))
        (type $t (func (result i32)))
        (memory $own 1)
        (table $own 2 2 funcref)
        (global $started (mut i32) (i32.const 0))
        (data (memory $old) (i32.const 0) "B")
        (data (memory $own) (i32.const 0) "C")
        (data (memory $own) (i32.const 1) "D")
        (elem (table $old) (i32.const 0) func $one)
        (elem (table $own) (i32.const 1) func $two)
        (func $one (type $t) (i32.load8_u $old (i32.const 0)))
        (func $two (type $t) (i32.load16_u $own (i32.const 0)))
        (func $start (global.set $started (call_indirect $own (type $t) (i32.const 1))))
        (start $start)
        (func (export "old") (type $t) (call_indirect $old (type $t) (i32.const 0)))
        (func (export "started") (type $t) (global.get $started)))
      (core instance $b (instantiate $b (with "" (instance $a))))
      (func (export "seen") (result u32) (canon lift (core func $a "seen")))
      (func (export "old") (result u32) (canon lift (core func $b "old")))
      (func (export "started") (result u32) (canon lift (core func $b "started"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    assert_eq!(number(guest.call("seen", &[])), 0x100 + u32::from(b'A'));
    assert_eq!(number(guest.call("old", &[])), u32::from(b'B'));
    let started = u32::from(u16::from_le_bytes(*b"CD"));
    assert_eq!(number(guest.call("started", &[])), started);
}

#[test]
fn shims_that_others_use_stay() {
    for (shim, more, wanted) in [
        ("call_indirect", "", 7),
        ("return_call_indirect", "", 7),
        // Another module writes the table later.
        (
            "call_indirect",
            r#"(core module $late
                 (import "" "$imports" (table 1 1 funcref))
                 (func $eight (result i32) (i32.const 8))
                 (elem (i32.const 0) $eight))
               (core instance (instantiate $late (with "" (instance
                 (export "$imports" (table $a "$imports"))))))"#,
            8,
        ),
        // Another filler.
        (
            "call_indirect",
            r#"(core module $nine (func (export "7") (result i32) (i32.const 9)))
               (core instance $nine (instantiate $nine))
               (core instance (instantiate $fixup (with "" (instance
                 (export "$imports" (table $a "$imports")) (export "0" (func $nine "7"))))))"#,
            9,
        ),
    ] {
        let wat = format!(
            r#"(component
          (core module $shim
            (type $t (func (result i32)))
            (table (export "$imports") 1 1 funcref)
            (func (export "0") (type $t) ({shim} (type $t) (i32.const 0))))
          (core module $seven (func (export "7") (result i32) (i32.const 7)))
          (core module $fixup
            (import "" "$imports" (table 1 1 funcref))
            (import "" "0" (func (result i32)))
            (elem (i32.const 0) 0))
          (core instance $a (instantiate $shim))
          (core instance $seven (instantiate $seven))
          (core instance (instantiate $fixup (with "" (instance
            (export "$imports" (table $a "$imports")) (export "0" (func $seven "7"))))))
          {more}
          (func (export "run") (result u32) (canon lift (core func $a "0"))))"#
        );
        let mut guest = guest(&wat, &Linker::<()>::new());
        assert_eq!(number(guest.call("run", &[])), wanted);
    }
}

#[test]
fn an_exception_does_not_leave_an_allocator() {
    let wat = r#"(component
      (import "name" (func $name (result string)))
      (core module $libc
        (memory (export "memory") 1)
        (tag $e (export "e"))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (throw $e)))
      (core instance $libc (instantiate $libc))
      (core func $name (canon lower (func $name) (memory (core memory $libc "memory"))
        (realloc (core func $libc "realloc"))))
      (core module $m
        (import "" "name" (func $name (param i32)))
        (func (export "run") (result i32)
          (block $h (try_table (catch_all $h) (call $name (i32.const 16))))
          (i32.const 5)))
      (core instance $i (instantiate $m (with "" (instance (export "name" (func $name))))))
      (func (export "run") (result u32) (canon lift (core func $i "run"))))"#;
    let mut linker = Linker::<()>::new();
    let name = |_: &mut State<()>, _: Vec<Value>| Ok(Some(Value::String("x".into())));
    linker.func_values("", "name", name).expect("it is new");
    let mut guest = guest(wat, &linker);
    let run = guest.call("run", &[]);
    assert!(run.is_err(), "{run:?}");
}

#[test]
fn an_exception_does_not_leave_a_destructor() {
    let wat = r#"(component
      (component $inner
        (core module $d (tag $e) (func (export "d") (param i32) (throw $e)))
        (core instance $d (instantiate $d))
        (type $r' (resource (rep i32) (dtor (core func $d "d"))))
        (export $r "r" (type $r'))
        (core func $new (canon resource.new $r'))
        (core module $m
          (import "" "new" (func $new (param i32) (result i32)))
          (func (export "make") (result i32) (call $new (i32.const 1))))
        (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
        (func (export "make") (result (own $r)) (canon lift (core func $i "make"))))
      (instance $inner (instantiate $inner))
      (component $outer
        (import "inner" (instance $inner
          (export "r" (type $r (sub resource)))
          (export "make" (func (result (own $r))))))
        (alias export $inner "r" (type $r))
        (core func $make (canon lower (func $inner "make")))
        (core func $drop (canon resource.drop $r))
        (core module $m
          (import "" "make" (func $make (result i32)))
          (import "" "drop" (func $drop (param i32)))
          (func (export "run") (result i32)
            (block $h (try_table (catch_all $h) (call $drop (call $make))))
            (i32.const 5)))
        (core instance $i (instantiate $m (with "" (instance
          (export "make" (func $make)) (export "drop" (func $drop))))))
        (func (export "run") (result u32) (canon lift (core func $i "run"))))
      (instance $outer (instantiate $outer (with "inner" (instance $inner))))
      (export "run" (func $outer "run")))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    let run = guest.call("run", &[]);
    assert!(run.is_err(), "{run:?}");
}

#[test]
fn an_allocator_leaves_its_component_in_no_way() {
    // While the host or another component writes a string, the allocator of the component that gets
    // it calls another component, makes a resource or drops one.
    for (body, wanted) in [
        ("(drop (call $new (i32.const 1)))", "may not be left"),
        ("(call $drop (i32.const 1))", "may not be left"),
        ("(call $other)", "broke a rule"),
        ("(drop (call $rep (call $keep)))", ""),
    ] {
        let wat = format!(
            r#"(component
          (component $other
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func (export "f") (canon lift (core func $i "f"))))
          (instance $other (instantiate $other))
          (component $inner
            (import "f" (func $other))
            (type $r (resource (rep i32)))
            (core func $new (canon resource.new $r))
            (core func $rep (canon resource.rep $r))
            (core func $drop (canon resource.drop $r))
            (core func $other (canon lower (func $other)))
            (core module $m
              (import "" "new" (func $new (param i32) (result i32)))
              (import "" "rep" (func $rep (param i32) (result i32)))
              (import "" "drop" (func $drop (param i32)))
              (import "" "other" (func $other))
              (memory (export "memory") 1)
              (global $kept (mut i32) (i32.const 0))
              (func $keep (result i32) (global.get $kept))
              (func (export "ready") (global.set $kept (call $new (i32.const 9))))
              (func (export "realloc") (param i32 i32 i32 i32) (result i32)
                {body} (i32.const 64))
              (func (export "take") (param i32 i32)))
            (core instance $i (instantiate $m (with "" (instance
              (export "new" (func $new)) (export "rep" (func $rep)) (export "drop" (func $drop))
              (export "other" (func $other))))))
            (func (export "ready") (canon lift (core func $i "ready")))
            (func (export "take") (param "s" string)
              (canon lift (core func $i "take") (memory (core memory $i "memory"))
                (realloc (core func $i "realloc")))))
          (instance $inner (instantiate $inner (with "f" (func $other "f"))))
          (component $outer
            (import "take" (func $take (param "s" string)))
            (core module $l (memory (export "memory") 1))
            (core instance $l (instantiate $l))
            (core func $take (canon lower (func $take) (memory (core memory $l "memory"))))
            (core module $m (import "" "take" (func $take (param i32 i32)))
              (func (export "run") (call $take (i32.const 0) (i32.const 3))))
            (core instance $i (instantiate $m (with "" (instance (export "take" (func $take))))))
            (func (export "run") (canon lift (core func $i "run"))))
          (instance $outer (instantiate $outer (with "take" (func $inner "take"))))
          (export "ready" (func $inner "ready"))
          (export "take" (func $inner "take"))
          (export "run" (func $outer "run")))"#
        );
        for by_host in [true, false] {
            let mut guest = guest(&wat, &Linker::<()>::new());
            assert_eq!(guest.call("ready", &[]), Ok(None));
            let ended = match by_host {
                true => guest.call("take", &[Value::String("abc".into())]),
                false => guest.call("run", &[]),
            };
            match ended {
                Ok(_) => assert_eq!(wanted, "", "{body} {by_host}"),
                Err(error) => {
                    assert!(
                        !wanted.is_empty() && error.contains(wanted),
                        "{body}: {error}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_backtrace_names_functions_of_all_core_modules() {
    let wat = r#"(component
      (core module $inner
        (func $fails (export "f") (unreachable)))
      (core instance $inner (instantiate $inner))
      (core module $outer
        (import "" "f" (func $imported))
        (func $calls (export "g") (call $imported) (call $imported)))
      (core instance $outer (instantiate $outer (with "" (instance $inner))))
      (func (export "go") (canon lift (core func $outer "g"))))"#;
    let mut guest = guest::<()>(wat, &Linker::new());
    let error = guest.call_typed("go", &[]).expect_err("it traps");
    let CallError::Core(pirn_runtime::CallError::Trap(trap)) = error else {
        panic!("{error}");
    };
    let frames: Vec<_> = trap
        .backtrace()
        .iter()
        .filter_map(|frame| frame.func_name())
        .collect();
    assert_eq!(frames, ["fails", "calls"]);
}

/// The exports of an instance that is made of functions have no order of their own.
#[test]
fn the_same_component_gives_the_same_bytes() {
    let mut funcs = String::new();
    let mut exports = String::new();
    for n in 0..12 {
        funcs += &format!(
            r#"(func $f{n} (result string) (canon lift (core func $i "f{n}")
              (memory (core memory $i "memory")) (post-return (core func $i "p{n}"))))"#
        );
        exports += &format!(r#"(export "f{n}" (func $f{n}))"#);
    }
    let core: String = (0..12)
        .map(|n| {
            format!(
                r#"(func (export "f{n}") (result i32) (i32.const {n}))
                  (func (export "p{n}") (param i32))"#
            )
        })
        .collect();
    let wat = format!(
        r#"(component
          (core module $m (memory (export "memory") 1) {core})
          (core instance $i (instantiate $m))
          {funcs}
          (instance $made {exports})
          (export "test:made/api" (instance $made)))"#
    );
    let first = compiled(&wat).expect("it compiles");
    for _ in 0..20 {
        assert!(Ok(&first) == compiled(&wat).as_ref(), "other bytes");
    }
}
