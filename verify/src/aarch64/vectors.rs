//! Instructions on vector registers: their encodings, and the extent of the operands that they use.
//!
//! A floating-point number lies in the lowest bits of a vector register. The other bits may be data
//! of the host, as after a call, which the guest must not see. An instruction may read such a
//! register if the result does not depend on the other bits, or if each bit stays in its lane. An
//! instruction that writes fewer than 128 bits clears the other bits (Arm ARM, C1.2.5).

use super::word::{self, Number, bit, number};
use crate::vector::Extent::{self, Double, Nothing, Single, Whole};

/// An instruction that computes on vector registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vectors {
    /// The registers that the instruction reads, and the extent of each register that must be a
    /// number.
    pub(super) reads: [Option<(Number, Extent)>; 3],
    /// The general register that the instruction reads.
    pub(super) general: Option<Number>,
    /// The condition that the instruction tests.
    pub(super) condition: Option<u8>,
    pub(super) sets_flags: bool,
    pub(super) result: Outcome,
}

/// The result of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    None,
    /// A vector register that is a number as a whole.
    Whole(Number),
    /// A vector result with the extent of its narrowest operand. If all operands reach the given
    /// extent, the rest is 0, so the whole result is a number.
    Least(Number, Extent),
    /// A lane of a register, which keeps its other bits. Afterwards, at least this extent of the
    /// register is a number.
    Lane(Number, Extent),
    /// A copy of the first operand.
    Copy(Number),
    General {
        to: Number,
        is_wide: bool,
    },
}

impl Vectors {
    fn new(reads: &[(Number, Extent)], result: Outcome) -> Self {
        let mut all = [None; 3];
        for (place, read) in all.iter_mut().zip(reads) {
            *place = Some(*read);
        }
        Self {
            reads: all,
            general: None,
            condition: None,
            sets_flags: false,
            result,
        }
    }
}

/// The fields of a word that most encodings share.
#[derive(Clone, Copy)]
struct Word {
    word: u32,
    /// Destination and operands.
    d: Number,
    n: Number,
    m: Number,
    /// Whether the operands have 128 bits.
    q: bool,
    u: bool,
    size: u32,
}

impl Word {
    fn bits(&self, high: u32, low: u32) -> u32 {
        word::bits(self.word, high, low)
    }

    /// The extent of whole operands.
    fn all(&self) -> Extent {
        if self.q { Whole } else { Double }
    }

    /// An instruction that computes each lane of the result from the same lane of its operands.
    /// The lanes of all registers have at most `bits` bits.
    fn lanewise(&self, bits: u32, operands: &[Number]) -> Vectors {
        let needed = if bits <= 32 { Single } else { Double };
        let reads: Vec<_> = operands.iter().map(|number| (*number, needed)).collect();
        Vectors::new(&reads, Outcome::Least(self.d, self.all()))
    }

    /// An instruction whose result depends on the extent `needed` of each operand.
    fn mixing(&self, needed: Extent, operands: &[Number]) -> Vectors {
        let reads: Vec<_> = operands.iter().map(|number| (*number, needed)).collect();
        Vectors::new(&reads, Outcome::Whole(self.d))
    }
}

/// Decodes a word whose bits 27 to 25 are 0b111 (Arm ARM, C4.1.90).
pub(super) fn decode(word: u32) -> Option<Vectors> {
    let word = Word {
        word,
        d: number(word, 0),
        n: number(word, 5),
        m: number(word, 16),
        q: bit(word, 30),
        u: bit(word, 29),
        size: word::bits(word, 23, 22),
    };
    let is = |mask: u32, value: u32| word.word & mask == value;
    match () {
        () if is(0x9f20_0400, 0x0e20_0400) => three_same(word),
        () if is(0x9f3e_0c00, 0x0e20_0800) => miscellaneous(word),
        () if is(0x9f3e_0c00, 0x0e30_0800) => across(word),
        () if is(0x9f20_0c00, 0x0e20_0000) => different(word),
        // `sdot`, `usdot`
        () if is(0xbfe0_f400, 0x0e80_9400) => Some(word.lanewise(32, &[word.n, word.m, word.d])),
        () if is(0x9fe0_8400, 0x0e00_0400) => copy(word),
        () if is(0xff20_8c00, 0x4e00_0800) => permute(word),
        // `ext`
        () if is(0xffe0_8400, 0x6e00_0000) => Some(word.mixing(Whole, &[word.n, word.m])),
        () if is(0xffe0_cc00, 0x4e00_0000) => Some(table(word)),
        () if is(0x9ff8_0c00, 0x0f00_0400) => constant(word),
        () if is(0x9f80_0400, 0x0f00_0400) => shift(word),
        () if is(0xbf80_b400, 0x0f80_1000) => element(word),
        () if is(0xdf80_0400, 0x5f00_0400) => scalar_shift(word),
        // `mov` of a lane to the lowest lane, `addp` of two lanes.
        () if is(0xffe0_fc00, 0x5e00_0400) => {
            let (needed, _) = lane(word)?;
            Some(word.mixing(needed, &[word.n]))
        }
        () if is(0xffff_fc00, 0x5ef1_b800) => Some(word.mixing(Whole, &[word.n])),
        () if is(0xff3e_0c00, 0x4e28_0800) || is(0xffa0_0000, 0x5e20_0000) => cryptographic(word),
        () if is(0xffe0_8c00, 0x5e00_0000) => cryptographic(word),
        () if is(0x7f00_0000, 0x1e00_0000) => float(word),
        // `fmadd`, `fmsub`, `fnmadd`, `fnmsub`
        () if is(0xff00_0000, 0x1f00_0000) && word.size < 2 => {
            let third = number(word.word, 10);
            Some(word.mixing(scalar(word), &[word.n, word.m, third]))
        }
        () => None,
    }
}

