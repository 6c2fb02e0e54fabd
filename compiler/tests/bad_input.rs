//! Input that is not a module, or not a valid one: it must cause an error of one line, and never a
//! panic.

use pirn_testing::campaign;

use campaign::{sampled, share};
use pirn_compiler::{CompileError, Options, compile, parse_text};
use pirn_format::read::Checked;
use proptest::prelude::*;
use std::sync::LazyLock;

/// A module with at least one item of each section and each kind.
const EVERYTHING: &str = r#"(module $m
  (import "a" "f" (func $f (param i32) (result i64)))
  (import "a" "g" (global $g i32))
  (type $t (func (param i32) (result i32)))
  (type $u (func (param i32) (result (ref null $t))))
  (memory (export "m") 1 3) (table $tab 4 9 funcref)
  (table $rs 3 (ref null $t) (ref.func $k))
  (global $r (ref $u) (ref.func $refers))
  (func $refers (type $u) (local (ref func)) (local.set 1 (ref.func $k)) (ref.null $t))
  (global $h (mut i64) (i64.const 7))
  (global $v v128 (v128.const i32x4 1 2 3 4))
  (data (i32.const 8) "data") (data $p "passive")
  (elem (i32.const 1) func $f $k) (elem $e funcref (ref.null func) (ref.func $k))
  (start $s)
  (func $s)
  (func $k (export "k") (type $t)
    (local f32 f64)
    (block (result i32)
      (loop (result i32)
        (drop (@metadata.code.branch_hint "\00") (br_if 1 (i32.const 0) (local.get 0)))
        (br_table 1 1 (i32.const 3) (i32.const 2))))
    (@metadata.code.branch_hint "\01")
    (if (result i32) (then (i32.load offset=4 (local.get 0))) (else (memory.size)))
    (drop (call_indirect $tab (type $t) (i32.const 1) (local.get 0)))
    (block $n (br_on_null $n (ref.func $k)) (br_on_null $n (call_ref $u (local.get 0) (global.get $r))) (drop) (drop))
    (drop (block $n (result (ref $t)) (br_on_non_null $n (table.get $rs (local.get 0))) (ref.as_non_null (ref.null $t))))
    (if (local.get 0) (then (return_call_ref $t (local.get 0) (ref.func $k))))
    (if (local.get 0) (then (return_call $k (i32.const 0))))
    (if (local.get 0) (then (return_call_indirect $tab (type $t) (i32.const 1) (local.get 0))))
    (memory.init $p (i32.const 0) (i32.const 0) (i32.const 1))
    (table.init $tab $e (i32.const 0) (i32.const 0) (i32.const 1))
    (drop (i8x16.swizzle (global.get $v) (v128.load (local.get 0))))
    (i64.mul_wide_s (global.get $h) (i64.const 3))
    (i64.sub128 (i64.add128 (i64.const 1) (i64.const 2)) (i64.const 4) (i64.const 5))
    (drop) (drop)
    (drop (f64.promote_f32 (f32.sqrt (local.get 1))))))"#;

fn everything() -> Vec<u8> {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let wasm = parse_text(EVERYTHING.as_bytes()).expect("the text is well-formed");
        wasm.into_owned()
    });
    BYTES.clone()
}

/// Compiles any bytes. A compiled module must pass the check.
fn survives(wasm: &[u8]) -> Result<(), CompileError> {
    match compile(wasm, &Options::default()) {
        Ok(so) => {
            Checked::new(&so).expect("the compiled module passes the check");
            Ok(())
        }
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains('\n'), "{line}");
            assert!(
                !matches!(
                    error,
                    CompileError::Codegen { .. } | CompileError::Object(_)
                ),
                "{line}"
            );
            Err(error)
        }
    }
}

#[test]
fn the_undamaged_module_compiles() {
    survives(&everything()).expect("it is valid");
}

