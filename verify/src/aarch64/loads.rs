//! The loads and stores that guest code may contain, by their encoding.

use super::instruction::{Index, Instruction, Instruction as I, Memory, extension};
use super::word::{bit, bits, number, signed};

/// Decodes a load or store at a text offset (Arm ARM, C4.1.88).
pub(super) fn memory(word: u32, at: u32) -> Option<Instruction> {
    let size = bits(word, 31, 30);
    let (register, base) = (number(word, 0), number(word, 5));
    Some(match () {
        () if word & 0x3a00_0000 == 0x2800_0000 => I::Memory(pair(word)?),
        () if word & 0x3b00_0000 == 0x1800_0000 => literal(word, at)?,
        () if word & 0x3b00_0000 == 0x3900_0000 => {
            let access = single(word)?;
            let offset = i64::from(bits(word, 21, 10) * access.bytes);
            I::Memory(Memory {
                index: Index::Offset(offset),
                ..access
            })
        }
        () if word & 0x3b20_0000 == 0x3800_0000 => {
            let offset = signed(word, 20, 12);
            let index = match bits(word, 11, 10) {
                0b00 => Index::Offset(offset),
                0b01 => Index::After(offset),
                0b11 => Index::Before(offset),
                _ => return None,
            };
            let access = Memory {
                index,
                ..single(word)?
            };
            I::Memory(written_back(access)?)
        }
        () if word & 0x3b20_0c00 == 0x3820_0800 => {
            let access = single(word)?;
            let option = bits(word, 15, 13);
            let shift = if bit(word, 12) {
                access.bytes.ilog2()
            } else {
                0
            };
            if option & 2 == 0 {
                return None;
            }
            I::Memory(Memory {
                index: Index::Register(number(word, 16), extension(option), shift),
                ..access
            })
        }
        // A read-modify-write with acquire and release. Without a destination, the instruction
        // would not acquire.
        () if word & 0x3fe0_0c00 == 0x38e0_0000 && register != 31 => {
            let is_known = !bit(word, 15) || bits(word, 14, 12) == 0;
            is_known.then_some(I::Atomic {
                bytes: 1 << size,
                operand: number(word, 16),
                to: register,
                base,
            })?
        }
        // `ldaxr` and `ldar`.
        () if word & 0x3fff_fc00 == 0x085f_fc00 || word & 0x3fff_fc00 == 0x08df_fc00 => {
            I::Ordered {
                is_load: true,
                bytes: 1 << size,
                register,
                base,
            }
        }
        () if word & 0x3fff_fc00 == 0x089f_fc00 => I::Ordered {
            is_load: false,
            bytes: 1 << size,
            register,
            base,
        },
        () if word & 0x3fe0_fc00 == 0x0800_fc00 => {
            let status = number(word, 16);
            let is_open = status == register || status == base;
            (!is_open).then_some(I::StoreExclusive {
                bytes: 1 << size,
                status,
                register,
                base,
            })?
        }
        () if word & 0x3fe0_fc00 == 0x08e0_fc00 => I::Exchange {
            bytes: 1 << size,
            expected: number(word, 16),
            new: register,
            base,
        },
        () if word & 0xbfff_f000 == 0x0d40_c000 => I::Replicate {
            bytes: 1 << bits(word, 11, 10),
            to: register,
            base,
        },
        () => return None,
    })
}

/// A load or store of one register. The caller sets its index.
fn single(word: u32) -> Option<Memory> {
    let (size, operation) = (bits(word, 31, 30), bits(word, 23, 22));
    let is_vector = bit(word, 26);
    let (bytes, signed) = match (is_vector, operation) {
        (true, 0b10 | 0b11) if size == 0 => (16, None),
        (_, 0b00 | 0b01) => (1 << size, None),
        (false, 0b10) if size < 3 => (1 << size, Some(64)),
        (false, 0b11) if size < 2 => (1 << size, Some(32)),
        _ => return None,
    };
    Some(Memory {
        is_load: operation & 1 != 0 || signed.is_some(),
        is_vector,
        bytes,
        signed,
        register: number(word, 0),
        second: None,
        base: number(word, 5),
        index: Index::Offset(0),
    })
}

/// A load or store of two registers.
fn pair(word: u32) -> Option<Memory> {
    let is_vector = bit(word, 26);
    let bytes: u32 = match (is_vector, bits(word, 31, 30)) {
        (false, 0b00) | (true, 0b00) => 4,
        (false, 0b10) | (true, 0b01) => 8,
        (true, 0b10) => 16,
        _ => return None,
    };
    let offset = signed(word, 21, 15) * i64::from(bytes);
    let (register, second) = (number(word, 0), number(word, 10));
    let is_load = bit(word, 22);
    if is_load && register == second {
        return None;
    }
    written_back(Memory {
        is_load,
        is_vector,
        bytes,
        signed: None,
        register,
        second: Some(second),
        base: number(word, 5),
        index: match bits(word, 24, 23) {
            0b01 => Index::After(offset),
            0b10 => Index::Offset(offset),
            0b11 => Index::Before(offset),
            _ => return None,
        },
    })
}

/// Refuses an access that changes a base other than the stack pointer.
fn written_back(access: Memory) -> Option<Memory> {
    let is_changed = matches!(access.index, Index::Before(_) | Index::After(_));
    (!is_changed || access.base == 31).then_some(access)
}

fn literal(word: u32, at: u32) -> Option<Instruction> {
    let is_vector = bit(word, 26);
    let (bytes, is_signed) = match (is_vector, bits(word, 31, 30)) {
        (_, 0b00) => (4, false),
        (_, 0b01) => (8, false),
        (false, 0b10) => (4, true),
        (true, 0b10) => (16, false),
        _ => return None,
    };
    Some(I::Literal {
        is_vector,
        bytes,
        is_signed,
        to: number(word, 0),
        target: i64::from(at) + (signed(word, 23, 5) << 2),
    })
}