/// The processor extension that an instruction needs.
pub(super) fn extension(word: u32) -> Option<&'static str> {
    let is = |mask: u32, value: u32| word & mask == value;
    match () {
        () if is(0xff3e_0c00, 0x4e28_0800) || is(0xbfe0_fc00, 0x0ee0_e000) => Some("aes"),
        () if is(0xffe0_8c00, 0x5e00_0000) || is(0xffff_0c00, 0x5e28_0800) => Some("sha2"),
        () if is(0xbfe0_fc00, 0x0e80_9400) => Some("dotprod"),
        () if is(0xbfe0_fc00, 0x0e80_9c00) => Some("i8mm"),
        () => None,
    }
}

/// Vector operations on lanes of two registers.
fn three_same(word: Word) -> Option<Vectors> {
    let (operands, keeping) = ([word.n, word.m], [word.n, word.m, word.d]);
    let bits = 8 << word.size;
    // A single lane of 64 bits has other encodings.
    let is_whole = word.q || word.size < 3;
    let (high, is_double) = (word.size >> 1, word.size & 1 != 0);
    let float = if is_double { 64 } else { 32 };
    let is_float = word.q || !is_double;
    let operation = word.bits(15, 10);
    Some(match (word.u, operation) {
        // `and`, `bic`, `orr`, `orn`, `eor`; `mov` is `orr` of a register with itself.
        (false, 0b000111) if word.size == 2 && word.q && word.n == word.m => {
            Vectors::new(&[(word.n, Nothing)], Outcome::Copy(word.d))
        }
        (false, 0b000111) => word.lanewise(8, &operands),
        (true, 0b000111) if word.size == 0 => word.lanewise(8, &operands),
        // `bsl`
        (true, 0b000111) if word.size == 1 => word.lanewise(8, &keeping),
        // `sqadd`, `uqadd`, `sqsub`, `uqsub`, `cmge`, `cmhs`, `cmgt`, `cmhi`, `sshl`, `ushl`,
        // `add`, `sub`
        (_, 0b000011 | 0b001011 | 0b001111 | 0b001101 | 0b010001 | 0b100001) if is_whole => {
            word.lanewise(bits, &operands)
        }
        // `cmeq`
        (true, 0b100011) if is_whole => word.lanewise(bits, &operands),
        // `mul`, `umin`, `smin`, `umax`, `smax`, `urhadd`
        (false, 0b100111) | (_, 0b011011 | 0b011001) | (true, 0b000101) if word.size < 3 => {
            word.lanewise(bits, &operands)
        }
        // `sqrdmulh`
        (true, 0b101101) if matches!(word.size, 1 | 2) => word.lanewise(bits, &operands),
        // `addp`, `umaxp`
        (false, 0b101111) if is_whole => word.mixing(word.all(), &operands),
        (true, 0b101001) if word.size < 3 => word.mixing(word.all(), &operands),
        // `fcmeq`, `fcmge`, `fcmgt`, `fadd`, `fsub`, `fmax`, `fmin`, `fmul`, `fdiv`
        (false, 0b111001) | (true, 0b110111 | 0b111111) if is_float && high == 0 => {
            word.lanewise(float, &operands)
        }
        (true, 0b111001) | (false, 0b110101 | 0b111101) if is_float => {
            word.lanewise(float, &operands)
        }
        // `fmla`, `fmls`
        (false, 0b110011) if is_float => word.lanewise(float, &keeping),
        _ => return None,
    })
}

