//! The intrinsics of x86-64 (Intel SDM, volume 2). Operand registers of a patch point are xmm0,
//! xmm1 and xmm2 for vectors, rdi and rsi for integers. The result is in xmm0 or rax.

use super::{Form, Intrinsic, PlaceholderOpcode};
use pirn_format::cpu::Arch;
use pirn_format::types::ValType::{self, I32, I64, V128};

/// Instructions that neither the guest's C compiler nor this compiler can express otherwise.
pub(super) const INTRINSICS: &[Intrinsic] = &[
    // The redundant prefix 40 makes these instructions five bytes long.
    vectors("x86.sha1nexte", "sha", &[0x40, 0x0f, 0x38, 0xc8, 0xc1]),
    vectors("x86.sha1msg1", "sha", &[0x40, 0x0f, 0x38, 0xc9, 0xc1]),
    vectors("x86.sha1msg2", "sha", &[0x40, 0x0f, 0x38, 0xca, 0xc1]),
    Intrinsic {
        immediate: Some(0x03),
        params: &[V128, V128, I32],
        ..vectors("x86.sha1rnds4", "sha", &[0x0f, 0x3a, 0xcc, 0xc1])
    },
    // sha256rnds2 xmm1, xmm2, with the words always in xmm0.
    Intrinsic {
        form: Form::ThirdFirst,
        params: &[V128; 3],
        ..vectors("x86.sha256rnds2", "sha", &[0x40, 0x0f, 0x38, 0xcb, 0xca])
    },
    vectors("x86.sha256msg1", "sha", &[0x40, 0x0f, 0x38, 0xcc, 0xc1]),
    vectors("x86.sha256msg2", "sha", &[0x40, 0x0f, 0x38, 0xcd, 0xc1]),
    // Guests execute many AES instructions, so moves matter: with patch points, AES in counter mode
    // took 1.26 times as long.
    Intrinsic {
        placeholder: Some((PlaceholderOpcode::Pmulhrsw, 0xdc)),
        ..vectors("x86.aesenc", "aes", &[0x66, 0x0f, 0x38, 0xdc, 0xc1])
    },
    Intrinsic {
        placeholder: Some((PlaceholderOpcode::Pmaddubsw, 0xdd)),
        ..vectors("x86.aesenclast", "aes", &[0x66, 0x0f, 0x38, 0xdd, 0xc1])
    },
    vectors("x86.aesdec", "aes", &[0x66, 0x0f, 0x38, 0xde, 0xc1]),
    vectors("x86.aesdeclast", "aes", &[0x66, 0x0f, 0x38, 0xdf, 0xc1]),
    Intrinsic {
        params: &[V128],
        ..vectors("x86.aesimc", "aes", &[0x66, 0x0f, 0x38, 0xdb, 0xc0])
    },
    Intrinsic {
        immediate: Some(0xff),
        params: &[V128, I32],
        ..vectors(
            "x86.aeskeygenassist",
            "aes",
            &[0x66, 0x0f, 0x3a, 0xdf, 0xc0],
        )
    },
    Intrinsic {
        immediate: Some(0x11),
        params: &[V128, V128, I32],
        ..vectors(
            "x86.pclmulqdq",
            "pclmulqdq",
            &[0x66, 0x0f, 0x3a, 0x44, 0xc1],
        )
    },
    vectors("x86.gf2p8mulb", "gfni", &[0x66, 0x0f, 0x38, 0xcf, 0xc1]),
    Intrinsic {
        immediate: Some(0xff),
        params: &[V128, V128, I32],
        ..vectors("x86.gf2p8affineqb", "gfni", &[0x66, 0x0f, 0x3a, 0xce, 0xc1])
    },
    Intrinsic {
        immediate: Some(0xff),
        params: &[V128, V128, I32],
        ..vectors(
            "x86.gf2p8affineinvqb",
            "gfni",
            &[0x66, 0x0f, 0x3a, 0xcf, 0xc1],
        )
    },
    // mov rax, rdi; crc32 eax, sil, si, esi or rsi. The upper half of the result is 0. The
    // redundant prefixes 3e and 40 make both instructions ten bytes long together.
    numbers(
        "x86.crc32_u8",
        "sse4.2",
        I32,
        &[0x48, 0x89, 0xf8, 0x3e, 0xf2, 0x40, 0x0f, 0x38, 0xf0, 0xc6],
    ),
    numbers(
        "x86.crc32_u16",
        "sse4.2",
        I32,
        &[0x48, 0x89, 0xf8, 0x66, 0xf2, 0x40, 0x0f, 0x38, 0xf1, 0xc6],
    ),
    numbers(
        "x86.crc32_u32",
        "sse4.2",
        I32,
        &[0x48, 0x89, 0xf8, 0x3e, 0xf2, 0x40, 0x0f, 0x38, 0xf1, 0xc6],
    ),
    numbers(
        "x86.crc32_u64",
        "sse4.2",
        I64,
        &[0x48, 0x89, 0xf8, 0x3e, 0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc6],
    ),
    // eax or rax, edi or rdi, esi or rsi.
    numbers("x86.pext_u32", "bmi2", I32, &[0xc4, 0xe2, 0x42, 0xf5, 0xc6]),
    numbers("x86.pext_u64", "bmi2", I64, &[0xc4, 0xe2, 0xc2, 0xf5, 0xc6]),
    numbers("x86.pdep_u32", "bmi2", I32, &[0xc4, 0xe2, 0x43, 0xf5, 0xc6]),
    numbers("x86.pdep_u64", "bmi2", I64, &[0xc4, 0xe2, 0xc3, 0xf5, 0xc6]),
];

/// An intrinsic on two vectors: xmm0 and xmm1 to xmm0.
const fn vectors(name: &'static str, feature: &'static str, code: &'static [u8]) -> Intrinsic {
    Intrinsic {
        name,
        arch: Arch::X86_64,
        params: &[V128; 2],
        result: V128,
        immediate: None,
        feature,
        form: Form::Plain,
        code,
        placeholder: None,
    }
}

/// An intrinsic on two integers of a type: rdi and rsi to rax.
const fn numbers(
    name: &'static str,
    feature: &'static str,
    ty: ValType,
    code: &'static [u8],
) -> Intrinsic {
    let params: &[ValType] = match ty {
        ValType::I64 => &[I64; 2],
        _ => &[I32; 2],
    };
    Intrinsic {
        params,
        result: ty,
        ..vectors(name, feature, code)
    }
}
