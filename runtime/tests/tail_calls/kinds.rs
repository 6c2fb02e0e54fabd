//! Tail calls of every kind, compared with ordinary calls: results, stack usage and fuel.

use super::common::campaign::sampled;
use super::{LOOPS, both, instance, levels, loops, number, tables, trapped};
use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu;
use pirn_runtime::{TrapCode, Value};

/// More calls than any stack has frames for.
const MANY: i32 = 4_000_000;

#[test]
fn loops_of_tail_calls_need_no_stack() {
    for text in tables(LOOPS) {
        let [tail, plain] = both(&text);
        for options in levels() {
            let [mut tail, mut plain] = [&tail, &plain].map(|text| instance(text, &options));
            for (name, expected) in loops() {
                for n in [0, 1, 2, 3, 4, 5, 6, 100, 101] {
                    let [one, other] = [&mut tail, &mut plain]
                        .map(|guest| number(guest.call_values(name, &[Value::I32(n)])));
                    assert_eq!([one, other], [expected(n); 2], "{name} {n} {options:?}");
                }
                // Unoptimised code makes the calls more slowly, so fewer are enough.
                let n = if options.opt_level == OptLevel::Speed {
                    MANY + 1
                } else {
                    MANY / 10
                };
                let many = [Value::I32(n)];
                assert_eq!(number(tail.call_values(name, &many)), expected(n), "{name}");
                trapped(plain.call_values(name, &many), TrapCode::StackOverflow);
            }
        }
    }
}

/// Tail calls that return to functions with frames, repeatedly: the frames must be intact.
#[test]
fn tail_calls_keep_the_frames_of_callers() {
    let text = both(LOOPS)[0].replace("EXPORT", "");
    let module = text.strip_suffix(')').expect("a module");
    let text = format!(
        r#"{module} (func (export "around") (param $n i32) (result i32) (local $sum i32) (local $a i64) (local $v v128)
          (local.set $a (i64.extend_i32_u (local.get $n))) (local.set $v (i32x4.splat (local.get $n)))
          (loop $l
            (local.set $sum (i32.add (local.get $sum) (call $narrow (i32.rem_u (local.get $n) (i32.const 7)))))
            (local.set $v (i32x4.add (local.get $v) (i32x4.splat (i32.const 1))))
            (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
          (i32.sub (i32.sub (local.get $sum) (i32x4.extract_lane 3 (local.get $v))) (i32.wrap_i64 (local.get $a)))))"#
    );
    for options in levels() {
        let mut guest = instance(&text, &options);
        let sum: i32 = (1..=1000).map(|n| 18 + n % 7 % 3).sum();
        let found = number(guest.call_values("around", &[Value::I32(1000)]));
        assert_eq!(found, sum - 2000 - 1000, "{options:?}");
    }
}

#[test]
fn a_tail_call_passes_the_maximum_of_values() {
    let kinds = ["i32", "i64", "f32", "f64", "v128"];
    let types: Vec<_> = (0..1000).map(|at| kinds[at % 5]).collect();
    let list = types.join(" ");
    let get = |add: usize| -> String {
        let order = (0..1000).map(|at| (at + add) % 1000);
        order.map(|at| format!("(local.get {at})")).collect()
    };
    let (plain, five) = (get(0), get(5));
    let text = format!(
        r#"(module (type $all (func (param {list}) (result {list})))
          (global $n (mut i32) (i32.const 0))
          (func $turn (type $all)
            (global.set $n (i32.sub (global.get $n) (i32.const 1)))
            (if (global.get $n) (then {five} (RETURN_call $turn)  (return)))
            {plain})
          (func $none (export "none") (param i32) (result {list}) (global.set $n (local.get 0))
            CONSTANTS (RETURN_call $turn))
          (func (export "all") (type $all) (global.set $n (i32.const 3)) {plain} (RETURN_call $turn)))"#
    );
    let constants = types.iter().enumerate().map(|(at, ty)| match *ty {
        "v128" => format!("(v128.const i64x2 {at} {at})"),
        ty => format!("({ty}.const {at})"),
    });
    let text = text.replace("CONSTANTS", &constants.collect::<String>());
    let params: Vec<_> = (0..1000)
        .map(|at| match at % 5 {
            0 => Value::I32(at),
            1 => Value::I64(i64::from(-at)),
            2 => Value::F32((at as f32).to_bits()),
            3 => Value::F64((-f64::from(at)).to_bits()),
            _ => Value::V128(at.cast_unsigned().into()),
        })
        .collect();
    for options in sampled(levels(), 2, 0) {
        let [mut tail, mut plain] = both(&text).map(|text| instance(&text, &options));
        let [one, other] = [&mut tail, &mut plain]
            .map(|guest| guest.call_values("all", &params).expect("it returns"));
        assert!(one == other, "{options:?}");
        assert!(
            one[0] == Value::I32(10) && one[999] == params[9],
            "{:?}",
            &one[..10]
        );
        let results = tail
            .call_values("none", &[Value::I32(100_000)])
            .expect("it returns");
        // Each call rotates by five, so two hundred calls are a full rotation.
        assert_eq!(results[0], Value::I32((99_999 * 5) % 1000));
        trapped(
            plain.call_values("none", &[Value::I32(100_000)]),
            TrapCode::StackOverflow,
        );
    }
}

