//! Each intrinsic must compute the result of its model and change nothing else. Both the hardware
//! instruction and the portable body run on random operands.

use crate::common;
mod crypto;
mod model;

use common::campaign::sampled;
use common::random::Random;
use model::{MODELS, Model};
use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::{self, CpuFeatures};
use pirn_runtime::{Caller, Instance, Linker, Module, Region, ValType, Value};
use std::fmt::Write as _;

/// Random operands for each intrinsic, immediate, form and level.
const ROUNDS: u32 = 200;
/// Addresses in the guest's memory: the operands, the result, the values that are live across the
/// call, and a copy of these values after the call.
const OPERANDS: u32 = 0;
const RESULT: u32 = 64;
const KEPT: u32 = 1024;
const LEFT: u32 = 4096;
/// Number of live values of each kind: more than there are registers.
const KEEPS: u32 = 20;

/// Every feature that an intrinsic needs.
const FEATURES: [&str; 8] = [
    "sha",
    "aes",
    "pclmulqdq",
    "sse4.2",
    "bmi2",
    "gfni",
    "sha2",
    "crc",
];

/// This machine's baseline, with all the features for intrinsics that it has, and with none of
/// them.
fn cpus() -> [CpuFeatures; 2] {
    let machine = cpu::detect();
    let baseline = CpuFeatures::level(machine.arch(), "baseline").expect("it exists");
    FEATURES
        .iter()
        .fold([baseline; 2], |[with, without], name| {
            let with = with
                .with(name)
                .filter(|_| machine.has(name))
                .unwrap_or(with);
            [with, without.without(name).unwrap_or(without)]
        })
}

fn options(cpu: CpuFeatures) -> Options {
    let mut options = Options::new(cpu.arch());
    options.cpu = cpu;
    options
}

fn instance(module: &Module) -> Instance<()> {
    let region = Region::builder().slots(1).build().expect("a region");
    let prepared = region.prepare(module, &Linker::new()).expect("it fits");
    prepared.instantiate(()).expect("a slot")
}

/// Random bits; sometimes a pattern in which all bits or bytes are equal.
fn operand(random: &mut Random) -> u128 {
    match random.below(16) {
        0 => 0,
        1 => u128::MAX,
        _ => random.u128(),
    }
}

fn signature(model: &Model) -> String {
    let mut params: Vec<_> = model.operands.iter().map(ValType::to_string).collect();
    params.extend(model.has_immediate().then(|| "i32".to_owned()));
    format!("(param {}) (result {})", params.join(" "), model.result)
}

