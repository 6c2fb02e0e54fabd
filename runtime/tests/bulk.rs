//! `memory.copy` and `memory.fill` of every length against a model; the memory's base, whoever had the slot
//! before.

mod common;

use common::random::Random;
use pirn_compiler::{OptLevel, Options};
use pirn_runtime::{CallError, Group, Instance, Linker, Module, Prepared, Region, TrapCode, Value};

const MEMORY: usize = 64 << 10;

fn module(text: &str, level: OptLevel, fuel: bool, spectre: bool) -> Module {
    let mut options = Options::default();
    options.opt_level = level;
    options.fuel = fuel;
    options.spectre = spectre;
    let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("well-formed");
    common::open_with(&wasm, &options).expect("valid")
}

const TEXT: &str = r#"(module (memory (export "memory") 1)
  (func (export "copy") (param i32 i32 i32)
    (memory.copy (local.get 0) (local.get 1) (local.get 2)))
  (func (export "fill") (param i32 i32 i32)
    (memory.fill (local.get 0) (local.get 1) (local.get 2))))"#;

fn apply(bytes: &mut [u8], copy: bool, a: u32, b: u32, n: u32) -> bool {
    let inside = |at: u32| u64::from(at) + u64::from(n) <= bytes.len() as u64;
    if !inside(a) || (copy && !inside(b)) {
        return false;
    }
    let (to, from, n) = (a as usize, b as usize, n as usize);
    if copy {
        bytes.copy_within(from..from + n, to);
    } else {
        bytes[to..to + n].fill(b as u8);
    }
    true
}

#[test]
fn every_length_and_distance_is_as_the_model() {
    for (level, fuel, spectre) in [
        (OptLevel::None, false, true),
        (OptLevel::Speed, true, true),
        (OptLevel::SpeedAndSize, false, false),
    ] {
        let module = module(TEXT, level, fuel, spectre);
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new()).expect("fits");
        let copy = prepared.func::<(u32, u32, u32), ()>("copy").expect("there");
        let fill = prepared.func::<(u32, u32, u32), ()>("fill").expect("there");
        let mut instance = prepared.try_instantiate(()).expect("a slot");
        let mut random = Random(0x1234_5678_9abc_def1);
        let mut model: Vec<u8> = (0..MEMORY).map(|_| random.u64() as u8).collect();
        instance.memory_mut().write(0, &model).expect("inside");
        let mut check = |instance: &mut Instance<()>, is_copy: bool, a: u32, b: u32, n: u32| {
            if fuel {
                instance.set_fuel(1 << 40).expect("it counts");
            }
            let func = if is_copy { &copy } else { &fill };
            let result = instance.call(func, (a, b, n));
            let wanted = apply(&mut model, is_copy, a, b, n);
            match result {
                Ok(()) => assert!(wanted, "{is_copy} {a} {b} {n} did not trap"),
                Err(CallError::Trap(trap)) => {
                    assert_eq!(trap.code(), TrapCode::MemoryOutOfBounds);
                    assert!(!wanted, "{is_copy} {a} {b} {n} trapped");
                }
                Err(other) => panic!("{other}"),
            }
            let memory = instance.memory();
            assert!(memory.as_slice() == &model[..], "{is_copy} {a} {b} {n}");
            // A trap leaves the instance usable here.
        };
        // Every length, near and far distances both ways, at odd alignments.
        for n in 0..=1040_u32 {
            for _ in 0..12 {
                let to = 2000 + random.below(64) as u32;
                let d = random.below(u64::from(n) + 20) as u32;
                let (a, b) = if random.below(2) == 0 {
                    (to, to + d)
                } else {
                    (to + d, to)
                };
                check(&mut instance, true, a, b, n);
            }
            check(&mut instance, true, 3000, 3000, n);
            check(
                &mut instance,
                false,
                5000 + random.below(64) as u32,
                random.u64() as u32,
                n,
            );
            // The two ends of the memory, and one past.
            let end = MEMORY as u32 - n;
            for (a, b) in [
                (end, 0),
                (0, end),
                (end, end),
                (end, end.saturating_sub(1)),
                (end.saturating_sub(1), end),
            ] {
                check(&mut instance, true, a, b, n);
            }
            for (a, b) in [
                (end + 1, 0),
                (0, end + 1),
                (u32::MAX, 0),
                (0, u32::MAX),
                (u32::MAX - n, 0),
                (1 << 31, 0),
            ] {
                check(&mut instance, true, a, b, n);
            }
            check(&mut instance, false, end, 0x1ff, n);
            check(&mut instance, false, end + 1, 0x1ff, n);
            check(&mut instance, false, u32::MAX, 0x1ff, n);
        }
        for n in [u32::MAX, 1 << 31, 65536, 65537, 65535] {
            for (a, b) in [(0, 0), (1, 0), (0, 1), (u32::MAX, u32::MAX)] {
                check(&mut instance, true, a, b, n);
                check(&mut instance, false, a, b, n);
            }
        }
    }
}