/// Vector operations on one register.
fn miscellaneous(word: Word) -> Option<Vectors> {
    let bits = 8 << word.size;
    let is_whole = word.q || word.size < 3;
    let is_double = word.size & 1 != 0;
    let float = if is_double { 64 } else { 32 };
    let is_float = word.q || !is_double;
    // The operand is a half of the register.
    let half = if word.q { Whole } else { Double };
    let operand = [word.n];
    Some(match (word.u, word.bits(16, 12)) {
        // `not`, `cnt`
        (_, 0b00101) if word.size == 0 => word.lanewise(8, &operand),
        // `abs`, `neg`, `cmgt`, `cmge`, `cmeq`, `cmle` and `cmlt` with 0
        (_, 0b01011 | 0b01000 | 0b01001) | (false, 0b01010) if is_whole => {
            word.lanewise(bits, &operand)
        }
        // `rev64`, `rev32`, `rev16`
        (false, 0b00000) if word.size < 3 => word.lanewise(64, &operand),
        (true, 0b00000) if word.size < 2 => word.lanewise(32, &operand),
        (false, 0b00001) if word.size == 0 => word.lanewise(16, &operand),
        // `fabs`, `fneg`, `fsqrt`, `fcvtzs`, `fcvtzu`; `fcmgt`, `fcmge`, `fcmeq`, `fcmle` and
        // `fcmlt` with 0
        (_, 0b01111 | 0b11011 | 0b01100 | 0b01101) | (true, 0b11111) | (false, 0b01110)
            if is_float && word.size >= 2 =>
        {
            word.lanewise(float, &operand)
        }
        // `frintn`, `frintm`, `frintp`, `frintz`
        (false, 0b11000 | 0b11001) if is_float => word.lanewise(float, &operand),
        // `scvtf`, `ucvtf`
        (_, 0b11101) if is_float && word.size < 2 => word.lanewise(float, &operand),
        // `xtn`, `sqxtn`, `sqxtun`, `uqxtn`, `fcvtn`; the forms that write the upper half keep the
        // lower half.
        (_, 0b10010 | 0b10100) if word.size < 3 => narrowing(word),
        (false, 0b10110) if word.size < 2 => narrowing(word),
        // `fcvtl`, `shll`
        (false, 0b10111) if word.size < 2 => word.mixing(half, &operand),
        (true, 0b10011) if word.size < 3 => word.mixing(half, &operand),
        // `saddlp`, `uaddlp`
        (_, 0b00010) if word.size < 3 => word.mixing(word.all(), &operand),
        _ => return None,
    })
}

fn narrowing(word: Word) -> Vectors {
    match word.q {
        false => word.mixing(Whole, &[word.n]),
        true => word.mixing(Whole, &[word.n, word.d]),
    }
}

/// `uminv` and `addv`.
fn across(word: Word) -> Option<Vectors> {
    let is_known = matches!(
        (word.u, word.bits(16, 12)),
        (true, 0b11010) | (false, 0b11011)
    );
    let is_allocated = word.size < 2 || (word.size == 2 && word.q);
    (is_known && is_allocated).then(|| word.mixing(word.all(), &[word.n]))
}

/// `smull`, `umull`, `umlal`, `pmull`: products of halves.
fn different(word: Word) -> Option<Vectors> {
    let half = word.all();
    Some(match (word.u, word.bits(15, 12)) {
        (_, 0b1100) if word.size < 3 => word.mixing(half, &[word.n, word.m]),
        (true, 0b1000) if word.size < 3 => {
            let reads = [(word.n, half), (word.m, half), (word.d, Whole)];
            Vectors::new(&reads, Outcome::Whole(word.d))
        }
        (false, 0b1110) if matches!(word.size, 0 | 3) => word.mixing(half, &[word.n, word.m]),
        _ => return None,
    })
}

/// The size of a lane in bits and its position, from `imm5`.
fn lane_of(word: Word) -> Option<(u32, u32)> {
    let place = word.bits(20, 16);
    let log = place.trailing_zeros();
    (log <= 3).then(|| (8 << log, place >> (log + 1)))
}

/// The extent of a register that must be a number so that a lane is a number, and the lane's bits.
fn lane(word: Word) -> Option<(Extent, u32)> {
    let (bits, index) = lane_of(word)?;
    Some((Extent::of_bits(bits * (index + 1)), bits))
}

