//! The code of relaxed vector operators. By default, each operator compiles to the processor's own
//! instructions.

use crate::common;

use pirn_compiler::{Options, RelaxedSimd};
use pirn_format::cpu::{Arch, CpuFeatures};

const ALL: &str = "(local.get 0) (local.get 1) (local.get 2)";
const TWO: &str = "(local.get 0) (local.get 1)";
const ONE: &str = "(local.get 0)";

/// Names of instructions.
type Names = &'static [&'static str];

/// An operator with its operands, and its instructions on x86_64 with FMA, on x86_64 without AVX,
/// and on aarch64.
#[rustfmt::skip]
const OPERATORS: [(&str, &str, Names, Names, Names); 20] = [
    ("i8x16.relaxed_swizzle", TWO, &["vpshufb"], &["pshufb"], &["tbl"]),
    ("i32x4.relaxed_trunc_f32x4_s", ONE, &["vcvttps2dq"], &["cvttps2dq"], &["fcvtzs"]),
    ("i32x4.relaxed_trunc_f64x2_s_zero", ONE, &["vcvttpd2dq"], &["cvttpd2dq"], &["fcvtzs", "sqxtn"]),
    ("f32x4.relaxed_madd", ALL, &["vfmadd213ps"], &["mulps", "addps"], &["fmla"]),
    ("f32x4.relaxed_nmadd", ALL, &["vfnmadd213ps"], &["mulps", "subps"], &["fmls"]),
    ("f64x2.relaxed_madd", ALL, &["vfmadd213pd"], &["mulpd", "addpd"], &["fmla"]),
    ("f64x2.relaxed_nmadd", ALL, &["vfnmadd213pd"], &["mulpd", "subpd"], &["fmls"]),
    ("i8x16.relaxed_laneselect", ALL, &["vpblendvb"], &["pblendvb"], &["bsl"]),
    ("i16x8.relaxed_laneselect", ALL, &["vpsraw", "vpblendvb"], &["psraw", "pblendvb"], &["bsl"]),
    ("i32x4.relaxed_laneselect", ALL, &["vblendvps"], &["blendvps"], &["bsl"]),
    ("i64x2.relaxed_laneselect", ALL, &["vblendvpd"], &["blendvpd"], &["bsl"]),
    ("f32x4.relaxed_min", TWO, &["vminps"], &["minps"], &["fmin"]),
    ("f32x4.relaxed_max", TWO, &["vmaxps"], &["maxps"], &["fmax"]),
    ("f64x2.relaxed_min", TWO, &["vminpd"], &["minpd"], &["fmin"]),
    ("f64x2.relaxed_max", TWO, &["vmaxpd"], &["maxpd"], &["fmax"]),
    ("i16x8.relaxed_q15mulr_s", TWO, &["vpmulhrsw"], &["pmulhrsw"], &["sqrdmulh"]),
    ("i16x8.relaxed_dot_i8x16_i7x16_s", TWO, &["vpmaddubsw"], &["pmaddubsw"],
        &["smull", "smull2", "uzp1", "uzp2", "sqadd"]),
    ("i32x4.relaxed_dot_i8x16_i7x16_add_s", ALL, &["vpmaddubsw", "vpmaddwd", "vpaddd"], &["pmaddubsw", "pmaddwd", "paddd"],
        &["smull", "smull2", "uzp1", "uzp2", "sqadd", "saddlp", "add"]),
    // All permitted results cost at least as much as saturation.
    ("i32x4.relaxed_trunc_f32x4_u", ONE, &[], &[], &["fcvtzu"]),
    ("i32x4.relaxed_trunc_f64x2_u_zero", ONE, &[], &[], &["fcvtzu", "uqxtn"]),
];

