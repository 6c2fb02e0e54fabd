//! The expected result of every intrinsic, bit by bit, from the standards, the Intel SDM and the
//! Arm ARM. On purpose this code is structured differently from the compiler's portable bodies.

use pirn_runtime::ValType::{self, I32, I64, V128};

/// An intrinsic as a function of up to three operands, which are in the low bits, and an immediate.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// Types of the operands, without the immediate.
    pub(crate) operands: &'static [ValType],
    pub(crate) result: ValType,
    /// Values of the immediate; a single 0 if the intrinsic has none.
    pub(crate) immediates: std::ops::RangeInclusive<u16>,
    /// The bits that may be set in the immediate.
    pub(crate) bits: u8,
    pub(crate) run: fn([u128; 3], u8) -> u128,
}

impl Model {
    /// All permitted immediates; a single 0 if the intrinsic has none.
    pub(crate) fn values(&self) -> Vec<u8> {
        let values = self.immediates.clone().map(|value| value as u8);
        values.filter(|value| value & !self.bits == 0).collect()
    }

    pub(crate) fn has_immediate(&self) -> bool {
        self.bits != 0
    }
}

const fn model(
    name: &'static str,
    operands: &'static [ValType],
    result: ValType,
    bits: u8,
    run: fn([u128; 3], u8) -> u128,
) -> Model {
    Model {
        name,
        operands,
        result,
        immediates: 0..=bits as u16,
        bits,
        run,
    }
}

const VV: &[ValType] = &[V128, V128];
const VVV: &[ValType] = &[V128; 3];
const IL: &[ValType] = &[I32, I64];
const LL: &[ValType] = &[I64, I64];
const II: &[ValType] = &[I32, I32];

