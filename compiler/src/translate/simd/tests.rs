//! Checks that every vector operator compiles for both targets without a call to a helper. The
//! specification's test suite checks the results; this test checks that no operator is missing.

use crate::{OptLevel, Options, RelaxedSimd, compile};
use pirn_format::cpu::{Arch, CpuFeatures};
use wasmparser::WasmFeatures;

/// Opcodes from 0 to 255 after the prefix 0xfd that WebAssembly 2.0 does not use (spec 5.4.8).
const UNUSED: [u32; 20] = [
    154, 162, 165, 166, 175, 176, 178, 179, 180, 187, 194, 197, 198, 207, 208, 210, 211, 212, 226,
    238,
];
const OPERATORS: usize = 236;

/// Opcodes of relaxed SIMD after the same prefix.
const RELAXED: std::ops::Range<u32> = 0x100..0x114;

/// A module with one function that executes the operator on zeros.
fn module(opcode: u32) -> Vec<u8> {
    // Tries lists of operand types until the validator accepts one.
    let operands: [&[u8]; 9] = [
        &[],
        V,
        &[V, V].concat(),
        &[V, V, V].concat(),
        &[V, I].concat(),
        I,
        &[I, V].concat(),
        L,
        &[V, L].concat(),
    ];
    let floats: [&[u8]; 4] = [F, D, &[V, F].concat(), &[V, D].concat()];
    let immediates: [&[u8]; 5] = [&[], &[0], &[0, 0], &[0, 0, 0], &[0; 16]];
    for operands in operands.into_iter().chain(floats) {
        for immediate in immediates {
            for drop in [&[0x1a][..], &[]] {
                let wasm = wasm(opcode, operands, immediate, drop);
                let features = WasmFeatures::WASM2 | WasmFeatures::RELAXED_SIMD;
                if wasmparser::Validator::new_with_features(features)
                    .validate_all(&wasm)
                    .is_ok()
                {
                    return wasm;
                }
            }
        }
    }
    panic!("opcode {opcode} fits no operands");
}

const I: &[u8] = &[0x41, 0];
const L: &[u8] = &[0x42, 0];
const F: &[u8] = &[0x43, 0, 0, 0, 0];
const D: &[u8] = &[0x44, 0, 0, 0, 0, 0, 0, 0, 0];
const V: &[u8] = &[0xfd, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn wasm(opcode: u32, operands: &[u8], immediate: &[u8], drop: &[u8]) -> Vec<u8> {
    let code = [0xfd, (opcode & 0x7f) as u8 | 0x80, (opcode >> 7) as u8];
    let body = [&[0][..], operands, &code, immediate, drop, &[0x0b]].concat();
    let mut wasm = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x05\x03\x01\0\x01".to_vec();
    wasm.extend([10, body.len() as u8 + 2, 1, body.len() as u8]);
    wasm.extend(body);
    wasm
}

#[test]
fn every_operator_compiles_for_both_targets() {
    let opcodes: Vec<_> = (0..256).filter(|opcode| !UNUSED.contains(opcode)).collect();
    assert_eq!(opcodes.len(), OPERATORS);
    for opcode in opcodes {
        let wasm = module(opcode);
        for arch in Arch::ALL {
            let compiled = compile(&wasm, &Options::new(arch));
            assert!(
                compiled.is_ok(),
                "opcode {opcode} for {arch}: {:?}",
                compiled.err()
            );
        }
    }
}

#[test]
fn every_relaxed_operator_compiles_for_each_level_and_option() {
    for opcode in RELAXED {
        let wasm = module(opcode);
        for arch in Arch::ALL {
            for level in arch.levels() {
                for (relaxed, opt_level) in [
                    (RelaxedSimd::Fastest, OptLevel::None),
                    (RelaxedSimd::Fastest, OptLevel::Speed),
                    (RelaxedSimd::Deterministic, OptLevel::None),
                    (RelaxedSimd::Deterministic, OptLevel::Speed),
                ] {
                    let mut options = Options::new(arch);
                    options.cpu = CpuFeatures::level(arch, level.name).expect("the level exists");
                    (options.relaxed_simd, options.opt_level) = (relaxed, opt_level);
                    let compiled = compile(&wasm, &options);
                    let error = compiled.err();
                    assert!(error.is_none(), "{opcode:#x} for {}: {error:?}", level.name);
                }
            }
        }
    }
}

/// FMA uses the AVX encoding. Without AVX the compiler emits a product and a sum.
#[test]
fn a_feature_that_is_of_no_use_alone_is_no_error() {
    for opcode in RELAXED {
        let mut options = Options::new(Arch::X86_64);
        options.cpu = options.cpu.with("fma").expect("the feature exists");
        assert!(compile(&module(opcode), &options).is_ok(), "{opcode:#x}");
    }
}
