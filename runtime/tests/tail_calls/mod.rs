//! Tail calls: they need constant stack, and have the results, fuel and traps of ordinary calls.
//! They work to the host and to other instances, and can be stopped and suspended.

use crate::common;

mod ends;
mod host;
mod kinds;

use common::values::{levels, number};
use pirn_compiler::Options;
use pirn_runtime::{CallError, Instance, Linker, Module, Prepared, Region, TrapCode, Value};

/// Placeholder in a guest's text for the first half of a tail call's name.
const RETURN: &str = "RETURN_";

/// Placeholder for an export of the table. An exported table is unknown to the compiler.
const EXPORT: &str = "EXPORT";

/// Loops of tail calls of every kind. Each function counts down and calls the next one.
const LOOPS: &str = r#"(module
  (type $count (func (param i32) (result i32)))
  (type $other (func (param i32) (result i32)))
  (type $alone (func (param i32) (param i64) (result i32)))
  (type $wide (func (param i32 i64 f64 v128 i64 f64 v128 i64 f64 v128 i64 f64 v128 i64 f64 v128 i64 f64 v128
    i64 f64 v128 i64 f64 v128 i64 f64 v128 i64 f64 v128 i32 f32 i32 i32 i32 i32 i32 i32) (result i32)))
  (table $t 5 funcref) (elem (i32.const 1) func $by_index $by_type $back $by_constant)
  EXPORT
  (memory 1)
  ;; By itself.
  (func $self (export "self") (param i32) (result i32)
    (if (result i32) (local.get 0)
      (then (RETURN_call $self (i32.sub (local.get 0) (i32.const 1))))
      (else (i32.const 11))))
  ;; By another one, from within blocks.
  (func $even (export "even") (param $n i32) (result i32)
    (block $b (result i32) (loop $l (result i32)
      (if (result i32) (local.get $n)
        (then (RETURN_call $odd (i32.sub (local.get $n) (i32.const 1))))
        (else (i32.const 12))))))
  (func $odd (param $n i32) (result i32)
    (if (result i32) (i32.eqz (local.get $n))
      (then (i32.const 13))
      (else (RETURN_call $even (i32.sub (local.get $n) (i32.const 1))))))
  ;; By a table: at an index of several, of the only one of a type, at one that is constant.
  (func $by_index (export "by_index") (type $count)
    (if (result i32) (local.get 0)
      (then (RETURN_call_indirect $t (type $other) (i32.sub (local.get 0) (i32.const 1))
        (i32.add (i32.const 1) (i32.mul (i32.const 3) (i32.and (local.get 0) (i32.const 1))))))
      (else (i32.const 14))))
  (func $by_constant (type $count)
    (if (result i32) (local.get 0)
      (then (RETURN_call_indirect $t (type $count) (i32.sub (local.get 0) (i32.const 1)) (i32.const 1)))
      (else (i32.const 15))))
  (func $by_type (type $alone)
    (if (result i32) (local.get 0)
      (then (RETURN_call_indirect $t (type $count) (i32.sub (local.get 0) (i32.const 1)) (i32.const 3)))
      (else (i32.const 16))))
  (func $back (export "by_type") (type $count)
    (if (result i32) (local.get 0)
      (then (RETURN_call_indirect $t (type $alone) (i32.sub (local.get 0) (i32.const 1)) (i64.const 5)
        (i32.add (i32.const 1) (i32.ne (local.get 0) (i32.const 0)))))
      (else (i32.const 17))))
  ;; From few parameters to many, and back.
  (func $narrow (export "widths") (param i32) (result i32)
    (if (result i32) (local.get 0)
      (then (RETURN_call $wide (i32.sub (local.get 0) (i32.const 1))
        (i64.const 1) (f64.const 2) (v128.const i64x2 3 4) (i64.const 5) (f64.const 6) (v128.const i64x2 7 8)
        (i64.const 9) (f64.const 10) (v128.const i64x2 11 12) (i64.const 13) (f64.const 14) (v128.const i64x2 15 16)
        (i64.const 17) (f64.const 18) (v128.const i64x2 19 20) (i64.const 21) (f64.const 22) (v128.const i64x2 23 24)
        (i64.const 25) (f64.const 26) (v128.const i64x2 27 28) (i64.const 29) (f64.const 30) (v128.const i64x2 31 32)
        (i64.const 33) (f64.const 34) (v128.const i64x2 35 36) (i64.const 37) (f64.const 38) (v128.const i64x2 39 40)
        (i32.const 41) (f32.const 42) (i32.const 43) (i32.const 44) (i32.const 45) (i32.const 46) (i32.const 47)
        (local.get 0)))
      (else (i32.const 18))))
  (func $wide (type $wide)
    ;; Its last parameters came by the stack.
    (if (i32.ne (local.get 38) (i32.add (local.get 0) (i32.const 1))) (then (unreachable)))
    (if (i64.ne (i64x2.extract_lane 1 (local.get 30)) (i64.const 40)) (then (unreachable)))
    (i32.store (i32.const 0) (i32.add (local.get 37) (local.get 31)))
    (if (i32.ne (i32.load (i32.const 0)) (i32.const 88)) (then (unreachable)))
    (if (result i32) (local.get 0)
      (then (RETURN_call $wider (i32.sub (local.get 0) (i32.const 1)) (local.get 1) (local.get 2)
        (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3)
        (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3)
        (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3) (local.get 3)
        (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6)
        (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6) (local.get 6)))
      (else (i32.const 19))))
  (func $wider (param $n i32) (param i64 f64) (param v128 v128 v128 v128 v128 v128 v128 v128 v128 v128
      v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128 v128
      v128 v128 v128 v128 v128 v128 v128 v128 v128 v128) (result i32)
    (if (i64.ne (i64x2.extract_lane 0 (local.get 42)) (i64.const 7)) (then (unreachable)))
    (if (result i32) (local.get $n)
      (then (RETURN_call $narrow (i32.sub (local.get $n) (i32.const 1))))
      (else (i32.const 20))))
  ;; What returns to its own caller in between, with something kept in its frame.
  (func (export "frames") (param $n i32) (result i32) (local $v v128)
    (local.set $v (i32x4.splat (local.get $n)))
    (i32.add (call $narrow (local.get $n))
      (i32.add (call $even (local.get $n)) (i32x4.extract_lane 2 (local.get $v))))))"#;