/// Constants by other ways than i32.const at the operator.
#[test]
fn lengths_that_only_seem_constant() {
    let text = r#"(module (memory (export "memory") 1)
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
          (i64.add (i64.load32_s offset=16 (local.get $p)) (i64.load8_s offset=8 (local.get $p)))))
    )"#;
    for level in [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize] {
        let module = module(text, level, false, true);
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &Linker::<()>::new()).expect("fits");
        let mut i = prepared.try_instantiate(()).expect("a slot");
        let one = |i: &mut Instance<()>, name: &str, p: &[Value]| -> Option<i64> {
            match i.call_values(name, p) {
                Ok(v) => match v[..] {
                    [Value::I32(x)] => Some(i64::from(x)),
                    [Value::I64(x)] => Some(x),
                    _ => Some(0),
                },
                Err(CallError::Trap(t)) => {
                    assert_eq!(t.code(), TrapCode::MemoryOutOfBounds);
                    None
                }
                Err(e) => panic!("{e}"),
            }
        };
        assert_eq!(one(&mut i, "loop", &[]), Some(3));
        assert_eq!(one(&mut i, "if", &[Value::I32(1)]), Some(0));
        assert_eq!(one(&mut i, "if", &[Value::I32(0)]), Some(9));
        assert_eq!(one(&mut i, "block", &[Value::I32(0)]), Some(7));
        assert_eq!(one(&mut i, "block", &[Value::I32(1)]), Some(14));
        assert_eq!(one(&mut i, "tee", &[]), Some(5));
        for trap in ["negative", "wraps", "zero_out"] {
            assert_eq!(one(&mut i, trap, &[]), None, "{trap}");
        }
        for fine in ["dead", "zero"] {
            assert_eq!(one(&mut i, fine, &[]), Some(0), "{fine}");
        }
        // 8 bytes 05 00.. -> 06 -> 07 08 -> ff 08; 16.. are 3s.
        let want = 0x08ff_i64 + 0x0303_0303 + -1;
        assert_eq!(one(&mut i, "dse", &[Value::I32(4000)]), Some(want));
        // The store does not fit, and may leave its first part; the fill is not come to.
        for p in 65536 - 23..65536_i32 {
            let before = i.memory().as_slice().to_vec();
            assert_eq!(one(&mut i, "dse", &[Value::I32(p)]), None, "{p}");
            let kept = ..before.len().min(p as usize + 8);
            assert!(i.memory().as_slice()[kept] == before[kept], "{p}");
        }
    }
}

