//! 128-bit operators (the wide-arithmetic proposal) compile to the processor's instructions for
//! carries, and to no others.

use crate::common;

use pirn_compiler::{OptLevel, Options};
use pirn_format::cpu::Arch;

const TEXT: &str = r#"(module
  (func $sum (param i64 i64 i64 i64) (result i64 i64)
    (i64.add128 (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
  (func $difference (param i64 i64 i64 i64) (result i64 i64)
    (i64.sub128 (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
  (func $signed (param i64 i64) (result i64 i64)
    (i64.mul_wide_s (local.get 0) (local.get 1)))
  (func $unsigned (param i64 i64) (result i64 i64)
    (i64.mul_wide_u (local.get 0) (local.get 1)))
  (func $limb (param $a i64) (param $b i64) (param $carry i64) (result i64 i64)
    (i64.add128
      (i64.add128 (local.get $a) (i64.const 0) (local.get $b) (i64.const 0))
      (local.get $carry) (i64.const 0)))
  (func $product_and_limb (param $a i64) (param $b i64) (param $limb i64) (param $carry i64) (result i64 i64)
    (i64.add128
      (i64.add128
        (i64.mul_wide_u (local.get $a) (local.get $b))
        (local.get $limb) (i64.const 0))
      (local.get $carry) (i64.const 0))))"#;

/// The mnemonics of a function, without frame and moves: the remaining instructions compute.
fn computing(arch: Arch, level: OptLevel, name: &str) -> Vec<String> {
    let mut options = Options::new(arch);
    options.opt_level = level;
    let asm = common::listing(TEXT, &options);
    let mut pieces = asm.split("\n\n");
    let piece = pieces.find(|piece| {
        let header = piece.lines().next().unwrap_or_default();
        header.contains(&format!("({name})"))
    });
    let instructions = common::instructions(piece.expect("it is listed"));
    let mnemonics = instructions.map(|text| text.split(' ').next().unwrap_or_default().to_owned());
    let others = ["push", "pop", "stp", "ldp", "mov", "xor", "ret"];
    mnemonics
        .filter(|mnemonic| !others.contains(&mnemonic.as_str()))
        .collect()
}

#[test]
fn each_wide_operator_is_the_processors_instructions() {
    for (name, x86_64, aarch64) in [
        ("sum", "add adc", "adds adc"),
        ("difference", "sub sbb", "subs sbc"),
        ("signed", "imul", "mul smulh"),
        ("unsigned", "mul", "mul umulh"),
    ] {
        for level in [OptLevel::None, OptLevel::Speed, OptLevel::SpeedAndSize] {
            let found = computing(Arch::X86_64, level, name).join(" ");
            assert_eq!(found, x86_64, "{name} {level:?}");
            let found = computing(Arch::Aarch64, level, name).join(" ");
            assert_eq!(found, aarch64, "{name} {level:?}");
        }
    }
}

/// The building blocks of multiplications of large numbers.
#[test]
fn a_carry_chain_needs_no_comparisons() {
    for (name, x86_64, aarch64) in [
        ("limb", "add setb movzbq add adc", "adds adc adds adc"),
        (
            "product_and_limb",
            "mul add adc add adc",
            "mul umulh adds adc adds adc",
        ),
    ] {
        let found = computing(Arch::X86_64, OptLevel::Speed, name).join(" ");
        assert_eq!(found, x86_64, "{name}");
        let found = computing(Arch::Aarch64, OptLevel::Speed, name).join(" ");
        assert_eq!(found, aarch64, "{name}");
    }
}