/// A guest that calls the intrinsic while other values are live, with registers full of other
/// numbers.
fn guest(model: &Model, immediates: &[u8]) -> String {
    let (vectors, numbers) = ("v128 ".repeat(8), "i64 ".repeat(8));
    let mut text = format!(
        r#"(module (import "hw" "{}" (func $hw {})) (memory (export "memory") 1)
          (func $poison (result {vectors} {numbers})"#,
        model.name,
        signature(model)
    );
    for i in 0..8 {
        let _ = write!(
            text,
            "(v128.const i64x2 0x5a5a5a5a5a5a5a5{i} 0xa5a5a5a5a5a5a5a{i})"
        );
    }
    for i in 0..8 {
        let _ = write!(text, "(i64.const 0x5a5a5a5a5a5a5a{i}5)");
    }
    text.push(')');
    for value in immediates {
        let _ = write!(text, "(func (export \"run{value}\") (local");
        text.extend((0..KEEPS).map(|_| " v128 i64"));
        text.push_str(") (call $poison) ");
        text.push_str(&"drop ".repeat(16));
        for i in 0..KEEPS {
            let (vector, number) = (KEPT + 32 * i, KEPT + 32 * i + 16);
            let _ = write!(
                text,
                "(local.set {} (v128.load (i32.const {vector}))) (local.set {} (i64.load (i32.const {number})))",
                2 * i,
                2 * i + 1
            );
        }
        let _ = write!(
            text,
            "({}.store (i32.const {RESULT}) (call $hw",
            model.result
        );
        for (i, ty) in model.operands.iter().enumerate() {
            let _ = write!(text, "({ty}.load (i32.const {}))", OPERANDS + 16 * i as u32);
        }
        if model.has_immediate() {
            let _ = write!(text, "(i32.const {value})");
        }
        text.push_str("))");
        for i in 0..KEEPS {
            let (vector, number) = (LEFT + 32 * i, LEFT + 32 * i + 16);
            let _ = write!(
                text,
                "(v128.store (i32.const {vector}) (local.get {})) (i64.store (i32.const {number}) (local.get {}))",
                2 * i,
                2 * i + 1
            );
        }
        text.push(')');
    }
    text.push(')');
    text
}

/// The low bits of a value that fit the type.
fn cut(value: u128, ty: ValType) -> u128 {
    match ty {
        ValType::I32 => u128::from(value as u32),
        ValType::I64 => u128::from(value as u64),
        _ => value,
    }
}

/// Calls an export that works on memory. Returns the result, after a check that all other memory is
/// unchanged.
fn call(instance: &mut Instance<()>, name: &str, operands: [u128; 3], random: &mut Random) -> u128 {
    let kept: Vec<u8> = (0..4 * KEEPS)
        .flat_map(|_| random.u64().to_le_bytes())
        .collect();
    let operands = operands.map(u128::to_le_bytes).concat();
    let mut memory = instance.memory_mut();
    memory.write(OPERANDS, &operands).expect("it is in memory");
    memory.write(RESULT, &[0xee; 16]).expect("it is in memory");
    memory.write(KEPT, &kept).expect("it is in memory");
    memory
        .write(LEFT, &vec![0; kept.len()])
        .expect("it is in memory");
    instance.call_values(name, &[]).expect("it returns");
    let memory = instance.memory();
    let mut left = vec![0; kept.len()];
    memory.read(LEFT, &mut left).expect("it is in memory");
    for (i, (kept, left)) in kept.chunks(32).zip(left.chunks(32)).enumerate() {
        assert_eq!(
            kept[..24],
            left[..24],
            "{name} changed what it should not, at {i}"
        );
    }
    let mut result = [0; 16];
    memory.read(RESULT, &mut result).expect("it is in memory");
    u128::from_le_bytes(result)
}

fn agrees(model: &Model, options: &Options) {
    let what = format!(
        "{} for {} at {:?}",
        model.name,
        options.cpu.name(),
        options.opt_level
    );
    // Of 256 immediates, by default the multiples of 15, which include the least and the greatest.
    let all = model.values();
    let sample = if all.len() > 16 { 15 } else { 1 };
    let immediates: Vec<_> = sampled(all, sample, 0).collect();
    let mut instance = instance(&common::wat_with(&guest(model, &immediates), options));
    if options.fuel {
        instance.set_fuel(u64::MAX >> 1).expect("it counts");
    }
    let mut random = Random(0);
    for value in &immediates {
        // With many immediates, few operands for each are enough.
        let rounds = (ROUNDS / immediates.len() as u32).max(4);
        let mut differs = false;
        for _ in 0..rounds {
            let operands = [(); 3].map(|()| operand(&mut random));
            let wanted = cut((model.run)(operands, *value), model.result);
            let found = call(&mut instance, &format!("run{value}"), operands, &mut random);
            let found = cut(found, model.result);
            assert_eq!(found, wanted, "{what}, immediate {value}: {operands:x?}");
            differs |= operands.iter().all(|operand| *operand != wanted);
        }
        assert!(differs, "{what} differs from its operands");
    }
}

#[test]
fn every_intrinsic_equals_its_model() {
    let machine = cpu::detect();
    for missing in FEATURES {
        let exists = machine.with(missing).is_some();
        if exists && !machine.has(missing) {
            common::not_run(format_args!("instructions of {missing}"));
        }
    }
    let levels = [OptLevel::None, OptLevel::Speed];
    for (at, model) in MODELS.iter().enumerate() {
        let ways = cpus()
            .into_iter()
            .flat_map(|cpu| levels.map(|level| (cpu, level)));
        for (cpu, opt_level) in sampled(ways, 4, at) {
            let mut options = options(cpu);
            options.opt_level = opt_level;
            options.fuel = opt_level == OptLevel::None;
            agrees(model, &options);
        }
    }
}

/// With AVX, the compiler emits other instructions around an intrinsic.
#[test]
fn intrinsics_work_among_the_instructions_of_every_level() {
    let machine = cpu::detect();
    let mut options = options(machine);
    options.opt_level = OptLevel::Speed;
    for model in sampled(MODELS, 3, 1) {
        agrees(model, &options);
    }
}

/// The value of a type with these bits.
fn value(bits: u128, ty: ValType) -> Value {
    match ty {
        ValType::I32 => Value::I32(bits as i32),
        ValType::I64 => Value::I64(bits as i64),
        _ => Value::V128(bits),
    }
}

#[test]
fn intrinsics_are_called_by_reference_by_table_and_by_the_host() {
    let mut random = Random(1);
    let models = MODELS.iter().filter(|model| !model.has_immediate());
    for (at, model) in models.enumerate() {
        let (name, signature) = (model.name, signature(model));
        let params: String = (0..model.operands.len())
            .map(|i| format!("(local.get {i})"))
            .collect();
        let text = format!(
            r#"(module (type $t (func {signature}))
              (import "hw" "{name}" (func $hw (type $t)))
              (table 3 funcref) (elem (i32.const 1) func $hw) (global $g funcref (ref.func $hw))
              (export "itself" (func $hw))
              (func (export "by_table") (type $t) (call_indirect (type $t) {params} (i32.const 1)))
              (func (export "by_global") (type $t)
                (table.set (i32.const 0) (global.get $g)) (call_indirect (type $t) {params} (i32.const 0)))
              (func (export "by_reference") (type $t)
                (table.set (i32.const 2) (ref.func $hw)) (call_indirect (type $t) {params} (i32.const 2))))"#
        );
        for cpu in sampled(cpus(), 2, at) {
            let mut instance = instance(&common::wat_with(&text, &options(cpu)));
            for export in ["itself", "by_table", "by_global", "by_reference"] {
                let operands = [(); 3].map(|()| operand(&mut random));
                let wanted = value((model.run)(operands, 0), model.result);
                let params = operands.iter().zip(model.operands);
                let params: Vec<_> = params.map(|(bits, ty)| value(*bits, *ty)).collect();
                let found = instance.call_values(export, &params).expect("it returns");
                assert_eq!(found, [wanted], "{name} {export}");
            }
        }
    }
}

