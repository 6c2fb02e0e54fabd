//! Many relaxed operators in one function, together with their non-relaxed counterparts,
//! intrinsics, unaligned loads, and loop-invariant values.

use super::{instance, levels};
use crate::common::campaign::{sampled, share};
use crate::common::random::Random;
use pirn_compiler::{OptLevel, Options, RelaxedSimd};
use pirn_format::cpu::{self, Arch, CpuFeatures};
use std::fmt::Write as _;

/// Operators with their number of operands. The last field names the float type whose NaNs are
/// removed from the result, if it is a float.
const OPERATORS: [(&str, usize, Option<&str>); 52] = [
    ("i8x16.relaxed_swizzle", 2, None),
    ("i8x16.swizzle", 2, None),
    ("i32x4.relaxed_trunc_f32x4_s", 1, None),
    ("i32x4.trunc_sat_f32x4_s", 1, None),
    ("i32x4.relaxed_trunc_f32x4_u", 1, None),
    ("i32x4.trunc_sat_f32x4_u", 1, None),
    ("i32x4.relaxed_trunc_f64x2_s_zero", 1, None),
    ("i32x4.trunc_sat_f64x2_s_zero", 1, None),
    ("i32x4.relaxed_trunc_f64x2_u_zero", 1, None),
    ("i32x4.trunc_sat_f64x2_u_zero", 1, None),
    ("f32x4.relaxed_madd", 3, Some("f32x4")),
    ("f32x4.relaxed_nmadd", 3, Some("f32x4")),
    ("f64x2.relaxed_madd", 3, Some("f64x2")),
    ("f64x2.relaxed_nmadd", 3, Some("f64x2")),
    ("i8x16.relaxed_laneselect", 3, None),
    ("i16x8.relaxed_laneselect", 3, None),
    ("i32x4.relaxed_laneselect", 3, None),
    ("i64x2.relaxed_laneselect", 3, None),
    ("v128.bitselect", 3, None),
    ("f32x4.relaxed_min", 2, Some("f32x4")),
    ("f32x4.relaxed_max", 2, Some("f32x4")),
    ("f64x2.relaxed_min", 2, Some("f64x2")),
    ("f64x2.relaxed_max", 2, Some("f64x2")),
    ("f32x4.min", 2, Some("f32x4")),
    ("f64x2.max", 2, Some("f64x2")),
    ("f32x4.pmin", 2, Some("f32x4")),
    ("f32x4.pmax", 2, Some("f32x4")),
    ("f64x2.pmin", 2, Some("f64x2")),
    ("f64x2.pmax", 2, Some("f64x2")),
    ("i16x8.relaxed_q15mulr_s", 2, None),
    ("i16x8.q15mulr_sat_s", 2, None),
    ("i16x8.relaxed_dot_i8x16_i7x16_s", 2, None),
    ("i32x4.relaxed_dot_i8x16_i7x16_add_s", 3, None),
    ("i32x4.dot_i16x8_s", 2, None),
    ("i16x8.extadd_pairwise_i8x16_s", 1, None),
    ("i16x8.extadd_pairwise_i8x16_u", 1, None),
    ("i32x4.extadd_pairwise_i16x8_s", 1, None),
    ("i8x16.add", 2, None),
    ("i16x8.mul", 2, None),
    ("i32x4.mul", 2, None),
    ("i64x2.mul", 2, None),
    ("v128.xor", 2, None),
    ("v128.andnot", 2, None),
    ("i16x8.narrow_i32x4_s", 2, None),
    ("i8x16.narrow_i16x8_u", 2, None),
    ("f32x4.mul", 2, Some("f32x4")),
    ("f32x4.add", 2, Some("f32x4")),
    ("f64x2.sub", 2, Some("f64x2")),
    ("f64x2.mul", 2, Some("f64x2")),
    ("f32x4.lt", 2, None),
    ("f64x2.lt", 2, None),
    ("f32x4.convert_i32x4_s", 1, None),
];

/// Intrinsics of two operands. The placeholder opcodes of some are also used for relaxed operators.
const INTRINSICS: [&str; 4] = ["aesenc", "aesenclast", "aesdec", "aesdeclast"];

/// Address of the results. Each result has its own address, and none is aligned.
const PLACES: u32 = 16_385;

/// Number of loop-invariant operands.
const KEPT: u64 = 8;

/// One of the most recent results (if there is one), a load, or a value loaded before the loop.
fn operand(random: &mut Random, at: u64) -> String {
    match random.below(6) {
        0 | 1 if at > 0 => {
            let back = random.below(at.min(24)) + 1;
            format!("(local.get $l{})", at - back)
        }
        2 => format!("(v128.load offset={} (i32.const 0))", random.below(8000)),
        3 => format!("(v128.load (i32.const {}))", random.below(64) * 16),
        _ => format!("(local.get $k{})", random.below(KEPT)),
    }
}

