//! Hostile components: cycles of shims, names that collide, values that cost the host more than the
//! guest, and calls after a failure.

use crate::common;

use common::{compiled, component, guest};
use pirn_component::{CallError, Linker, State, Value};
use pirn_runtime::{Region, Reset};

#[test]
fn shims_that_call_each_other_overflow_the_stack() {
    let shim = r#"
      (type $t (func))
      (table (export "$imports") 1 1 funcref)
      (func (export "0") (type $t) (call_indirect (type $t) (i32.const 0)))"#;
    let filler = r#"
      (import "" "$imports" (table 1 1 funcref))
      (import "" "0" (func))
      (elem (i32.const 0) 0)"#;
    let wat = format!(
        r#"(component
      (core module $shim {shim})
      (core module $fixup {filler})
      (core instance $a (instantiate $shim))
      (core instance $b (instantiate $shim))
      (core instance (instantiate $fixup (with "" (instance
        (export "$imports" (table $a "$imports")) (export "0" (func $b "0"))))))
      (core instance (instantiate $fixup (with "" (instance
        (export "$imports" (table $b "$imports")) (export "0" (func $a "0"))))))
      (func (export "run") (canon lift (core func $a "0"))))"#
    );
    let mut guest = guest(&wat, &Linker::<()>::new());
    let error = guest.call("run", &[]).expect_err("it never ends");
    assert!(error.contains("stack"), "{error}");
}