/// Copies of lanes, to and from general registers.
fn copy(word: Word) -> Option<Vectors> {
    let (needed, bits) = lane(word)?;
    let (size, index) = lane_of(word)?;
    let is_allocated = word.q || size < 64;
    // A lowest lane of 32 or 64 bits is a number after its replacement.
    let replaced = match (index, size) {
        (0, 32) => Single,
        (0, 64) => Double,
        _ => Nothing,
    };
    let from_general = |result| Vectors {
        general: Some(word.n),
        ..Vectors::new(&[], result)
    };
    let to_general = Outcome::General {
        to: word.d,
        is_wide: word.q,
    };
    let place = word.bits(14, 11);
    Some(match (word.u, place) {
        // `dup`
        (false, 0b0000) if is_allocated => word.mixing(needed, &[word.n]),
        (false, 0b0001) if is_allocated => from_general(Outcome::Whole(word.d)),
        // `ins`
        (false, 0b0011) if word.q => from_general(Outcome::Lane(word.d, replaced)),
        (true, source) if word.q => {
            let end = (source >> bits.ilog2().saturating_sub(3)) * bits + bits;
            Vectors::new(
                &[(word.n, Extent::of_bits(end))],
                Outcome::Lane(word.d, replaced),
            )
        }
        // `smov`, `umov`
        (false, 0b0101) if bits < 32 || (word.q && bits == 32) => {
            Vectors::new(&[(word.n, needed)], to_general)
        }
        (false, 0b0111) if word.q == (bits == 64) => Vectors::new(&[(word.n, needed)], to_general),
        _ => return None,
    })
}

/// `zip1`, `zip2`, `uzp1`, `uzp2`, `trn1`, `trn2` of 128 bits.
fn permute(word: Word) -> Option<Vectors> {
    let needed = match word.bits(14, 12) {
        // The lower halves are interleaved.
        0b011 => Double,
        0b001 | 0b010 | 0b101 | 0b110 | 0b111 => Whole,
        _ => return None,
    };
    Some(word.mixing(needed, &[word.n, word.m]))
}

/// `tbl` and `tbx` of one or two registers. `tbx` keeps bytes of the destination.
fn table(word: Word) -> Vectors {
    let is_two = word.bits(13, 13) != 0;
    let second = if is_two { (word.n + 1) % 32 } else { word.n };
    let keeps = word.bits(12, 12) != 0;
    let mut vectors = word.mixing(Whole, &[word.n, word.m, second]);
    if keeps {
        // The destination keeps bytes at any place, so its extent does not change.
        vectors.result = Outcome::Lane(word.d, Nothing);
    }
    vectors
}

/// `movi`, `mvni` and `fmov` of constants.
fn constant(word: Word) -> Option<Vectors> {
    let is_known = match (word.u, word.bits(15, 12)) {
        // Odd modes combine a constant with the register.
        (_, mode @ 0..=0b1011) => mode & 1 == 0,
        (_, 0b1100..=0b1110) => true,
        (is_double, _) => !is_double || word.q,
    };
    is_known.then(|| word.mixing(Nothing, &[]))
}

/// Shifts by a constant.
fn shift(word: Word) -> Option<Vectors> {
    let bits = 8 << word.bits(22, 19).checked_ilog2()?;
    let is_allocated = word.q || bits < 64;
    Some(match (word.u, word.bits(15, 10)) {
        // `sshr`, `ushr`, `shl`
        (_, 0b000001) | (false, 0b010101) if is_allocated => word.lanewise(bits, &[word.n]),
        // `sli`
        (true, 0b010101) if is_allocated => word.lanewise(bits, &[word.n, word.d]),
        // `sshll`, `ushll`
        (_, 0b101001) if bits < 64 => word.mixing(word.all(), &[word.n]),
        _ => return None,
    })
}

/// `ushr` and `sli` of a register of 64 bits.
fn scalar_shift(word: Word) -> Option<Vectors> {
    let is_known = word.u && word.bits(22, 22) != 0;
    match word.bits(15, 10) {
        0b000001 if is_known => Some(word.mixing(Double, &[word.n])),
        0b010101 if is_known => Some(word.mixing(Double, &[word.n, word.d])),
        _ => None,
    }
}

/// `fmla` and `fmls` by one lane.
fn element(word: Word) -> Option<Vectors> {
    let is_double = word.bits(22, 22) != 0;
    let is_allocated = !is_double || (word.q && word.bits(21, 21) == 0);
    (!word.u && is_allocated).then(|| word.mixing(Whole, &[word.n, word.m, word.d]))
}