/// A function with many operators in a loop. Their operands are earlier results and loads; it
/// stores every result.
fn computation(random: &mut Random, count: u64) -> String {
    let imports = INTRINSICS.map(|name| {
        format!("(import \"hw\" \"x86.{name}\" (func ${name} (param v128 v128) (result v128)))")
    });
    let mut text = format!(
        "(module {} (memory (export \"m\") 1) (func (export \"run\")",
        imports.concat()
    );
    let has_intrinsics = random.below(2) == 0;
    // One of two functions uses no relaxed operator that shares a placeholder opcode with an
    // intrinsic.
    let apart = random.below(2) == 0;
    for at in 0..count {
        let _ = write!(text, "(local $l{at} v128)");
    }
    text += "(local $again i32)";
    for at in 0..KEPT {
        let _ = write!(text, "(local $k{at} v128)");
    }
    for at in 0..KEPT {
        let _ = write!(
            text,
            "(local.set $k{at} (v128.load offset={} (i32.const 0)))",
            100 * at + 5
        );
    }
    text += "(loop $twice";
    let mut used: Vec<String> = vec![];
    for at in 0..count {
        let (mut name, mut operands, mut float) = OPERATORS[random.below(52) as usize];
        let intrinsic = format!("call ${}", INTRINSICS[random.below(4) as usize]);
        let carries = name.contains("q15mulr_s") || name.contains("relaxed_dot");
        if has_intrinsics && (random.below(6) == 0 || apart && carries) {
            (name, operands, float) = (&intrinsic, 2, None);
        }
        // Often reuse the previous operands: the code generator can only confuse operators with
        // equal operands.
        if used.len() < operands || random.below(3) == 0 {
            used = (0..operands).map(|_| operand(random, at)).collect();
        }
        let used = used[..operands].concat();
        let _ = write!(text, "\n(local.set $l{at} ({name} {used}))");
        if let Some(lanes) = float {
            let _ = write!(
                text,
                "(local.set $l{at} (v128.and (local.get $l{at}) ({lanes}.eq (local.get $l{at}) (local.get $l{at}))))"
            );
        }
        if random.below(3) == 0 {
            let to = PLACES + 16 * at as u32;
            let _ = write!(
                text,
                "(v128.store offset={to} (i32.const 0) (local.get $l{at}))"
            );
        }
    }
    for at in 0..count {
        let to = PLACES + 16 * at as u32;
        let _ = write!(
            text,
            "(v128.store offset={to} (i32.const 0) (local.get $l{at}))"
        );
    }
    text + "(br_if $twice (i32.lt_u (local.tee $again (i32.add (local.get $again) (i32.const 1))) (i32.const 2))))))"
}

/// Many operators in one function must give the results of unoptimised code.
#[test]
fn relaxed_operators_are_not_taken_for_others() {
    let rounds = share(12, 3);
    let machine = cpu::detect();
    let baseline = CpuFeatures::level(machine.arch(), "baseline").expect("it exists");
    for round in 0..rounds {
        let mut random = Random(round);
        let count = [6, 40, 150, 400][round as usize % 4];
        let text = computation(&mut random, count);
        let bytes: Vec<u8> = (0..8192)
            .map(|_| match random.below(4) {
                0 => [0, 0x80, 0x7f, 0xff][random.below(4) as usize],
                _ => random.u64() as u8,
            })
            .collect();
        let ways = [RelaxedSimd::Fastest, RelaxedSimd::Deterministic];
        let ways = ways.map(|relaxed| [baseline, machine].map(|cpu| (relaxed, cpu)));
        // By default each round has one of the four ways. The longest functions have the fastest
        // operators.
        for (relaxed, cpu) in sampled(ways.into_iter().flatten(), 4, round as usize + 2) {
            // Details such as signs of NaNs differ between processors. So results are compared for
            // one processor only, with and without AES instructions.
            let results = [cpu, cpu.without("aes").expect("it is known")].map(|cpu| {
                levels().map(|mut options| {
                    (options.cpu, options.relaxed_simd) = (cpu, relaxed);
                    let mut guest = instance(&text, &options);
                    guest.memory_mut().write(0, &bytes).expect("it fits");
                    guest.call_values("run", &[]).expect("it returns");
                    let mut found = vec![0; 16 * count as usize];
                    let memory = guest.memory();
                    memory.read(PLACES, &mut found).expect("it fits");
                    found
                })
            });
            let [first, rest @ ..] = results.as_flattened() else {
                panic!("there are levels")
            };
            for (which, other) in rest.iter().enumerate() {
                let differ =
                    (0..count as usize).find(|at| first[16 * at..][..16] != other[16 * at..][..16]);
                assert_eq!(differ, None, "round {round}, {which}, {relaxed:?}\n{text}");
            }
        }
    }
}

/// The compiler has code for all of these operators on every processor.
#[test]
fn relaxed_operators_are_compiled_for_all_processors() {
    for round in 0..6 {
        let mut random = Random(1000 + round);
        let text = computation(&mut random, [6, 60, 250][round as usize % 3]);
        let wasm = pirn_compiler::parse_text(text.as_bytes()).expect("the text is well-formed");
        for arch in Arch::ALL {
            let levels_of = arch.levels().iter();
            let mut cpus: Vec<_> = levels_of
                .filter_map(|level| CpuFeatures::level(arch, level.name))
                .collect();
            if arch == Arch::X86_64 {
                let [least, most] = [cpus[0], cpus[cpus.len() - 1]];
                let with = |name| least.with(name).expect("it is known");
                cpus.extend([with("fma"), with("avx"), with("avx2"), with("avx512vl")]);
                let without = |name| most.without(name).expect("it is known");
                cpus.extend([
                    without("avx"),
                    without("fma"),
                    without("avx2"),
                    without("avx512f"),
                ]);
                cpus.extend([without("sse4.2"), without("sse3")]);
            }
            let mut ways = vec![];
            for cpu in cpus {
                for relaxed in [RelaxedSimd::Fastest, RelaxedSimd::Deterministic] {
                    ways.extend(
                        [OptLevel::None, OptLevel::Speed].map(|level| (cpu, relaxed, level)),
                    );
                }
            }
            for (cpu, relaxed, level) in sampled(ways, 9, round as usize) {
                let mut options = Options::new(arch);
                (options.cpu, options.relaxed_simd) = (cpu, relaxed);
                options.opt_level = level;
                let compiled = pirn_compiler::compile(&wasm, &options);
                if let Err(error) = compiled {
                    panic!("{arch} {}: {error}", cpu.name());
                }
            }
        }
    }
}