pub(crate) const MODELS: &[Model] = &[
    model("x86.sha1nexte", VV, V128, 0, |[a, b, _], _| {
        words(|i| {
            lane(b, i).wrapping_add(if i == 3 {
                lane(a, 3).rotate_left(30)
            } else {
                0
            })
        })
    }),
    model("x86.sha1msg1", VV, V128, 0, |[a, b, _], _| {
        // The words in order: the lanes of a from the highest down, then the lanes of b.
        let w = [3, 2, 1, 0].map(|i| lane(a, i));
        let next = [w[2], w[3], lane(b, 3), lane(b, 2)];
        words(|i| w[3 - i] ^ next[3 - i])
    }),
    model("x86.sha1msg2", VV, V128, 0, |[a, b, _], _| {
        let mut w = vec![lane(b, 2), lane(b, 1), lane(b, 0)];
        for i in 0..4 {
            w.push((lane(a, 3 - i) ^ w[i]).rotate_left(1));
        }
        words(|i| w[6 - i])
    }),
    model("x86.sha1rnds4", VV, V128, 0x03, |[a, b, _], group| {
        let mut s = [lane(a, 3), lane(a, 2), lane(a, 1), lane(a, 0), 0];
        for i in 0..4 {
            s = sha1_round(s, lane(b, 3 - i), group);
        }
        words(|i| s[3 - i])
    }),
    model("x86.sha256rnds2", &[V128; 3], V128, 0, |[a, b, k], _| {
        let mut s = [
            (b, 3),
            (b, 2),
            (a, 3),
            (a, 2),
            (b, 1),
            (b, 0),
            (a, 1),
            (a, 0),
        ]
        .map(|(v, i)| lane(v, i));
        for i in 0..2 {
            s = sha256_round(s, lane(k, i));
        }
        words(|i| [s[5], s[4], s[1], s[0]][i])
    }),
    model("x86.sha256msg1", VV, V128, 0, |[a, b, _], _| {
        let w = [lane(a, 0), lane(a, 1), lane(a, 2), lane(a, 3), lane(b, 0)];
        words(|i| w[i].wrapping_add(sigma(w[i + 1], 7, 18, 3)))
    }),
    model("x86.sha256msg2", VV, V128, 0, |[a, b, _], _| {
        let mut w = vec![lane(b, 2), lane(b, 3)];
        for i in 0..4 {
            w.push(lane(a, i).wrapping_add(sigma(w[i], 17, 19, 10)));
        }
        words(|i| w[i + 2])
    }),
    model("x86.aesenc", VV, V128, 0, |[a, b, _], _| {
        mix(rows(substitute(a, s_box), 1), [2, 3, 1, 1]) ^ b
    }),
    model("x86.aesenclast", VV, V128, 0, |[a, b, _], _| {
        rows(substitute(a, s_box), 1) ^ b
    }),
    model("x86.aesdec", VV, V128, 0, |[a, b, _], _| {
        mix(rows(substitute(a, inverse_s_box), 3), [14, 11, 13, 9]) ^ b
    }),
    model("x86.aesdeclast", VV, V128, 0, |[a, b, _], _| {
        rows(substitute(a, inverse_s_box), 3) ^ b
    }),
    model("x86.aesimc", &[V128], V128, 0, |[a, _, _], _| {
        mix(a, [14, 11, 13, 9])
    }),
    model(
        "x86.aeskeygenassist",
        &[V128],
        V128,
        0xff,
        |[a, _, _], rcon| {
            let s = substitute(a, s_box);
            words(|i| match i % 2 {
                0 => lane(s, i + 1),
                _ => lane(s, i).rotate_right(8) ^ u32::from(rcon),
            })
        },
    ),
    model("x86.pclmulqdq", VV, V128, 0x11, |[a, b, _], halves| {
        let x = u128::from((a >> (64 * (halves & 1))) as u64);
        let y = b >> (64 * (halves >> 4));
        (0..64)
            .filter(|i| y >> i & 1 == 1)
            .fold(0, |sum, i| sum ^ x << i)
    }),
    model("x86.crc32_u8", II, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 8)
    }),
    model("x86.crc32_u16", II, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 16)
    }),
    model("x86.crc32_u32", II, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 32)
    }),
    model("x86.crc32_u64", LL, I64, 0, |[crc, data, _], _| {
        crc32c(crc, data, 64)
    }),
    model("x86.pext_u32", II, I32, 0, |[a, mask, _], _| {
        extract(a, mask, 32)
    }),
    model("x86.pext_u64", LL, I64, 0, |[a, mask, _], _| {
        extract(a, mask, 64)
    }),
    model("x86.pdep_u32", II, I32, 0, |[a, mask, _], _| {
        deposit(a, mask, 32)
    }),
    model("x86.pdep_u64", LL, I64, 0, |[a, mask, _], _| {
        deposit(a, mask, 64)
    }),
    model("x86.gf2p8mulb", VV, V128, 0, |[a, b, _], _| {
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        u128::from_le_bytes(std::array::from_fn(|i| times(a[i], b[i])))
    }),
    model(
        "x86.gf2p8affineqb",
        VV,
        V128,
        0xff,
        |[a, matrix, _], constant| affine(a, matrix, constant),
    ),
    model(
        "x86.gf2p8affineinvqb",
        VV,
        V128,
        0xff,
        |[a, matrix, _], constant| affine(substitute(a, inverse), matrix, constant),
    ),
    model("aarch64.sha1c", VVV, V128, 0, |v, _| sha1_words(v, 0)),
    model("aarch64.sha1p", VVV, V128, 0, |v, _| sha1_words(v, 1)),
    model("aarch64.sha1m", VVV, V128, 0, |v, _| sha1_words(v, 2)),
    model("aarch64.sha1h", &[V128], V128, 0, |[a, _, _], _| {
        u128::from(lane(a, 0).rotate_left(30))
    }),
    model("aarch64.sha1su0", VVV, V128, 0, |[a, b, c], _| {
        // The words of a from the third on, followed by the first two of b.
        (a >> 64 | b << 64) ^ a ^ c
    }),
    model("aarch64.sha1su1", VV, V128, 0, |[a, b, _], _| {
        let t = a ^ b >> 32;
        words(|i| {
            let own = lane(t, i).rotate_left(1);
            own ^ if i == 3 { lane(t, 0).rotate_left(2) } else { 0 }
        })
    }),
    model("aarch64.sha256h", VVV, V128, 0, |[a, b, c], _| {
        sha256_words(a, b, c)[0]
    }),
    model("aarch64.sha256h2", VVV, V128, 0, |[a, b, c], _| {
        sha256_words(b, a, c)[1]
    }),
    model("aarch64.sha256su0", VV, V128, 0, |[a, b, _], _| {
        let next = a >> 32 | b << 96;
        words(|i| lane(a, i).wrapping_add(sigma(lane(next, i), 7, 18, 3)))
    }),
    model("aarch64.sha256su1", VVV, V128, 0, |[a, b, c], _| {
        let seven_before = b >> 32 | c << 96;
        let mut w = vec![lane(c, 2), lane(c, 3)];
        for i in 0..4 {
            let sum = lane(a, i).wrapping_add(lane(seven_before, i));
            w.push(sum.wrapping_add(sigma(w[i], 17, 19, 10)));
        }
        words(|i| w[i + 2])
    }),
    model("aarch64.aese", VV, V128, 0, |[a, b, _], _| {
        rows(substitute(a ^ b, s_box), 1)
    }),
    model("aarch64.aesd", VV, V128, 0, |[a, b, _], _| {
        rows(substitute(a ^ b, inverse_s_box), 3)
    }),
    model("aarch64.aesmc", &[V128], V128, 0, |[a, _, _], _| {
        mix(a, [2, 3, 1, 1])
    }),
    model("aarch64.aesimc", &[V128], V128, 0, |[a, _, _], _| {
        mix(a, [14, 11, 13, 9])
    }),
    model("aarch64.pmull", VV, V128, 0, |[a, b, _], _| {
        product(a as u64, b as u64)
    }),
    model("aarch64.pmull2", VV, V128, 0, |[a, b, _], _| {
        product((a >> 64) as u64, (b >> 64) as u64)
    }),
    model("aarch64.crc32cb", II, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 8)
    }),
    model("aarch64.crc32ch", II, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 16)
    }),
    model("aarch64.crc32cw", II, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 32)
    }),
    model("aarch64.crc32cx", IL, I32, 0, |[crc, data, _], _| {
        crc32c(crc, data, 64)
    }),
    model("aarch64.crc32b", II, I32, 0, |[crc, data, _], _| {
        crc32(crc, data, 8)
    }),
    model("aarch64.crc32h", II, I32, 0, |[crc, data, _], _| {
        crc32(crc, data, 16)
    }),
    model("aarch64.crc32w", II, I32, 0, |[crc, data, _], _| {
        crc32(crc, data, 32)
    }),
    model("aarch64.crc32x", IL, I32, 0, |[crc, data, _], _| {
        crc32(crc, data, 64)
    }),
];

