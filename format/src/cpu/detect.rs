//! Detects the features of the running CPU.
//!
//! This file is compiled conditionally by architecture; `format/tests/tidy.rs` lists all such
//! files. The compiler and the runtime both call [`detect`], so that they agree about the machine.

use super::{Arch, CpuFeatures};

/// The features of the machine that runs this process.
#[must_use]
pub fn detect() -> CpuFeatures {
    let arch = Arch::from_name(std::env::consts::ARCH).unwrap_or(Arch::X86_64);
    let found = arch
        .features()
        .iter()
        .enumerate()
        .filter(|(_, feature)| has(feature.name));
    let bits = found.fold(0, |bits, (bit, _)| bits | 1 << bit);
    CpuFeatures { arch, bits }
}

#[cfg(target_arch = "x86_64")]
fn has(feature: &str) -> bool {
    use std::arch::is_x86_feature_detected as detected;
    match feature {
        "sse3" => detected!("sse3"),
        "ssse3" => detected!("ssse3"),
        "cmpxchg16b" => detected!("cmpxchg16b"),
        "sse4.1" => detected!("sse4.1"),
        "sse4.2" => detected!("sse4.2"),
        "popcnt" => detected!("popcnt"),
        "avx" => detected!("avx"),
        "avx2" => detected!("avx2"),
        "fma" => detected!("fma"),
        "bmi1" => detected!("bmi1"),
        "bmi2" => detected!("bmi2"),
        "lzcnt" => detected!("lzcnt"),
        "avx512f" => detected!("avx512f"),
        "avx512dq" => detected!("avx512dq"),
        "avx512vl" => detected!("avx512vl"),
        "avx512bitalg" => detected!("avx512bitalg"),
        "avx512vbmi" => detected!("avx512vbmi"),
        "aes" => detected!("aes"),
        "pclmulqdq" => detected!("pclmulqdq"),
        "sha" => detected!("sha"),
        "gfni" => detected!("gfni"),
        _ => false,
    }
}

#[cfg(target_arch = "aarch64")]
fn has(feature: &str) -> bool {
    use std::arch::is_aarch64_feature_detected as detected;
    match feature {
        "lse" => detected!("lse"),
        "fp16" => detected!("fp16"),
        "dotprod" => detected!("dotprod"),
        "i8mm" => detected!("i8mm"),
        "aes" => detected!("aes"),
        "sha2" => detected!("sha2"),
        "crc" => detected!("crc"),
        _ => false,
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has(_: &str) -> bool {
    false
}