/// Rounds of AES, SHA-1 and SHA-256.
fn cryptographic(word: Word) -> Option<Vectors> {
    let keeping = [word.n, word.d];
    let is_three = word.bits(23, 21) == 0;
    let operation = word.bits(16, 12);
    Some(match word.bits(31, 24) {
        // `aese`, `aesd`, `aesmc`, `aesimc`
        0x4e if word.size == 0 && matches!(operation, 4 | 5) => word.mixing(Whole, &keeping),
        0x4e if word.size == 0 && matches!(operation, 6 | 7) => word.mixing(Whole, &[word.n]),
        // `sha1c`, `sha1p`, `sha1m`, `sha1su0`, `sha256h`, `sha256h2`, `sha256su1`
        0x5e if is_three && word.bits(11, 10) == 0 && word.bits(15, 12) < 7 => {
            word.mixing(Whole, &[word.n, word.m, word.d])
        }
        // `sha1h`, `sha1su1`, `sha256su0`
        0x5e if word.bits(23, 17) == 0b001_0100 && word.bits(11, 10) == 0b10 => match operation {
            0 => word.mixing(Single, &[word.n]),
            1 | 2 => word.mixing(Whole, &keeping),
            _ => return None,
        },
        _ => return None,
    })
}

/// The extent of a scalar.
fn scalar(word: Word) -> Extent {
    match word.size {
        0 => Single,
        _ => Double,
    }
}

/// Floating-point operations on scalars of 32 or 64 bits.
fn float(word: Word) -> Option<Vectors> {
    if word.u || word.size > 1 || word.bits(21, 21) == 0 {
        return None;
    }
    let needed = scalar(word);
    let both = [word.n, word.m];
    if word.bits(15, 10) == 0 {
        return conversion(word);
    }
    // The other instructions have no variants by bits 30 and 31.
    if word.q || word.bits(31, 31) != 0 {
        return None;
    }
    let condition = Some(word.bits(15, 12) as u8);
    Some(match word.bits(11, 10) {
        // `fmul`, `fdiv`, `fadd`, `fsub`, `fmax`, `fmin`
        0b10 if word.bits(15, 12) < 6 => word.mixing(needed, &both),
        // `fcsel`
        0b11 => Vectors {
            condition,
            ..word.mixing(needed, &both)
        },
        // `fcmp`
        0b00 if word.bits(15, 10) == 0b001000 && word.d == 0 => Vectors {
            sets_flags: true,
            result: Outcome::None,
            ..word.mixing(needed, &both)
        },
        // `fmov` of a constant
        0b00 if word.bits(12, 10) == 0b100 && word.n == 0 => word.mixing(Nothing, &[]),
        0b00 if word.bits(14, 10) == 0b10000 => return one_operand(word, needed),
        _ => return None,
    })
}

fn one_operand(word: Word, needed: Extent) -> Option<Vectors> {
    Some(match word.bits(20, 15) {
        // `fmov`: the result has the extent of the operand.
        0 => Vectors::new(&[(word.n, Nothing)], Outcome::Least(word.d, needed)),
        // `fabs`, `fneg`, `fsqrt`
        1..=3 => word.mixing(needed, &[word.n]),
        // `fcvt` to 32 bits, and to 64
        4 if word.size == 1 => word.mixing(needed, &[word.n]),
        5 if word.size == 0 => word.mixing(needed, &[word.n]),
        // `frintn`, `frintp`, `frintm`, `frintz`
        8..=11 => word.mixing(needed, &[word.n]),
        _ => return None,
    })
}

/// Conversions and moves between general registers and scalars.
fn conversion(word: Word) -> Option<Vectors> {
    let is_wide = word.bits(31, 31) != 0;
    let needed = scalar(word);
    let is_same = is_wide == (word.size == 1);
    let general = Outcome::General {
        to: word.d,
        is_wide,
    };
    if word.q {
        return None;
    }
    Some(match word.bits(20, 16) {
        // `scvtf`, `ucvtf`, and `fmov` from a general register
        0b00010 | 0b00011 => Vectors {
            general: Some(word.n),
            ..Vectors::new(&[], Outcome::Whole(word.d))
        },
        0b00111 if is_same => Vectors {
            general: Some(word.n),
            ..Vectors::new(&[], Outcome::Whole(word.d))
        },
        // `fcvtzs`, `fcvtzu`, and `fmov` to a general register
        0b11000 | 0b11001 => Vectors::new(&[(word.n, needed)], general),
        0b00110 if is_same => Vectors::new(&[(word.n, needed)], general),
        _ => return None,
    })
}
