//! Every length at many distances, and lengths that only seem to be constants.

use super::common::random::Random;
use super::{FUNCS, MEMORY, Operation, common, options, returned};
use Operation::{Copy, Fill};
use pirn_compiler::OptLevel;
use pirn_runtime::{Instance, Linker, Region, Value};

#[test]
fn every_length_and_distance_equals_the_model() {
    for (level, fuel, spectre) in [
        (OptLevel::None, false, true),
        (OptLevel::Speed, true, true),
        (OptLevel::SpeedAndSize, false, false),
    ] {
        let mut options = options(level, fuel);
        options.spectre = spectre;
        let text = format!("(module (memory (export \"memory\") 1) {FUNCS})");
        let module = common::wat_with(&text, &options);
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new());
        let prepared = prepared.expect("it fits");
        let func = |operation: Operation| {
            let func = prepared.func::<(u32, u32, u32), ()>(operation.name());
            func.expect("it is exported")
        };
        let (copy, fill) = (func(Copy), func(Fill));
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut model: Vec<u8> = (0..MEMORY).map(|_| random.u64() as u8).collect();
        instance.memory_mut().write(0, &model).expect("inside");
        // The instance stays usable after a trap in this test.
        let mut check = |operation: Operation, to: u32, source: u32, length: u32| {
            if fuel {
                instance.set_fuel(1 << 40).expect("it counts");
            }
            let func = match operation {
                Copy => &copy,
                Fill => &fill,
            };
            let is_done = returned(instance.call(func, (to, source, length))).is_some();
            let wanted = operation.apply(&mut model, to, source, length);
            assert_eq!(is_done, wanted, "{operation:?} {to} {source} {length}");
            let memory = instance.memory();
            assert!(
                memory.as_slice() == model,
                "{operation:?} {to} {source} {length} leaves other bytes"
            );
        };
        for length in 0..=1040 {
            inside(length, &mut random, &mut check);
            at_the_ends(length, &mut check);
        }
        for length in [u32::MAX, 1 << 31, 65536, 65537, 65535] {
            for (to, source) in [(0, 0), (1, 0), (0, 1), (u32::MAX, u32::MAX)] {
                check(Copy, to, source, length);
                check(Fill, to, source, length);
            }
        }
    }
}

/// Short and long distances in both directions, at odd alignments.
fn inside(length: u32, random: &mut Random, check: &mut impl FnMut(Operation, u32, u32, u32)) {
    for _ in 0..12 {
        let near = 2000 + random.below(64) as u32;
        let far = near + random.below(u64::from(length) + 20) as u32;
        match random.below(2) {
            0 => check(Copy, near, far, length),
            _ => check(Copy, far, near, length),
        }
    }
    check(Copy, 3000, 3000, length);
    let to = 5000 + random.below(64) as u32;
    check(Fill, to, random.u64() as u32, length);
}

/// Both ends of the memory, and one byte past.
fn at_the_ends(length: u32, check: &mut impl FnMut(Operation, u32, u32, u32)) {
    let end = MEMORY as u32 - length;
    for (to, from) in [
        (end, 0),
        (0, end),
        (end, end),
        (end, end.saturating_sub(1)),
        (end.saturating_sub(1), end),
        (end + 1, 0),
        (0, end + 1),
        (u32::MAX, 0),
        (0, u32::MAX),
        (u32::MAX - length, 0),
        (1 << 31, 0),
    ] {
        check(Copy, to, from, length);
    }
    for to in [end, end + 1, u32::MAX] {
        check(Fill, to, 0x1ff, length);
    }
}