#[test]
fn tail_calls_use_the_fuel_of_ordinary_calls() {
    for text in tables(LOOPS) {
        for mut options in levels() {
            options.fuel = true;
            let [mut tail, mut plain] = both(&text).map(|text| instance(&text, &options));
            for (name, _) in loops() {
                for n in [0, 1, 2, 3, 50] {
                    for fuel in (1..60).chain([400, 100_000]) {
                        let [one, other] = [&mut tail, &mut plain].map(|guest| {
                            guest.set_fuel(fuel).expect("it counts");
                            let result = guest.call_values(name, &[Value::I32(n)]);
                            let result = result.map_err(|error| match error {
                                pirn_runtime::CallError::Trap(trap) => trap.code(),
                                other => panic!("{other}"),
                            });
                            (result, guest.fuel())
                        });
                        assert_eq!(one, other, "{name} {n} with {fuel}, {options:?}");
                    }
                }
                // An endless loop must end when its fuel is used up.
                tail.set_fuel(1_000_000).expect("it counts");
                let endless = tail.call_values(name, &[Value::I32(-1)]);
                trapped(endless, TrapCode::OutOfFuel);
                assert_eq!(tail.fuel(), Some(0), "{name}");
            }
        }
    }
}

/// A tail call of an intrinsic or of a replaced function has no callee, so a return must follow it.
#[test]
fn a_tail_called_intrinsic_returns() {
    let multiply = include_str!("../../../compiler/tests/multiply/digits-narrow.wat");
    let multiply = multiply.trim_end().strip_suffix(')').expect("a module");
    let multiply = multiply.split_once("(module").expect("a module").1;
    let text = format!(
        r#"(module
          (import "hw" "x86.pext_u32" (func $pext (param i32 i32) (result i32)))
          (import "hw" "x86.crc32_u64" (func $crc (param i64 i64) (result i64)))
          (table $t 2 funcref) (elem (i32.const 0) func $pext $multiply)
          {multiply}
          (func (export "pext") (param i32) (result i32) (i32.const 99)
            (RETURN_call $pext (local.get 0) (i32.const 0xf0f0)) (return))
          (func (export "by_table") (param i32) (result i32)
            (RETURN_call_indirect $t (param i32 i32) (result i32) (local.get 0) (i32.const 0xf0f0) (i32.const 0)))
          (func (export "crc") (param i32) (result i64)
            (RETURN_call $crc (i64.const 5) (i64.extend_i32_u (local.get 0))))
          (func (export "product") (param i32)
            (RETURN_call $multiply (i32.const 16) (i64.extend_i32_s (local.get 0)) (i64.const 0x123456789abcdef)))
          (func (export "product_by_table") (param i32)
            (RETURN_call_indirect $t (param i32 i64 i64)
              (i32.const 16) (i64.extend_i32_s (local.get 0)) (i64.const 0x123456789abcdef) (i32.const 1))))"#
    );
    let names = ["pext", "by_table", "crc", "product", "product_by_table"];
    for fuel in [false, true] {
        for cpu in [Options::default().cpu, cpu::detect()] {
            let mut options = Options::new(cpu.arch());
            (options.cpu, options.fuel) = (cpu, fuel);
            let [mut tail, mut plain] = both(&text).map(|text| instance(&text, &options));
            for name in names {
                for n in [0, 1, -1, 0x1234_5678] {
                    let [one, other] = [&mut tail, &mut plain].map(|guest| {
                        let result = guest.call_values(name, &[Value::I32(n)]);
                        let mut bytes = [0; 32];
                        guest.memory().read(0, &mut bytes).expect("inside");
                        (result.expect("it returns"), bytes)
                    });
                    assert_eq!(one, other, "{name} {n} {options:?}");
                }
            }
        }
    }
}