/// A module that uses intrinsics wherever a function may occur, next to host functions.
const INTRINSICS: &str = r#"(module
  (import "a" "f" (func $f (param i32)))
  (import "hw" "x86.crc32_u64" (func $crc (param i64 i64) (result i64)))
  (import "a" "g" (func $g))
  (import "hw" "x86.pclmulqdq" (func $mul (param v128 v128 i32) (result v128)))
  (import "hw" "aarch64.aese" (func $aes (param v128 v128) (result v128)))
  (table 3 funcref) (elem (i32.const 0) func $crc $g $aes)
  (global funcref (ref.func $crc))
  (export "c" (func $crc)) (export "f" (func $f)) (start $g)
  (func (export "k") (param v128) (result i64)
    (call $crc (i64.const 1) (i64x2.extract_lane 0
      (call $mul (local.get 0) (call $aes (local.get 0) (local.get 0)) (i32.const 16))))))"#;

#[test]
fn any_changed_byte_compiles_or_is_refused() {
    let intrinsics = parse_text(INTRINSICS.as_bytes()).expect("the text is well-formed");
    survives(&intrinsics).expect("it is valid");
    compiles_or_refuses_with_any_changed_byte(&everything());
    compiles_or_refuses_with_any_changed_byte(&intrinsics);
    let component = parse_text(COMPONENT.as_bytes()).expect("the text is well-formed");
    survives(&component).expect("it is valid");
    compiles_or_refuses_with_any_changed_byte(&component);
}

