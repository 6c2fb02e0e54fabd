//! The intrinsics of aarch64 (Arm ARM, C6.2 and C7.2). Operand registers of a patch point are v0,
//! v1 and v2 for vectors, x0 and x1 for integers. The result is in v0 or w0.

use super::{Form, Intrinsic};
use pirn_format::cpu::Arch;
use pirn_format::types::ValType::{self, I32, I64, V128};

/// Instructions of the extensions for cryptography and checksums.
pub(super) const INTRINSICS: &[Intrinsic] = &[
    // A single word of SHA-1 is in the lowest lane of a vector.
    intrinsic(
        "aarch64.sha1c",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x00, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.sha1p",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x10, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.sha1m",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x20, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.sha1h",
        "sha2",
        &[V128],
        V128,
        &[0x00, 0x08, 0x28, 0x5e],
    ),
    intrinsic(
        "aarch64.sha1su0",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x30, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.sha1su1",
        "sha2",
        &[V128; 2],
        V128,
        &[0x20, 0x18, 0x28, 0x5e],
    ),
    intrinsic(
        "aarch64.sha256h",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x40, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.sha256h2",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x50, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.sha256su0",
        "sha2",
        &[V128; 2],
        V128,
        &[0x20, 0x28, 0x28, 0x5e],
    ),
    intrinsic(
        "aarch64.sha256su1",
        "sha2",
        &[V128; 3],
        V128,
        &[0x20, 0x60, 0x02, 0x5e],
    ),
    intrinsic(
        "aarch64.aese",
        "aes",
        &[V128; 2],
        V128,
        &[0x20, 0x48, 0x28, 0x4e],
    ),
    intrinsic(
        "aarch64.aesd",
        "aes",
        &[V128; 2],
        V128,
        &[0x20, 0x58, 0x28, 0x4e],
    ),
    intrinsic(
        "aarch64.aesmc",
        "aes",
        &[V128],
        V128,
        &[0x00, 0x68, 0x28, 0x4e],
    ),
    intrinsic(
        "aarch64.aesimc",
        "aes",
        &[V128],
        V128,
        &[0x00, 0x78, 0x28, 0x4e],
    ),
    intrinsic(
        "aarch64.pmull",
        "aes",
        &[V128; 2],
        V128,
        &[0x00, 0xe0, 0xe1, 0x0e],
    ),
    intrinsic(
        "aarch64.pmull2",
        "aes",
        &[V128; 2],
        V128,
        &[0x00, 0xe0, 0xe1, 0x4e],
    ),
    intrinsic(
        "aarch64.crc32b",
        "crc",
        &[I32; 2],
        I32,
        &[0x00, 0x40, 0xc1, 0x1a],
    ),
    intrinsic(
        "aarch64.crc32h",
        "crc",
        &[I32; 2],
        I32,
        &[0x00, 0x44, 0xc1, 0x1a],
    ),
    intrinsic(
        "aarch64.crc32w",
        "crc",
        &[I32; 2],
        I32,
        &[0x00, 0x48, 0xc1, 0x1a],
    ),
    intrinsic(
        "aarch64.crc32x",
        "crc",
        &[I32, I64],
        I32,
        &[0x00, 0x4c, 0xc1, 0x9a],
    ),
    intrinsic(
        "aarch64.crc32cb",
        "crc",
        &[I32; 2],
        I32,
        &[0x00, 0x50, 0xc1, 0x1a],
    ),
    intrinsic(
        "aarch64.crc32ch",
        "crc",
        &[I32; 2],
        I32,
        &[0x00, 0x54, 0xc1, 0x1a],
    ),
    intrinsic(
        "aarch64.crc32cw",
        "crc",
        &[I32; 2],
        I32,
        &[0x00, 0x58, 0xc1, 0x1a],
    ),
    intrinsic(
        "aarch64.crc32cx",
        "crc",
        &[I32, I64],
        I32,
        &[0x00, 0x5c, 0xc1, 0x9a],
    ),
];

const fn intrinsic(
    name: &'static str,
    feature: &'static str,
    params: &'static [ValType],
    result: ValType,
    code: &'static [u8; 4],
) -> Intrinsic {
    Intrinsic {
        name,
        arch: Arch::Aarch64,
        params,
        result,
        immediate: None,
        feature,
        form: Form::Plain,
        code,
        placeholder: None,
    }
}