/// Each tenant writes and reads in functions that call, from its start function on.
fn tenant(start: bool, pages: u32, mark: u32) -> String {
    let start_fn = if start { "(start $start)" } else { "" };
    format!(
        r#"(module (memory (export "memory") {pages} 4)
          (func $nothing)
          (func $start (call $nothing)
            (drop (memory.grow (i32.const 1)))
            (i32.store (i32.const 16) (i32.const {mark}))
            (call $nothing))
          {start_fn}
          (func (export "grow") (result i32) (memory.grow (i32.const 1)))
          (func (export "go") (param $n i32) (result i32) (local $sum i32)
            (loop $l
              (call $nothing)
              (i32.store (i32.shl (local.get $n) (i32.const 2)) (local.get $n))
              (local.set $sum (i32.add (local.get $sum) (i32.load (i32.shl (local.get $n) (i32.const 2)))))
              (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#
    )
}

#[test]
fn the_base_is_the_slots_whoever_had_it_before() {
    let none = r#"(module (func $f) (func (export "go") (param i32) (result i32) (call $f) (local.get 0)))"#;
    for reset in common::resets() {
        let region = Region::builder()
            .slots(2)
            .reset(reset)
            .build()
            .expect("a region");
        let modules: Vec<Module> = [
            tenant(true, 1, 77),
            tenant(false, 1, 0),
            tenant(true, 0, 88),
            tenant(false, 0, 0),
        ]
        .iter()
        .map(|t| module(t, OptLevel::Speed, false, true))
        .collect();
        let none = module(none, OptLevel::Speed, false, true);
        let linker = Linker::<()>::new();
        let prepare = |m: &Module| region.prepare(m, &linker).expect("fits");
        let with: Vec<Prepared<()>> = modules.iter().map(prepare).collect();
        let without = prepare(&none);
        let mut random = Random(0x1357_9bdf_0246_8ace);
        for round in 0..600 {
            let k = random.below(5) as usize;
            let held = (random.below(3) == 0).then(|| without.try_instantiate(()).expect("a slot"));
            if k == 4 {
                let mut i = without.try_instantiate(()).expect("a slot");
                assert!(matches!(
                    i.call_values("go", &[Value::I32(3)]).expect("runs")[..],
                    [Value::I32(3)]
                ));
                continue;
            }
            let mut i = with[k].try_instantiate(()).expect("a slot");
            if k == 3 {
                let e = i.call_values("go", &[Value::I32(3)]).expect_err("no page");
                assert!(
                    matches!(e, CallError::Trap(ref t) if t.code() == TrapCode::MemoryOutOfBounds)
                );
                i.call_values("grow", &[]).expect("grows");
            }
            if k == 0 || k == 2 {
                assert_eq!(
                    i.memory().read_u32(16).expect("there"),
                    [77, 0, 88][k],
                    "{reset} {round}"
                );
            }
            let sum = i.call_values("go", &[Value::I32(100)]).expect("runs");
            assert!(
                matches!(sum[..], [Value::I32(5050)]),
                "{reset} {round}: {sum:?}"
            );
            let own: Vec<u32> = (1..=100)
                .map(|n| i.memory().read_u32(n * 4).expect("there"))
                .collect();
            assert_eq!(own, (1..=100).collect::<Vec<u32>>());
            drop(held);
        }
    }
}

#[test]
fn members_of_a_group_use_their_own_bases() {
    let a = r#"(module (memory (export "memory") 1 3)
      (func $n) (func (export "put") (param i32 i32) (call $n) (i32.store (local.get 0) (local.get 1)) (call $n))
      (func (export "get") (param i32) (result i32) (call $n) (i32.load (local.get 0)))
      (func (export "grow") (result i32) (memory.grow (i32.const 1))))"#;
    let b = r#"(module (import "a" "put" (func $put (param i32 i32))) (import "a" "get" (func $get (param i32) (result i32)))
      (memory (export "memory") 1)
      (func $start (i32.store (i32.const 0) (i32.const 5)) (call $put (i32.const 0) (i32.const 6)) )
      (start $start)
      (func (export "both") (result i32)
        (i32.store (i32.const 4) (i32.const 1))
        (call $put (i32.const 4) (i32.const 20))
        (i32.add (i32.add (i32.load (i32.const 4)) (call $get (i32.const 4)))
                 (i32.add (i32.load (i32.const 0)) (call $get (i32.const 0))))))"#;
    let c = r#"(module (import "a" "memory" (memory 1)) (import "a" "grow" (func $grow (result i32)))
      (import "b" "both" (func $both (result i32)))
      (func $n)
      (func (export "bulk") (param $len i32) (result i32)
        (memory.fill (i32.const 65000) (i32.const 1) (local.get $len))
        (drop (call $grow)) (drop (call $both))
        (memory.fill (i32.const 66000) (i32.const 2) (local.get $len))
        (memory.copy (i32.const 131000) (i32.const 66000) (local.get $len))
        (memory.copy (i32.const 130000) (i32.const 131000) (i32.const 72))
        (i32.add (i32.load8_u (i32.const 130071)) (i32.load8_u (i32.const 65000))))
      (func (export "out") (param $len i32) (call $n) (memory.copy (i32.const 131000) (i32.const 0) (local.get $len)))
      (func (export "few_out") (call $n) (memory.copy (i32.const 131000) (i32.const 0) (i32.const 73))
         (memory.fill (i32.const 131000) (i32.const 0) (i32.const 73))))"#;
    for level in [OptLevel::None, OptLevel::Speed] {
        for fuel in [false, true] {
            let region = Region::builder()
                .slots(3)
                .memory_max(4 << 16)
                .build()
                .expect("a region");
            for _ in 0..3 {
                let mut group = Group::new(&region, ());
                group.start_fuel(1 << 40);
                let linker = Linker::new();
                let mut add = |name: &str, text: &str| {
                    let m = group
                        .instantiate(&module(text, level, fuel, true), &linker)
                        .expect("fits");
                    group.name(name, m);
                    m
                };
                let (ma, mb, mc) = (add("a", a), add("b", b), add("c", c));
                let got = group.call(mb, "both", &[]).expect("runs");
                assert!(matches!(got[..], [Value::I32(32)]), "{got:?}");
                let got = group.call(mc, "bulk", &[Value::I32(72)]).expect("runs");
                assert!(matches!(got[..], [Value::I32(3)]), "{got:?}");
                let before = group.memory(ma).expect("there").as_slice().to_vec();
                assert!(group.call(mc, "out", &[Value::I32(73)]).is_err());
                assert!(group.call(mc, "few_out", &[]).is_err());
                assert!(group.memory(ma).expect("there").as_slice() == &before[..]);
                assert!(group.call(mc, "out", &[Value::I32(72)]).is_ok());
            }
        }
    }
}
