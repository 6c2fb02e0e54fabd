//! The instructions that guest code may contain, by their encoding.
//!
//! Each instruction is one little-endian word. The decoder knows the forms that the compiler emits,
//! and refuses every other word. Comments name sections of the Arm Architecture Reference Manual
//! (DDI 0487). Forms whose result the manual leaves open (CONSTRAINED UNPREDICTABLE) are refused.

use super::instruction::{
    Addition, Binary, Field, Instruction, Logic, Logical, Second, Select, Selection, Shift, Wide,
    extension,
};
use super::word::{bit, bits, number, signed};
use super::{loads, vectors};

use Instruction as I;

/// The text offset `distance` bytes after an instruction. [`u32::MAX`], where no code is, if the
/// sum is no text offset.
fn target(at: u32, distance: i64) -> u32 {
    u32::try_from(i64::from(at) + distance).unwrap_or(u32::MAX)
}

/// Decodes the word at a text offset.
pub(super) fn decode(word: u32, at: u32) -> Option<Instruction> {
    match bits(word, 28, 25) {
        0b0000 if word == TRAP => Some(I::Trap),
        0b1000 | 0b1001 => constant_operand(word, at),
        0b1010 | 0b1011 => branch(word, at),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => loads::memory(word, at),
        0b0101 | 0b1101 => registers(word),
        0b0111 | 0b1111 => vectors::decode(word).map(I::Vectors),
        _ => None,
    }
}

/// `udf` with the number that Cranelift uses.
const TRAP: u32 = 0xc11f;

/// C4.1.86, data processing with a constant.
fn constant_operand(word: u32, at: u32) -> Option<Instruction> {
    let is_wide = bit(word, 31);
    let (to, first) = (number(word, 0), number(word, 5));
    let operation = bits(word, 30, 29);
    Some(match bits(word, 28, 23) {
        0b100000 | 0b100001 => {
            let distance = signed(word, 23, 5) << 2 | i64::from(operation);
            let at = i64::from(at);
            let target = match is_wide {
                false => at + distance,
                true => (at & !0xfff) + (distance << 12),
            };
            I::Address { to, target }
        }
        0b100010 => I::Add(Addition {
            is_wide,
            is_minus: bit(word, 30),
            sets_flags: bit(word, 29),
            to,
            first,
            second: Second::Constant(i64::from(bits(word, 21, 10)) << (12 * bits(word, 22, 22))),
        }),
        0b100100 => I::LogicConstant {
            is_wide,
            logic: logic(operation),
            to,
            first,
            constant: mask(
                is_wide,
                bit(word, 22),
                bits(word, 21, 16),
                bits(word, 15, 10),
            )?,
        },
        0b100101 => {
            let shift = 16 * bits(word, 22, 21);
            let wide = match operation {
                0b00 => Wide::Not,
                0b10 => Wide::Zero,
                0b11 => Wide::Keep,
                _ => return None,
            };
            if !is_wide && shift > 16 {
                return None;
            }
            let constant = u64::from(bits(word, 20, 5)) << shift;
            I::Move {
                is_wide,
                wide,
                to,
                constant,
                shift,
            }
        }
        0b100110 => {
            let field = match operation {
                0b00 => Field::Signed,
                0b01 => Field::Keep,
                0b10 => Field::Unsigned,
                _ => return None,
            };
            let (rotate, last) = (bits(word, 21, 16), bits(word, 15, 10));
            if bit(word, 22) != is_wide || (!is_wide && (rotate > 31 || last > 31)) {
                return None;
            }
            I::Field {
                is_wide,
                field,
                to,
                from: first,
                rotate,
                last,
            }
        }
        0b100111 => {
            let last = bits(word, 15, 10);
            let is_known = operation == 0 && bit(word, 22) == is_wide && !bit(word, 21);
            if !is_known || (!is_wide && last > 31) {
                return None;
            }
            I::Extract {
                is_wide,
                to,
                first,
                second: number(word, 16),
            }
        }
        _ => return None,
    })
}

fn logic(operation: u32) -> Logic {
    match operation {
        0b00 => Logic::And,
        0b01 => Logic::Or,
        0b10 => Logic::Xor,
        _ => Logic::Test,
    }
}

/// The constant of a logical operation: a run of ones, rotated and repeated (`DecodeBitMasks`).
fn mask(is_wide: bool, n: bool, rotate: u32, ones: u32) -> Option<i64> {
    let sizes = u32::from(n) << 6 | (!ones & 0x3f);
    let log = sizes.checked_ilog2().filter(|log| *log >= 1)?;
    if n && !is_wide {
        return None;
    }
    let size = 1 << log;
    let (ones, rotate) = (ones & (size - 1), rotate & (size - 1));
    if ones == size - 1 {
        return None;
    }
    let run = u64::MAX >> (63 - ones);
    let all = u64::MAX >> (64 - size);
    let element = match rotate {
        0 => run,
        _ => (run >> rotate | run << (size - rotate)) & all,
    };
    let repeated = (0..64 / size).fold(0, |mask, at| mask | element << (at * size));
    let kept = if is_wide {
        u64::MAX
    } else {
        u64::from(u32::MAX)
    };
    Some((repeated & kept).cast_signed())
}