/// The module imports host functions before, between and after those of `hw`. Each call must reach
/// the right host function, and the host must see no `hw` imports.
#[test]
fn imports_of_hw_do_not_renumber_host_functions() {
    let text = r#"(module
      (import "host" "one" (func $one (result i32)))
      (import "hw" "x86.pext_u32" (func $pext (param i32 i32) (result i32)))
      (import "host" "two" (func $two (result i32)))
      (import "hw" "x86.pdep_u32" (func $pdep (param i32 i32) (result i32)))
      (import "host" "three" (func $three (result i32)))
      (table 4 funcref) (elem (i32.const 0) $one $two $three $own)
      (export "two itself" (func $two)) (start $begin)
      (func $begin (if (i32.ne (call $two) (i32.const 2)) (then unreachable)))
      (func $own (result i32) (i32.const 4))
      (func (export "hosts") (result i32 i32 i32 i32) (call $one) (call $two) (call $three) (call $own))
      (func (export "table") (param i32) (result i32) (call_indirect (result i32) (local.get 0)))
      (func (export "bits") (param i32 i32) (result i32 i32)
        (call $pext (local.get 0) (local.get 1)) (call $pdep (local.get 0) (local.get 1))))"#;
    for cpu in cpus() {
        let module = common::wat_with(text, &options(cpu));
        let imports: Vec<_> = module
            .imports()
            .map(|(_, name, _)| name.to_owned())
            .collect();
        assert_eq!(imports, ["one", "two", "three"]);
        let mut linker = Linker::<()>::new();
        for (name, number) in [("one", 1), ("two", 2), ("three", 3)] {
            let func = move |_: Caller<'_, ()>| -> i32 { number };
            linker.func("host", name, func).expect("the name is free");
        }
        let region = Region::builder().slots(1).build().expect("a region");
        let prepared = region.prepare(&module, &linker).expect("it links");
        let mut instance = prepared.instantiate(()).expect("a slot");
        let mut call = |name: &str, params: &[i32]| -> Vec<Value> {
            let params: Vec<_> = params.iter().copied().map(Value::I32).collect();
            instance.call_values(name, &params).expect("it returns")
        };
        assert_eq!(call("hosts", &[]), [1, 2, 3, 4].map(Value::I32));
        assert_eq!(call("two itself", &[]), [Value::I32(2)]);
        for i in 0..4 {
            assert_eq!(call("table", &[i]), [Value::I32(i + 1)]);
        }
        assert_eq!(
            call("bits", &[0b1011, 0b0110]),
            [0b01, 0b0110].map(Value::I32)
        );
    }
}