#[test]
fn a_shim_that_calls_itself_through_another_module_overflows_the_stack() {
    let wat = r#"(component
      (core module $shim
        (type $t (func))
        (table (export "$imports") 1 1 funcref)
        (func (export "0") (type $t) (call_indirect (type $t) (i32.const 0))))
      (core module $again
        (import "" "0" (func $f))
        (export "0" (func $f)))
      (core module $fixup
        (import "" "$imports" (table 1 1 funcref))
        (import "" "0" (func))
        (elem (i32.const 0) 0))
      (core instance $a (instantiate $shim))
      (core instance $b (instantiate $again (with "" (instance (export "0" (func $a "0"))))))
      (core instance (instantiate $fixup (with "" (instance
        (export "$imports" (table $a "$imports")) (export "0" (func $b "0"))))))
      (func (export "run") (canon lift (core func $a "0"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    let error = guest.call("run", &[]).expect_err("it never ends");
    assert!(error.contains("stack"), "{error}");
}

/// A component with a shim, a table of this size and a filler with these elements.
fn shim(table: &str, element: u32, elements: &str, start: &str) -> String {
    format!(
        r#"(component
      (core module $shim
        (type $t (func (result i32)))
        (table (export "$imports") {table} funcref)
        (func (export "0") (type $t) (call_indirect (type $t) (i32.const {element}))))
      (core module $main
        (import "" "0" (func $f (result i32)))
        {start}
        (func (export "run") (result i32) (call $f)))
      (core module $seven (func (export "7") (result i32) (i32.const 7)))
      (core module $fixup
        (import "" "$imports" (table {table} funcref))
        (import "" "0" (func (result i32)))
        {elements})
      (core instance $a (instantiate $shim))
      (core instance $main (instantiate $main (with "" (instance (export "0" (func $a "0"))))))
      (core instance $seven (instantiate $seven))
      (core instance (instantiate $fixup (with "" (instance
        (export "$imports" (table $a "$imports")) (export "0" (func $seven "7"))))))
      (func (export "run") (result u32) (canon lift (core func $main "run"))))"#
    )
}

/// The outcome of making an instance and calling it.
fn outcome(wat: &str) -> Result<Option<Value>, String> {
    let region = Region::builder().slots(1).build().expect("a region");
    let linker = Linker::<()>::new();
    let prepared = linker.prepare(&region, &component(wat)).expect("it links");
    let made = prepared.instantiate(());
    let mut instance = made.map_err(|error| format!("start: {error}"))?;
    let run = prepared.func("run").expect("it is exported");
    instance.call(&run, &[]).map_err(|error| error.to_string())
}

#[test]
fn shims_trap_as_they_would_if_they_were_not_left_out() {
    let seven = Ok(Some(Value::U32(7)));
    let of = |table, element, elements, start| outcome(&shim(table, element, elements, start));
    assert_eq!(of("1 1", 0, "(elem (i32.const 0) 0)", ""), seven);
    let beyond = of("1 1", 5, "(elem (i32.const 5) 0)", "").expect_err("no element 5");
    assert!(beyond.starts_with("start:"), "{beyond}");
    let long = of("1 1", 0, "(elem (i32.const 0) 0 0)", "").expect_err("one element");
    assert!(long.starts_with("start:"), "{long}");
    let negative = of("1 1", 0, "(elem (i32.const -1) 0 0)", "").expect_err("no element -1");
    assert!(negative.starts_with("start:"), "{negative}");
    let null = of("2 2", 1, "(elem (i32.const 0) 0)", "").expect_err("element 1 is null");
    assert!(!null.starts_with("start:"), "{null}");
    // The start function runs before the table is filled.
    let start = "(func $start (drop (call $f))) (start $start)";
    let early = of("1 1", 0, "(elem (i32.const 0) 0)", start).expect_err("not filled yet");
    assert!(early.starts_with("start:"), "{early}");
}

#[test]
fn exports_may_have_the_names_of_internal_ones() {
    let wat = r#"(component
      (core module $m
        (memory (export "memory") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
        (func (export "length") (param i32 i32) (result i32) (local.get 1))
        (func (export "three") (result i32) (i32.const 3)))
      (core instance $i (instantiate $m))
      (func (export "length") (param "s" string) (result u32)
        (canon lift (core func $i "length") (memory (core memory $i "memory"))
          (realloc (core func $i "realloc"))))
      (func (export "realloc-0") (result u32) (canon lift (core func $i "three")))
      (func (export "memory-0") (result u32) (canon lift (core func $i "three")))
      (func (export "flags-0") (result u32) (canon lift (core func $i "three"))))"#;
    let mut guest = guest(wat, &Linker::<()>::new());
    for name in ["realloc-0", "memory-0", "flags-0"] {
        assert_eq!(guest.call(name, &[]), Ok(Some(Value::U32(3))), "{name}");
    }
}

/// A component that returns a list of a million values of a type, whose bytes are all 0.
fn million(declared: &str, ty: &str) -> String {
    format!(
        r#"(component
      (core module $m
        (memory (export "memory") 64)
        (func (export "run") (result i32)
          (i32.store (i32.const 8) (i32.const 1024))
          (i32.store (i32.const 12) (i32.const 10000)) (i32.const 8)))
      (core instance $i (instantiate $m))
      {declared}
      (func (export "run") (result (list {ty}))
        (canon lift (core func $i "run") (memory (core memory $i "memory")))))"#
    )
}

#[test]
fn long_names_count_as_memory_of_the_host() {
    let name = "n".repeat(90_000);
    for declared in [
        format!(r#"(type $t' (enum "{name}"))"#),
        format!(r#"(type $t' (variant (case "{name}")))"#),
        format!(r#"(type $t' (record (field "{name}" u8)))"#),
    ] {
        let declared = format!(r#"{declared} (export $t "t" (type $t'))"#);
        let mut linker = Linker::<()>::new();
        linker.host_bytes_max(4 << 20);
        let mut guest = guest(&million(&declared, "$t"), &linker);
        match guest.call("run", &[]) {
            Ok(_) => panic!("the names take 900 MB"),
            Err(error) => assert!(error.contains("bytes of the host"), "{error}"),
        }
    }
}

#[test]
fn a_host_function_that_panics_ends_the_instance() {
    let wat = r#"(component
      (import "boom" (func $boom))
      (core func $boom (canon lower (func $boom)))
      (core module $m (import "" "boom" (func $boom))
        (func (export "run") (call $boom)) (func (export "ok")))
      (core instance $i (instantiate $m (with "" (instance (export "boom" (func $boom))))))
      (func (export "run") (canon lift (core func $i "run")))
      (func (export "ok") (canon lift (core func $i "ok"))))"#;
    let mut linker = Linker::<()>::new();
    let boom = |_: &mut State<()>, _: Vec<Value>| panic!("boom");
    linker.func_values("", "boom", boom).expect("it is new");
    let mut guest = guest(wat, &linker);
    let panicked = guest.call("run", &[]).expect_err("it panics");
    assert!(panicked.contains("boom"), "{panicked}");
    let after = guest.call_typed("ok", &[]);
    assert!(matches!(after, Err(CallError::Failed)), "{after:?}");
}

/// Two components: the inner one takes a string, the outer one calls it with these bytes.
fn passes(bytes: &str, len: u32, outer: &str, inner: &str) -> Result<Option<Value>, String> {
    let wat = format!(
        r#"(component
      (component $inner
        (core module $m
          (memory (export "memory") 1)
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
          (func (export "first") (param i32 i32) (result i32)
            (i32.load8_u (local.get 0))))
        (core instance $i (instantiate $m))
        (func (export "first") (param "s" string) (result u32)
          (canon lift (core func $i "first") (memory (core memory $i "memory"))
            (realloc (core func $i "realloc")) {inner})))
      (component $outer
        (import "first" (func $first (param "s" string) (result u32)))
        (core module $libc (memory (export "memory") 1) (data (i32.const 16) "{bytes}"))
        (core instance $libc (instantiate $libc))
        (core func $first (canon lower (func $first) (memory (core memory $libc "memory")) {outer}))
        (core module $m
          (import "" "first" (func $first (param i32 i32) (result i32)))
          (func (export "run") (result i32) (call $first (i32.const 16) (i32.const {len}))))
        (core instance $i (instantiate $m (with "" (instance (export "first" (func $first))))))
        (func (export "run") (result u32) (canon lift (core func $i "run"))))
      (instance $inner (instantiate $inner))
      (instance $outer (instantiate $outer (with "first" (func $inner "first"))))
      (export "run" (func $outer "run")))"#
    );
    compiled(&wat)?;
    guest(&wat, &Linker::<()>::new()).call("run", &[])
}

#[test]
fn strings_between_components_are_valid() {
    let utf16 = "string-encoding=utf16";
    assert_eq!(passes("a\\c3\\bc", 3, "", ""), Ok(Some(Value::U32(97))));
    let bad = passes("\\ff\\ff", 2, "", "").expect_err("no UTF-8");
    assert!(bad.contains("UTF-8"), "{bad}");
    let bad = passes("\\00\\d8", 1, utf16, utf16).expect_err("a lone surrogate");
    assert!(bad.contains("UTF-16"), "{bad}");
}

#[test]
fn strings_whose_encoding_changes_between_components_are_valid() {
    let (utf16, compact) = ("string-encoding=utf16", "string-encoding=latin1+utf16");
    for inner in [utf16, compact] {
        let bad = passes("\\ff\\ff", 2, "", inner).expect_err("no UTF-8");
        assert!(bad.contains("UTF-8"), "{inner}: {bad}");
    }
    for inner in ["", compact] {
        let bad = passes("\\00\\d8", 1, utf16, inner).expect_err("a lone surrogate");
        assert!(bad.contains("UTF-16"), "{inner}: {bad}");
    }
}

/// The error of compiling a text.
fn refused(wat: &str) -> String {
    compiled(wat).expect_err("it is refused")
}

#[test]
fn components_do_not_multiply_without_limit() {
    let mut inner = "(core module $m) (core instance (instantiate $m))".to_owned();
    for _ in 0..20 {
        let instances = "(instance (instantiate $c))".repeat(10);
        inner = format!("(component $c {inner}) {instances}");
    }
    let error = refused(&format!("(component {inner})"));
    assert!(error.contains("instances, the limit is 100000"), "{error}");

    // A component that is given to another could be larger than what is before its use.
    let given = r#"(component
      (component $c (import "x" (component $x)) (instance (instantiate $x))))"#;
    assert!(refused(given).contains("an imported component"));

    let data = "x".repeat(1 << 20);
    let instances = "(core instance (instantiate $m))".repeat(100);
    let error = refused(&format!(
        r#"(component (core module $m (memory 32) (data (i32.const 0) "{data}")) {instances})"#
    ));
    assert!(error.contains("bytes of core modules"), "{error}");
}

/// Slots share the image of a component above 256 KiB. A guest's write to it changes only the page
/// of its own slot.
#[test]
fn no_instance_finds_what_another_wrote_to_a_large_image() {
    const BYTES: u32 = 320 << 10;
    let text = "x".repeat(BYTES as usize);
    let wat = format!(
        r#"(component
          (core module $m
            (memory 8)
            (data (i32.const 0) "{text}")
            (func (export "change") (param $at i32) (result i32) (local $found i32)
              (local.set $found (i32.load8_u (local.get $at)))
              (i32.store8 (local.get $at) (i32.const 7))
              (local.get $found)))
          (core instance $i (instantiate $m))
          (func (export "change") (param "at" u32) (result u32)
            (canon lift (core func $i "change"))))"#
    );
    let component = component(&wat);
    for reset in Reset::ALL {
        let region = Region::builder().slots(2).reset(reset).build();
        let Ok(region) = region else { continue };
        let prepared = Linker::<()>::new().prepare(&region, &component);
        let prepared = prepared.expect("it links");
        let change = prepared.typed::<(u32,), u32>("change");
        let change = change.expect("its types");
        for round in 0..8 {
            let mut both = [(); 2].map(|()| prepared.instantiate(()).expect("a slot is free"));
            // Rounds write to different numbers of pages, so that later resets release some pages.
            for at in (0..BYTES + 8192).step_by(4096 << (round % 3)) {
                for instance in &mut both {
                    let found = instance.call_typed(&change, (at,)).expect("it returns");
                    let initial = if at < BYTES { u32::from(b'x') } else { 0 };
                    assert_eq!(found, initial, "{reset}, round {round}, {at}");
                }
            }
        }
    }
}