/// C4.1.87, branches.
fn branch(word: u32, at: u32) -> Option<Instruction> {
    const NOP: u32 = 0xd503_201f;
    /// The barrier after a mask against speculation.
    const CSDB: u32 = 0xd503_229f;
    const DMB_ISH: u32 = 0xd503_3bbf;
    const RET: u32 = 0xd65f_03c0;
    let by_19_bits = target(at, signed(word, 23, 5) << 2);
    let is_not = bit(word, 24);
    let register = number(word, 0);
    Some(match word {
        NOP | CSDB | DMB_ISH => I::Nothing,
        RET => I::Return,
        _ if bits(word, 30, 26) == 0b00101 => {
            let target = target(at, signed(word, 25, 0) << 2);
            match bit(word, 31) {
                false => I::Jump(target),
                true => I::Call(target),
            }
        }
        // Conditions 14 and 15 always hold.
        _ if word & 0xff00_0010 == 0x5400_0000 && bits(word, 3, 1) != 7 => I::JumpIf {
            condition: bits(word, 3, 0) as u8,
            target: by_19_bits,
        },
        _ if bits(word, 30, 25) == 0b011010 => I::JumpZero {
            is_wide: bit(word, 31),
            is_not,
            register,
            target: by_19_bits,
        },
        _ if bits(word, 30, 25) == 0b011011 => I::JumpBit {
            is_not,
            bit: bits(word, 31, 31) << 5 | bits(word, 23, 19),
            register,
            target: target(at, signed(word, 18, 5) << 2),
        },
        _ if word & 0xffff_fc1f == 0xd61f_0000 => I::JumpTo(number(word, 5)),
        _ if word & 0xffff_fc1f == 0xd63f_0000 => I::CallTo(number(word, 5)),
        _ => return None,
    })
}

/// C4.1.89, data processing with registers.
fn registers(word: u32) -> Option<Instruction> {
    let is_wide = bit(word, 31);
    let (to, first, second) = (number(word, 0), number(word, 5), number(word, 16));
    let (is_minus, sets_flags) = (bit(word, 30), bit(word, 29));
    let (amount, condition) = (bits(word, 15, 10), bits(word, 15, 12) as u8);
    let shift = match bits(word, 23, 22) {
        0b00 => Shift::Left,
        0b01 => Shift::Right,
        0b10 => Shift::Arithmetic,
        _ => Shift::Rotate,
    };
    let fits = is_wide || amount < 32;
    Some(match bits(word, 28, 24) {
        0b01010 if fits => I::Logic(Logical {
            is_wide,
            logic: logic(bits(word, 30, 29)),
            inverts: bit(word, 21),
            to,
            first,
            second,
            shift,
            amount,
        }),
        0b01011 if !bit(word, 21) && fits && shift != Shift::Rotate => I::Add(Addition {
            is_wide,
            is_minus,
            sets_flags,
            to,
            first,
            second: Second::Shifted(second, shift, amount),
        }),
        0b01011 if bits(word, 23, 21) == 1 && bits(word, 12, 10) <= 4 => I::Add(Addition {
            is_wide,
            is_minus,
            sets_flags,
            to,
            first,
            second: Second::Extended(second, extension(bits(word, 15, 13)), bits(word, 12, 10)),
        }),
        0b11010 if bits(word, 23, 21) == 0 && amount == 0 => I::Carry {
            is_wide,
            sets_flags,
            to,
            first,
            second,
        },
        // Bits 4 and 10 are 0. Without bit 30, the instruction would compare with the negated
        // operand.
        0b11010 if bits(word, 23, 21) == 2 && sets_flags && is_minus && word & 0x410 == 0 => {
            I::Compare {
                is_wide,
                first,
                second: match bit(word, 11) {
                    true => Second::Constant(i64::from(second)),
                    false => Second::Shifted(second, Shift::Left, 0),
                },
                condition,
            }
        }
        0b11010 if bits(word, 23, 21) == 4 && !sets_flags && !bit(word, 11) => {
            I::Select(Selection {
                is_wide,
                select: match (is_minus, bit(word, 10)) {
                    (false, false) => Select::Plain,
                    (false, true) => Select::Increment,
                    (true, false) => Select::Invert,
                    (true, true) => Select::Negate,
                },
                to,
                first,
                second,
                condition,
            })
        }
        0b11010 if bits(word, 30, 21) == 0b00_1101_0110 => I::Binary {
            is_wide,
            binary: binary(amount, is_wide)?,
            to,
            first,
            second,
        },
        0b11010 if bits(word, 30, 16) == 0b101_1010_1100_0000 => I::Unary {
            is_wide,
            counts: match amount {
                0..=2 => false,
                3 if is_wide => false,
                4 | 5 => true,
                _ => return None,
            },
            to,
            from: first,
        },
        0b11011 if !is_minus && !sets_flags => product(word)?,
        _ => return None,
    })
}

fn binary(operation: u32, is_wide: bool) -> Option<Binary> {
    Some(match operation {
        0b000010 | 0b000011 => Binary::Divide,
        0b001000..=0b001011 => Binary::Shift,
        // The last two bits say how many bytes the second operand has.
        0b010000..=0b010111 if is_wide == (operation & 3 == 3) => Binary::Checksum,
        _ => return None,
    })
}

fn product(word: u32) -> Option<Instruction> {
    let is_wide = bit(word, 31);
    let (to, first, second) = (number(word, 0), number(word, 5), number(word, 16));
    let (add, is_minus) = (number(word, 10), bit(word, 15));
    Some(match bits(word, 23, 21) {
        0b000 => I::Product {
            is_wide,
            is_minus,
            to,
            first,
            second,
            add,
        },
        0b001 | 0b101 if is_wide => I::LongProduct {
            is_signed: !bit(word, 23),
            is_minus,
            to,
            first,
            second,
            add,
        },
        0b010 | 0b110 if is_wide && !is_minus && add == 31 => I::Binary {
            is_wide,
            binary: Binary::High,
            to,
            first,
            second,
        },
        _ => return None,
    })
}