/// Lengths that are constant, but not by an `i32.const` directly before the operator.
const SEEMING: &str = r#"(module (memory (export "memory") 1)
  (func (export "loop") (result i32) (local $n i32) (local $k i32)
    (local.set $n (i32.const 8))
    (memory.fill (i32.const 100) (i32.const 1) (i32.const 512))
    (loop $l
      (memory.fill (i32.const 100) (i32.const 2) (local.get $n))
      (local.set $n (i32.const 40))
      (br_if $l (i32.lt_u (local.tee $k (i32.add (local.get $k) (i32.const 1))) (i32.const 2))))
    (i32.add (i32.load8_u (i32.const 139)) (i32.load8_u (i32.const 140))))
  (func (export "if") (param i32) (result i32) (local $n i32)
    (if (local.get 0) (then (local.set $n (i32.const 4))) (else (local.set $n (i32.const 16))))
    (memory.fill (i32.const 1000) (i32.const 9) (local.get $n))
    (i32.load8_u (i32.const 1015)))
  (func (export "block") (param i32) (result i32)
    (i32.const 2000) (i32.const 7)
    (block (result i32) (br_if 0 (i32.const 16) (local.get 0)) (drop) (i32.const 3))
    (memory.fill)
    (i32.add (i32.load8_u (i32.const 2002)) (i32.load8_u (i32.const 2015))))
  (func (export "tee") (result i32) (local $n i32)
    (memory.fill (i32.const 3000) (i32.const 5) (local.tee $n (i32.const 17)))
    (memory.copy (i32.const 3100) (i32.const 3000) (local.get $n))
    (i32.add (i32.load8_u (i32.const 3116)) (i32.load8_u (i32.const 3117))))
  (func (export "negative") (memory.fill (i32.const 0) (i32.const 5) (i32.const -1)))
  (func (export "wraps") (memory.copy (i32.const 0) (i32.const -4) (i32.const 8)))
  (func (export "dead") (return) (memory.copy (i32.const 0) (i32.const -4) (i32.const 8)) (call 0) (drop))
  (func (export "zero") (local $n i32) (memory.copy (i32.const 65536) (i32.const 65536) (local.get $n)))
  (func (export "zero_out") (local $n i32) (memory.copy (i32.const 65537) (i32.const 0) (local.get $n)))
  ;; a dead store before the tail of a fill, and stores over parts of it
  (func (export "dse") (param $p i32) (result i64)
    (v128.store offset=8 (local.get $p) (v128.const i64x2 -1 -1))
    (memory.fill (local.get $p) (i32.const 3) (i32.const 24))
    (i64.store offset=8 (local.get $p) (i64.const 5))
    (i32.store8 offset=8 (local.get $p) (i32.const 6))
    (i32.store16 offset=8 (local.get $p) (i32.const 0x0807))
    (i64.store8 offset=8 (local.get $p) (i64.const 0x1ff))
    (i64.add (i64.load offset=8 (local.get $p))
      (i64.add (i64.load32_s offset=16 (local.get $p)) (i64.load8_s offset=8 (local.get $p))))))"#;

#[test]
fn apparently_constant_lengths_are_evaluated() {
    for level in [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize] {
        let module = common::wat_with(SEEMING, &options(level, false));
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new());
        let prepared = prepared.expect("it fits");
        let mut instance = prepared.try_instantiate(()).expect("a slot is free");
        let one = Value::I32(1);
        let zero = Value::I32(0);
        for (name, params, wanted) in [
            ("loop", &[][..], 3),
            ("if", &[one], 0),
            ("if", &[zero], 9),
            ("block", &[zero], 7),
            ("block", &[one], 14),
            ("tee", &[], 5),
            ("dead", &[], 0),
            ("zero", &[], 0),
        ] {
            assert_eq!(call(&mut instance, name, params), Some(wanted), "{name}");
        }
        for name in ["negative", "wraps", "zero_out"] {
            assert_eq!(call(&mut instance, name, &[]), None, "{name}");
        }
        // The 8 bytes are 05 00.., then 06, then 07 08, then ff 08; the bytes from 16 on are 3.
        let wanted = 0x08ff_i64 + 0x0303_0303 + -1;
        let found = call(&mut instance, "dse", &[Value::I32(4000)]);
        assert_eq!(found, Some(wanted));
        // The store is partly out of bounds and may write its first part; the fill must not run.
        for at in 65536 - 23..65536_i32 {
            let before = instance.memory().as_slice().to_vec();
            assert_eq!(call(&mut instance, "dse", &[Value::I32(at)]), None, "{at}");
            let kept = ..before.len().min(at as usize + 8);
            assert!(instance.memory().as_slice()[kept] == before[kept], "{at}");
        }
    }
}

/// The result of a call, 0 if there is none; `None` if it traps.
fn call(instance: &mut Instance<()>, name: &str, params: &[Value]) -> Option<i64> {
    let values = returned(instance.call_values(name, params))?;
    Some(match values[..] {
        [Value::I32(value)] => i64::from(value),
        [Value::I64(value)] => value,
        _ => 0,
    })
}