/// The non-relaxed operator that gives the deterministic result, where there is one.
#[rustfmt::skip]
const TWINS: [(&str, &str); 14] = [
    ("i8x16.relaxed_swizzle", "i8x16.swizzle"),
    ("i32x4.relaxed_trunc_f32x4_s", "i32x4.trunc_sat_f32x4_s"),
    ("i32x4.relaxed_trunc_f32x4_u", "i32x4.trunc_sat_f32x4_u"),
    ("i32x4.relaxed_trunc_f64x2_s_zero", "i32x4.trunc_sat_f64x2_s_zero"),
    ("i32x4.relaxed_trunc_f64x2_u_zero", "i32x4.trunc_sat_f64x2_u_zero"),
    ("i8x16.relaxed_laneselect", "v128.bitselect"),
    ("i16x8.relaxed_laneselect", "v128.bitselect"),
    ("i32x4.relaxed_laneselect", "v128.bitselect"),
    ("i64x2.relaxed_laneselect", "v128.bitselect"),
    ("f32x4.relaxed_min", "f32x4.min"),
    ("f32x4.relaxed_max", "f32x4.max"),
    ("f64x2.relaxed_min", "f64x2.min"),
    ("f64x2.relaxed_max", "f64x2.max"),
    ("i16x8.relaxed_q15mulr_s", "i16x8.q15mulr_sat_s"),
];

/// The instructions of an operator, without the frame and without moves of operands.
fn listed(op: &str, operands: &str, options: &Options) -> Vec<String> {
    let text = format!(
        "(module (func (export \"f\") (param v128 v128 v128) (result v128) ({op} {operands})))"
    );
    let all = common::first_function(&text, options);
    let is_frame = |line: &String| {
        let name = line.split(' ').next().unwrap_or_default();
        let frame = [
            "push", "pop", "ret", "mov", "movdqa", "movaps", "stp", "ldp", ".byte",
        ];
        frame.contains(&name)
    };
    all.into_iter().filter(|line| !is_frame(line)).collect()
}

fn level(arch: Arch, name: &str) -> Options {
    let mut options = Options::new(arch);
    options.cpu = CpuFeatures::level(arch, name).expect("it is a level");
    options
}

/// By default each operator compiles to the processor's own instructions.
#[test]
fn relaxed_operators_are_the_processors_instructions() {
    for (op, operands, fused, plain, arm) in OPERATORS {
        for (options, wanted) in [
            (level(Arch::X86_64, "x86-64-v3"), fused),
            (level(Arch::X86_64, "x86-64-v2"), plain),
            (level(Arch::Aarch64, "baseline"), arm),
        ] {
            let listed = listed(op, operands, &options);
            let names: Vec<_> = listed
                .iter()
                .filter_map(|line| line.split(' ').next())
                .collect();
            assert!(wanted.is_empty() || names == wanted, "{op}: {listed:?}");
        }
    }
}

#[test]
fn deterministic_operators_compile_like_their_non_relaxed_twins() {
    for arch in Arch::ALL {
        let mut options = Options::new(arch);
        options.relaxed_simd = RelaxedSimd::Deterministic;
        for (op, twin) in TWINS {
            let row = OPERATORS
                .iter()
                .find(|row| row.0 == op)
                .expect("it is there");
            assert_eq!(
                listed(op, row.1, &options),
                listed(twin, row.1, &options),
                "{op}"
            );
        }
    }
}

/// The deterministic multiply-add rounds the product before the addition. So the code uses no FMA,
/// and does not depend on the processor.
#[test]
fn the_deterministic_multiply_add_rounds_the_product() {
    for name in ["x86-64-v2", "x86-64-v3", "x86-64-v4"] {
        let mut options = level(Arch::X86_64, name);
        options.relaxed_simd = RelaxedSimd::Deterministic;
        for (op, operands, ..) in OPERATORS.iter().filter(|row| row.0.contains("madd")) {
            let listed = listed(op, operands, &options);
            assert_eq!(listed.len(), 2, "{op}: {listed:?}");
            assert!(
                listed.iter().all(|line| !line.starts_with("vf")),
                "{op}: {listed:?}"
            );
        }
    }
}