/// Word `i` of a vector; word 0 is the lowest.
fn lane(v: u128, i: usize) -> u32 {
    (v >> (32 * i)) as u32
}

/// The vector of four words; word 0 is the lowest.
fn words(word: impl Fn(usize) -> u32) -> u128 {
    (0..4).fold(0, |v, i| v | u128::from(word(i)) << (32 * i))
}

/// A round of SHA-1 (FIPS 180-4, 6.1.2). `word` already includes the last word of the state.
fn sha1_round([a, b, c, d, e]: [u32; 5], word: u32, group: u8) -> [u32; 5] {
    let (f, k) = match group {
        0 => (if_then_else(b, c, d), 0x5a82_7999),
        1 => (b ^ c ^ d, 0x6ed9_eba1),
        2 => (most(b, c, d), 0x8f1b_bcdc_u32),
        _ => (b ^ c ^ d, 0xca62_c1d6),
    };
    let next = [a.rotate_left(5), f, e, k, word];
    let next = next.into_iter().fold(0, u32::wrapping_add);
    [next, a, b.rotate_left(30), c, d]
}

/// A round of SHA-256 (FIPS 180-4, 6.2.2). `word` already includes the round's constant.
fn sha256_round([a, b, c, d, e, f, g, h]: [u32; 8], word: u32) -> [u32; 8] {
    let sum = |x: u32, r: [u32; 3]| r.iter().fold(0, |sum, r| sum ^ x.rotate_right(*r));
    let t1 = [h, sum(e, [6, 11, 25]), if_then_else(e, f, g), word];
    let t1 = t1.into_iter().fold(0, u32::wrapping_add);
    let t2 = sum(a, [2, 13, 22]).wrapping_add(most(a, b, c));
    [t1.wrapping_add(t2), a, b, c, d.wrapping_add(t1), e, f, g]
}

fn sigma(x: u32, first: u32, second: u32, shift: u32) -> u32 {
    x.rotate_right(first) ^ x.rotate_right(second) ^ x >> shift
}

fn if_then_else(condition: u32, then: u32, or: u32) -> u32 {
    bits(|i| if condition >> i & 1 == 1 { then } else { or } >> i & 1)
}

fn most(a: u32, b: u32, c: u32) -> u32 {
    bits(|i| u32::from((a >> i & 1) + (b >> i & 1) + (c >> i & 1) > 1))
}

fn bits(bit: impl Fn(u32) -> u32) -> u32 {
    (0..32).fold(0, |all, i| all | bit(i) << i)
}

/// The product of two bytes modulo x^8 + x^4 + x^3 + x + 1 (FIPS 197, 4.2).
fn times(a: u8, b: u8) -> u8 {
    let product = (0..8).filter(|i| b >> i & 1 == 1);
    let product = product.fold(0_u16, |sum, i| sum ^ u16::from(a) << i);
    (8..16).rev().fold(product, |rest, i| {
        if rest >> i & 1 == 1 {
            rest ^ 0x11b << (i - 8)
        } else {
            rest
        }
    }) as u8
}

/// The multiplicative inverse of a byte, which is its power of 254: the product of its powers of 2,
/// 4, 8, up to 128.
fn inverse(a: u8) -> u8 {
    let (mut square, mut product) = (a, 1);
    for _ in 1..8 {
        square = times(square, square);
        product = times(product, square);
    }
    product
}