/// Intrinsics in dead blocks, with unused results, and in loops.
#[test]
fn intrinsics_in_dead_code_and_loops_compile() {
    let text = r#"(module
      (import "hw" "x86.pext_u64" (func $pext (param i64 i64) (result i64)))
      (import "hw" "x86.crc32_u64" (func $crc (param i64 i64) (result i64)))
      (func (export "run") (param $n i64) (result i64) (local $a i64)
        (if (i32.const 0) (then (return (call $crc (local.get $n) (i64.const 1)))))
        (if (i32.eqz (i32.const 7)) (then (return (call $pext (local.get $n) (i64.const 1)))))
        (drop (call $pext (local.get $n) (local.get $n)))
        (block $out (br $out) (drop (call $crc (i64.const 1) (i64.const 2))))
        (loop $next
          (local.set $a (call $crc (local.get $a) (local.get $n)))
          (local.set $a (i64.add (local.get $a) (call $pext (i64.const -1) (local.get $n))))
          (br_if $next (i64.ne (i64.const 0) (local.tee $n (i64.sub (local.get $n) (i64.const 1))))))
        (local.get $a)))"#;
    let results: Vec<_> = cpus()
        .into_iter()
        .flat_map(|cpu| {
            [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize].map(|opt_level| {
                let mut options = options(cpu);
                options.opt_level = opt_level;
                let mut instance = instance(&common::wat_with(text, &options));
                let result = instance.call_values("run", &[Value::I64(1000)]);
                result.expect("it returns")
            })
        })
        .collect();
    assert!(
        results.iter().all(|result| *result == results[0]),
        "{results:?}"
    );
}

/// A relaxed operator may be the Cranelift instruction that is an intrinsic's placeholder. The
/// compiler must not replace it, also with equal operands in either order.
#[test]
fn relaxed_operators_are_not_taken_for_intrinsics() {
    for (hw, own) in [
        ("x86.aesenc", "i16x8.relaxed_q15mulr_s"),
        ("x86.aesenclast", "i16x8.relaxed_dot_i8x16_i7x16_s"),
    ] {
        let model = MODELS
            .iter()
            .find(|model| model.name == hw)
            .expect("it is there");
        let text = format!(
            r#"(module (import "hw" "{hw}" (func $hw (param v128 v128) (result v128)))
              (func (export "hw first") (param v128 v128) (result v128 v128)
                (call $hw (local.get 0) (local.get 1)) ({own} (local.get 0) (local.get 1)))
              (func (export "own first") (param v128 v128) (result v128 v128) (local v128)
                (local.set 2 ({own} (local.get 0) (local.get 1)))
                (call $hw (local.get 0) (local.get 1)) (local.get 2))
              (func (export "turned") (param v128 v128) (result v128 v128)
                (call $hw (local.get 0) (local.get 1)) ({own} (local.get 1) (local.get 0)))
              (func (export "own") (param v128 v128) (result v128) ({own} (local.get 0) (local.get 1))))"#
        );
        let mut random = Random(5);
        for cpu in cpus() {
            for opt_level in [OptLevel::None, OptLevel::Speed] {
                let mut options = options(cpu);
                options.opt_level = opt_level;
                let mut instance = instance(&common::wat_with(&text, &options));
                for _ in 0..ROUNDS {
                    let [a, b] = [(); 2].map(|()| operand(&mut random));
                    let mut call = |name: &str, operands: [u128; 2]| {
                        let result = instance.call_values(name, &operands.map(Value::V128));
                        result.expect("it returns")
                    };
                    let wanted = Value::V128((model.run)([a, b, 0], 0));
                    for (name, operands) in [
                        ("hw first", [a, b]),
                        ("own first", [a, b]),
                        ("turned", [b, a]),
                    ] {
                        let own = call("own", operands)[0];
                        assert_eq!(
                            call(name, [a, b]),
                            [wanted, own],
                            "{hw} {name}, {opt_level:?}"
                        );
                    }
                }
            }
        }
    }
}