/// A function of a guest, and its result for a number.
type Loop = (&'static str, fn(i32) -> i32);

/// The functions of [`LOOPS`].
fn loops() -> [Loop; 6] {
    [
        ("self", |_| 11),
        ("even", |n| 12 + n % 2),
        ("by_index", |n| 14 + i32::from(n > 0)),
        ("by_type", |n| 17 - n % 2),
        ("widths", |n| 18 + n % 3),
        ("frames", |n| 18 + n % 3 + 12 + n % 2 + n),
    ]
}

/// The text with tail calls, and with ordinary calls in their place.
fn both(text: &str) -> [String; 2] {
    ["return_", ""].map(|name| text.replace(RETURN, name))
}

/// The text with its table known, and with the table exported.
fn tables(text: &str) -> [String; 2] {
    ["", "(export \"t\" (table $t))"].map(|export| text.replace(EXPORT, export))
}

fn region() -> Region {
    let region = Region::builder().slots(3);
    region.build().expect("a region")
}

fn prepare(module: &Module) -> Prepared<()> {
    let prepared = region().prepare(module, &Linker::new());
    prepared.expect("it is linked")
}

fn instance(text: &str, options: &Options) -> Instance<()> {
    let prepared = prepare(&common::wat_with(text, options));
    prepared.try_instantiate(()).expect("a slot is free")
}

#[track_caller]
fn trapped(result: Result<Vec<Value>, CallError>, code: TrapCode) -> Vec<Option<String>> {
    match result {
        Err(CallError::Trap(trap)) if trap.code() == code => {
            let frames = trap.backtrace().iter();
            let names = frames.map(|frame| frame.func_name().map(str::to_owned));
            names.collect()
        }
        other => panic!("expected {code}, found {other:?}"),
    }
}