/// Multiplies each byte by the bit matrix in its half of the vector, and adds a constant. The
/// highest byte of a matrix gives the lowest bit.
fn affine(a: u128, matrix: u128, constant: u8) -> u128 {
    let (bytes, matrix) = (a.to_le_bytes(), matrix.to_le_bytes());
    let byte = |i: usize| {
        let rows = &matrix[i / 8 * 8..][..8];
        let bits = (0..8).map(|bit| ((rows[7 - bit] & bytes[i]).count_ones() as u8 & 1) << bit);
        bits.fold(constant, |sum, bit| sum ^ bit)
    };
    u128::from_le_bytes(std::array::from_fn(byte))
}

/// FIPS 197, 5.1.1: the inverse, followed by an affine map.
fn s_box(a: u8) -> u8 {
    let inverse = inverse(a);
    let map = (0..5).fold(0, |sum, by| sum ^ inverse.rotate_left(by));
    map ^ 0x63
}

fn inverse_s_box(a: u8) -> u8 {
    let map = a ^ 0x63;
    inverse(map.rotate_left(1) ^ map.rotate_left(3) ^ map.rotate_left(6))
}

fn substitute(v: u128, by: fn(u8) -> u8) -> u128 {
    u128::from_le_bytes(v.to_le_bytes().map(by))
}

/// Rotates row `r` of the state to the left by `r * times` columns (FIPS 197, 5.1.2, 5.3.1).
fn rows(v: u128, times: usize) -> u128 {
    let state = v.to_le_bytes();
    let at = |i: usize| (i % 4) + 4 * ((i / 4 + times * (i % 4)) % 4);
    u128::from_le_bytes(std::array::from_fn(|i| state[at(i)]))
}

/// Multiplies each column by the circulant matrix with this first row (FIPS 197, 5.1.3, 5.3.3).
fn mix(v: u128, row: [u8; 4]) -> u128 {
    let state = v.to_le_bytes();
    let byte = |i: usize| {
        let column = i / 4 * 4;
        (0..4).fold(0, |sum, k| sum ^ times(state[column + (i + k) % 4], row[k]))
    };
    u128::from_le_bytes(std::array::from_fn(byte))
}

/// The remainder by the bit-reversed polynomial 0x1edc6f41 (RFC 3720, B.4).
fn crc32c(crc: u128, data: u128, bits: u32) -> u128 {
    divide(0x1edc_6f41, crc, data, bits)
}

/// The remainder by the bit-reversed polynomial of Ethernet (IEEE 802.3, 3.2.9).
fn crc32(crc: u128, data: u128, bits: u32) -> u128 {
    divide(0x04c1_1db7, crc, data, bits)
}

fn divide(by: u32, crc: u128, data: u128, bits: u32) -> u128 {
    let mut crc = crc as u32;
    for i in 0..bits {
        let bit = (crc ^ (data >> i) as u32) & 1;
        crc = crc >> 1 ^ if bit == 1 { by.reverse_bits() } else { 0 };
    }
    u128::from(crc)
}

/// The product of two polynomials over GF(2).
fn product(a: u64, b: u64) -> u128 {
    let terms = (0..64).filter(|i| b >> i & 1 == 1);
    terms.fold(0, |sum, i| sum ^ u128::from(a) << i)
}

/// Four rounds of SHA-1, with the lowest word first. The words already include the constants.
fn sha1_words([abcd, e, w]: [u128; 3], group: u8) -> u128 {
    let k: u32 = [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc][usize::from(group)];
    let mut s = [
        lane(abcd, 0),
        lane(abcd, 1),
        lane(abcd, 2),
        lane(abcd, 3),
        lane(e, 0),
    ];
    for i in 0..4 {
        // `sha1_round` adds the constant again, so subtract it.
        s = sha1_round(s, lane(w, i).wrapping_sub(k), group);
    }
    words(|i| s[i])
}

/// Four rounds of SHA-256: both halves of the state.
fn sha256_words(abcd: u128, efgh: u128, w: u128) -> [u128; 2] {
    let mut s = std::array::from_fn(|i| lane(if i < 4 { abcd } else { efgh }, i % 4));
    for i in 0..4 {
        s = sha256_round(s, lane(w, i));
    }
    [words(|i| s[i]), words(|i| s[i + 4])]
}

fn extract(a: u128, mask: u128, bits: u32) -> u128 {
    let wanted = (0..bits).filter(|i| mask >> i & 1 == 1);
    let each = wanted.enumerate();
    each.fold(0, |out, (to, from)| out | (a >> from & 1) << to)
}

fn deposit(a: u128, mask: u128, bits: u32) -> u128 {
    let wanted = (0..bits).filter(|i| mask >> i & 1 == 1);
    let each = wanted.enumerate();
    each.fold(0, |out, (from, to)| out | (a >> from & 1) << to)
}