/// The guest uses operators that compile to an intrinsic's placeholder instruction, next to that
/// intrinsic. Their operands are equal, their results are unused, or both are loop-invariant.
#[test]
fn a_guests_own_operators_are_not_taken_for_intrinsics() {
    let text = r#"(module
      (import "hw" "x86.aesenc" (func $enc (param v128 v128) (result v128)))
      (import "hw" "x86.aesenclast" (func $last (param v128 v128) (result v128)))
      (memory (export "memory") 1)
      (func (export "own") (param v128 v128) (result v128)
        (v128.xor
          (call $enc (local.get 0) (i16x8.q15mulr_sat_s (local.get 0) (local.get 1)))
          (call $last (i16x8.extadd_pairwise_i8x16_u (local.get 1)) (i16x8.q15mulr_sat_s (local.get 0) (local.get 0)))))
      (func (export "same") (param v128 v128) (result v128) (local i32)
        (drop (call $enc (local.get 0) (local.get 0)))
        (if (i32.const 0) (then (return (call $enc (local.get 1) (local.get 1)))))
        (loop
          (local.set 0 (v128.xor (local.get 0) (call $enc (local.get 1) (local.get 1))))
          (br_if 0 (i32.lt_u (local.tee 2 (i32.add (local.get 2) (i32.const 1))) (i32.const 10))))
        (i8x16.add
          (i8x16.add (call $enc (local.get 0) (local.get 1)) (call $enc (local.get 0) (local.get 1)))
          (i8x16.sub (call $last (local.get 0) (local.get 1)) (call $last (local.get 1) (local.get 0)))))
      (func (export "memory operands") (param v128 v128) (result v128)
        (v128.store (i32.const 1) (local.get 0))
        (v128.store (i32.const 33) (local.get 1))
        (call $last
          (call $enc (v128.load (i32.const 1)) (v128.load (i32.const 33)))
          (call $enc (v128.const i64x2 1 2) (v128.load (i32.const 17))))))"#;
    let mut random = Random(2);
    let guests = [cpus()[0], cpus()[1], cpu::detect()].map(|cpu| {
        [OptLevel::None, OptLevel::Speed].map(|opt_level| {
            let mut options = options(cpu);
            options.opt_level = opt_level;
            instance(&common::wat_with(text, &options))
        })
    });
    let mut guests: Vec<_> = guests.into_iter().flatten().collect();
    for name in ["own", "same", "memory operands"] {
        for _ in 0..20 {
            let params = [(); 2].map(|()| Value::V128(operand(&mut random)));
            let results = guests.iter_mut().map(|guest| {
                let results = guest.call_values(name, &params);
                results.expect("it returns")
            });
            let results: Vec<_> = results.collect();
            assert!(
                results.iter().all(|result| *result == results[0]),
                "{name}: {results:x?}"
            );
        }
    }
}

/// A module opens only on a processor with every feature for which it was compiled.
#[test]
fn a_module_needs_the_processor_features_it_was_compiled_for() {
    let machine = cpu::detect();
    for feature in machine.arch().features() {
        let needs = CpuFeatures::none(machine.arch()).with(feature.name);
        let has = needs.is_some_and(|needs| needs.missing_from(machine).is_empty());
        let needs = options(machine.with(feature.name).expect("it exists"));
        let opened = common::open_with(b"\0asm\x01\0\0\0", &needs);
        match opened {
            Ok(_) => assert!(has, "{} is missing", feature.name),
            Err(error) => assert!(!has && error.contains(feature.name), "{error}"),
        }
    }
}

/// The tables of docs/reference/intrinsics.md list every intrinsic. The compiler's tests compare
/// these tables with the intrinsics that it knows.
#[test]
fn every_intrinsic_has_a_model() {
    let docs = include_str!("../../../docs/reference/intrinsics.md");
    let is_import = |name: &str| name.contains('.') && !name.contains('/');
    let listed = docs.lines().filter_map(|line| {
        let name = line.strip_prefix("| `")?.split('`').next()?;
        is_import(name).then_some(name)
    });
    let mut listed: Vec<_> = listed.collect();
    let mut models: Vec<_> = MODELS.iter().map(|model| model.name).collect();
    listed.sort_unstable();
    models.sort_unstable();
    assert_eq!(listed, models);
}