/// A component of two components, with strings and a resource between them.
const COMPONENT: &str = r#"(component
  (import "log" (func $log (param "line" string)))
  (component $inner
    (type $r' (resource (rep i32)))
    (export $r "r" (type $r'))
    (core func $new (canon resource.new $r'))
    (core module $m
      (import "" "new" (func $new (param i32) (result i32)))
      (memory (export "memory") 1) (data (i32.const 8) "text")
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64))
      (func (export "make") (param i32 i32) (result i32) (call $new (local.get 1))))
    (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
    (func (export "make") (param "s" string) (result (own $r))
      (canon lift (core func $i "make") (memory (core memory $i "memory"))
        (realloc (core func $i "realloc")))))
  (instance $inner (instantiate $inner))
  (component $outer
    (import "log" (func $log (param "line" string)))
    (import "inner" (instance $inner
      (export "r" (type $r (sub resource)))
      (export "make" (func (param "s" string) (result (own $r))))))
    (alias export $inner "r" (type $r))
    (core module $libc (memory (export "memory") 1) (data (i32.const 8) "text"))
    (core instance $libc (instantiate $libc))
    (core func $log (canon lower (func $log) (memory (core memory $libc "memory"))))
    (core func $make (canon lower (func $inner "make")
      (memory (core memory $libc "memory")) string-encoding=utf16))
    (core func $drop (canon resource.drop $r))
    (core module $m
      (import "" "log" (func $log (param i32 i32)))
      (import "" "make" (func $make (param i32 i32) (result i32)))
      (import "" "drop" (func $drop (param i32)))
      (func (export "run")
        (call $log (i32.const 8) (i32.const 4))
        (call $drop (call $make (i32.const 8) (i32.const 2)))))
    (core instance $i (instantiate $m (with "" (instance (export "log" (func $log))
      (export "make" (func $make)) (export "drop" (func $drop))))))
    (func (export "run") (canon lift (core func $i "run"))))
  (instance $outer (instantiate $outer
    (with "log" (func $log)) (with "inner" (instance $inner))))
  (export "run" (func $outer "run")))"#;

/// One of this number of changes is tried by default. Each byte has 14 values, so the next change
/// is five bytes on, with the next value.
const SAMPLE: usize = 5 * 14 + 1;

fn compiles_or_refuses_with_any_changed_byte(good: &[u8]) {
    let (mut compiled, mut refused) = (0, 0);
    // Flip every bit, and use special values: zero, all ones, one more, one less.
    let changes = good.iter().enumerate().flat_map(|(at, &old)| {
        let bits = (0..8).map(move |bit| old ^ 1 << bit);
        let values = [
            0,
            0x7f,
            0x80,
            0xff,
            old.wrapping_add(1),
            old.wrapping_sub(1),
        ];
        bits.chain(values).map(move |new| (at, new))
    });
    for (at, new) in sampled(changes, SAMPLE, 0).filter(|(at, new)| *new != good[*at]) {
        let mut bad = good.to_vec();
        bad[at] = new;
        match survives(&bad) {
            Ok(()) => compiled += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(
        compiled > share(100, SAMPLE) && refused > share(1000, SAMPLE),
        "{compiled} compiled, {refused} refused"
    );
}

#[test]
fn every_truncation_is_refused() {
    let good = everything();
    // A module truncated at the end of a section may be valid: the empty module, one with types,
    // one with types and imports, and one that lacks only the names.
    let whole = (0..good.len()).filter(|len| survives(&good[..*len]).is_ok());
    assert_eq!(whole.count(), 4);
    survives(b"").expect_err("it is empty");
}

#[test]
fn garbage_is_refused() {
    for bytes in [
        &b"garbage"[..],
        b"\0asm",
        b"\0asm\x02\0\0\0",
        // A component of an earlier version of the format.
        b"\0asm\x0c\0\x01\0",
        &[0xff; 4096],
    ] {
        survives(bytes).expect_err("it is garbage");
    }
}

/// Extensions of WebAssembly 2.0 that current toolchains emit by default.
#[test]
fn extensions_that_toolchains_emit_by_default_compile() {
    let extended = "(module (import \"a\" \"g\" (global $g i32)) (memory 1)
      (global i64 (i64.mul (i64.const 2) (i64.sub (i64.const 5) (i64.const 1))))
      (data (i32.add (global.get $g) (i32.const 4)) \"x\"))";
    survives(&parse_text(extended.as_bytes()).expect("the text is well-formed"))
        .expect("extended-const");
    // `call_indirect` of type 0 through table 0, whose index is encoded in two bytes.
    let text =
        "(module (type (func)) (table 1 funcref) (func (call_indirect (type 0) (i32.const 0))))";
    let short = parse_text(text.as_bytes())
        .expect("the text is well-formed")
        .into_owned();
    let at = short
        .windows(3)
        .position(|bytes| bytes == [0x11, 0, 0])
        .expect("call_indirect");
    let mut long = short.clone();
    long.splice(at + 2..at + 3, [0x80, 0]);
    // The lengths of the body and the section grow too.
    let body = at - 4;
    long[body] += 1;
    long[body - 2] += 1;
    survives(&short).expect("it is valid");
    survives(&long).expect("call-indirect-overlong");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(share(2000, 4) as u32))]

    #[test]
    fn random_bytes_after_the_magic_number_are_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = survives(&[b"\0asm\x01\0\0\0", &bytes[..]].concat());
    }

    #[test]
    fn shuffled_pieces_of_a_module_compile_or_are_refused(
        cuts in proptest::collection::vec((0..400_usize, 0..40_usize), 1..6),
    ) {
        let mut bytes = everything();
        for (at, len) in cuts {
            let start = (8 + at).min(bytes.len());
            let end = (start + len).min(bytes.len());
            let piece: Vec<u8> = bytes.drain(start..end).collect();
            bytes.extend(piece);
        }
        let _ = survives(&bytes);
    }
}

#[test]
fn a_memory_larger_than_any_slot_is_refused() {
    for (pages, is_refused) in [(65_535, false), (65_536, true)] {
        for text in [
            format!("(module (memory {pages}))"),
            format!("(module (memory {pages} 65536))"),
            format!(r#"(module (import "a" "m" (memory {pages})))"#),
        ] {
            let wasm = parse_text(text.as_bytes()).expect("the text is well-formed");
            let error = survives(&wasm).err().map(|error| error.to_string());
            let wanted = "module has 65536 initial pages of memory, the limit is 65535; use fewer";
            assert_eq!(error, is_refused.then(|| wanted.to_owned()), "{text}");
        }
    }
}
